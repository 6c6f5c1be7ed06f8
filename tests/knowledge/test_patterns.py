"""Which regular expressions an entry may hold."""

from __future__ import annotations

import re

import pytest

from rootrank.knowledge.load import ENTRIES, load_entries
from rootrank.knowledge.patterns import BUDGET, faults


@pytest.mark.parametrize(
    "pattern",
    [
        r"Errno 12|Cannot allocate memory",
        r"foo.{0,80}bar",
        r"(?:\d{1,3}\.){3}\d{1,3}",
        r"rank \d+ \[\d+/\d+\] \S+",
        r"(?i)cuda.{0,40}memory",
        r"\S+:\S+",
        r"[^\]]*\]",
        r"(?<!not )ready\b(?= now)",
        r"exit(?:ed)? with (?P<code>\d+)",
        r"(?:a{2}){3}b?",
        r"(a)\1",
    ],
)
def test_accepted(pattern: str) -> None:
    """Bounded gaps, counted groups and separated repeats stay cheap."""
    assert [] == faults(pattern)


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        (r"(a+)+b", "nested"),
        (r"(?:\w+\.)*x", "nested"),
        (r"(?:a{0,99}b){99}", "nested"),
        (r"\d+\d+", "overlap"),
        (r"\w+\s*\w+x", "overlap"),
        (r"(\w+)\b\d+x", "overlap"),
        (r".*foo", "dot"),
        (r"foo.{0,81}bar", "dot"),
        (r"[\s\S]+x", "dot"),
        (r"(?:a|a)*b", "steps"),
        (r"(?:ab|a|b)+c", "steps"),
        (r".{0,80}.{0,80}.{0,80}x", "steps"),
        (r"a{2,3}(", "compile"),
    ],
)
def test_rejected(pattern: str, word: str) -> None:
    """What can take long on a crafted line is refused, and the reason named."""
    assert [f for f in faults(pattern) if word in f]


def test_no_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judgement is counted, not timed: the same on every machine."""
    monkeypatch.setattr("time.perf_counter", lambda: pytest.fail("clock"))
    monkeypatch.setattr("time.time", lambda: pytest.fail("clock"))
    assert ["takes too many steps"] == [f[:20] for f in faults(r"(?:a|a)*b")]
    assert 0 < BUDGET


def test_every_shipped_pattern_compiles() -> None:
    """A pattern that does not compile would only fail on the log that needs it."""
    for entry in load_entries(ENTRIES).entries.values():
        for signal in entry.signals:
            if signal.regex is not None:
                re.compile(signal.regex)
