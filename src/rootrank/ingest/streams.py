"""Byte streams: opening a file or a URL, and taking compression off, in bounded memory.

Belongs here: reads, decompressors and their limits.
Must not be here: archives (archives.py), text encodings (sniff.py), what a name means.

Files are read, never mapped: a mapped log that its writer truncates kills the reader. Every
decompressor hands out at most what was asked for, so a bomb costs time up to a limit, not memory.
"""

from __future__ import annotations

import io
import os
import stat
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol, cast

from rootrank.errors import MissingExtraError

CHUNK: Final = 1 << 16  # compressed bytes per read
_XZ_MEMORY: Final = 512 << 20  # xz -9 needs 65 MiB; the format allows 4 GiB
_ZSTD_WINDOW_LOG: Final = 27  # 128 MiB: what every zstd reads without --long
_UNSIZED_MAX: Final = 64 << 20  # /proc and /sys files claim no size and could go on for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where reading stops. What lies behind a limit becomes a gap, never an error."""

    max_ratio: float = 1000.0  # decompressed : compressed, beyond the first `free_bytes`
    free_bytes: int = 64 << 20
    max_output_bytes: int = 50 << 30  # per compressed stream
    max_members: int = 100_000  # per archive
    max_files: int = 500_000  # per folder given


class BrokenError(Exception):
    """The stream ends here, and why. What was read before stays valid."""


class NotThereError(Exception):
    """A path that cannot be opened: what is wrong, and what helps."""

    def __init__(self, fault: str, remedy: str) -> None:
        self.fault, self.remedy = fault, remedy
        super().__init__(fault)


class Stream(Protocol):
    """What every layer offers."""

    def read(self, size: int, /) -> bytes:
        """Return 1 to `size` bytes, b"" at the end; raise BrokenError where data is lost."""

    def close(self) -> None:
        """Release what the stream holds."""


# --------------------------------------------------------------------------- plain bytes


def is_url(path: str) -> bool:
    """Return whether `path` is for fsspec: a scheme of two or more letters (C:\\ is a drive)."""
    scheme, mark, _ = path.partition("://")
    return bool(mark) and len(scheme) > 1 and scheme.replace("+", "").replace("-", "").isalnum()


def filesystem(url: str) -> tuple[Any, str]:
    """Return (fsspec file system, path in it); MissingExtraError without fsspec or its driver."""
    try:
        import fsspec
    except ImportError:
        remedy = 'install it with: pip install "rootrank[fsspec]", or copy the files here'
        raise MissingExtraError(url, "reading a URL needs fsspec", remedy) from None
    try:
        return cast("tuple[Any, str]", fsspec.core.url_to_fs(url))
    except ImportError as error:
        raise MissingExtraError(url, _oneline(error), "install the named package") from None
    except (ValueError, OSError) as error:
        raise NotThereError(_oneline(error), "check the URL") from None


def _oneline(error: BaseException) -> str:
    """Return an exception of another library as a short phrase."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def os_fault(error: OSError) -> tuple[str, str]:
    """Return (fault, remedy) for an error of the operating system."""
    if isinstance(error, FileNotFoundError):
        return "no such file or folder", "check the path"
    if isinstance(error, PermissionError):
        return "permission denied", "read it as its owner, or copy it to a place you can read"
    if isinstance(error, IsADirectoryError):
        return "is a folder", "give the folder itself"
    return (error.strerror or _oneline(error)).lower(), "check the disk or mount it lives on"


class FileStream:
    """A local file, up to the size it has when its known end is reached.

    `expected_bytes` is the size seen earlier; less than that is a loss worth telling.
    """

    def __init__(self, path: str, expected_bytes: int | None = None) -> None:
        try:
            self._file = io.FileIO(path, "rb", opener=_opener)
        except FileNotFoundError:
            if expected_bytes is None:
                raise
            raise BrokenError("vanished before it was read") from None
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode):
            self._file.close()
            raise BrokenError("is no longer a regular file")
        self.size_bytes = status.st_size
        self._expected = max(status.st_size, expected_bytes or 0)
        self._stop = status.st_size or _UNSIZED_MAX
        self._done = 0
        self._swept = False

    def seek(self, offset: int) -> None:
        """Move to `offset`; sizes count from there on as if all before was read."""
        self._file.seek(offset)
        self._done = offset

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; stop at the end that the file had when it was reached."""
        if self._done >= self._stop and not self._swept:
            # Once more for what was written meanwhile; a busy writer must not keep us for ever.
            self._swept = True
            self._stop = max(self._stop, os.fstat(self._file.fileno()).st_size)
        data = self._read(min(size, self._stop - self._done))
        self._done += len(data)
        if not data and self._done < self._expected:
            raise BrokenError(f"file shrank to {self._done:,} of {self._expected:,} bytes")
        return data

    def _read(self, size: int) -> bytes:
        try:
            return (self._file.read(size) or b"") if size > 0 else b""
        except OSError as error:
            raise BrokenError(f"read error: {os_fault(error)[0]}") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _opener(path: str, flags: int) -> int:
    """Open without waiting: a file may have been swapped for a FIFO since it was listed."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class WrappedStream:
    """A binary file object of somebody else: standard input, or a remote file.

    `head` is what was taken from it before to see what it is.
    """

    def __init__(self, file: BinaryIO, head: bytes = b"", owned: bool = True) -> None:
        self._file, self._head, self._owned = file, head, owned

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, as soon as some are there."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        # A pipe is read as it comes: waiting for a full block would delay a live log.
        read1: Callable[[int], bytes] = getattr(self._file, "read1", self._file.read)
        try:
            return read1(size) or b""
        except (OSError, ValueError) as error:
            raise BrokenError(f"read error: {_oneline(error)}") from None

    def close(self) -> None:
        """Close the file if it is ours."""
        if self._owned:
            self._file.close()


class SliceStream:
    """`size` bytes of another stream from where it stands. Closing it closes the other."""

    def __init__(self, inner: Stream, size: int, what: str) -> None:
        self._inner, self._left, self._what = inner, size, what

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes of the slice."""
        if self._left <= 0:
            return b""
        data = self._inner.read(min(size, self._left))
        if not data:
            raise BrokenError(f"{self._what} ends early")
        self._left -= len(data)
        return data

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self._left

    def close(self) -> None:
        """Close the other stream."""
        self._inner.close()


def open_plain(path: str, expected_bytes: int | None = None) -> Stream:
    """Return the raw bytes of a local path or URL. Raises OSError when it cannot be opened."""
    if not is_url(path):
        return FileStream(path, expected_bytes)
    system, inner = filesystem(path)
    return WrappedStream(system.open(inner, "rb"))


def open_seekable(path: str) -> BinaryIO:
    """Return a seekable, unbuffered file of a local path or URL, for archive directories."""
    if not is_url(path):
        return cast(BinaryIO, io.FileIO(path, "rb", opener=_opener))
    system, inner = filesystem(path)
    return cast(BinaryIO, system.open(inner, "rb"))


# --------------------------------------------------------------------------- compression


class _Member(Protocol):
    """One member (gzip), stream (xz, bzip2) or frame (Zstandard) being decompressed."""

    eof: bool
    unused_data: bytes
    needs_input: bool

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Deflate:
    """Raw deflate with the interface of the other decompressors."""

    def __init__(self) -> None:
        self._inflate = _inflater()
        self._tail = b""
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return up to `max_length` bytes."""
        out: bytes = self._inflate.decompress(self._tail + data, max_length)
        self._tail = self._inflate.unconsumed_tail
        self.eof = self._inflate.eof
        self.unused_data = self._inflate.unused_data
        # A full answer may be one of several that the input still holds inside the decompressor.
        self.needs_input = not self._tail and len(out) < max_length
        return out


def _inflater() -> Any:
    """Return a raw deflate decompressor: isal's, two to three times as fast, where present."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.decompressobj(-15)
    return isal_zlib.decompressobj(-15)


class _Gzip:
    """One gzip member. Header and checksum are read here, not in zlib.

    zlib raises on a bad checksum together with the last piece of output, which would lose the last
    lines of a log: the ones that matter.
    """

    def __init__(self) -> None:
        self._head: bytes | None = b""
        self._body = _Deflate()
        self._trailer = b""
        self._crc = 0
        self._size = 0
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return up to `max_length` bytes."""
        if self._head is not None:
            self._head += data
            end = gzip_header_end(self._head)
            if end is None:
                if len(self._head) > 1 << 20 or self._head[2:3] not in (b"", b"\x08"):
                    raise BrokenError("corrupt gzip header")
                return b""
            data, self._head = self._head[end:], None
        return self._trail(data) if self._body.eof else self._text(data, max_length)

    def _text(self, data: bytes, max_length: int) -> bytes:
        out = self._body.decompress(data, max_length)
        self._crc = zlib.crc32(out, self._crc)
        self._size += len(out)
        self.needs_input = self._body.needs_input or self._body.eof
        if self._body.eof:
            self._trail(self._body.unused_data)
        return out

    def _trail(self, data: bytes) -> bytes:
        self._trailer += data
        if len(self._trailer) >= 8:
            self.eof = True
            self.unused_data = self._trailer[8:]
        return b""

    def verify(self) -> None:
        """Raise BrokenError if what was read is not what was written."""
        crc = int.from_bytes(self._trailer[:4], "little")
        size = int.from_bytes(self._trailer[4:8], "little")
        if crc != self._crc or size != self._size & 0xFFFFFFFF:
            raise BrokenError("gzip checksum does not match: some text may be wrong")


def gzip_header_end(data: bytes) -> int | None:
    """Return the length of the gzip header at the start of `data`, None if it is incomplete."""
    if len(data) < 10:
        return None
    flags, pos = data[3], 10
    if flags & 4:  # extra field
        if len(data) < pos + 2:
            return None
        pos += 2 + int.from_bytes(data[pos : pos + 2], "little")
    for bit in (8, 16):  # file name, comment
        if flags & bit:
            end = data.find(b"\0", pos)
            if end < 0:
                return None
            pos = end + 1
    if flags & 2:  # header checksum
        pos += 2
    return pos if pos <= len(data) else None


class _ZstdFrame:
    """One Zstandard frame, through the `zstandard` package, block by block.

    The package offers no bound on the output of one call. A block yields at most 128 KiB, so the
    frame is cut into its blocks here; this also shows a truncated frame, which the package's reader
    takes for the end.
    """

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._object: Any = factory()
        self._pending = b""
        self._skip = 0
        self._checksum = False
        self._state = "frame"
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return what the next block holds, at most 128 KiB, whatever `max_length` says."""
        self._pending += data
        size = self._next()
        self.needs_input = size is None
        if size is None:
            return b""
        piece, self._pending = self._pending[:size], self._pending[size:]
        if self._skip:
            self._skip -= len(piece)
            self.eof = not self._skip
            out = b""
        else:
            out = self._object.decompress(piece)
            self.eof = self._state == "end"
        if self.eof:
            self.unused_data = self._pending
        return out

    def _next(self) -> int | None:
        """Return the length of the next whole piece of the frame, None if more input is needed."""
        have = self._pending
        if self._skip:
            return min(self._skip, len(have)) or None
        if self._state == "frame":
            return self._frame_header(have)
        if self._state == "checksum":
            self._state = "end" if len(have) >= 4 else "checksum"
            return 4 if len(have) >= 4 else None
        if len(have) < 3:
            return None
        header = int.from_bytes(have[:3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        size = 3 + (1 if kind == 1 else size)  # a run-length block holds one byte
        if size > 3 + (128 << 10) or kind == 3:
            raise BrokenError("corrupt zstd data")
        if len(have) < size:
            return None
        if last:
            self._state = "checksum" if self._checksum else "end"
        return size

    def _frame_header(self, have: bytes) -> int | None:
        if len(have) < 8:  # the shortest frame: magic, descriptor, one size or window, one block
            return None
        if have[1:4] == b"\x2a\x4d\x18":  # skippable: sizes and seek tables
            self._skip = 8 + int.from_bytes(have[4:8], "little")
            return min(self._skip, len(have))
        descriptor = have[4]
        single = descriptor >> 5 & 1
        size = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
        size += (single, 2, 4, 8)[descriptor >> 6]
        if len(have) < size:
            return None
        self._checksum = bool(descriptor & 4)
        self._state = "block"
        return size


def _zstd_factory() -> Callable[[], _Member]:
    """Return what makes Zstandard decompressors: the standard library's, else the package's."""
    try:
        from compression import zstd
    except ImportError:
        pass
    else:
        options = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        return lambda: cast(_Member, zstd.ZstdDecompressor(options=options))
    try:
        import zstandard
    except ImportError:
        remedy = "install it with: pip install zstandard, or decompress the file with: zstd -d"
        raise MissingExtraError("zstd", "reading .zst needs Zstandard", remedy) from None
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << _ZSTD_WINDOW_LOG)
    return lambda: _ZstdFrame(decompressor.decompressobj)


# Imported when needed: builds of Python without these libraries exist, browsers among them.
def _xz_factory() -> Callable[[], _Member]:
    try:
        import lzma
    except ImportError:
        raise _no_library("xz") from None
    return lambda: cast(_Member, lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY))


def _bzip2_factory() -> Callable[[], _Member]:
    try:
        import bz2
    except ImportError:
        raise _no_library("bzip2") from None
    return lambda: cast(_Member, bz2.BZ2Decompressor())


def _no_library(name: str) -> MissingExtraError:
    return MissingExtraError(
        name, f"this Python was built without {name}", f"decompress the file with: {name} -d"
    )


@dataclass(frozen=True, slots=True)
class Codec:
    """One compression format."""

    name: str
    magics: tuple[bytes, ...]
    factory: Callable[[], Callable[[], _Member]]


CODECS: Final = {
    "gzip": Codec("gzip", (b"\x1f\x8b",), lambda: _Gzip),
    "zstd": Codec(
        "zstd",
        (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + i]) + b"\x2a\x4d\x18" for i in range(16))),
        _zstd_factory,
    ),
    "xz": Codec(
        "xz",
        (b"\xfd7zXZ\0",),
        _xz_factory,
    ),
    "bzip2": Codec("bzip2", (b"BZh",), _bzip2_factory),
    # Members of zip archives only; no magic.
    "deflate": Codec("deflate", (), lambda: _Deflate),
}


def codec_of(head: bytes) -> str | None:
    """Return the compression that `head`, the first bytes of a stream, shows; None for none."""
    for name, codec in CODECS.items():
        if head.startswith(codec.magics or (b"\xff" * 99,)):
            if name != "bzip2" or (head[3:4] in b"123456789" and head[4:10] in _BZIP2_STARTS):
                return name
    return None


_BZIP2_STARTS: Final = (b"1AY&SY", b"\x17rE8P\x90")  # a block, or the end of an empty stream


class Inflated:
    """The decompressed bytes of a stream of one or more members.

    Raises BrokenError where the input ends early, is corrupt, or passes a limit. Zero padding and
    other bytes behind the last member are ignored, as the command-line tools do.
    """

    def __init__(self, inner: Stream, codec: str, limits: Limits) -> None:
        self._inner, self._codec, self._limits = inner, CODECS[codec], limits
        try:
            self._factory = CODECS[codec].factory()
        except MissingExtraError:
            inner.close()
            raise
        self._member: _Member | None = None
        self._pending = b""  # input not yet given to a member
        self._ready = b""  # output not yet asked for
        self._members = 0
        self._finished = False
        self.consumed = 0
        self.produced = 0

    def read(self, size: int, /) -> bytes:
        """Return 1 to `size` bytes, b"" at the end."""
        if self._ready:
            data, self._ready = self._ready[:size], self._ready[size:]
            return data
        while self._member is not None or self._begin():
            out = self._step(size)
            if out:
                self.produced += len(out)
                self._ready = out[size:]  # Zstandard hands out whole blocks
                return out[:size] if self._ready else out
        return b""

    def _begin(self) -> bool:
        """Start the next member; return False when there is none."""
        if self._finished:
            return False
        magics = self._codec.magics
        need = max(map(len, magics), default=1)
        while len(self._pending) < need:
            data = self._fetch()
            if not data:
                break
            self._pending += data
            if self._members:  # zeros pad members to blocks; a member may follow them
                self._pending = self._pending.lstrip(b"\0")
        if not self._pending or (self._members and not self._pending.startswith(magics)):
            self._finished = True
            return False
        self._member = self._factory()
        self._members += 1
        return True

    def _step(self, size: int) -> bytes:
        """Give the member its next input and return its output, which may be nothing yet."""
        member = self._member
        assert member is not None
        self._check_limits()
        data = b""
        if member.needs_input:
            data, self._pending = self._pending or self._fetch(), b""
            if not data:
                raise BrokenError(f"truncated {self._codec.name}")
        try:
            out = member.decompress(data, size)
        except (BrokenError, TypeError, AttributeError):
            raise
        except Exception as error:  # every library has an error class of its own
            raise BrokenError(f"corrupt {self._codec.name}: {_oneline(error)[:80]}") from None
        if member.eof:
            self._end(member, bool(out))
        return out

    def _end(self, member: _Member, more: bool) -> None:
        """Close a member. A wrong checksum is told after its last output is out."""
        self._pending = member.unused_data.lstrip(b"\0")
        self._member = None
        if self._codec.name == "deflate":
            self._finished = True
        if not isinstance(member, _Gzip):  # the others verify themselves
            return
        if more:
            self._member = cast(_Member, _Verified(member.verify, self._pending))
            self._pending = b""
        else:
            member.verify()

    def _fetch(self) -> bytes:
        data = self._inner.read(CHUNK)
        self.consumed += len(data)
        return data

    def _check_limits(self) -> None:
        limits = self._limits
        if self.produced > limits.max_output_bytes:
            raise BrokenError(f"decompression stopped at {limits.max_output_bytes:,} bytes")
        if self.produced > limits.free_bytes + limits.max_ratio * self.consumed:
            ratio = self.produced / max(self.consumed, 1)
            raise BrokenError(f"decompression stopped: it grows {ratio:,.0f}-fold")

    def close(self) -> None:
        """Close the stream below."""
        self._inner.close()


class _Verified:
    """Stands for a member whose last output has just been handed out: only its check is left."""

    def __init__(self, verify: Callable[[], None], unused: bytes) -> None:
        self._verify = verify
        self.unused_data = unused
        self.eof = False
        self.needs_input = False

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self._verify()
        self.eof = True
        return b""


def open_stream(
    path: str, codec: str | None, limits: Limits, expected: int | None = None
) -> Stream:
    """Return the decompressed bytes of a local path or URL."""
    plain = open_plain(path, expected)
    return Inflated(plain, codec, limits) if codec else plain


def read_head(stream: Stream, size: int) -> bytes:
    """Return the first `size` bytes of a stream, fewer where it ends or breaks.

    Raises BrokenError where it breaks before its first byte.
    """
    head = b""
    while len(head) < size:
        try:
            data = stream.read(size - len(head))
        except BrokenError:
            if not head:
                raise
            break
        if not data:
            break
        head += data
    return head[:size]
