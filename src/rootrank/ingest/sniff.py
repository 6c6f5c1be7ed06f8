"""Text or not, and in which encoding, from the first bytes of a source.

Belongs here: the tests on raw bytes and the step to UTF-8.
Must not be here: compression and archives.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

HEAD_BYTES: Final = 8192

BINARY: Final = "binary file, skipped"
FLIGHT_RECORD: Final = "flight-recorder dump"

_BOMS: Final = (  # UTF-32 first: its little-endian mark starts with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_MAGICS: Final = (
    b"\x7fELF",
    b"%PDF-",
    b"\x89PNG\r\n",
    b"\xff\xd8\xff",
    b"GIF8",
    b"SQLite format 3\0",
    b"\x93NUMPY",
    b"\x89HDF\r\n",
    b"PAR1",
    b"!<arch>\n",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a\x07",
    b"\x04\x22\x4d\x18",  # lz4
    b"\xca\xfe\xba\xbe",
    b"LPKSHHRH",  # systemd journal
)
_JOURNAL: Final = b"LPKSHHRH"
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")
_NUL_RUN: Final = re.compile(rb"\0{16,}")
# Control characters that no text holds; NUL, BEL, BS, TAB, LF, FF, CR, SUB and ESC do occur.
_CONTROLS: Final = bytes(
    [b for b in range(1, 32) if b not in (7, 8, 9, 10, 12, 13, 26, 27)] + [127]
)
_ASCII: Final = bytes([*range(32, 127), 9, 10, 13])


def encoding_of(head: bytes) -> str:
    """Return the encoding of text that starts with `head`: utf-8 unless it shows another one."""
    for bom, name in _BOMS:
        if head.startswith(bom):
            return name
    # PowerShell redirects in UTF-16, and `tail` of such a file has no mark: every other byte of
    # ASCII text is NUL there. A crash-torn UTF-8 log holds runs of NULs instead.
    sample = head[: len(head) // 2 * 2]
    half = len(sample) // 2
    if half >= 8:
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        if odd >= 0.7 * half and even <= 0.05 * half:
            return "utf-16-le"
        if even >= 0.7 * half and odd <= 0.05 * half:
            return "utf-16-be"
    return "utf-8"


def binary_reason(head: bytes) -> str | None:
    """Return why a source that starts with `head` is no text, or None for text.

    Text may be in any encoding that keeps ASCII, may hold NUL runs of any length (a host that
    crashed leaves them) and a few other stray bytes.
    """
    if not head:
        return None
    encoding = encoding_of(head)
    if encoding.startswith(("utf-16", "utf-32")):
        text = head.decode(encoding, "replace")
        bad = sum(1 for c in text if c == "\ufffd" or (c < " " and c not in "\t\n\r\x1b"))
        return None if bad <= 0.1 * len(text) + 1 else BINARY
    if _PICKLE.match(head):
        recorder = b"pg_config" in head or b"nccl_version" in head or b"comm_lib_version" in head
        return FLIGHT_RECORD if recorder else BINARY
    if head.startswith(_JOURNAL):
        return "binary journal, skipped: save it with journalctl > journal.txt"
    if head.startswith(_MAGICS):
        return BINARY
    body = _NUL_RUN.sub(b"", head)
    odd_bytes = body.count(0) + len(body) - len(body.translate(None, _CONTROLS))
    if odd_bytes > 0.05 * len(body) + 8:
        return BINARY
    bad = body.decode("utf-8", "replace").count("\ufffd")
    plain = len(body) - len(body.translate(None, _ASCII))
    # Latin-1 text has bad bytes as well, but among ASCII; other encodings decode as what they are.
    noise = bad > 0.3 * len(body) and plain < 0.5 * len(body) and not _is_east_asian(body)
    return BINARY if noise else None


def _is_east_asian(body: bytes) -> bool:
    """Return whether `body`, which may end inside a character, is double-byte text."""
    for encoding in ("gb18030", "shift_jis", "euc_kr", "big5"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(body)
        except (UnicodeDecodeError, LookupError):
            continue
        return True
    return False


class ToUtf8:
    """Turns the blocks of a source into UTF-8 without a byte-order mark.

    UTF-8 passes through unchanged, bad bytes included: repair is the line decoder's work.
    """

    def __init__(self, encoding: str) -> None:
        self._wide = encoding.startswith(("utf-16", "utf-32"))
        self._decoder = codecs.getincrementaldecoder(encoding)("replace") if self._wide else None
        self._head: bytes | None = b""

    def feed(self, data: bytes) -> bytes:
        """Return what `data` adds; may be b"" while a character or the mark is incomplete."""
        if self._decoder is not None:
            return self._to_bytes(self._decoder.decode(data))
        if self._head is None:
            return data
        self._head += data
        if len(self._head) < 3 and codecs.BOM_UTF8.startswith(self._head):
            return b""
        head, self._head = self._head, None
        return head.removeprefix(codecs.BOM_UTF8)

    def finish(self) -> bytes:
        """Return what is left at the end."""
        if self._decoder is not None:
            return self._to_bytes(self._decoder.decode(b"", final=True))
        head, self._head = self._head or b"", None
        return head

    def _to_bytes(self, text: str) -> bytes:
        if self._head is not None and text:  # the mark itself, which "-le" and "-be" keep
            self._head = None
            text = text.removeprefix("\ufeff")
        return text.encode("utf-8", "replace")
