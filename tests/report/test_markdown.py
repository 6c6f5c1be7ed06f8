"""Markdown for an issue or a chat: short, and nothing a log says becomes markup."""

from __future__ import annotations

import re

import pytest

from rootrank.report import AUDIENCES, render_markdown
from rootrank.report.safe import escape_markdown
from tests.report.examples import ALL
from tests.report.hostile import STRINGS, through

markdown_it = pytest.importorskip("markdown_it")
parser = markdown_it.MarkdownIt("gfm-like", {"html": True, "linkify": False})

OURS = {"h3", "p", "strong", "code", "pre", "ul", "ol", "li", "details", "summary", "br"}


def tags(text: str) -> set[str]:
    """Return the elements that a Markdown renderer makes of `text`."""
    return set(re.findall(r"<([a-zA-Z][a-zA-Z0-9]*)", parser.render(text)))


@pytest.mark.parametrize("name", STRINGS)
def test_hostile_text_stays_text(name: str) -> None:
    """Only our own elements are made, whatever stands in the fields."""
    for d in ALL.values():
        for audience in AUDIENCES:
            text = render_markdown(through(d, lambda _: STRINGS[name]), audience)
            assert tags(text) <= OURS
            assert "\x1b" not in text
            assert text.count("</details>") == text.count("<details>") or name in ("fence",)


@pytest.mark.parametrize(
    "text",
    [
        "# a",
        "- b",
        "+ b",
        "1. c",
        "2) c",
        "> d",
        "**b** _u_ ~~s~~ `x`",
        "[x](y) ![i](j)",
        "<b>x</b> &amp;",
        "| a |",
        "===",
    ],
)
def test_prose_shows_the_same_characters(text: str) -> None:
    """Escaped text renders as one paragraph of exactly these characters."""
    html = parser.render(escape_markdown(text))
    shown = re.sub(r"<[^>]+>", "", html).strip()
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        shown = shown.replace(entity, char)
    assert text == shown
    assert html.startswith("<p>")


@pytest.mark.parametrize("text", ["ask @someone now", "see #123", "mail a@b.example"])
def test_nobody_is_called(text: str) -> None:
    """A mention or an issue number stands in code, where a forge leaves it alone."""
    for word in re.findall(r"(?<!\w)[@#]\w+", text):
        assert f"`{word}`" in escape_markdown(text)


@pytest.mark.parametrize("url", ["https://evil.example", "http://x.example", "www.evil.example"])
def test_addresses_are_no_links(url: str) -> None:
    """A bare address in prose shows as text."""
    linking = markdown_it.MarkdownIt("gfm-like", {"html": True, "linkify": False})
    assert url not in escape_markdown(url)
    assert url in re.sub(r"<[^>]+>", "", linking.render(escape_markdown(url)))


def test_fence_is_longer_than_any_run_inside() -> None:
    """Evidence cannot close its own fence."""
    text = render_markdown(through(ALL["everywhere"], lambda _: "a ````` b"))
    assert "``````text\na ````` b\n``````" in text


def test_typical_failure() -> None:
    """The heading is the answer; the decisive line stands verbatim in a fence."""
    text = render_markdown(ALL["host-oom"])
    assert text.startswith(
        "### Failure: rank 37 on node-5 (pid 48213) failed first, 2026-08-20 03:12:44 UTC\n"
    )
    assert (
        "**Why** The kernel killed a rank: host memory exhausted (established, host-oom-kill, "
        in text
    )
    assert "\n```text\n[1043771.118] Out of memory: Killed process 48213 (python3) total-vm" in text
    assert "- 63 ranks timed out waiting for it (0-36,38-63)" in text
    assert text.index("**Next**") < text.index("<details>")


@pytest.mark.parametrize("name", ALL)
def test_short_and_steady(name: str) -> None:
    """An issue gets at most a screen or two, the same every time."""
    text = render_markdown(ALL[name])
    assert text == render_markdown(ALL[name])
    assert len(text) < 5000
    assert len(render_markdown(ALL[name], "executive")) < len(text)


def test_long_lines_are_clipped() -> None:
    """A line of many kilobytes does not flood an issue."""
    assert len(render_markdown(through(ALL["hang"], lambda _: "x" * 100_000))) < 1_500_000
