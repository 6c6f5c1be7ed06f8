"""Text from a log made harmless for the place where it is shown.

Belongs here: neutralising and escaping. Must not be here: what to say, secrets (redact.py), layout.

A log line is written by a program that may be hostile or broken. On a terminal it can move the
cursor, rename the window or reverse the reading direction; in Markdown and HTML it can become
markup.
"""

from __future__ import annotations

import re
import unicodedata

# Colour and cursor sequences are decoration: dropping them whole keeps the words readable. Any
# other escape stays visible as \x1b, so that nothing a log says is hidden by this module.
_CSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]")

# Characters that are invisible, reorder text or break lines: C0, C1, soft hyphen, Arabic letter
# mark, Mongolian vowel separator, zero-width and bidi controls, invisible operators, variation
# selectors, byte order mark, interlinear marks, tags, surrogates and private use. A fixed list, not
# unicodedata: the answer must not depend on the Python version.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\uf8ff\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_SPACES = {
    "\t": "    ",
    "\n": " ",
    "\r": " ",
    "\x0b": " ",
    "\x0c": " ",
    "\u2028": " ",
    "\u2029": " ",
}


def plain(text: str, width: int | None = None) -> str:
    """Return `text` on one line without anything a terminal obeys, at most `width` cells when
    given.

    Colour sequences go, line breaks become a space, every other control, bidi or invisible
    character is shown as its escape (`\\x1b`, `\\u202e`).
    """
    if text.isascii() and text.isprintable():
        shown = text
    else:
        shown = _UNSAFE.sub(_visible, _CSI.sub("", text))
    return shown if width is None else clip(shown, width)


def multiline(text: str) -> str:
    """Return `text` like `plain`, with its line breaks kept as plain newlines."""
    return "\n".join(plain(line) for line in text.splitlines())


def _visible(match: re.Match[str]) -> str:
    char = match.group()
    if char in _SPACES:
        return _SPACES[char]
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def ascii_only(text: str) -> str:
    """Return `text` in ASCII: common typographic signs by their look, the rest as escapes."""
    if text.isascii():
        return text
    return "".join(_LOOKS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in text)


_LOOKS = {
    "…": "...",
    "·": "-",
    "–": "-",
    "—": "-",
    "→": "->",
    "←": "<-",
    "×": "x",
    "≥": ">=",
    "≤": "<=",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "•": "*",
    "\u00a0": " ",
}


# --------------------------------------------------------------------------- cells


def cells(text: str) -> int:
    """Return the terminal columns of `text`: 2 for wide characters, 0 for combining marks."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


def _cell(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, width: int, mark: str = "…") -> str:
    """Return the start of `text` that fits `width` cells, ending in `mark` if it was cut."""
    if cells(text) <= width:
        return text
    room = width - cells(mark)
    if room <= 0:
        return mark[: max(width, 0)]
    return _head(text, room).rstrip() + mark


def _head(text: str, room: int) -> str:
    used = 0
    for i, char in enumerate(text):
        used += _cell(char)
        if used > room:
            return text[:i]
    return text


def _tail(text: str, room: int) -> str:
    return _head(text[::-1], room)[::-1]


# The words that make a line worth quoting, best first. They only decide which part of a long line
# is in view.
_FOCUS = tuple(
    re.compile(p)
    for p in (
        r"Killed process \d|oom-kill|[Oo]ut of memory",
        r"Xid \(|uncorrectable|Watchdog caught|segfault at|Bus error|Segmentation fault",
        r"\b[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit)\b(?::|\b)",
        r"Assertion|[Tt]imed out|[Tt]imeout|SIG[A-Z]{3,4}\b|exit(?:ed|code)",
        r"(?i)\b(?:error|fatal|failed|killed|refused|reset|denied|cannot|invalid|mismatch)\b",
    )
)
_SCAN = 65536  # a focus beyond this is not worth the time


def focus(text: str) -> int:
    """Return the offset of the part of `text` that says most; 0 when nothing stands out."""
    for pattern in _FOCUS:
        found = pattern.search(text, 0, _SCAN)
        if found:
            return found.start()
    return 0


def clip_around(text: str, width: int, at: int | None = None, mark: str = "…") -> str:
    """Return at most `width` cells of `text` around offset `at` (the telling part when None)."""
    if cells(text) <= width:
        return text
    at = focus(text) if at is None else at
    lead = width // 4  # some words before the telling part say who spoke
    if cells(text[:at]) <= lead:
        return clip(text, width, mark)
    start = at - len(_tail(text[:at], lead))
    if cells(text[start:]) < width - cells(
        mark
    ):  # the end fits: show as much before it as there is room
        start = len(text) - len(_tail(text, width - cells(mark)))
    return clip(mark + text[_word_start(text, start, at) :], width, mark)


def _word_start(text: str, start: int, stop: int) -> int:
    """Move `start` to the next word, unless that would pass `stop` or skip a long one."""
    space = text.find(" ", start, min(stop, start + 24))
    return space + 1 if space >= 0 and text[start - 1 : start] != " " else start


def clip_bytes(text: str, limit: int, at: int | None = None) -> str:
    """Return at most `limit` bytes (UTF-8) of `text` around offset `at`; `…` marks each cut."""
    data = text.encode("utf-8", "replace") if len(text) * 4 > limit else b""
    if len(data) <= limit:
        return text
    at = focus(text) if at is None else at
    near = len(text[:at].encode("utf-8", "replace"))
    room = limit - 2 * len("…".encode())
    start = max(0, min(near - room // 4, len(data) - room))
    kept = data[start : start + room].decode("utf-8", "ignore")
    return ("…" if start else "") + kept + ("…" if start + room < len(data) else "")


# --------------------------------------------------------------------------- markup


def escape_html(text: str) -> str:
    """Return `text` for HTML and SVG, as content or inside a quoted attribute."""
    shown = plain(text)
    for char, entity in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("'", "&#x27;"),
    ):
        shown = shown.replace(char, entity)
    return shown


_MD = re.compile(r"[\\`*\[\]<>~&$]|(?<!\w)_|_(?!\w)")
_MD_LINE = re.compile(r"^(\s*)([-+=:#|]|\d+(?=[.)]))")
_MD_URL = re.compile(r"(?i)\b(http|ftp|ww)([spw]?)(?=[:.])")
# A forge links these after it has removed backslashes and entities; only code stays what it is.
_MD_CALLS = re.compile(r"((?<!\w)(?:@[\w/-]+|#\d+))")


def escape_markdown(text: str) -> str:
    """Return `text` as Markdown prose of exactly these characters: no markup, mention or link."""
    pieces = _MD_CALLS.split(plain(text))
    return "".join(
        code_span(p) if i % 2 else _escape_prose(p, i == 0) for i, p in enumerate(pieces)
    )


def _escape_prose(text: str, starts: bool) -> str:
    shown = _MD.sub(r"\\\g<0>", text)
    # An entity shows the same letter and keeps a bare address from becoming a link.
    shown = _MD_URL.sub(lambda m: f"&#{ord(m.group(1)[0])};" + m.group()[1:], shown)
    return _MD_LINE.sub(_unlist, shown) if starts else shown


def _unlist(match: re.Match[str]) -> str:
    lead, sign = match.groups()
    return f"{lead}{sign}\\" if sign[0].isdigit() else f"{lead}\\{sign}"


def fence(text: str, info: str = "text") -> str:
    """Return `text` in a fenced block whose fence is longer than any run of backticks inside."""
    body = multiline(text)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{info}\n{body}\n{ticks}"


def code_span(text: str) -> str:
    """Return `text` as an inline code span, whatever backticks it holds."""
    body = plain(text)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if body.startswith("`") or body.endswith("`") or not body.strip() else ""
    return f"{ticks}{pad}{body}{pad}{ticks}"
