"""Cut a stream of bytes into line-aligned blocks and choose the lines worth reading.

Belongs here: offsets, line numbers, bounded memory. Must not be here: what a line means.

Reading a line in Python costs as much as searching a hundred, so most lines are only searched. Which ones are read
depends on bytes and absolute offsets alone, so chunk sizes, workers and matchers cannot change the result:

* everywhere, every line with an anchor and the lines around it;
* in the zones (the first 64 KiB; the last 128, or as much more as many writers need; all of a small source) also each
  writer's first and last words, the last line that looks like progress, what follows an anchor from the same writer,
  and of all other lines an even sample; where there are few, all;
* between the zones, a few lines of every block, of long logs of every eighth.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from rootrank.scan.matcher import Hits, Matcher

BLOCK_BYTES = 1 << 20
EDGE_BYTES = (
    64 << 10
)  # a line that goes on for longer than this behind a block's nominal end is cut
LONG_LINE_BYTES = 16 << 10  # a longer line is read in windows around its anchors
HEAD_BYTES = 64 << 10
TAIL_BYTES = 128 << 10  # doubled until each writer has TAIL_LINES_EACH in it
TAIL_LINES_EACH = 24
SMALL_BYTES = 5 << 18  # a source up to this size is one zone
WHOLE_LINES = 400  # a zone with no more lines than this is read whole
ZONE_LINES = 48  # else so many, evenly spread over each writer's
SMALL_LINES = 500  # the same for a small source, which is read whole up to twice as many
LAST_LINES = 24  # of the source, read whatever they are
SAMPLE_STEP = 128 << 10  # bytes between the lines of a sample
SAMPLE_EVERY = 8  # blocks
SAMPLE_ALL = 8  # the first so many blocks are all sampled
LINES_BEFORE = 3
LINES_AFTER = 3
LINES_AFTER_OPENER = 40
ZONE_AFTER = 24  # of the same writer, in a zone: a message may go on
ZONE_AFTER_OPENER = 120
STORM_HITS = 1000  # between the zones: past this many, a literal is counted, not examined
STORM_LEAST = 16  # inside a zone: past so many with the same anchors (more when writers are few), lines are only counted
DROP_HITS = 20_000  # so many unused hits, and the literals behind them leave the matcher

_STEP_WORDS = (b"tep", b"ter", b"poch", b"%|", b"oss", b"TEP", b"t_env", b"update")
_NOT_FINITE = (b"nan", b"NaN", b"inf")


class Found(NamedTuple):
    """What a search of one block by another process found."""

    block: int  # its number
    offset: int
    size: int
    newlines: int
    hits: Hits
    more: dict[int, int]  # how many there are of a literal that hit too often to be listed


class Block:
    """Whole lines of one source; those that were searched elsewhere are read when asked for."""

    __slots__ = ("_data", "_file", "found", "index", "offset")

    def __init__(
        self,
        index: int,
        offset: int,
        data: bytes | None = None,
        found: Found | None = None,
        file: Any = None,
    ) -> None:
        self.index, self.offset, self.found = index, offset, found
        self._data, self._file = data, file

    @property
    def size(self) -> int:
        """Bytes in the block."""
        return len(self._data) if self._data is not None else self.found.size if self.found else 0

    @property
    def data(self) -> bytes:
        """The bytes; empty when the file lost them."""
        if self._data is None:
            self._file.seek(self.offset)
            self._data = self._file.read(self.size) or b""
        return self._data


@dataclass(slots=True)
class RawLine:
    """One undecoded line, or a window of a very long one."""

    number: int
    offset: int
    data: bytes
    literals: tuple[int, ...]
    weight: int = 1  # lines that it stands for: the ones like it that were not read


# --------------------------------------------------------------------------- blocks


class _Buffer:
    """Bytes as they came, taken out in other pieces; each byte is copied once."""

    def __init__(self) -> None:
        self._parts: deque[tuple[bytes, int]] = deque()  # (bytes, how many of them are gone)
        self.size = 0

    def put(self, data: bytes) -> None:
        self._parts.append((data, 0))
        self.size += len(data)

    def find_newline(self, low: int, high: int) -> int:
        """Return the position of the first newline in [low, high), or -1."""
        at = 0
        for data, gone in self._parts:
            length = len(data) - gone
            if at + length > low:
                found = data.find(b"\n", gone + max(low - at, 0), gone + min(high - at, length))
                if found >= 0:
                    return at + found - gone
            at += length
            if at >= high:
                break
        return -1

    def take(self, count: int) -> bytes:
        """Remove and return the first `count` bytes."""
        out: list[bytes | memoryview] = []
        left = count
        while left > 0:
            data, gone = self._parts.popleft()
            length = len(data) - gone
            if length <= left:
                out.append(memoryview(data)[gone:] if gone else data)
                left -= length
            else:
                out.append(memoryview(data)[gone : gone + left])
                self._parts.appendleft((data, gone + left))
                left = 0
        self.size -= count
        return out[0] if len(out) == 1 and isinstance(out[0], bytes) else b"".join(out)


def blocks(chunks: Iterable[bytes], index: int = 0, offset: int = 0) -> Iterator[Block]:
    """Yield line-aligned blocks of about one MiB, however the chunks were cut; the first is block `index` at `offset`.

    Block n ends behind the first newline at or after the n-th MiB: where it ends can be found without reading what is
    before. A line that goes on for longer is cut; its pieces are searched too, only a literal across the cut is lost.
    """
    buffer = _Buffer()
    for chunk in chunks:
        buffer.put(chunk)
        while offset + buffer.size >= (index + 1) * BLOCK_BYTES + EDGE_BYTES:
            nominal = (index + 1) * BLOCK_BYTES - offset
            newline = buffer.find_newline(nominal - 1, nominal - 1 + EDGE_BYTES)
            cut = newline + 1 if newline >= 0 else nominal
            yield Block(index, offset, buffer.take(cut))
            offset += cut
            index += 1
    while buffer.size:
        nominal = (index + 1) * BLOCK_BYTES - offset
        cut = buffer.size
        if cut > nominal:
            newline = buffer.find_newline(nominal - 1, nominal - 1 + EDGE_BYTES)
            cut = newline + 1 if newline >= 0 else nominal
        yield Block(index, offset, buffer.take(cut))
        offset += cut
        index += 1


# --------------------------------------------------------------------------- the choice of lines


class Frame:
    """Chooses the lines of one source, in order. `size` and `lines` count what went through."""

    def __init__(
        self,
        matcher: Matcher,
        openers: frozenset[int],
        learn: Callable[[list[bytes]], re.Pattern[bytes] | None],
        wanted: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._matcher = matcher
        self._reduced: Matcher = matcher  # between the zones: without the literals of a storm
        self._openers = openers
        self._learn = (
            learn  # given the first lines, returns what tells writers apart by a line's first bytes
        )
        self._wanted = wanted  # whether the exact number of a literal's hits is of use
        self._writers: re.Pattern[bytes] | None = None
        self._seen: dict[int, int] = {}
        self._gone: set[int] = set()
        self._unused = 0
        self._carry = 0  # lines that belong to an anchor of the block before
        self.more: dict[int, int] = {}  # hits per literal that no chosen line stands for
        self.size = 0
        self.lines = 0

    def chosen(self, stream: Iterable[Block]) -> Iterator[list[RawLine]]:
        """Yield the lines to examine, block by block, the tail held back until the stream ends."""
        held: deque[Block] = deque()
        for block in stream:
            if block.index == 0:
                self._writers = self._learn(
                    [x[:400] for x in block.data[:160_000].split(b"\n", 400)[:400]]
                )
            held.append(block)
            self.size += block.size
            if len(held) > 2:
                yield self._of_block(held.popleft(), None)
        tail = self.size - self._tail_bytes(b"".join([b.data for b in held]))
        unfinished = bool(held) and not held[-1].data.endswith(b"\n")
        while held:
            yield self._of_block(held.popleft(), max(tail, 0))
        self.lines += unfinished

    def _tail_bytes(self, data: bytes) -> int:
        """Return the length of the last zone: what every writer said last should be in it."""
        size = TAIL_BYTES
        while size < len(data):
            rows = data[len(data) - size :].split(b"\n")
            if self._writers is None or len(
                _by_writer(rows, self._writers)
            ) * TAIL_LINES_EACH <= len(rows):
                return size
            size *= 2
        return len(data)

    def _of_block(self, block: Block, tail: int | None) -> list[RawLine]:
        """Return the lines of one block; `tail` is where the last zone begins, None when it is behind this block."""
        if tail is None and block.index:
            return self._middle(block)
        data = block.data
        end = len(data)
        head = 0
        if block.index == 0:
            head = end if end <= HEAD_BYTES else _line_start(data, HEAD_BYTES)
        last = end if tail is None else _line_start(data, tail - block.offset)
        if not head and last == end:
            return self._middle(block)
        hits = self._matcher.find(data)
        first = self.lines + 1
        self.lines += data.count(b"\n")
        if tail is not None and self.size <= SMALL_BYTES:
            return self._zone(
                _Part(block, 0, end, first, hits), LAST_LINES, 2 * SMALL_LINES, SMALL_LINES
            )
        if head >= last:  # the zones meet: everything is in them
            return self._zone(_Part(block, 0, end, first, hits), LAST_LINES)
        out: list[RawLine] = []
        at, number = 0, first
        if head:
            out = self._zone(_Part(block, 0, head, first, hits), 0)
            number += data.count(b"\n", 0, head)
            at = head
        if at < last:
            near, at = self._near(_Part(block, at, last, number, hits), _sample(data, at, last))
            out += near
        if last < end:
            start = max(at, last)
            number = first + data.count(b"\n", 0, start)
            out += self._zone(_Part(block, start, end, number, hits), LAST_LINES)
        return out

    def _middle(self, block: Block) -> list[RawLine]:
        """Return the lines of a block that no zone touches."""
        first, found = self.lines + 1, block.found
        sampled = block.index < SAMPLE_ALL or block.index % SAMPLE_EVERY == 0
        hits = (
            self._reduced.find(block.data)
            if found is None
            else [h for h in found.hits if h[1] not in self._gone]
        )
        self.lines += block.data.count(b"\n") if found is None else found.newlines
        self._count_gone(block)
        out: list[RawLine] = []
        unlisted = {i: n for i, n in found.more.items() if i not in self._gone} if found else {}
        if hits or sampled or self._carry:
            data = block.data
            if unlisted:
                hits, unlisted = self._reduced.find(data), {}
            out = self._near(
                _Part(block, 0, len(data), first, hits),
                _sample(data, 0, len(data)) if sampled else [],
            )[0]
        for index, n in unlisted.items():  # each was met STORM_HITS times before
            self._seen[index] = self._seen.get(index, 0) + n
            self.more[index] = self.more.get(index, 0) + n
            self._unused += n
        self._storm()
        return out

    def _count_gone(self, block: Block) -> None:
        """Count the literals that left the search, where their exact number is of use."""
        for index in self._gone:
            if not self._wanted(index):
                continue
            if block.found is None:
                n = occurrences(block.data, self._matcher.literals[index])
            else:
                n = block.found.more.get(index, 0) or sum(
                    1 for h in block.found.hits if h[1] == index
                )
            self.more[index] = self.more.get(index, 0) + n

    # ------------------------------------------------------------------ between the zones

    def _near(self, part: _Part, sample: list[tuple[int, int]]) -> tuple[list[RawLine], int]:
        """Return the lines around anchors and those of the sample, and where the last of them ends."""
        data, seen, spans = part.data, self._seen, sample
        low, high = part.low, part.high
        if self._carry:
            spans = [(low, _lines_on(data, low, self._carry - 1)[0]), *spans]
        self._carry = 0
        skipped: Hits = []
        for end, index in part.hits:
            count = seen.get(index, 0)
            seen[index] = count + 1
            if count >= STORM_HITS:
                skipped.append((end, index))
                continue
            after = LINES_AFTER_OPENER if index in self._openers else LINES_AFTER
            start = max(_lines_back(data, end - 1, LINES_BEFORE), low)
            stop, missing = _lines_on(data, end, after)
            self._carry = missing if stop >= len(data) else 0
            spans.append((start, stop))
        self._unused += len(skipped)
        out: list[RawLine] = []
        number, counted, reached = part.number, low, low
        merged = _merged(spans)
        for end, index in skipped:
            n = bisect_left(merged, (end, 0)) - 1
            if n < 0 or merged[n][1] < end:  # else its line is read nevertheless
                self.more[index] = self.more.get(index, 0) + 1
        for start, stop in merged:
            number += data.count(b"\n", counted, start)
            counted, reached = start, stop
            out.extend(_all(_Part(part.block, start, stop, number, part.every)))
        return out, max(reached, high)

    def _storm(self) -> None:
        """Take literals out of the search that hit again and again to no use."""
        if self._unused < DROP_HITS:
            return
        self._unused = 0
        self._gone |= {i for i, n in self._seen.items() if n > STORM_HITS}
        self._reduced = self._matcher.without(frozenset(self._gone))

    # ------------------------------------------------------------------ zones

    def _zone(
        self, part: _Part, last: int, whole: int = WHOLE_LINES, spread: int = ZONE_LINES
    ) -> list[RawLine]:
        """Return the lines of a zone that are worth reading (see the head of this file)."""
        writers = self._writers
        if (
            part.high - part.low > LONG_LINE_BYTES
            and part.data.count(b"\n", part.low, part.high) <= 1
        ):
            return _all(part)  # lines without end: windows
        rows = part.data[part.low : part.high].split(b"\n")
        if not rows[-1]:
            rows.pop()
        starts = list(accumulate((len(x) + 1 for x in rows), initial=part.low))
        anchored: dict[int, list[int]] = {}
        for end, index in part.hits:
            anchored.setdefault(bisect_left(starts, end) - 1, []).append(index)
        plain = len(rows) - len(anchored)
        few = len(anchored) <= 2 * whole
        if few and (plain <= whole or writers is None):
            take: Sequence[int] = range(len(rows))
            weight: dict[int, int] = {}
        else:
            odd = {
                bisect_right(starts, at) - 1 for at in _not_finite(part.data, part.low, part.high)
            }
            take, weight = _thin(
                rows, _by_writer(rows, writers), anchored, self._openers, spread, last, odd
            )
        out: list[RawLine] = []
        for i in take:
            row = rows[i]
            ids = tuple(anchored.get(i, ()))
            if len(row) > LONG_LINE_BYTES:
                out.extend(_windows(part, part.number + i, starts[i], starts[i] + len(row)))
            else:
                out.append(
                    RawLine(
                        part.number + i, part.block.offset + starts[i], row, ids, weight.get(i, 1)
                    )
                )
        return out


@dataclass(slots=True)
class _Part:
    """A stretch of a block: [low, high), the number of its first line, and the hits of the whole block."""

    block: Block
    low: int
    high: int
    number: int
    every: Hits

    @property
    def data(self) -> bytes:
        return self.block.data

    @property
    def hits(self) -> Hits:
        """The hits that end inside the stretch."""
        first = bisect_right(self.every, (self.low, 1 << 60))
        last = bisect_right(self.every, (self.high, 1 << 60))
        return self.every[first:last] if first or last < len(self.every) else self.every


def _by_writer(
    rows: Sequence[bytes], writers: re.Pattern[bytes] | None
) -> dict[bytes | None, list[int]]:
    """Return the indices of the rows of each writer; all rows are one writer's when nothing tells them apart."""
    if writers is None:
        return {None: list(range(len(rows)))}
    found: dict[bytes | None, list[int]] = {}
    match = writers.match
    for i, row in enumerate(rows):
        m = match(row)
        key = m[1] if m else None
        try:
            found[key].append(i)
        except KeyError:
            found[key] = [i]
    return found


def _thin(
    rows: Sequence[bytes], by_writer: dict[bytes | None, list[int]], anchored: dict[int, list[int]],
    openers: frozenset[int], spread: int, last: int, odd: set[int],
) -> tuple[list[int], dict[int, int]]:  # fmt: skip
    """Return the rows to read, in order, and how many rows each stands for where that is not one."""
    take: set[int] = set(range(max(len(rows) - last, 0), len(rows)))
    weight: dict[int, int] = {}
    stride = -(-len(rows) // spread)
    storm = max(2 * WHOLE_LINES // len(by_writer), STORM_LEAST)
    for mine in by_writer.values():
        take.update((mine[0], mine[-1]), mine[::stride])
        for i in reversed(mine[-60:]):
            if any(w in rows[i] for w in _STEP_WORDS):
                take.add(i)
                break
        if odd:
            take.update(_odd(odd, mine))
        if anchored:
            _follow(mine, anchored, openers, storm, take, weight)
    for i in anchored:
        if i in take:
            take.update(j for j in range(max(i - LINES_BEFORE, 0), i) if j not in anchored)
    return sorted(take), weight


def _not_finite(data: bytes, low: int, high: int) -> Iterator[int]:
    """Yield where a number that is not finite stands: `loss: nan`, `grad_norm=-inf`."""
    for word in _NOT_FINITE:
        at = data.find(word, low, high)
        while at >= 0:
            after = data[at + 3 : at + 4]
            if (
                data[at - 1 : at] in (b" ", b"=", b":", b"'", b'"', b"-")
                and not after.isalnum()
                and after != b"_"
            ):
                yield at
            at = data.find(word, at + 3, high)


def _odd(odd: set[int], mine: Sequence[int]) -> list[int]:
    """Return one writer's first few rows with a number that is not finite, each with the row before."""
    out: list[int] = []
    for n, i in enumerate(mine):
        if i in odd:
            out += mine[max(n - 1, 0) : n + 1]
            if len(out) > 6:
                break
    return out


def _follow(
    mine: Sequence[int], anchored: dict[int, list[int]], openers: frozenset[int], storm: int, take: set[int],
    weight: dict[int, int],
) -> None:  # fmt: skip
    """Take one writer's anchored rows and what follows each; of many alike, the first and the last."""
    alike: dict[tuple[int, ...], list[int]] = {}
    reach = -1
    for n, i in enumerate(mine):
        ids = anchored.get(i)
        if ids is None:
            if n <= reach:
                take.add(i)
            continue
        group = alike.setdefault(tuple(ids), [])
        group.append(i)
        if len(group) > storm:
            continue
        take.add(i)
        reach = max(reach, n + (ZONE_AFTER_OPENER if not openers.isdisjoint(ids) else ZONE_AFTER))
    for group in alike.values():
        if len(group) > storm:
            take.update(group[-8:])
            left = [i for i in group[storm:] if i not in take]
            weight[group[storm - 1]] = 1 + len(left)


# --------------------------------------------------------------------------- lines of a stretch


def _all(part: _Part) -> list[RawLine]:
    """Return every line of the stretch; very long ones as windows."""
    data, hits, block = part.data, part.hits, part.block
    out: list[RawLine] = []
    start, number, h = part.low, part.number, 0
    while start < part.high:
        end = data.find(b"\n", start, part.high)
        stop = part.high if end < 0 else end
        ids: list[int] = []
        while h < len(hits) and hits[h][0] <= stop:
            ids.append(hits[h][1])
            h += 1
        if stop - start > LONG_LINE_BYTES:
            out.extend(_windows(part, number, start, stop))
        else:
            out.append(RawLine(number, block.offset + start, data[start:stop], tuple(ids)))
        start = stop + 1
        number += 1
    return out


def _windows(part: _Part, number: int, start: int, stop: int) -> list[RawLine]:
    """Return 4 KiB windows of a long line: its head, and one around each group of anchors."""
    half = 2048
    spans: list[list[int]] = [[start, min(stop, start + half)]]
    ids: list[list[int]] = [[]]
    for end, index in _Part(part.block, start, stop, number, part.every).hits[:STORM_HITS]:
        low, high = max(start, end - half), min(stop, end + half)
        if low <= spans[-1][1] and high - spans[-1][0] <= LONG_LINE_BYTES:
            spans[-1][1] = max(high, spans[-1][1])
            ids[-1].append(index)
        elif low > spans[-1][0]:
            spans.append([low, high])
            ids.append([index])
    return [
        RawLine(number, part.block.offset + a, part.data[a:b], tuple(i))
        for (a, b), i in zip(spans, ids, strict=True)
    ]


def _sample(data: bytes, low: int, high: int) -> list[tuple[int, int]]:
    """Return a few whole lines of [low, high), evenly apart."""
    out: list[tuple[int, int]] = []
    for at in range(low, high, SAMPLE_STEP):
        start = data.find(b"\n", at - 1, at + LONG_LINE_BYTES) + 1 if at else 0
        stop = data.find(b"\n", start, start + LONG_LINE_BYTES) + 1
        if stop and stop <= high and (start or not at):
            out.append((start, stop))
    return out


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order, overlapping and touching ones as one."""
    out: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if out and start <= out[-1][1]:
            if stop > out[-1][1]:
                out[-1] = (out[-1][0], stop)
        else:
            out.append((start, stop))
    return out


def occurrences(data: bytes, literal: bytes) -> int:
    """Return how often the literal occurs, overlapping occurrences included."""
    n = data.count(literal)
    if n and any(literal.startswith(literal[-k:]) for k in range(1, len(literal))):
        n, at = 0, data.find(literal)
        while at >= 0:
            n, at = n + 1, data.find(literal, at + 1)
    return n


def _line_start(data: bytes, at: int) -> int:
    """Return where the first line at or behind `at` starts; `at` itself inside a line without end."""
    if at <= 0:
        return 0
    if at >= len(data):
        return len(data)
    newline = data.find(b"\n", at - 1, at + EDGE_BYTES)
    return newline + 1 if newline >= 0 else at


def _lines_back(data: bytes, at: int, lines: int) -> int:
    for _ in range(lines + 1):
        before = data.rfind(b"\n", max(0, at - 2 * LONG_LINE_BYTES), max(at, 0))
        if before < 0:
            return max(0, at - 2 * LONG_LINE_BYTES) if at > 2 * LONG_LINE_BYTES else 0
        at = before
    return at + 1


def _lines_on(data: bytes, at: int, lines: int) -> tuple[int, int]:
    """Return where the line at `at` and `lines` more end, and how many of them the block lacks."""
    for done in range(lines + 1):
        after = data.find(b"\n", at, at + 2 * LONG_LINE_BYTES)
        if after < 0:
            return min(len(data), at + 2 * LONG_LINE_BYTES), min(lines, lines + 1 - done)
        at = after + 1
    return at, 0
