"""Blocks and the choice of lines: exact numbers, whatever the chunks; bounded memory; storms counted."""

from __future__ import annotations

import io
import pathlib
import random
import re

import pytest

from rootrank.scan.frame import (
    BLOCK_BYTES,
    EDGE_BYTES,
    LONG_LINE_BYTES,
    Block,
    Frame,
    RawLine,
    blocks,
    occurrences,
)
from rootrank.scan.matcher import StdlibMatcher
from rootrank.scan.spans import ChangedError, Reread, Span, search

ANCHORS = [b"CUDA error", b"Traceback (most", b"rror: ", b"Killed"]
WRITERS = re.compile(rb"(\[rank\d+\]:)?")


def chosen(
    data: bytes, sizes: list[int] | None = None, wanted: bool = True
) -> tuple[list[RawLine], Frame]:
    """Return the lines chosen from data cut into chunks."""
    frame = Frame(StdlibMatcher(ANCHORS), frozenset({1}), lambda _: WRITERS, lambda _: wanted)
    lines = [x for part in frame.chosen(blocks(cut(data, sizes))) for x in part]
    return lines, frame


def cut(data: bytes, sizes: list[int] | None) -> list[bytes]:
    """Return data in chunks of these sizes, repeated."""
    if not sizes:
        return [data]
    out, at, n = [], 0, 0
    while at < len(data):
        out.append(data[at : at + sizes[n % len(sizes)]])
        at += sizes[n % len(sizes)]
        n += 1
    return out


def text(lines: int, seed: int = 1, ranks: int = 4, errors: float = 0.0) -> bytes:
    """Return a log of several ranks."""
    rng = random.Random(seed)
    out = []
    for n in range(lines):
        rank = rng.randrange(ranks)
        if rng.random() < errors:
            out.append(f"[rank{rank}]: RuntimeError: CUDA error: no {n}")
        else:
            out.append(
                f"[rank{rank}]: step {n} loss {rng.random():.6f} " + "." * rng.randrange(120)
            )
    return ("\n".join(out) + "\n").encode()


def test_numbers_and_offsets_are_those_of_the_file() -> None:
    """Every chosen line stands where it says, in order and once."""
    data = text(60_000, errors=0.002)
    lines, frame = chosen(data)
    rows = data.split(b"\n")
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row) + 1)

    assert len(rows) - 1 == frame.lines
    assert len(data) == frame.size
    assert [x.number for x in lines] == sorted({x.number for x in lines})
    for x in lines:
        assert rows[x.number - 1] == x.data
        assert starts[x.number - 1] == x.offset


@pytest.mark.parametrize("sizes", [[1 << 20], [1 << 16], [1_000_003], [3 << 20], [1, 70_000, 4096]])
def test_chunks_do_not_matter(sizes: list[int]) -> None:
    """The same lines with the same anchors, however the bytes come."""
    data = text(50_000, errors=0.01)

    assert chosen(data)[0] == chosen(data, sizes)[0]


def test_every_anchored_line_is_chosen() -> None:
    """Nothing with an anchor is lost: head, middle, block borders, tail."""
    data = text(60_000, errors=0.003)
    have = {x.number for x in chosen(data)[0] if x.literals}
    want = {n for n, row in enumerate(data.split(b"\n"), 1) if b"CUDA error" in row}

    assert want == have


def test_a_traceback_across_a_block_border_is_read_whole() -> None:
    """The lines that belong to an opener are read in the next block too."""
    frames = (
        b"Traceback (most recent call last):\n"
        + b"".join(b"  frame %d\n" % i for i in range(30))
        + b"odd.Thing\n"
    )
    for back in (1, 40, 200, 400):
        head = b"x" * 99 + b"\n"
        filler = head * ((2 * BLOCK_BYTES - back) // 100)
        data = filler + frames + head * 30_000
        got = [x.data for x in chosen(data)[0]]
        for row in frames.splitlines():
            assert row in got, (back, row)


def test_short_sources_are_read_whole() -> None:
    """Up to a thousand lines nothing is left out."""
    data = text(900)

    assert data.splitlines() == [x.data for x in chosen(data)[0]]


def test_each_writer_is_heard_at_its_end() -> None:
    """The last line of every rank near the end is chosen, and its last step."""
    data = text(80_000, ranks=64)
    data += b"".join(b"[rank%d]: goodbye %d\n" % (r, r) for r in range(64)) + text(
        500, ranks=3, seed=2
    )
    got = {x.data for x in chosen(data)[0]}

    for r in range(3, 64):
        assert b"[rank%d]: goodbye %d" % (r, r) in got
        last = [row for row in data.splitlines() if row.startswith(b"[rank%d]: step" % r)][-1]
        assert last in got


def test_few_lines_of_a_long_log_are_read() -> None:
    """Reading is bounded: a healthy log costs its search."""
    assert len(chosen(text(150_000))[0]) < 800


def test_the_first_number_that_is_not_finite_is_read() -> None:
    """In the zones, where it has no anchor of its own."""
    data = text(20_000) + b"[rank1]: step 20001 loss nan\n" * 5 + text(500, ranks=2)

    assert b"[rank1]: step 20001 loss nan" in [x.data for x in chosen(data)[0]]


def test_a_storm_is_counted_exactly() -> None:
    """Lines that were not examined are in the weights or in the counts."""
    row = b"[rank1]: CUDA error: an illegal access\n"
    for n in (10, 3000, 100_000):
        lines, frame = chosen(row * n)
        examined = sum(x.weight for x in lines if x.literals)

        assert n == examined + frame.more.get(0, 0)
        assert len(lines) < 4000


def test_a_line_without_end() -> None:
    """Windows around anchors, bounded; its blocks end where their number says."""
    data = bytearray(b"abc " * (2 * BLOCK_BYTES))
    at = 3 * BLOCK_BYTES + 12_345
    data[at : at + 10] = b"CUDA error"
    lines, frame = chosen(bytes(data))

    assert 1 == frame.lines
    assert max(len(x.data) for x in lines) <= LONG_LINE_BYTES
    hit = [x for x in lines if x.literals]
    assert len(hit) == 1
    assert hit[0].offset <= at < hit[0].offset + len(hit[0].data)
    assert {1} == {x.number for x in lines}
    assert all(len(b.data) <= BLOCK_BYTES + EDGE_BYTES for b in blocks([bytes(data)]))


def test_block_borders_depend_on_offsets_alone() -> None:
    """Block n begins behind the first newline at or after the n-th MiB."""
    data = text(70_000)
    for b in list(blocks([data]))[1:]:
        assert b.offset == data.index(b"\n", b.index * BLOCK_BYTES - 1) + 1


@pytest.mark.parametrize("errors", [0.0, 0.001, 0.3])
def test_spans_give_the_same_lines(tmp_path: pathlib.Path, errors: float) -> None:
    """A search in pieces by others leads to the same lines, numbers and counts as one pass."""
    data = text(120_000, errors=errors)
    path = tmp_path / "x.log"
    path.write_bytes(data)
    matcher = StdlibMatcher(ANCHORS)
    once = Frame(matcher, frozenset({1}), lambda _: WRITERS, lambda _: True)
    want = [x for part in once.chosen(blocks([data])) for x in part]
    last = len(data) // BLOCK_BYTES - 3
    for step in (1, 2, 5):
        spans = [Span(str(path), low, min(low + step, last)) for low in range(1, last, step)]
        other = Frame(matcher, frozenset({1}), lambda _: WRITERS, lambda _: True)
        got = [
            x
            for part in other.chosen(
                Reread(str(path), (search(s, matcher) for s in spans)).blocks()
            )
            for x in part
        ]

        assert want == got
        assert (once.size, once.lines, once.more) == (other.size, other.lines, other.more)


def test_a_file_that_shrinks_is_noticed(tmp_path: pathlib.Path) -> None:
    """A span of a file that is no longer there raises, so that the file is read again by one."""
    path = tmp_path / "x.log"
    path.write_bytes(text(30_000))
    with pytest.raises(ChangedError):
        search(Span(str(path), 1, 9), StdlibMatcher(ANCHORS))
    with pytest.raises(ChangedError):
        search(Span(str(tmp_path / "gone"), 1, 2), StdlibMatcher(ANCHORS))


def test_a_block_is_read_when_asked_for() -> None:
    """Blocks that were searched elsewhere hold no bytes until somebody wants them."""
    assert b"cde" == Block(1, 2, file=io.BytesIO(b"abcdefg"), found=_found(3)).data


def _found(size: int) -> object:
    from rootrank.scan.frame import Found

    return Found(1, 2, size, 0, [], {})


@pytest.mark.parametrize(
    ("data", "literal", "count"),
    [(b"aaaa", b"aa", 3), (b"abab", b"ab", 2), (b"ababa", b"aba", 2), (b"", b"x", 0)],
)
def test_occurrences_overlap(data: bytes, literal: bytes, count: int) -> None:
    """Counted as the matchers report them."""
    assert count == occurrences(data, literal)
