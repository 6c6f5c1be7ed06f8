"""Members of tar and zip archives, read as streams: nothing is ever extracted to disk.

Belongs here: finding members and opening one of them.
Must not be here: what is done with a member's bytes; archives inside archives.

The tar reader is our own because a hostile header can make the standard one read a name of many
gigabytes into memory; zip directories go through `zipfile`, zip data through our decompressors,
which bound their output where `zipfile` does not.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from rootrank.ingest.decode import clean_text
from rootrank.ingest.sniff import HEAD_BYTES
from rootrank.ingest.streams import (
    BrokenError,
    FileStream,
    Inflated,
    Limits,
    SliceStream,
    Stream,
    WrappedStream,
    open_seekable,
    open_stream,
    read_head,
)

if TYPE_CHECKING:
    import zipfile

_BLOCK: Final = 512
_NAME_MAX: Final = 1 << 20  # bytes of a long name or a pax header; the real ones are < 64 KiB
_SHOWN_MAX: Final = 512  # characters of a member's name that are shown
_ZIP_DIRECTORY_MAX: Final = 256 << 20  # bytes; 100,000 members need about 10 MiB
_ZIP_METHODS: Final = {8: "deflate", 12: "bzip2", 93: "zstd", 95: "xz"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Where one file lies inside an archive. Sizes and offsets in bytes."""

    name: str  # made safe to show; never used as a path
    index: int  # position in the archive
    offset: int  # tar: of the data in the decompressed archive; zip: of the local header
    size: int  # as the archive states it
    packed: int | None = None  # zip: compressed size; None in a tar
    codec: str | None = None  # zip: compression of this member
    crc: int | None = None  # zip


def safe_name(name: str) -> str:
    """Return a member's name fit to show: no `..`, drive, leading slash, escapes or controls."""
    text = clean_text(name.replace("\n", " ")).replace("\\", "/")
    parts = [p for p in text.split("/") if p not in ("", ".", "..")]
    shown = "/".join(parts) or "unnamed"
    return shown if len(shown) <= _SHOWN_MAX else "…" + shown[-_SHOWN_MAX:]


def is_tar(head: bytes) -> bool:
    """Return whether `head` (512 bytes or more) is the first header of a tar archive."""
    return head[257:262] == b"ustar" and checksum_fits(head[:_BLOCK])


def is_zip(head: bytes) -> bool:
    """Return whether `head` starts a zip archive, an empty one included."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


# --------------------------------------------------------------------------- tar


class _Cursor:
    """A stream with its position, which goes forward only unless the file can seek."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.pos = 0

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self.pos += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end of the stream."""
        parts = []
        while size > 0:
            data = self.read(size)
            if not data:
                break
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def move_to(self, offset: int) -> None:
        """Go to `offset`; BrokenError if the stream ends before."""
        if isinstance(self._stream, FileStream) and offset <= self._stream.size_bytes:
            self._stream.seek(offset)
            self.pos = offset
        while self.pos < offset:
            if not self.read(min(1 << 20, offset - self.pos)):
                raise BrokenError("archive ends early")

    def close(self) -> None:
        self._stream.close()


def tar_members(stream: Stream, limits: Limits) -> Iterator[tuple[Member, bytes]]:
    """Yield (member, its first bytes) for every regular file; BrokenError where it is damaged."""
    cursor = _Cursor(stream)
    long_name: str | None = None
    extended: dict[str, str] = {}
    index = 0
    while True:
        header = cursor.exactly(_BLOCK)
        if len(header) < _BLOCK or not header.strip(b"\0"):
            if 0 < len(header) < _BLOCK:
                raise BrokenError("archive ends early")
            return
        if not checksum_fits(header):
            raise BrokenError("corrupt tar header")
        size = _number(header[124:136])
        kind = header[156:157]
        if kind in (b"L", b"x"):
            payload = _payload(cursor, size)
            if kind == b"L":
                long_name = payload.rstrip(b"\0").decode("utf-8", "replace")
            else:
                extended = _pax(payload)
            continue
        size = int(extended["size"]) if extended.get("size", "").isdecimal() else size
        if size >= 1 << 62:
            raise BrokenError("corrupt tar header")
        data_at = cursor.pos
        if kind in (b"0", b"\0", b"7", b"S"):
            if index >= limits.max_members:
                raise BrokenError(f"more than {limits.max_members:,} members: the rest is not read")
            name = extended.get("path") or long_name or _name(header)
            sparse = kind == b"S" or any(k.startswith("GNU.sparse") for k in extended)
            head = b"" if sparse else cursor.exactly(min(HEAD_BYTES, size))
            member = Member(
                name=safe_name(name), index=index, offset=data_at, size=-1 if sparse else size
            )
            index += 1
            yield member, head
        long_name, extended = (long_name, extended) if kind in (b"K", b"g") else (None, {})
        cursor.move_to(data_at + size)
        cursor.exactly(-size % _BLOCK)


def _payload(cursor: _Cursor, size: int) -> bytes:
    if size > _NAME_MAX:
        raise BrokenError("corrupt tar header")
    data = cursor.exactly((size + _BLOCK - 1) // _BLOCK * _BLOCK)
    if len(data) < size:
        raise BrokenError("archive ends early")
    return data[:size]


def checksum_fits(header: bytes) -> bool:
    """Return whether a header's checksum is right, with bytes signed or not."""
    if len(header) < _BLOCK:
        return False
    try:
        stated = int(header[148:156].strip(b"\0 ") or b"0", 8)
    except ValueError:
        return False
    rest = header[:148] + b" " * 8 + header[156:]
    unsigned = sum(rest)
    return stated in (unsigned, unsigned - 256 * sum(1 for b in rest if b > 127))


def _number(field: bytes) -> int:
    """Return a size: octal digits, or binary when the first bit is set."""
    if field[0] & 0x80:
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        if field[0] == 0xFF:
            raise BrokenError("corrupt tar header")
        return value
    try:
        value = int(field.strip(b"\0 ") or b"0", 8)
    except ValueError:
        raise BrokenError("corrupt tar header") from None
    if value < 0:
        raise BrokenError("corrupt tar header")
    return value


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0", 1)[0].decode("utf-8", "replace")
    if header[257:263] == b"ustar\0":  # GNU uses the prefix field for other things
        prefix = header[345:500].split(b"\0", 1)[0].decode("utf-8", "replace")
        return f"{prefix}/{name}" if prefix else name
    return name


def _pax(payload: bytes) -> dict[str, str]:
    """Return the records of a pax header: `<length> <key>=<value>\\n`."""
    records: dict[str, str] = {}
    pos = 0
    while pos < len(payload):
        space = payload.find(b" ", pos, pos + 20)
        digits = payload[pos:space] if space > 0 else b""
        if not digits.isdigit() or int(digits) <= space - pos + 1:
            break
        end = pos + int(digits)
        key, mark, value = payload[space + 1 : end - 1].partition(b"=")
        if mark:
            records[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        pos = end
    return records


class _Shelf(threading.local):
    """The archive that this thread read last, so that the next member goes on from there."""

    key: tuple[str, str | None] | None = None
    cursor: _Cursor | None = None

    def take(self, key: tuple[str, str | None], offset: int) -> _Cursor | None:
        cursor = self.cursor if self.key == key else None
        if cursor is None or cursor.pos > offset:
            return None
        self.key = self.cursor = None
        return cursor

    def put(self, key: tuple[str, str | None], cursor: _Cursor) -> None:
        if self.cursor is not None:
            self.cursor.close()
        self.key, self.cursor = key, cursor


_shelf: Final = _Shelf()


class _TarMember:
    """The bytes of one member. Closing it keeps the archive open for the next one."""

    def __init__(
        self, path: str, codec: str | None, member: Member, limits: Limits, keep: bool
    ) -> None:
        self._keep = keep
        self._key = (path, codec)
        self._cursor = _shelf.take(self._key, member.offset) or _Cursor(
            open_stream(path, codec, limits)
        )
        self._good = False
        try:
            self._cursor.move_to(member.offset)
        except BrokenError:
            self._cursor.close()
            raise
        self._good = True
        self._slice = SliceStream(self._cursor, member.size, "archive")

    def read(self, size: int, /) -> bytes:
        try:
            return self._slice.read(size)
        except BrokenError:
            self._good = False
            raise

    def close(self) -> None:
        if self._good and self._keep:
            _shelf.put(self._key, self._cursor)
        else:
            self._cursor.close()


# --------------------------------------------------------------------------- zip


def zip_members(path: str, limits: Limits) -> Iterator[tuple[Member, bytes]]:
    """Yield (member, its first decompressed bytes) for every file; BrokenError where damaged."""
    infos = _zip_directory(path)
    for index, info in enumerate(infos):
        if index >= limits.max_members:
            raise BrokenError(f"more than {limits.max_members:,} members: the rest is not read")
        member = Member(
            name=safe_name(info.filename),
            index=index,
            offset=info.header_offset,
            # Encrypted, or a method we have no decompressor for: shown, not read.
            size=-1
            if info.flag_bits & 1 or info.compress_type not in (0, *_ZIP_METHODS)
            else info.file_size,
            packed=info.compress_size,
            codec=_ZIP_METHODS.get(info.compress_type),
            crc=info.CRC,
        )
        yield member, _zip_head(path, member, limits)


def _zip_directory(path: str) -> list[zipfile.ZipInfo]:
    """Return the entries that are files, as the directory lists them."""
    import zipfile

    with open_seekable(path) as file:
        _check_directory(file)
        try:
            with zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, RecursionError) as error:
            raise BrokenError(f"corrupt zip: {' '.join(str(error).split())[:80]}") from None
    # Members that share their bytes make a small file hold petabytes.
    end = 0
    for info in sorted(infos, key=lambda i: i.header_offset):
        if info.header_offset < end:
            raise BrokenError("corrupt zip: its members overlap")
        end = info.header_offset + info.compress_size
    return [info for info in infos if not info.is_dir()]


def _zip_head(path: str, member: Member, limits: Limits) -> bytes:
    if member.size <= 0:
        return b""
    try:
        stream = _open_zip(path, member, limits)
        try:
            return read_head(stream, HEAD_BYTES)
        finally:
            stream.close()
    except BrokenError:
        return b""  # told again, with its place, when the member is read


def _check_directory(file: BinaryIO) -> None:
    """Raise BrokenError for a directory too large to load."""
    end = file.seek(0, 2)
    file.seek(max(0, end - 65_600))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0:
        raise BrokenError("corrupt zip: no directory at its end")
    size = int.from_bytes(tail[at + 12 : at + 16], "little")
    wide = tail.rfind(b"PK\x06\x06", 0, at)
    if size == 0xFFFFFFFF and wide >= 0:
        size = int.from_bytes(tail[wide + 40 : wide + 48], "little")
    if size > min(_ZIP_DIRECTORY_MAX, end):
        raise BrokenError("corrupt zip: its directory is too large")


class _Checked:
    """A zip member's bytes, whose checksum is compared at the end."""

    def __init__(self, inner: Stream, member: Member) -> None:
        self._inner, self._member, self._crc, self._ended = inner, member, 0, False

    def read(self, size: int, /) -> bytes:
        data = self._inner.read(size)
        self._crc = zlib.crc32(data, self._crc)
        if not data and not self._ended:
            self._ended = True
            if self._crc != self._member.crc:
                raise BrokenError("zip checksum does not match: some text may be wrong")
        return data

    def close(self) -> None:
        self._inner.close()


def _open_zip(path: str, member: Member, limits: Limits) -> Stream:
    file = open_seekable(path)
    try:
        file.seek(member.offset)
        header = file.read(30)
        if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
            raise BrokenError("corrupt zip: no member where its directory says")
        names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        file.seek(member.offset + 30 + names)
    except (OSError, ValueError) as error:
        file.close()
        raise BrokenError(f"read error: {error}") from None
    except BrokenError:
        file.close()
        raise
    inner: Stream = SliceStream(WrappedStream(file), member.packed or 0, "archive")
    if member.codec is not None:
        inner = Inflated(inner, member.codec, limits)
    return _Checked(inner, member)


def open_member(
    path: str, codec: str | None, member: Member, limits: Limits, *, keep: bool = True
) -> Stream:
    """Return the bytes of one member; `codec` is the compression of the whole archive.

    `keep` leaves a tar open, once the stream is closed, for the member that is read next.
    """
    if member.packed is not None:
        return _open_zip(path, member, limits)
    return _TarMember(path, codec, member, limits, keep)
