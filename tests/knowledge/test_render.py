"""An entry as a page, and the page on a terminal."""

from __future__ import annotations

import pytest

from rootrank.knowledge import render
from rootrank.knowledge.load import parse_entry
from tests.knowledge.samples import GOOD, changed

ENTRY, DOCUMENT = parse_entry(GOOD, "x.md")


def shown(markdown: str, width: int = 80, *, color: bool = False, unicode: bool = True) -> str:
    """Return Markdown set for a terminal."""
    return render.on_terminal(markdown, width=width, color=color, unicode=unicode)


def test_the_engineer_gets_every_part_in_order() -> None:
    """Answer first, references last; example logs only when asked for."""
    page = render.page(ENTRY, DOCUMENT)
    headings = [line[3:] for line in page.split("\n") if line.startswith("## ")]
    assert [
        *("Quick answer", "At a glance", "Symptoms and what they speak for", "Root causes"),
        *("Checks", "Fixes", "Prevention", "Mechanism", "Perspectives", "Questions"),
        *("What the log shows", "References"),
    ] == headings
    assert page.startswith("# The rendezvous store went away\n\n`store-lost` · cause · crash")


def test_an_audience_gets_its_perspective_only() -> None:
    """Executives read no command; the one on call reads no mechanism."""
    executive = render.page(ENTRY, DOCUMENT, "executive")
    assert "One process takes all others down." in executive
    assert "Restart the job." not in executive
    assert "pgrep -af train.py\n" not in executive
    oncall = render.page(ENTRY, DOCUMENT, "oncall")
    assert "Restart the job." in oncall
    assert "pgrep -af" in oncall
    assert "Every rank asks one process." not in oncall


def test_one_section() -> None:
    """Only that section, without the head of the page."""
    page = render.page(ENTRY, DOCUMENT, section="mechanism")
    assert "## Mechanism\n\nEvery rank asks one process.\n" == page
    assert "the store is gone" in render.page(ENTRY, DOCUMENT, section="examples")
    assert not render.has_section(ENTRY, DOCUMENT, "code")


def test_questions_answered_from_typed_fields() -> None:
    """What reads the same on every page is not written by hand."""
    page = render.page(ENTRY, DOCUMENT, section="glance")
    for answer in (
        "**Hardware or software?** Software: the framework or a library.",
        "**Who acts?** User code; the repair is a change of code.",
        "**Does a restart help?** It may.",
        "**How long to fix, once known?** Hours.",
        "**Inference too?** Seen in training.",
        "**From how many ranks on?** It takes at least 2.",
        "**Where?** PyTorch; Linux",
        "**Cheapest check?** Look for the host. `pgrep -af train.py 2>/dev/null | head` (seconds)",
        "**Can it be seen coming?** The host's pid.",
    ):
        assert f"- {answer}" in page


def test_the_matrix_is_derived_from_for_and_against() -> None:
    """Symptoms and signals against numbered root causes; + for, − against."""
    page = render.page(ENTRY, DOCUMENT, section="symptoms")
    assert "| What one sees | 1 | 2 |" in page
    assert "| All ranks but one complain. The silent one hosted it. | + | − |" in page
    assert "| Log: a line with “the store is gone” or “store vanished” | + |  |" in page
    assert "root causes: 1 host-died, 2 closed-early." in page


def test_a_signal_in_words() -> None:
    """Literals are quoted; a sighting is named with its conditions."""
    gone, raised = ENTRY.signals
    assert "a line with “the store is gone” or “store vanished”" == render.describe(gone)
    expected = "exception with type `StoreError`, message `store.{0,40}gone`"
    assert expected == render.describe(raised)


def test_relations_of_compared_entries() -> None:
    """Side by side, with who refines, explains or causes whom."""
    other, _ = parse_entry(
        changed(
            ('id = "store-lost"', 'id = "host-lost"'),
            ('kind = "cause"', 'kind = "outcome"'),
            ('scope = "job"', 'refines = ["store-lost"]'),
            ('"peer-loss"', '"store-lost"'),
        ),
        "y.md",
    )
    table = render.comparison([ENTRY, other])
    assert "|  | `store-lost` | `host-lost` |" in table
    assert "| kind | cause | outcome |" in table
    assert "| category (same) | crash | crash |" in table
    assert "`host-lost` is the more specific: where both match, it replaces `store-lost`." in table
    assert "`host-lost` explains `store-lost`" in table


def test_a_command_keeps_its_line_however_narrow() -> None:
    """A command broken to fit cannot be copied."""
    long = "grep -H . " + "/sys/fs/cgroup/memory.events " * 6
    page = f"- check\n\n  ```sh\n  {long}\n  ```\n"
    assert f"      {long}".rstrip() in [x.rstrip() for x in shown(page, 40).split("\n")]


def test_prose_is_wrapped_and_marks_are_gone() -> None:
    """Paragraphs and list items fit the width; bold, code and links are read, not shown."""
    text = shown("# T\n\nSome **bold** `code` and [a page](http://x/y) " + "word " * 30, 40)
    assert all(len(line) <= 40 for line in text.split("\n"))
    assert "Some bold code and a page (http://x/y)" in " ".join(text.split())
    assert "\x1b" not in text
    assert "\x01" not in text


def test_colour_is_balanced() -> None:
    """Every escape is closed, so that nothing leaks into the prompt."""
    text = shown(render.page(ENTRY, DOCUMENT), color=True)
    starts = text.count("\x1b[1m") + text.count("\x1b[36m")
    assert 0 < starts == text.count("\x1b[0m")


def test_ascii_only_when_asked() -> None:
    """Typography is spelled out and nothing beyond ASCII is left."""
    text = shown(render.page(ENTRY, DOCUMENT), unicode=False)
    assert text.isascii()
    assert "?" not in text.split("Quick answer")[0]
    assert "- x -> ..." == render.to_ascii("• x → …")


@pytest.mark.parametrize("width", [20, 60, 200])
def test_tables_fit_where_they_can(width: int) -> None:
    """The widest column gives way; a table never fails for lack of room."""
    table = "| a | b |\n| --- | --- |\n| " + "long words here " * 8 + "| x |\n"
    lines = shown(table, width).split("\n")
    assert all(len(line) <= width for line in lines)
