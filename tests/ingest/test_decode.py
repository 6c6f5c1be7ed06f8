"""A line's bytes become text that is safe to print and to match."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootrank.ingest.decode import clean, clean_text, segments, unglue

BAR = " 45%|████▌     | 45/100 [00:10<00:12, 4.5it/s]"


@pytest.mark.parametrize(
    ("expected", "raw"),
    [
        ("plain", b"plain"),
        ("tabs\tstay", b"tabs\tstay\n"),
        ("    indentation stays", b"    indentation stays\r\n"),
        ("red", b"\x1b[31mred\x1b[0m"),
        ("title", b"\x1b]0;window title\x07title"),
        ("link", b"\x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\"),
        ("dcs", b"\x1bP1$r0m\x1b\\dcs"),
        ("moved", b"\x1b[2K\x1b[1Amov\x1b[?25led"),
        ("c1", "\x9b31mc1".encode()),
        ("torn log", b"torn\0\0\0 log"),
        ("a�b", b"a\xffb"),
        ("a�", b"a\xe2\x96"),
        ("nocedoc", "no\u202ecedoc".encode()),
        ("zerowidth", "zero\u200bwidth\ufeff".encode()),
        ("two words", "two\u2028words".encode()),
        ("last", b"first\rsecond\rlast\r"),
        ("last", b"first\rlast\r   \r"),
        ("", b"\r\r\n"),
        ("", b""),
        ("█ bar", "█ bar".encode()),
    ],
)
def test_clean(expected: str, raw: bytes) -> None:
    """Escapes, controls, direction marks and NULs go; text, tabs and indentation stay."""
    assert expected == clean(raw)


def test_an_unfinished_escape_hides_nothing() -> None:
    """A title sequence without its end must not swallow the error behind it."""
    assert "RuntimeError: boom" in clean(b"\x1b]0;RuntimeError: boom")
    assert "RuntimeError: boom" in clean(b"\x1bPRuntimeError: boom")


@given(st.binary(max_size=300))
def test_nothing_that_drives_a_terminal_is_left(raw: bytes) -> None:
    """Whatever the bytes, the text holds no control but tab, and no direction mark."""
    text = clean(raw)
    assert not [c for c in text if c != "\t" and (c < " " or "\x7f" <= c <= "\x9f")]
    assert not set(text) & set("\u200b\u200e\u202a\u202e\u2066\u2069\ufeff")
    assert text == clean_text(text)


@pytest.mark.parametrize(
    ("expected", "raw"),
    [
        ([b"whole"], b"whole"),
        ([b"a", b"b"], b"a\rb\r\n"),
        ([b" 10%", b" 20%", b"RuntimeError: x"], b"\r 10%\r 20%\rRuntimeError: x"),
        ([b"x"], b"x\r   \r\0\0\r"),
        ([b""], b"\r\r"),
    ],
)
def test_segments(expected: list[bytes], raw: bytes) -> None:
    """Every non-blank part between carriage returns is returned, in order."""
    assert expected == segments(raw)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ([BAR, "Traceback (most recent call last):"], BAR + "Traceback (most recent call last):"),
        ([BAR], BAR),
        ([BAR + " then a comment"], BAR + " then a comment"),
        (
            ["Epoch 1/10:   0%|          | 0/625 [00:00<?, ?it/s]", "Traceback (most"],
            "Epoch 1/10:   0%|          | 0/625 [00:00<?, ?it/s]Traceback (most",
        ),
        (
            ["7it [00:10, 1.4it/s, lr=[0.1]]", "OSError: x"],
            "7it [00:10, 1.4it/s, lr=[0.1]]OSError: x",
        ),
        ([BAR, BAR.strip(), "E"], BAR + BAR.strip() + "E"),
        (["a list [0, 1]then <text>"], "a list [0, 1]then <text>"),
        (["1:02:03<x"], "1:02:03<x"),
    ],
)
def test_unglue(expected: list[str], text: str) -> None:
    """Text that directly follows a progress bar is a line of its own."""
    assert expected == unglue(text)


@given(st.text(alphabet="[]<:0123456789it/s ,E", max_size=200))
def test_unglue_loses_nothing(text: str) -> None:
    """The parts always add up to the text."""
    assert text == "".join(unglue(text))


@pytest.mark.parametrize(
    "raw",
    [b"\x1b]" * 500_000, b"\x1b[" + b"0" * 1_000_000, b"x" * 50_000_000, b"\x1bP" * 500_000],
    ids=["osc", "csi", "one 50 MB line", "dcs"],
)
def test_long_and_hostile_lines_take_linear_time(raw: bytes) -> None:
    """A megabyte of broken escapes, or one line of 50 MB, is decoded within seconds."""
    start = time.perf_counter()
    clean(raw)
    assert 10 > time.perf_counter() - start


def test_hostile_bars_take_linear_time() -> None:
    """A megabyte of half bars is looked at within seconds."""
    start = time.perf_counter()
    unglue("[00:10<" * 150_000 + "it/s]")
    unglue("[00:10<[" * 150_000 + "it/s]")
    assert 10 > time.perf_counter() - start
