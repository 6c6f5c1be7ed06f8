"""Find literal anchors in blocks of bytes: three back ends, one result.

Belongs here: "which literal ends where". Must not be here: lines, decoding, meaning.

`find(block)` returns sorted `(end_offset, literal_index)` pairs for *every* occurrence, overlapping ones included.
hyperscan is used when installed, else google-re2, else the standard library; all three agree (tests/scan/test_matcher).
Only literals go into a database: regular expressions there cost recall and speed (measured, see DECISIONS.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Hits = list[tuple[int, int]]


class Matcher(Protocol):
    """One back end over one fixed list of literals."""

    name: str
    literals: Sequence[bytes]

    def find(self, block: bytes) -> Hits:
        """Return every `(end_offset, literal_index)` in `block`, sorted."""
        ...

    def without(self, gone: frozenset[int]) -> Matcher:
        """Return a matcher that reports all literals but these, under the same indices."""
        ...


class HyperscanMatcher:
    """Vectorscan/Hyperscan over literals; about 1 GB/s."""

    name = "hyperscan"

    def __init__(
        self,
        literals: Sequence[bytes],
        gone: frozenset[int] = frozenset(),
        cache: str | None = None,
    ) -> None:
        import hyperscan

        self.literals = literals
        self._gone = gone
        keep = [i for i in range(len(literals)) if i not in gone]
        path = _cache_path(cache, literals, hyperscan) if cache and not gone else None
        self._db: Any = _loaded(path, hyperscan) if path else None
        if self._db is None:
            self._db = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            self._db.compile(
                expressions=[_escape(literals[i]) for i in keep],
                ids=keep,
                elements=len(keep),
                flags=[0] * len(keep),
            )
            if path:
                _store(path, hyperscan.dumpb(self._db))
        self._scratch = hyperscan.Scratch(self._db)

    def find(self, block: bytes) -> Hits:
        """Return every `(end_offset, literal_index)` in `block`, sorted."""
        hits: Hits = []
        append = hits.append

        def on_match(index: int, _start: int, end: int, _flags: int, _context: Any) -> None:
            append((end, index))

        self._db.scan(block, match_event_handler=on_match, scratch=self._scratch)
        hits.sort()
        return hits

    def without(self, gone: frozenset[int]) -> Matcher:
        """Return a matcher that reports all literals but these, under the same indices."""
        return (
            HyperscanMatcher(self.literals, gone | self._gone)
            if len(gone) < len(self.literals)
            else _NoMatcher(self.literals)
        )


class _NoMatcher:
    """Finds nothing: every literal was left out."""

    name = "none"

    def __init__(self, literals: Sequence[bytes]) -> None:
        self.literals = literals

    def find(self, block: bytes) -> Hits:
        return []

    def without(self, gone: frozenset[int]) -> Matcher:
        return self


class Re2Matcher:
    """google-re2 says which literals occur in a piece; `bytes.find` then says where."""

    name = "re2"

    def __init__(
        self,
        literals: Sequence[bytes],
        piece_bytes: int = 64 * 1024,
        gone: frozenset[int] = frozenset(),
    ) -> None:
        import re2

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 256 << 20
        self._set = re2.Set.SearchSet(options)
        self._ids = [i for i in range(len(literals)) if i not in gone]
        for index in self._ids:
            # Escaped byte by byte: the binding would encode a non-ASCII character as UTF-8.
            self._set.Add("".join(f"\\x{{{c:02x}}}" for c in literals[index]))
        self._set.Compile()
        self.literals = literals
        self._gone = gone
        self._piece = piece_bytes
        self._overlap = max((len(x) for x in literals), default=1) - 1

    def find(self, block: bytes) -> Hits:
        """Return every `(end_offset, literal_index)` in `block`, sorted."""
        hits: set[tuple[int, int]] = set()
        for start in range(0, len(block), self._piece):
            piece = block[start : start + self._piece + self._overlap]
            for found in self._set.Match(piece) or ():
                index = self._ids[found]
                _find_all(piece, self.literals[index], index, start, hits)
        return sorted(hits)

    def without(self, gone: frozenset[int]) -> Matcher:
        """Return a matcher that reports all literals but these, under the same indices."""
        return Re2Matcher(self.literals, self._piece, gone | self._gone)


class StdlibMatcher:
    """Standard library only: the distinct words of a block say which literals can be in it at all."""

    name = "stdlib"

    def __init__(self, literals: Sequence[bytes], gone: frozenset[int] = frozenset()) -> None:
        self.literals = literals
        self._gone = gone
        # Where a literal occurs, each of its runs of letters lies inside one word of the text.
        self._groups: dict[tuple[bytes, ...], list[int]] = {}
        for index, literal in enumerate(literals):
            if index not in gone:
                self._groups.setdefault(tuple(literal.translate(_LETTERS).split()), []).append(
                    index
                )
        self._runs = {run for runs in self._groups for run in runs}

    def find(self, block: bytes) -> Hits:
        """Return every `(end_offset, literal_index)` in `block`, sorted."""
        words = b" ".join(set(block.translate(_LETTERS).split()))
        here = {run for run in self._runs if run in words}
        hits: set[tuple[int, int]] = set()
        for runs, members in self._groups.items():
            if here.issuperset(runs):
                for index in members:
                    _find_all(block, self.literals[index], index, 0, hits)
        return sorted(hits)

    def without(self, gone: frozenset[int]) -> Matcher:
        """Return a matcher that reports all literals but these, under the same indices."""
        return StdlibMatcher(self.literals, gone | self._gone)


# Letters stay, everything else becomes a space; bytes of other scripts are letters too.
_LETTERS = bytes(c if 65 <= c <= 90 or 97 <= c <= 122 or c >= 128 else 32 for c in range(256))


def _find_all(
    block: bytes, literal: bytes, index: int, base: int, hits: set[tuple[int, int]]
) -> None:
    at = block.find(literal)
    while at >= 0:
        hits.add((base + at + len(literal), index))
        at = block.find(literal, at + 1)


def _escape(literal: bytes) -> bytes:
    return b"".join(b"\\x%02x" % c for c in literal)


# --------------------------------------------------------------------------- cache of the compiled database


def _cache_path(folder: str, literals: Sequence[bytes], engine: Any) -> str:
    """Return the file of this very set of literals, engine and machine: a database fits nothing else."""
    import hashlib

    version = getattr(engine, "__version__", "")
    machine = (
        os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE")
    )
    where = (
        sys.platform,
        machine,
        sys.version,
        engine.__file__,
        os.stat(engine.__file__).st_mtime_ns,  # noqa: PTH116
    )
    what = [str(x).encode() for x in ("1", version, *where)]
    state = hashlib.blake2b(b"\0".join(what), digest_size=16)
    for literal in literals:
        state.update(len(literal).to_bytes(4, "little") + literal)
    return os.path.join(folder, f"anchors-{state.hexdigest()}.hsdb")  # noqa: PTH118 - os.path costs no import


def _loaded(path: str, engine: Any) -> Any:
    """Return the stored database, or None: absent, foreign and damaged ones are compiled anew."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return engine.loadb(
                file.read(), engine.HS_MODE_BLOCK
            )  # the engine checks version and checksum
    except Exception:
        return None


def _store(path: str, data: bytes) -> None:
    """Write the database aside and swap it in; a read-only home is no error."""
    aside = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
        with open(aside, "wb") as file:  # noqa: PTH123
            file.write(data)
        os.replace(aside, path)
        _tidy(os.path.dirname(path))  # noqa: PTH120
    except OSError:
        pass


def _tidy(folder: str) -> None:
    """Keep the few newest databases: every change of the entries makes another."""
    with os.scandir(folder) as entries:
        found = [(e.stat().st_mtime_ns, e.path) for e in entries if e.name.startswith("anchors-")]
    for _, path in sorted(found)[:-4]:
        os.unlink(path)  # noqa: PTH108


_BACK_ENDS: dict[str, Callable[..., Matcher]] = {
    "hyperscan": HyperscanMatcher,
    "re2": Re2Matcher,
    "stdlib": StdlibMatcher,
}


def make_matcher(
    literals: Sequence[bytes], prefer: str | None = None, cache: str | None = None
) -> Matcher:
    """Return the fastest back end that works here; `prefer` or $ROOTRANK_MATCHER forces one.

    `cache` is a folder for what takes long to compile.
    """
    forced = prefer or os.environ.get("ROOTRANK_MATCHER") or ""
    names = [forced] if forced in _BACK_ENDS else list(_BACK_ENDS)
    for name in names:
        try:
            if name == "hyperscan":
                return HyperscanMatcher(literals, cache=cache)
            return _BACK_ENDS[name](literals)
        except ImportError:
            continue
        except Exception:  # a broken engine must not stop a diagnosis
            if name == "stdlib":
                raise
            continue
    return StdlibMatcher(literals)
