"""The three matchers agree, at every alignment and across every way to cut the input."""

from __future__ import annotations

import pathlib
import random

import pytest

from rootrank.knowledge.load import load_knowledge
from rootrank.scan import Engine, SignalIndex
from rootrank.scan.frame import BLOCK_BYTES, blocks
from rootrank.scan.matcher import HyperscanMatcher, Matcher, Re2Matcher, StdlibMatcher

LITERALS = [
    b"aaaaaa",
    b"aaaaab",
    b"CUDA error",
    b"CUDA err",
    b"rror: ",
    b"\\x41+(.*)",
    b"ABABAB",
    b"Killed",
    b"[rank",
    b"\xe4\xbb\xbb\xe5\x8a\xa1",
]


def naive(block: bytes) -> list[tuple[int, int]]:
    """Return every hit by trying every position."""
    return sorted(
        (i + len(x), n)
        for n, x in enumerate(LITERALS)
        for i in range(len(block))
        if block.startswith(x, i)
    )


@pytest.fixture(
    params=[HyperscanMatcher, Re2Matcher, StdlibMatcher], ids=["hyperscan", "re2", "stdlib"]
)
def matcher(request: pytest.FixtureRequest) -> Matcher:
    """Each back end that is installed."""
    pytest.importorskip(
        {"HyperscanMatcher": "hyperscan", "Re2Matcher": "re2"}.get(request.param.__name__, "re")
    )
    made: Matcher = request.param(LITERALS)
    return made


def test_adversarial_text(matcher: Matcher) -> None:
    """Overlaps, repeats, metacharacters and multi-byte literals are all found, once each."""
    rng = random.Random(1)
    text = b"".join(
        rng.choice([*LITERALS, b"a", b"A", b"B", b"\n", b"\x00", b"CUDA erro", b"Kill"])
        for _ in range(400)
    )

    assert naive(text) == matcher.find(text)


def test_words_cut_by_neighbours(matcher: Matcher) -> None:
    """A literal inside a longer word, next to letters, digits, controls and bytes of other scripts."""
    rng = random.Random(5)
    glue = [
        b"",
        b"a",
        b"Z",
        b"9",
        b"_",
        b" ",
        b"\n",
        b"\r",
        b"\xff",
        b"\x80",
        b"\xe4",
        b"\x00",
        b"aaaaa",
    ]
    for _ in range(60):
        text = b"".join(rng.choice(glue) + rng.choice(LITERALS) for _ in range(40)) + rng.choice(
            glue
        )

        assert naive(text) == matcher.find(text)


def test_every_place_near_a_piece_border(matcher: Matcher) -> None:
    """The back ends cut their input into pieces of their own; no border loses or doubles a hit."""
    border = 64 << 10
    for shift in range(-12, 4):
        text = b"." * (border + shift) + b"CUDA error aaaaaab" + b"." * 50

        assert naive(text[border - 20 :]) == [
            (end - border + 20, i) for end, i in matcher.find(text)
        ]


def test_a_storm_and_a_long_line(matcher: Matcher) -> None:
    """A hundred thousand hits, with and without newlines, all of them once."""
    for end in (b"\n", b" "):
        text = (b"rror: Killed" + end) * 50_000
        hits = matcher.find(text)

        assert 100_000 == len(hits) == len(set(hits))
        assert sorted(hits) == hits
        assert naive(text[:2600]) == [h for h in hits if h[0] <= 2600]


def test_without_some(matcher: Matcher) -> None:
    """Literals can be left out, one after the other; the others keep their numbers."""
    text = b"CUDA error aaaaaab rror: Killed [rank" * 3
    gone: set[int] = set()
    for index in (2, 0, 7):
        gone.add(index)
        reduced = matcher.without(frozenset(gone))
        assert [h for h in naive(text) if h[1] not in gone] == reduced.find(text)
        assert [h for h in naive(text) if h[1] not in gone | {4}] == reduced.without(
            frozenset({4})
        ).find(text)
    assert [] == matcher.without(frozenset(range(len(LITERALS)))).find(text)


def test_the_shipped_literals() -> None:
    """With every literal of the encyclopedia, the installed back ends agree on text made of those literals."""
    made = [
        Engine.of(SignalIndex.of(load_knowledge()), prefer=n).matcher
        for n in ("hyperscan", "re2", "stdlib")
    ]
    rng = random.Random(7)
    literals = list(made[0].literals)
    text = b"".join(
        x + rng.choice([b" ", b"\n", b"", b"x"]) for x in rng.sample(literals, len(literals))
    )

    want = made[-1].find(text)
    assert len({i for _, i in want}) == len(literals)
    for matcher in made:
        assert want == matcher.find(text), matcher.name


def test_a_kept_database_is_the_same(tmp_path: pathlib.Path) -> None:
    """The second start reads what the first compiled; a damaged or foreign file is made anew."""
    pytest.importorskip("hyperscan")
    folder = tmp_path / "cache"
    text = b"CUDA error aaaaaab"
    for _ in range(2):
        assert naive(text) == HyperscanMatcher(LITERALS, cache=str(folder)).find(text)
    (kept,) = folder.iterdir()
    for damage in (b"", b"nonsense", kept.read_bytes()[:-9], b"\0" * 200):
        kept.write_bytes(damage)
        assert naive(text) == HyperscanMatcher(LITERALS, cache=str(folder)).find(text)
    assert naive(text) == HyperscanMatcher(LITERALS, cache=str(kept / "below a file")).find(text)
    HyperscanMatcher(LITERALS[:3], cache=str(folder))
    assert 2 == len(list(folder.iterdir()))


def test_every_alignment(matcher: Matcher) -> None:
    """A literal is found at each of 70 offsets."""
    for pad in range(70):
        text = b"." * pad + b"CUDA error: x"

        assert naive(text) == matcher.find(text)


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 16, 3 << 20])
def test_chunk_size_does_not_matter(size: int) -> None:
    """However a stream is cut, blocks hold the same lines, offsets and hits."""
    rng = random.Random(2)
    data = b"".join(
        rng.choice(
            [b"step 1 loss 2\n", b"RuntimeError: CUDA error: x\n", b"\n", b"y" * 300 + b"\n"]
        )
        for _ in range(30_000)
    )
    data = data if size > 7 else data[:20_000]
    stdlib = StdlibMatcher(LITERALS)

    whole = [(b.index, b.offset, b.data, stdlib.find(b.data)) for b in blocks([data])]
    parts = [
        (b.index, b.offset, b.data, stdlib.find(b.data))
        for b in blocks(data[i : i + size] for i in range(0, len(data), size))
    ]

    assert whole == parts
    assert all(b[2].endswith(b"\n") for b in whole[:-1])


def test_line_longer_than_blocks() -> None:
    """A line without end is cut into bounded blocks; nothing is lost or doubled."""
    data = b"x" * (5 * BLOCK_BYTES) + b"\nlast\n"
    made = list(blocks([data]))

    assert len(data) == sum(len(b.data) for b in made)
    assert max(len(b.data) for b in made) <= 2 * BLOCK_BYTES
