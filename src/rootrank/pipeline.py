"""diagnose(): five calls in order. The file to read first.

    ingest ──sources──▶ scan ──digests──▶ timeline ──lanes──▶ infer ──▶ Diagnosis ──▶ report

Only this module knows the order and imports the stages. It runs on the standard library alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import BinaryIO

from rootrank import parallel
from rootrank.errors import InputError
from rootrank.infer import infer
from rootrank.infer.match import Matcher
from rootrank.ingest import open_sources
from rootrank.ingest.clock import detect_year
from rootrank.ingest.decode import clean, segments, unglue
from rootrank.ingest.origin import detect_columns, detect_labels, split_prefix
from rootrank.ingest.sources import Source, natural_key
from rootrank.knowledge.types import Knowledge
from rootrank.model import Diagnosis, Digest, Gap, Timeline
from rootrank.scan import (
    ChangedError,
    Engine,
    Found,
    Piece,
    Reread,
    SignalIndex,
    Span,
    scan,
    search,
    spans_of,
)
from rootrank.scan.codec import CodecError, dump, load, renamed
from rootrank.scan.manifest import without_moments
from rootrank.timeline import build

Progress = Callable[[str, int, "int | None"], None]


# What may tell writers apart: a label in brackets or parentheses, or a short word and a colon, behind a stamp or not.
# Finer than the tag is fine: `learn` checks on the source itself that no two writers share it.
_WRITER = re.compile(
    rb"(?:\[?\d{4}-\d\d-\d\d[ T][\d:.,]{8,18}\]?[ ,|-]{0,3})?"
    rb"(\[[^\]\n\d][^\]\n]{0,90}\](?:<\w+>)?:?|\[\d+,[^\]\n]{1,90}\]|\([^)\n]{0,120}pid=\d+[^)\n]{0,60}\)| {0,5}\d{1,5}: |[A-Za-z0-9][\w.-]{0,60}: )?"
)


_YEARLESS = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:|[A-Z]\d{4} \d\d:")


class LineReader:
    """Undecoded lines to pieces, with the label habits of one source."""

    def __init__(self) -> None:
        self._srun = self._hosts = False
        self._columns: frozenset[str] = frozenset()
        self._year: int | None = None

    def learn(self, sample: list[bytes]) -> re.Pattern[bytes] | None:
        """Look at the first lines to learn which labels this source uses, and the year of its stamps.

        Return what tells its writers apart by a line's first bytes; None where only the whole prefix does.
        """
        rows = [x for x in sample if x.strip()]
        lines = [clean(x) for x in rows]
        self._srun, self._hosts = detect_labels(lines)
        self._columns = frozenset() if self._srun or self._hosts else detect_columns(lines[:200])
        # Only stamps without a year need the others' year, and looking for it in every line costs as much as reading them.
        self._year = detect_year(lines if any(map(_YEARLESS.search, lines)) else lines[:50])
        tags: dict[bytes | None, str] = {}
        for row in (*rows[:50], *rows[50::10]):
            m = _WRITER.match(row)
            for piece in self.pieces(row)[-1:]:
                if tags.setdefault(m[1] if m else None, piece.tag) != piece.tag:
                    return None
        return _WRITER

    def pieces(self, data: bytes) -> list[Piece]:
        """Return the pieces of one line: parted at carriage returns and behind progress bars."""
        out = []
        for segment in segments(data) if b"\r" in data else (data,):
            text = clean(segment)
            for part in unglue(text) if "%|" in text or "it/s" in text else (text,):
                p = split_prefix(
                    part,
                    srun_labels=self._srun,
                    host_labels=self._hosts,
                    year=self._year,
                    columns=self._columns,
                )
                if "\n" not in p.rest:
                    out.append(Piece(part, p.tag, p.origin, p.rest, p.time_s))
                    continue
                # A JSON record may hold a whole traceback in one line.
                out.extend(Piece(x, p.tag, p.origin, x, p.time_s) for x in p.rest.split("\n"))
        return out


@lru_cache(maxsize=4)
def _tools(key: str) -> tuple[Engine, Matcher]:
    knowledge = _KNOWN[key]
    return Engine.of(
        SignalIndex.of(knowledge), cache=_cache() if knowledge.entries else None
    ), Matcher(knowledge)


def _cache() -> str | None:
    """Return the folder for what takes long to compile; None where the user has none."""
    from rootrank.knowledge.compile import cache_folder

    try:
        return str(cache_folder())
    except RuntimeError:  # no home folder
        return None


_KNOWN: dict[str, Knowledge] = {}


def tools_for(knowledge: Knowledge) -> tuple[Engine, Matcher]:
    """Return the compiled engine and entry matcher, once per knowledge base and process."""
    key = knowledge.digest or str(id(knowledge))
    _KNOWN[key] = knowledge
    return _tools(key)


def digest_sources(
    paths: Sequence[str],
    knowledge: Knowledge,
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    jobs: int = 1,
) -> list[Digest]:
    """Read and scan every source. Raises InputError when nothing can be read.

    `jobs` is how many processes may work (0: one per processor); it changes nothing but the time. What could not be
    opened at all is in a digest without a name.
    """
    sources, gaps = open_sources(paths, stdin=stdin)
    digests: list[Digest | None] = [None] * len(sources)
    for n, digest in _scanned(sources, knowledge, jobs, progress):
        digests[n] = digest
    found = [d for d in digests if d is not None]
    if gaps:
        found.append(Digest(source="", kind="none", gaps=tuple(gaps)))
    return found


# --------------------------------------------------------------------------- workers

_ALONE_BYTES = 64 << 20  # less than this is read by one process: starting others takes as long
_TASK_BYTES = 8 << 20  # small files are handed out together
_HUGE_BYTES = 256 << 20  # a file that outweighs the others is searched in pieces
_AHEAD_BYTES = 4 << 20  # compressed files from this size on are unpacked in a thread of their own


def _scanned(
    sources: Sequence[Source], knowledge: Knowledge, jobs: int, progress: Progress | None
) -> Iterator[tuple[int, Digest]]:
    """Yield (number of the source, its digest), in any order."""
    weights = [_weight(s) for s in sources]
    total = sum(weights)
    workers = jobs or parallel.cores()
    tools_for(knowledge)
    done = 0
    if workers == 1 or total < _ALONE_BYTES:
        for n, source in enumerate(sources):
            if progress:
                progress(source.name, done, total or None)
            yield n, _scan_one(source, knowledge)
            done += weights[n]
        return
    huge = [
        n
        for n, s in enumerate(sources)
        if weights[n] >= _HUGE_BYTES and weights[n] * workers > total and _is_plain(s)
    ]
    here = [n for n, s in enumerate(sources) if s.place is None]
    tasks = _tasks(sources, weights, {*huge, *here})
    given = [[(n, sources[n]) for n in task] for task in tasks]
    for k, results in (
        parallel.over_processes(given, _scan_some, workers, _prepare, knowledge) if given else ()
    ):
        done += sum(weights[n] for n in tasks[k])
        if progress:
            progress(sources[tasks[k][-1]].name, done, total or None)
        yield from results
    for n in here:
        yield n, _scan_one(sources[n], knowledge)
    for n in huge:
        if progress:
            progress(sources[n].name, done, total or None)
        yield n, _scan_huge(sources[n], knowledge, workers)
        done += weights[n]


def _weight(source: Source) -> int:
    """Return about how many bytes a source will yield."""
    if source.size_bytes is not None:
        return source.size_bytes
    return 0 if source.place is None else 8 * _disk_bytes(source)


def _disk_bytes(source: Source) -> int:
    try:
        return os.stat(source.path).st_size  # noqa: PTH116 - the path as given may be no clean one
    except (OSError, ValueError):
        return 0


def _tasks(
    sources: Sequence[Source], weights: Sequence[int], left_out: set[int]
) -> list[list[int]]:
    """Return groups of sources, largest first: the members of one archive together, small files together."""
    groups: dict[object, list[int]] = {}
    for n, source in enumerate(sources):
        if n not in left_out and source.place is not None:
            groups.setdefault(source.path if source.place.member is not None else n, []).append(n)
    ordered = sorted(groups.values(), key=lambda g: (-sum(weights[n] for n in g), g[0]))
    tasks: list[list[int]] = []
    room = 0
    for group in ordered:
        size = sum(weights[n] for n in group)
        if tasks and size <= room:
            tasks[-1] += group
            room -= size
        else:
            tasks.append(list(group))
            room = _TASK_BYTES - size
    return tasks


_worker_knowledge: list[Knowledge] = []


def _prepare(knowledge: Knowledge) -> None:
    """Make a process ready: compile once, or take what the fork inherited."""
    _worker_knowledge[:] = [knowledge]
    tools_for(knowledge)


def _scan_some(task: Sequence[tuple[int, Source]]) -> list[tuple[int, Digest]]:
    return [(n, _scan_one(source, _worker_knowledge[0])) for n, source in task]


def _scan_one(source: Source, knowledge: Knowledge) -> Digest:
    engine, _ = tools_for(knowledge)
    packed = source.place is not None and (source.place.codec or source.place.member_codec)
    if packed and parallel.cores() > 1 and _disk_bytes(source) >= _AHEAD_BYTES:
        return scan(source, engine, LineReader(), chunks=parallel.read_ahead(source.blocks()))
    return scan(source, engine, LineReader())


def _is_plain(source: Source) -> bool:
    """Return whether byte n of the source is byte n of a local file."""
    place = source.place
    if (
        place is None
        or place.codec
        or place.member
        or source.kind == "flight-record"
        or source.name.endswith(".json")
    ):
        return False
    if place.encoding != "utf-8" or not place.checked or "://" in place.path:
        return False
    try:
        with open(place.path, "rb") as file:  # noqa: PTH123
            return not file.read(3).startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"))
    except OSError:
        return False


def _search(span: Span) -> list[Found] | None:
    """Search one span in a worker; None when the file changed."""
    try:
        return search(span, tools_for(_worker_knowledge[0])[0].matcher)
    except ChangedError:
        return None


def _scan_huge(source: Source, knowledge: Knowledge, workers: int) -> Digest:
    """Scan one huge file, its middle searched by several processes; by one when the file changes meanwhile."""
    engine, _ = tools_for(knowledge)
    spans = spans_of(source.path, source.size_bytes or 0)
    if not spans:
        return _scan_one(source, knowledge)

    def found() -> Iterator[list[Found]]:
        for part in parallel.in_order(spans, _search, workers, _prepare, knowledge):
            if part is None:
                raise ChangedError
            yield part

    try:
        return scan(source, engine, LineReader(), stream=Reread(source.path, found()).blocks())
    except (ChangedError, OSError):
        return _scan_one(source, knowledge)


def timeline(digests: Sequence[Digest], as_of_s: float | None = None) -> Timeline:
    """Return the timeline of digests made anywhere, in any order."""
    return build(without_moments([d for d in digests if d.source]), as_of_s)


def diagnose(
    paths: Sequence[str],
    *,
    knowledge: Knowledge | None = None,
    as_of_s: float | None = None,
    stdin: BinaryIO | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Diagnosis:
    """Return who failed first and why, from everything under `paths`. Raises InputError when nothing can be read."""
    if knowledge is None:
        from rootrank.knowledge.load import load_knowledge

        knowledge = load_knowledge()
    digests = digest_sources(paths, knowledge, stdin=stdin, progress=progress, jobs=jobs)
    return conclude(digests, knowledge, as_of_s)


def conclude(
    digests: Sequence[Digest], knowledge: Knowledge, as_of_s: float | None = None
) -> Diagnosis:
    """Return the diagnosis that digests allow, made in one run or in many, given in any order."""
    _, matcher = tools_for(knowledge)
    found = infer(timeline(digests, as_of_s), knowledge, matcher)
    gaps = {g for d in digests if not d.source for g in d.gaps}
    return _with_gaps(found, tuple(sorted(gaps, key=lambda g: (natural_key(g.source), g.reason))))


def _with_gaps(d: Diagnosis, gaps: tuple[Gap, ...]) -> Diagnosis:
    if not gaps:
        return d
    return replace(d, coverage=replace(d.coverage, gaps=(*d.coverage.gaps, *gaps)))


# --------------------------------------------------------------------------- digests as files

DIGEST_SUFFIX = ".rrd"


def write_digests(digests: Sequence[Digest], path: str) -> int:
    """Write a digest file in one step; return its size. Raises OSError."""
    aside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(aside, "wb") as file:  # noqa: PTH123
            size = sum(file.write(part) for part in dump(digests))
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(aside):  # noqa: PTH110
            os.unlink(aside)  # noqa: PTH108
        raise
    return size


def read_digests(paths: Sequence[str]) -> list[Digest]:
    """Return the digests in files, and in all `*.rrd` files below folders. Raises InputError.

    Sources of the same name in several files are told apart by a number, the same in whatever order they are given.
    """
    found: list[tuple[str, Digest]] = []
    for path in _digest_files(paths):
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                found.extend((path, d) for d in load(file.read))
        except CodecError as error:
            raise InputError(path, str(error), "make it again with: rootrank digest") from None
        except OSError as error:
            raise InputError(
                path, (error.strerror or "cannot be read").lower(), "check the path"
            ) from None
    if not any(d.source for _, d in found):
        raise InputError(
            paths[0] if paths else "merge",
            "holds no digest",
            "make one with: rootrank digest PATH -o FILE",
        )
    return _told_apart(found)


def _digest_files(paths: Sequence[str]) -> list[str]:
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112
            for folder, _, names in os.walk(path):
                files += [os.path.join(folder, n) for n in names if n.endswith(DIGEST_SUFFIX)]  # noqa: PTH118
        else:
            files.append(path)
    once = {os.path.realpath(f): f for f in reversed(files)}
    return sorted(once.values(), key=natural_key)


def _told_apart(found: Sequence[tuple[str, Digest]]) -> list[Digest]:
    """Give every source a name of its own: everything downstream looks sources up by name."""
    taken: dict[str, list[Digest]] = {}
    out: list[Digest] = []
    for _, d in found:
        same = taken.setdefault(d.source, [])
        if d.source and d in same:
            continue  # the same digest twice
        same.append(d)
        out.append(d if len(same) == 1 or not d.source else renamed(d, f"{d.source}#{len(same)}"))
    return out
