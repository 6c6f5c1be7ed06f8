"""Bytes of one line to text that is safe to print and to match.

Belongs here: UTF-8 repair, terminal escapes, progress bars.
Must not be here: origins, time stamps, what a line means.

A log is hostile input: it may hold escapes that rewrite the reader's terminal, or direction marks
that show a line differently from what is matched. Nothing of that leaves this module.
"""

from __future__ import annotations

import re
from typing import Final

# Printable ASCII and tab: what is left after deleting these needs work.
_PLAIN: Final = bytes([0x09, *range(0x20, 0x7F)])

# A string sequence (title, hyperlink, device control) without its end must not swallow the error
# text that follows, hence the bound; then only its introducer goes.
_ESCAPES: Final = re.compile(
    r"\x1b\][^\x07\x1b\x9c]{0,2048}(?:\x07|\x1b\\|\x9c)"  # OSC
    r"|\x1b[PX^_][^\x1b\x9c]{0,2048}(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor moves
    r"|\x1b[ -/]{0,8}[0-~]"  # other two-character sequences
)
# Line and paragraph separators stand between words; all others stand inside them.
_SPACES: Final = re.compile("[\n\x0b\x0c\x85\u2028\u2029]")
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

# The end of a tqdm bar: "[00:10<00:12, 4.5it/s, loss=0.3]"; a postfix may hold bracket pairs.
_BAR_END: Final = re.compile(
    r"\[(?:\d+:)?\d\d:\d\d(?:<|, )(?:[^\[\]]|\[[^\[\]]{0,80}\]){1,300}\](?=[^\s,;)\]|])"
)


def clean(raw: bytes) -> str:
    """Return one line as text: no escapes, controls, direction or zero-width marks; tabs stay.

    Bad UTF-8 becomes U+FFFD. Of a line that `\\r` overwrites, only the last non-empty segment is
    returned; `segments` gives all. Linear in the length of `raw`.
    """
    if not raw.translate(None, _PLAIN):
        return raw.decode("ascii")
    raw = raw.rstrip(b"\r\n")
    if b"\r" in raw:
        parts = [p for p in raw.split(b"\r") if p.strip(b" \t\0")]
        raw = parts[-1] if parts else b""
    return clean_text(raw.decode("utf-8", "replace"))


def clean_text(text: str) -> str:
    """Return `text` under the same rules as `clean`; carriage returns are dropped."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    return _INVISIBLE.sub("", _SPACES.sub(" ", text))


def segments(raw: bytes) -> list[bytes]:
    """Return what one line showed, one after the other: split at lone `\\r`, blank parts left out.

    A progress bar rewrites itself with `\\r`, and the error that ends it stands behind the last one
    or between two. A `\\r` before the line's end is part of the line ending.
    """
    if b"\r" not in raw:
        return [raw]
    return [p for p in raw.rstrip(b"\r\n").split(b"\r") if p.strip(b" \t\0")] or [b""]


def unglue(text: str) -> list[str]:
    """Return `text` split behind every progress bar that other text directly follows.

    A bar ends without a newline, so what is printed next (often the error) stands on its line.
    Without such a bar the result is `[text]`. No character is lost.
    """
    if "]" not in text or ("it/s" not in text and "s/it" not in text and "<" not in text):
        return [text]
    parts: list[str] = []
    start = 0
    for match in _BAR_END.finditer(text):
        parts.append(text[start : match.end()])
        start = match.end()
    parts.append(text[start:])
    return parts
