"""Search the middle of one huge file in pieces, by several processes: the same blocks, hits and counts as in one pass.

Belongs here: where a piece begins, what is sent back. Must not be here: the choice of lines (`frame`), processes.

Only the search is shared out. Lines are chosen and examined in order by one process, which reads the few it needs
again; so nothing that follows from an earlier line (open tracebacks, folding, storms) has to be put together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from rootrank.scan.frame import (
    BLOCK_BYTES,
    DROP_HITS,
    EDGE_BYTES,
    STORM_HITS,
    Block,
    Found,
    blocks,
    occurrences,
)
from rootrank.scan.matcher import Matcher

SPAN_BLOCKS = 64


class Span(NamedTuple):
    """Blocks [low, high) of a file."""

    path: str
    low: int
    high: int


class ChangedError(Exception):
    """The file is not what it was: shorter, or gone."""


def spans_of(path: str, size: int) -> list[Span]:
    """Return the spans of a file's middle: everything that can be searched without knowing where the file ends."""
    last = (
        size // BLOCK_BYTES - 3
    )  # its last blocks are a zone, and the file may grow while it is read
    return [Span(path, low, min(low + SPAN_BLOCKS, last)) for low in range(1, last, SPAN_BLOCKS)]


def search(span: Span, matcher: Matcher) -> list[Found]:
    """Return what was found in each block of the span. Raises ChangedError."""
    out: list[Found] = []
    seen: dict[int, int] = {}
    current, gone = matcher, frozenset[int]()
    unused = 0
    for block in _blocks(span):
        data = block.data
        hits = current.find(data)
        for _, index in hits:
            n = seen[index] = seen.get(index, 0) + 1
            unused += n > STORM_HITS
        more = {index: n for index in gone if (n := occurrences(data, matcher.literals[index]))}
        if unused > DROP_HITS:
            unused = 0
            gone |= {i for i, n in seen.items() if n > STORM_HITS}
            current = matcher.without(gone)
        out.append(Found(block.index, block.offset, len(data), data.count(b"\n"), hits, more))
    if len(out) != span.high - span.low:
        raise ChangedError
    return out


def _blocks(span: Span) -> Iterator[Block]:
    try:
        with open(span.path, "rb", buffering=0) as file:  # noqa: PTH123
            start = span.low * BLOCK_BYTES - 1
            file.seek(start)
            head = file.read(BLOCK_BYTES + 1)
            newline = head.find(b"\n", 0, EDGE_BYTES)
            cut = newline + 1 if newline >= 0 else 1
            for block in blocks(_chunks(file, head[cut:]), span.low, start + cut):
                if block.index >= span.high:
                    return
                yield block
    except OSError:
        raise ChangedError from None


def _chunks(file: object, first: bytes) -> Iterator[bytes]:
    yield first
    read = file.read  # type: ignore[attr-defined]
    while data := read(BLOCK_BYTES):
        yield data


class Reread:
    """The blocks of a whole file: its ends read here, its middle as found by others and read again where needed."""

    def __init__(self, path: str, found: Iterator[list[Found]]) -> None:
        self._path, self._found = path, found

    def blocks(self) -> Iterator[Block]:
        """Yield every block in order. Raises ChangedError when the file shrinks or changes meanwhile."""
        with (
            open(self._path, "rb", buffering=0) as file,  # noqa: PTH123
            open(self._path, "rb", buffering=0) as again,  # noqa: PTH123
        ):
            before = os.fstat(file.fileno())
            first = next(blocks(_chunks(file, b"")))
            yield first
            offset = len(first.data)
            index = 1
            for span in self._found:
                for found in span:
                    if (found.block, found.offset) != (index, offset):
                        raise ChangedError
                    yield Block(index, offset, found=found, file=again)
                    index += 1
                    offset += found.size
            file.seek(offset)
            yield from blocks(_chunks(file, b""), index, offset)
            after = os.fstat(file.fileno())
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise ChangedError
