"""Lines for a terminal: styled spans, wrapping, labels, colour.

Belongs here: how text is set. Must not be here: what is said.
Everything that enters a sheet is neutralised here, so no caller can forget it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rootrank.report.safe import ascii_only, cells, clip, clip_around, plain

Span = tuple[str, str]  # text, style

# The 16 colours of the terminal's own theme and nothing else: a report must stay readable on any
# background.
_SGR = {
    "label": "2",
    "dim": "2",
    "strong": "1",
    "bad": "1;31",
    "good": "1;32",
    "warn": "1;33",
    "established": "32",
    "supported": "36",
    "suspected": "33",
    "ruled-out": "2",
    "command": "1",
}
LABEL = 11  # columns: the longest label and two spaces
_NARROWEST = 40
_MOST_LINES = 6  # of one paragraph: a message of many kilobytes must not push the answer away


@dataclass(slots=True)
class Sheet:
    """Lines of at most `width` cells, written from top to bottom."""

    width: int
    color: bool
    unicode: bool
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Keep some room for text whatever the terminal says."""
        self.width = max(self.width, _NARROWEST)

    # ------------------------------------------------------------------ text in

    def clean(self, text: str) -> str:
        """Return `text` as this sheet may show it: harmless, in ASCII if need be."""
        shown = plain(text)
        return shown if self.unicode else ascii_only(shown)

    @property
    def room(self) -> int:
        """How many cells the text column has."""
        return self.width - LABEL

    # ------------------------------------------------------------------ lines out

    def blank(self) -> None:
        """Leave one empty line, never two."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def full(self, *spans: Span) -> None:
        """Write a paragraph over the full width."""
        for line in self._wrap(spans, self.width):
            self._put(line)

    def head(self, word: str, style: str, text: str) -> None:
        """Write the first line: `word` in the label column if it fits, else before the text."""
        if cells(word) >= LABEL:
            self.full((word + "  ", style), (text, "strong"))
            return
        for i, line in enumerate(self._wrap([(text, "strong")], self.room)):
            self._put(
                [("" if i else word, style), (" " * (LABEL - (0 if i else len(word))), ""), *line]
            )

    def row(self, label: str, *spans: Span, indent: int = 0) -> None:
        """Write a paragraph in the text column, `label` beside its first line."""
        for i, line in enumerate(self._wrap(spans, self.room - indent)):
            self._labelled("" if i else label, [(" " * indent, ""), *line])

    def item(self, label: str, lead: Span, *spans: Span, indent: int = 0) -> None:
        """Write a paragraph that hangs beside `lead`: a number or a small key."""
        inner = indent + cells(lead[0])
        for i, line in enumerate(self._wrap(spans, self.room - inner)):
            head = [(" " * inner, "")] if i else [(" " * indent, ""), lead]
            self._labelled("" if i else label, [*head, *line])

    def quote(self, text: str, indent: int = 0, lines: int = 1, lead: str = "") -> None:
        """Write a line of a log on at most `lines` lines, cut around its telling part.

        `lead` says where it stands; it goes before the text if there is room, else above it.
        """
        place = self.clean(lead)
        if place and cells(place) > (self.room - indent) // 2:
            self._labelled("", [(" " * indent, ""), (self.cut(place, self.room - indent), "place")])
            place, indent = "", indent + 2
        inner = indent + (cells(place) + 2 if place else 0)
        for i, line in enumerate(self._set_quote(self.clean(text).rstrip(), inner, lines)):
            head = [(" " * indent, ""), (place, "place"), ("  ", "")] if place and not i else []
            self._labelled("", [*(head or [(" " * inner, "")]), *line])

    def _set_quote(self, text: str, indent: int, lines: int) -> list[list[Span]]:
        mark, room = self.mark, self.room - indent
        if lines > 1 and cells(text) > room:
            for share in (1.0, 0.93, 0.86, 0.75):  # words do not fill lines to the brim
                part = clip_around(text, int(room * lines * share), mark=mark)
                set_ = wrap([(part, "")], room)
                if len(set_) <= lines:
                    return set_
        # One that fits stays as it is, with its own indentation.
        return [[(clip_around(text, room, mark=mark), "")]]

    def command(self, command: str, indent: int = 0) -> None:
        """Write a command to copy.

        A word too long for the text column moves the command to the left edge; one that is longer
        than the sheet runs over, since a break inside it would change what it does.
        """
        parts = [self.clean(part) for part in command.strip("\n").splitlines()]
        left = LABEL + indent
        set_ = [wrap_command(part, self.width - left - 2) for part in parts]
        if any(cells(line) > self.width - left - 2 for lines in set_ for line in lines):
            left = 2
            set_ = [wrap_command(part, self.width - left - 2) for part in parts]
        for i, line in enumerate(line for lines in set_ for line in lines):
            self._put([(" " * left, ""), ("  " if i else "$ ", "dim"), (line, "command")])

    def text(self) -> str:
        """Return everything written, ending in one newline."""
        return "\n".join(self.lines).rstrip("\n") + "\n"

    # ------------------------------------------------------------------ inside

    def _labelled(self, label: str, line: Sequence[Span]) -> None:
        self._put([(label.ljust(LABEL), "label" if label else ""), *line])

    def _put(self, line: Iterable[Span]) -> None:
        self.lines.append("".join(self._paint(text, style) for text, style in line).rstrip())

    def _paint(self, text: str, style: str) -> str:
        code = _SGR.get(style)
        if not self.color or not code or not text.strip():
            return text
        bare = text.rstrip()
        return f"\x1b[{code}m{bare}\x1b[0m{text[len(bare) :]}"

    def cut(self, text: str, width: int) -> str:
        """Return clean text cut to `width` cells, with this sheet's mark."""
        return clip(text, width, self.mark)

    @property
    def mark(self) -> str:
        """What stands where something was cut."""
        return "…" if self.unicode else "..."

    def _wrap(self, spans: Iterable[Span], width: int) -> list[list[Span]]:
        cleaned = [(self.clean(text), style) for text, style in spans]
        lines = wrap([s for s in cleaned if s[0]], width)
        if len(lines) <= _MOST_LINES:
            return lines
        last = "".join(text for text, _ in lines[_MOST_LINES - 1])
        return [
            *lines[: _MOST_LINES - 1],
            [(self.cut(last, width - len(self.mark)) + self.mark, "")],
        ]


def wrap(spans: Iterable[Span], width: int) -> list[list[Span]]:
    """Return `spans` as lines of at most `width` cells.

    Lines break at spaces only, so what touches stays together across styles; a word longer than a
    line is cut.
    """
    lines: list[list[Span]] = [[]]
    used = 0
    for gap, word in _words(spans):
        long = sum(cells(text) for text, _ in word)
        if used and used + gap + long > width:
            lines.append([])
            used = 0
        if used and gap:
            lines[-1].append((" " * gap, ""))
            used += gap
        for text, style in word:
            for piece in _pieces(text, width - used, width):
                if used + cells(piece) > width:
                    lines.append([])
                    used = 0
                lines[-1].append((piece, style))
                used += cells(piece)
    return [_merge(line) for line in lines]


def _words(spans: Iterable[Span]) -> list[tuple[int, list[Span]]]:
    """Return each word, as pieces that may differ in style, with the spaces before it."""
    words: list[tuple[int, list[Span]]] = []
    gap = 0
    touching = False
    for text, style in spans:
        for i, part in enumerate(text.split(" ")):
            if i:
                gap += 1
                touching = False
            if part and touching:
                words[-1][1].append((part, style))
            elif part:
                words.append((gap, [(part, style)]))
                gap, touching = 0, True
    return words


def _pieces(word: str, first: int, width: int) -> Iterable[str]:
    room = first if first > 0 else width
    while cells(word) > room:
        cut = len(clip(word, room, ""))
        yield word[: max(cut, 1)]
        word, room = word[max(cut, 1) :], width
    yield word


def _merge(line: list[Span]) -> list[Span]:
    """Join neighbours of one style, so that a phrase is painted once and not word by word."""
    merged: list[Span] = []
    for i, (text, style) in enumerate(line):
        after = line[i + 1][1] if i + 1 < len(line) else ""
        if text.isspace() and merged and merged[-1][1] == after:
            style = after
        if merged and merged[-1][1] == style:
            merged[-1] = (merged[-1][0] + text, style)
        else:
            merged.append((text, style))
    return merged


def wrap_command(command: str, width: int) -> list[str]:
    """Return a shell command on lines of at most `width` cells, joined by backslashes."""
    if cells(command) <= width or "<<" in command:
        return [command]
    words = _shell_words(command)
    if any(w.startswith("#") for w in words):
        return [command]  # a backslash inside a comment continues nothing
    lines: list[str] = []
    line = ""
    for word in words:
        lead = "  " if lines else ""
        joined = f"{line} {word}" if line else lead + word
        if line and cells(joined) > width - 2:
            lines.append(line + " \\")
            joined = "  " + word
        line = joined
    return [*lines, line]


def _shell_words(command: str) -> list[str]:
    """Split at spaces that stand outside quotes and are not escaped."""
    words, word, quote, escaped = [], "", "", False
    for char in command:
        if char == " " and not quote and not escaped:
            words.append(word)
            word = ""
            continue
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif char in "'\"":
            quote = "" if quote == char else (quote or char)
        word += char
    return [w for w in (*words, word) if w]
