"""One HTML file: nothing loads, nothing runs, everything is escaped, everybody can read it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from rootrank.model import Diagnosis
from rootrank.report import AUDIENCES, render_html
from tests.report.examples import ALL
from tests.report.hostile import STRINGS, through

OURS = set(
    "html head meta title style body main header section h1 h2 p span b code pre figure figcaption ul ol li dl dt dd "
    "details summary div svg text line circle table thead tbody tr th td".split()
)
ATTRIBUTES = set(
    "lang charset http-equiv content name class role aria-label aria-hidden scope width height x y dx x1 x2 y1 y2 cx cy r".split()
)
VOID = {"meta"}


class Reader(HTMLParser):
    """Collects elements and attributes and checks that elements nest."""

    def __init__(self) -> None:
        """Start with nothing open."""
        super().__init__()
        self.open: list[str] = []
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that opens."""
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check an element that closes."""
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        """Note what a person reads."""
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        """There are no comments."""
        raise AssertionError(data)


def read(d: Diagnosis, audience: str = "engineer") -> Reader:
    """Return what a browser sees of the page."""
    reader = Reader()
    reader.feed(render_html(d, audience))
    reader.close()
    assert not reader.open
    return reader


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("name", ALL)
def test_page_is_well_formed_and_ours(name: str, audience: str) -> None:
    """Elements nest; only known elements and attributes are used; none of them loads or runs."""
    page = read(ALL[name], audience)
    assert page.elements <= OURS
    assert page.attributes <= ATTRIBUTES


@pytest.mark.parametrize("name", STRINGS)
def test_hostile_text_in_every_field(name: str) -> None:
    """Whatever a log says, the page holds the same kinds of element and no script."""
    for d in ALL.values():
        for audience in AUDIENCES:
            page = read(through(d, lambda _: STRINGS[name]), audience)
            assert page.elements <= OURS
            assert page.attributes <= ATTRIBUTES


def test_policy_allows_our_style_and_nothing_else() -> None:
    """The content security policy names the hash of the one style element."""
    page = render_html(ALL["hang"])
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert style
    assert policy
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        == policy[1]
    )


def test_nothing_is_loaded() -> None:
    """No address of anything, also not in the style."""
    for d in ALL.values():
        page = render_html(d)
        assert not re.search(r"url\(|@import|src=|href=|http", page.replace("http-equiv", ""))


def test_light_dark_phone_and_print() -> None:
    """The style adapts to the reader."""
    page = render_html(ALL["hang"])
    for words in (
        "prefers-color-scheme:dark",
        "max-width:34rem",
        "@media print",
        "width=device-width",
    ):
        assert words in page


def test_picture_has_a_table_twin_and_a_caption() -> None:
    """Who cannot see the picture gets its caption and its rows as a table."""
    page = render_html(ALL["host-oom"])
    assert 'role="img" aria-label="1 failed first; 63 followed. Left to right is time' in page
    assert 65 == page.count("<tr>")
    assert (
        '<th scope="row">rank 37</th><td>failed first</td><td>03:12:44</td><td>18,272</td>' in page
    )


def test_headings_descend() -> None:
    """One h1, then h2."""
    page = render_html(ALL["hang"])
    assert ["1", *["2"] * page.count("<h2")] == re.findall(r"<h(\d)", page)


def test_says_what_the_terminal_says() -> None:
    """The answer, the evidence, the missing fact and the next step are all there."""
    words = " ".join(" ".join(read(ALL["hang"]).words).split())
    for part in (
        "Rank 5 on gpu-a-03 went silent first",
        "only rank 5 never entered it",
        "stack of rank 5",
        "py-spy dump",
    ):
        assert part in words


def test_audience_comes_first() -> None:
    """The chosen reader's part stands before the rest."""
    assert render_html(ALL["hang"], "executive").index("In short") < render_html(
        ALL["hang"], "executive"
    ).index("Why")
    assert render_html(ALL["hang"], "oncall").index("Do now") < render_html(
        ALL["hang"], "oncall"
    ).index("Evidence")


def test_same_bytes_every_time() -> None:
    """Equal diagnoses give equal pages."""
    for d in ALL.values():
        assert render_html(d) == render_html(d)
