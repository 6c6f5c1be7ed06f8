"""One pass over one source: bytes in, a bounded digest out.

Belongs here: the order in which parsers see a line, folding of repetitions, bounds. Must not be here: formats (their own
files) and comparisons between writers (`timeline`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from rootrank.model import (
    UNKNOWN,
    Digest,
    Gap,
    Identity,
    LaneTail,
    Line,
    Origin,
    Progress,
    Sighting,
    SpeaksOf,
)
from rootrank.scan import (
    cluster,
    collective,
    flight,
    generic,
    gpu,
    kernel,
    launcher,
    manifest,
    native,
    stacks,
)
from rootrank.scan import progress as steps
from rootrank.scan.frame import Block, Frame, RawLine, blocks
from rootrank.scan.matcher import Matcher, make_matcher
from rootrank.scan.python import Tracebacks
from rootrank.scan.signals import LiteralSignal, SignalIndex
from rootrank.scan.words import is_prose

MAX_SIGHTINGS = 4000  # distinct ones per source; more are only counted
MAX_PROGRESS = 6000
MAX_TAGS = 20000
MAX_RECORD_BYTES = (
    32 << 20
)  # a JSON record (stack dump, error file) is parsed whole up to this size

# Order is meaning: the first parser that returns a sighting of a line owns it.
_FAMILIES = (kernel, gpu, native, launcher, cluster, collective, steps, generic)
_OPENERS = (
    "Traceback (most recent call last)", 'File "', "Root Cause (first observed failure)", "Failures:", "MainThread",
    "Current thread 0x", "Thread 0x", "Fatal Python error", "terminate called ", "lagging", "exception group",
)  # fmt: skip
_PLAIN = ("rror: ", "xception: ", "KeyboardInterrupt", "exitcode  :", "rank      :", "world_size", "WORLD_SIZE", "world size", "nranks ", "nRanks ", "MEMBER: ", "global_rank", "GLOBAL_RANK", "Thread ",
          # The first loss that is not finite may be anywhere.
          "oss nan", "oss: nan", "oss=nan", "oss = nan", "oss': nan", 'oss": nan', "oss: NaN", "oss=NaN", "oss = NaN", "oss': NaN", 'oss": NaN', "oss: NAN", "oss NaN", "oss=inf", "oss: inf", "oss': inf")  # fmt: skip
_WORLD = re.compile(
    r"\b(?:(?:WORLD_SIZE|world[_ ]size|num_processes)['\"]?\s*[=:]\s*|n[rR]anks\s*[=: ]\s*)(?P<n>\d{1,6})\b|MEMBER: \d+/(?P<m>\d+)"
)
# A pod's environment, or torchrun's rendezvous result with one worker: the whole source is this rank's.
_WHOLE = re.compile(r"^\s*RANK:\s+(?P<r>\d{1,6})\s*$|\bglobal_ranks=\[(?P<g>\d{1,6})\]")
_BUS = re.compile(r"\brank (?P<rank>\d+) n[rR]anks \d+ .{0,60}?busId (?P<bus>[0-9a-fA-F]{1,8})\b")
_RANK_PID = re.compile(
    r"\b(?:(?:global[_ ]?|world[_ ]?)?rank|RANK|GLOBAL_RANK)\s*[=: ]\s*(?P<rank>\d{1,6})\b"
)
_LOCAL = re.compile(r"\b(?:local[_ ]rank|LOCAL_RANK)\s*[=: ]\s*(?P<n>\d{1,4})\b")
_PID = re.compile(r"\bpid\s*[=: ]\s*(?P<pid>\d{2,8})\b")
_LETTERS = re.compile(r"[^A-Za-z]+")
_SOURCE_CODE = re.compile(
    r"^\s*(?:#|//|\+{1,4} |raise |return |print\(|logger\.|logging\.|log\.|def |class |if |elif |for |import |from |assert |except |with |warnings\.warn|\"\"\"|\* |- \[ \]|>>> )"
)
_QUOTED = re.compile(r"^\s*(?:\"|')[^\"']{0,300}(?:\"|'),?\)?\s*$")


class Piece(NamedTuple):
    """One physical line, or a part of one between carriage returns, as the reader sees it."""

    raw: str
    tag: str
    origin: Origin
    rest: str
    time_s: float | None


class Reader(Protocol):
    """Turns undecoded lines into pieces; given by ingest, so that this stage knows no prefix format."""

    def learn(self, sample: list[bytes]) -> re.Pattern[bytes] | None:
        """Look at the first lines to learn which labels this source uses.

        Return a pattern whose first group, at a line's start, is equal only for lines of one writer; None when there
        is none.
        """
        ...

    def pieces(self, data: bytes) -> list[Piece]:
        """Return the pieces of one line."""
        ...


class Source(Protocol):
    """What scan needs of a source."""

    @property
    def name(self) -> str:
        """The path to show."""
        ...

    @property
    def kind(self) -> str:
        """One of the kinds of the design."""
        ...

    @property
    def origin(self) -> Origin:
        """What the path says of the writer."""
        ...

    @property
    def gaps(self) -> list[Gap]:
        """What could not be read; filled while reading."""
        ...

    def blocks(self) -> Iterable[bytes]:
        """Yield the decoded bytes."""
        ...


@dataclass(slots=True)
class Engine:
    """Everything that is shared between sources: compiled once per process."""

    literals: list[str]
    matcher: Matcher
    parsers: dict[int, tuple[Callable[[Line], Sighting | None], ...]]
    signals: dict[int, list[LiteralSignal]]
    openers: frozenset[int]

    @staticmethod
    def of(index: SignalIndex, prefer: str | None = None, cache: str | None = None) -> Engine:
        """Compile built-in anchors and entry literals into one matcher; `cache` is a folder to keep it in."""
        order: dict[str, int] = {}
        parsers: dict[int, list[Callable[[Line], Sighting | None]]] = {}
        for family in _FAMILIES:
            for literals, parser in family.PARSERS:
                for literal in literals:
                    parsers.setdefault(order.setdefault(literal, len(order)), []).append(parser)
        for literal in (*_OPENERS, *_PLAIN, *index.literals):
            order.setdefault(literal, len(order))
        names = list(order)
        return Engine(
            literals=names,
            matcher=make_matcher([x.encode("utf-8") for x in names], prefer, cache),
            parsers={k: tuple(v) for k, v in parsers.items()},
            signals={order[x]: owners for x, owners in index.literals.items()},
            openers=frozenset(order[x] for x in _OPENERS),
        )


_RANKED_PARSERS: dict[Callable[[Line], Sighting | None], int] = {}
for _family in _FAMILIES:
    for _, _parser in _family.PARSERS:
        _RANKED_PARSERS.setdefault(_parser, len(_RANKED_PARSERS))


@dataclass(slots=True)
class _Tail:
    origin: Origin
    lines: int
    first_line: int
    last_line: int
    last_text: str
    first_time_s: float | None
    last_time_s: float | None
    last_order: int


@dataclass(slots=True)
class _Scan:
    """The state of one pass over one source."""

    source: Source
    engine: Engine
    reader: Reader
    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    table: launcher.ElasticTable = field(default_factory=launcher.ElasticTable)
    threads: stacks.Stacks = field(default_factory=stacks.Stacks)
    found: dict[tuple[object, ...], Sighting] = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)
    identities: dict[tuple[object, ...], Identity] = field(default_factory=dict)
    tails: dict[str, _Tail] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    first_time_s: float | None = None
    last_time_s: float | None = None
    stride: int = 1
    count: int = 0
    dropped: int = 0
    owners: dict[int, tuple[object, ...] | None] = field(default_factory=dict)
    aborts: dict[str, Sighting] = field(
        default_factory=dict
    )  # `terminate called` whose `what():` may follow

    # ------------------------------------------------------------------ lines

    def raw(self, line: RawLine, host: stacks.HostState) -> None:
        """Examine one undecoded line."""
        pieces = self.reader.pieces(line.data)
        single = len(pieces) == 1
        for piece in pieces:
            if not piece.rest.strip():
                self._blank(line, piece)
                continue
            origin = piece.origin.over(self.source.origin)
            one = Line(
                source=self.source.name, number=line.number, offset=line.offset, raw=piece.raw, text=piece.rest,
                origin=origin, time_s=piece.time_s, tag=piece.tag,
            )  # fmt: skip
            ids = line.literals if single else self._ids_of(piece.raw, line.literals)
            self.examine(one, ids, host, line.weight)

    def _blank(self, line: RawLine, piece: Piece) -> None:
        """A blank line ends messages, nothing else."""
        self.tracebacks.feed(
            Line(
                source=self.source.name,
                number=line.number,
                offset=line.offset,
                raw="",
                text="",
                tag=piece.tag,
            )
        )

    def _ids_of(self, text: str, ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i for i in ids if self.engine.literals[i] in text)

    def examine(
        self, line: Line, ids: tuple[int, ...], host: stacks.HostState, weight: int = 1
    ) -> None:
        """Run one line through tails, block readers, parsers, signals and progress."""
        self._tail(line)
        consumed = self.tracebacks.feed(line) or self.threads.feed(line)
        made: list[Sighting] = []
        code = bool(ids) and bool(_SOURCE_CODE.match(line.text))
        if not consumed:
            row = self.table.feed(line)
            if row:
                made.append(row)
            elif ids and not code:
                made.extend(self._parse(line, ids))
            if host.active:
                state = host.feed(line)
                if state:
                    made.append(state)
        self._collect()
        if ids and not code:
            made = self._signals(line, ids, made, consumed)
        if made and ids:
            self._note_owner(ids, made)
        for s in made:
            if weight > 1:
                s = replace(s, count=s.count * weight)
            self._abort(s, line.tag) if s.kind in (
                "abort",
                "peer-loss",
                "collective-timeout",
            ) else self._add(s, line.tag)
        self._identity(line, ids)
        if not consumed or not ids:
            self._progress(line)

    def _parse(self, line: Line, ids: tuple[int, ...]) -> list[Sighting]:
        parsers = {p for i in ids for p in self.engine.parsers.get(i, ())}
        for parser in sorted(parsers, key=_RANKED_PARSERS.__getitem__):
            s = parser(line)
            if s is not None:
                return [s]
        return []

    def _signals(
        self, line: Line, ids: tuple[int, ...], made: list[Sighting], consumed: bool
    ) -> list[Sighting]:
        keys: list[LiteralSignal] = []
        for i in dict.fromkeys(ids):
            for one in self.engine.signals.get(i, ()):
                if one in keys or not (one.matches(line.text) or one.matches(line.raw)):
                    continue
                at = line.text.find(self.engine.literals[i])
                if at < 0 or not is_prose(line.text, at):
                    keys.append(one)
        if not keys:
            return made
        names = tuple(k.key for k in keys)
        if made:
            return [replace(s, signals=(*s.signals, *names)) for s in made]
        attached = [name for name in names if self.tracebacks.attach(line, name)]
        left = [k for k in keys if k.key not in attached]
        if not left or consumed or _QUOTED.match(line.text):
            return made
        return [
            Sighting(
                kind="line", speaks_of=left[0].speaks_of, source=line.source, line=line.number, end_line=line.number,
                offset=line.offset, text=line.raw, origin=line.origin, time_s=line.time_s, order=line.offset,
                fields={"message": line.text.strip(), "initiating": any(k.signal.role == "initiating" for k in left)}, signals=tuple(k.key for k in left),
            )
        ]  # fmt: skip

    def _note_owner(self, ids: tuple[int, ...], made: list[Sighting]) -> None:
        """Remember which folded sighting a literal leads to, as long as that is one."""
        key = _key(made[0]) if len(made) == 1 else None
        for i in ids:
            if self.owners.setdefault(i, key) != key:
                self.owners[i] = None

    def owned(self, index: int) -> bool:
        """Return whether all that a literal led to so far is one sighting: then its exact count is worth having."""
        return self.owners.get(index) is not None

    def count_more(self, more: dict[int, int]) -> None:
        """Add the hits that were counted, not examined, to the one sighting that they repeat."""
        extra: dict[tuple[object, ...], int] = {}
        for index, n in more.items():
            key = self.owners.get(index)
            if key is not None:
                extra[key] = max(extra.get(key, 0), n)
        for key, n in extra.items():
            if key in self.found:
                self.found[key] = replace(self.found[key], count=self.found[key].count + n)

    def _collect(self) -> None:
        for s in self.tracebacks.take():
            self._add(s, "")
        for s in self.threads.take():
            self._add(s, "")

    def _abort(self, s: Sighting, tag: str) -> None:
        """Join `terminate called…` with the `what():` that follows: type and message are one event."""
        head = self.aborts.pop(tag, None)
        if head is not None:
            if s.line - head.line <= 6 and s.get("message"):
                s = replace(s, fields={**s.fields, "type": head.get("type")}, quotes=(head.text,))
            else:
                self._add(head, tag)
        if s.kind == "abort" and not s.get("message"):
            self.aborts[tag] = s
        else:
            self._add(s, tag)

    # ------------------------------------------------------------------ folding

    def _add(self, s: Sighting, tag: str) -> None:
        key = _key(s)
        old = self.found.get(key)
        if old is not None:
            self.found[key] = replace(
                old, count=old.count + s.count, last_line=s.line,
                signals=old.signals if set(s.signals) <= set(old.signals) else tuple(dict.fromkeys((*old.signals, *s.signals))),
            )  # fmt: skip
            return
        if len(self.found) >= MAX_SIGHTINGS:
            self.dropped += 1
            return
        self.found[key] = s

    def _tail(self, line: Line) -> None:
        if line.time_s is not None:
            if self.first_time_s is None or line.time_s < self.first_time_s:
                self.first_time_s = line.time_s
            if self.last_time_s is None or line.time_s > self.last_time_s:
                self.last_time_s = line.time_s
        tail = self.tails.get(line.tag)
        if tail is None:
            if len(self.tails) < MAX_TAGS:
                self.tails[line.tag] = _Tail(
                    line.origin,
                    1,
                    line.number,
                    line.number,
                    line.raw,
                    line.time_s,
                    line.time_s,
                    line.offset,
                )
            return
        tail.lines += 1
        if line.origin.rank is not None and tail.origin.rank is None:
            tail.origin = line.origin
        if line.text.strip():
            tail.last_line, tail.last_text, tail.last_order = line.number, line.raw, line.offset
        if line.time_s is not None:
            tail.last_time_s = line.time_s
            if tail.first_time_s is None:
                tail.first_time_s = line.time_s

    def _identity(self, line: Line, ids: tuple[int, ...]) -> None:
        o = line.origin
        world = None
        whole = _WHOLE.search(line.raw) if "ank" in line.raw or "RANK" in line.raw else None
        if (
            (ids and "orl" in line.raw)
            or "WORLD" in line.raw
            or "anks" in line.raw
            or "MEMBER" in line.raw
        ):
            m = _WORLD.search(line.raw)
            if m:
                world = int(m["n"] or m["m"])
            rank, local, pid = (
                _RANK_PID.search(line.raw),
                _LOCAL.search(line.raw),
                _PID.search(line.raw),
            )
            o = Origin(
                rank=o.rank if o.rank is not None else int(rank["rank"]) if rank and world else None,
                local_rank=o.local_rank if o.local_rank is not None else int(local["n"]) if local and world else None,
                pid=o.pid if o.pid is not None else int(pid["pid"]) if pid and world else None,
                host=o.host, attempt=o.attempt, device=o.device,
            )  # fmt: skip
        bus = _BUS.search(line.raw) if "busId" in line.raw else None
        if bus:
            # The PCI bus is what a kernel's record knows of a rank.
            o = replace(o, rank=int(bus["rank"]), device=f"bus {bus['bus'].lower()}")
        if whole:
            o = replace(o, rank=int(whole["r"] or whole["g"]))
        if (
            o.rank is None
            and world is None
            and not (o.pid is not None and o.local_rank is not None)
        ):
            return
        key = (o.rank, o.local_rank, o.pid, o.host, world, bool(whole), bus and o.device)
        if key not in self.identities and len(self.identities) < MAX_TAGS:
            self.identities[key] = Identity(
                origin=o,
                world_size=world,
                source=line.source,
                line=line.number,
                owns_source=bool(whole),
            )

    def _progress(self, line: Line) -> None:
        sample = steps.progress(line)
        if sample is None:
            self._progress_goes_on(line)
            return
        self.count += 1
        nan = sample.loss is not None and sample.loss != sample.loss
        if self.count % self.stride and not nan:
            return
        self.progress.append(sample)
        if len(self.progress) > MAX_PROGRESS:
            self.stride *= 2
            self.progress = self.progress[::2]

    def _progress_goes_on(self, line: Line) -> None:
        """Take numbers that belong to the sample before: behind its bar, or on a wrapped line."""
        if not self.progress:
            return
        last = self.progress[-1]
        if last.line == line.number and last.loss is None:
            loss = steps.loss_of(line)
            if loss is not None:
                self.progress[-1] = replace(last, loss=loss, text=(last.text + line.raw)[:400])
        elif last.throughput is None and ("TFLOPs" in line.text or "per second" in line.text):
            rate = steps.throughput_of(line)
            if rate is not None:
                self.progress[-1] = replace(last, throughput=rate)

    # ------------------------------------------------------------------ result

    def digest(self, size: int, lines: int) -> Digest:
        """Close what is open and return the digest."""
        self.tracebacks.close()
        self.threads.close()
        self._collect()
        for head in self.aborts.values():
            self._add(head, "")
        gaps = list(self.source.gaps)
        if self.dropped:
            gaps.append(
                Gap(
                    source=self.source.name,
                    reason=f"{self.dropped} further distinct messages counted, not kept",
                )
            )
        return Digest(
            source=self.source.name, kind=self.source.kind, size_bytes=size, lines=lines, origin=self.source.origin,
            first_time_s=self.first_time_s, last_time_s=self.last_time_s,
            sightings=tuple(sorted(self.found.values(), key=lambda s: (s.order, s.kind, s.text))),
            progress=tuple(self.progress), identities=tuple(self.identities.values()),
            tails=tuple(
                LaneTail(
                    tag=tag, origin=t.origin, lines=t.lines, first_line=t.first_line, last_line=t.last_line, last_text=t.last_text[:600],
                    first_time_s=t.first_time_s, last_time_s=t.last_time_s, last_order=t.last_order,
                )
                for tag, t in self.tails.items()
            ),
            gaps=tuple(gaps), job_words=self.count, end_lines=tuple(self.ends),
        )  # fmt: skip


def _key(s: Sighting) -> tuple[object, ...]:
    """Return what makes two sightings of one source the same: same writer, same words up to numbers."""
    letters = _LETTERS.sub(" ", s.text)[-240:]
    o = s.origin
    return (
        s.kind, o.rank, o.local_rank, o.host, o.pid, s.get("type"), s.get("code"), s.get("seq"), s.get("target"),
        s.get("pid"), s.get("thread"), s.get("first_observed"), tuple(s.get("chain", ())), letters,
    )  # fmt: skip


def scan(
    source: Source, engine: Engine, reader: Reader,
    chunks: Iterable[bytes] | None = None, stream: Iterable[Block] | None = None,
) -> Digest:  # fmt: skip
    """Return the digest of one source, reading it once in bounded memory.

    Its bytes, or its blocks, may be given where something else reads them.
    """
    state = _Scan(source, engine, reader)
    host = stacks.HostState(source.name)
    record = _Record() if source.name.endswith(".json") or source.kind == "flight-record" else None
    chunks = source.blocks() if chunks is None else chunks
    chunks = record.through(chunks) if record else chunks
    frame = Frame(engine.matcher, engine.openers, reader.learn, state.owned)
    if source.kind == "flight-record":
        for chunk in chunks:
            frame.size += len(chunk)
            frame.lines += chunk.count(b"\n")
    else:
        for chosen in frame.chosen(blocks(chunks) if stream is None else stream):
            for raw in chosen:
                state.raw(raw, host)
            state.ends = [
                x.data.decode("utf-8", "replace")[:300] for x in chosen[-3:]
            ] or state.ends
        state.count_more(frame.more)
    digest = state.digest(frame.size, frame.lines)
    if record and (record.data or source.kind == "flight-record"):
        digest = _with_records(digest, record.data, source)
    return digest


class _Record:
    """Keeps the bytes of a source that may be one record, up to a size; `data` is empty beyond it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def through(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks as they come."""
        for chunk in chunks:
            self._size += len(chunk)
            if self._size <= MAX_RECORD_BYTES:
                self._parts.append(chunk)
            else:
                self._parts.clear()
            yield chunk

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)


def _with_records(digest: Digest, data: bytes, source: Source) -> Digest:
    """Replace line sightings by the ones of a structured file, where it is one we know."""
    head = data.lstrip()[:1]
    found: list[Sighting] = []
    if source.kind == "flight-record" or head == b"{":
        try:
            one = flight.record(data, source.name, source.origin)
        except flight.BadDump as fault:
            if source.kind == "flight-record":
                gap = Gap(source=source.name, reason=f"flight-recorder dump: {fault}")
                return replace(digest, sightings=(), progress=(), gaps=(*digest.gaps, gap))
            one = None
        if one is None and head == b"{":
            one = stacks.elastic_error_json(data, source.name, source.origin)
        found = [one] if one else []
    elif head == b"[":
        found = stacks.pyspy_json(data, source.name, source.origin)
    if not found:
        return manifest.with_manifest(digest, data)
    # The file's text is data, not log lines: what the line parsers made of it goes.
    return replace(digest, sightings=tuple(found), progress=(), tails=(), identities=())


__all__ = ["Engine", "Piece", "Reader", "SignalIndex", "Source", "SpeaksOf", "UNKNOWN", "scan"]
