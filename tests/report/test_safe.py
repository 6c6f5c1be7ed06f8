"""What a log says cannot act on the place where it is shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootrank.report import safe
from tests.report.hostile import STRINGS

texts = st.text(st.characters(), max_size=200)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b1mbold", "bold"),
        ("\x1b[3\x1b[0m1m", "\\x1b[31m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\tb\nc\r\nd", "a    b c  d"),
        ("a\u202eb\u200bc", "a\\u202eb\\u200bc"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("raw \udcff", "raw \\udcff"),
        ("内存 é", "内存 é"),
    ],
)
def test_plain(text: str, shown: str) -> None:
    """Colour goes, anything else that acts or hides is shown as its escape."""
    assert shown == safe.plain(text)


@given(texts)
def test_plain_leaves_nothing_that_acts(text: str) -> None:
    """No control, format, surrogate, private or line-breaking character is left."""
    kinds = {unicodedata.category(c) for c in safe.plain(text)}
    assert not kinds & {"Cc", "Cs", "Co", "Zl", "Zp"}
    assert not set(safe.plain(text)) & set(
        "\u202a\u202e\u2066\u2069\u200b\u200d\u200e\ufeff\u00ad\u061c"
    )


@given(texts)
def test_plain_twice_is_once(text: str) -> None:
    """What is harmless stays as it is."""
    assert safe.plain(text) == safe.plain(safe.plain(text))


@given(texts, st.integers(0, 60))
def test_width_holds(text: str, width: int) -> None:
    """A clipped text never takes more cells than allowed."""
    assert safe.cells(safe.plain(text, width)) <= width
    shown = safe.plain(text)
    assert safe.cells(safe.clip_around(shown, max(width, 8))) <= max(width, 8)


@given(texts)
def test_ascii(text: str) -> None:
    """ASCII mode has a form for every character."""
    assert safe.ascii_only(safe.plain(text)).isascii()


@given(st.text(max_size=400), st.integers(16, 300))
def test_bytes_hold(text: str, limit: int) -> None:
    """A text cut to a number of bytes is not longer, and untouched when it fits."""
    cut = safe.clip_bytes(text, limit)
    assert len(cut.encode()) <= limit
    if len(text.encode()) <= limit:
        assert text == cut


def test_clip_keeps_the_telling_part() -> None:
    """Cut lines show where the error is, not where the line begins."""
    line = "x" * 5000 + " RuntimeError: CUDA error: an illegal memory access " + "y" * 5000
    assert "RuntimeError: CUDA error" in safe.clip_bytes(line, 4096)
    assert "RuntimeError: CUDA" in safe.clip_around(line, 60)


def test_cells_counts_wide_characters() -> None:
    """Chinese takes two columns, a combining accent none."""
    assert 4 == safe.cells("内存")
    assert 1 == safe.cells("e\u0301")


@given(texts)
def test_fence_holds(text: str) -> None:
    """No line inside a fence closes it."""
    lines = safe.fence(text).split("\n")
    ticks = lines[0].removesuffix("text")
    assert ticks == lines[-1]
    assert not any(line.lstrip().startswith(ticks) for line in lines[1:-1])


@pytest.mark.parametrize("name", STRINGS)
def test_html_escapes(name: str) -> None:
    """Nothing opens a tag, an entity or leaves an attribute."""
    shown = safe.escape_html(STRINGS[name])
    assert not set("<>\"'") & set(shown)


def test_multiline_keeps_line_breaks_only() -> None:
    """Lines stay lines, whatever else goes."""
    assert "a\nb\\x07" == safe.multiline("a\r\nb\x07")
