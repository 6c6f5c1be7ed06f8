"""Compression comes off in bounded memory, and broken data gives what was readable."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import io
import lzma
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from rootrank.errors import MissingExtraError
from rootrank.ingest import streams
from rootrank.ingest.streams import BrokenError, FileStream, Inflated, Limits, WrappedStream

TEXT = b"".join(b"[rank%d]: step %d loss %f\n" % (i % 8, i, 1 / (i + 1)) for i in range(400))
LIMITS = Limits()


def zstd(data: bytes, **options: int) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    params = zstandard.ZstdCompressionParameters.from_level(3, write_checksum=1, **options)
    compressed: bytes = zstandard.ZstdCompressor(compression_params=params).compress(data)
    return compressed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd,
}


@pytest.fixture(params=["isal", "zlib"])
def inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run with and without the fast gzip library."""
    if request.param == "isal":
        pytest.importorskip("isal")
    else:
        monkeypatch.setitem(sys.modules, "isal", None)
    return str(request.param)


@pytest.fixture(params=["compression", "zstandard"])
def zstd_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run with the standard library's Zstandard (3.14, or its backport) and with the package."""
    if request.param == "zstandard":
        pytest.importorskip("zstandard")
        monkeypatch.setitem(sys.modules, "compression", None)
    elif importlib.util.find_spec("compression") is None:
        backport = pytest.importorskip("backports.zstd")
        package = types.ModuleType("compression")
        package.zstd = backport  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "compression", package)
        monkeypatch.setitem(sys.modules, "compression.zstd", backport)
    return str(request.param)


def drain(packed: bytes, codec: str, limits: Limits = LIMITS, size: int = 1 << 20) -> bytes:
    """Return everything; raise what the stream raises."""
    data, fault = salvage(packed, codec, limits, size)
    if fault:
        raise BrokenError(fault)
    return data


def salvage(
    packed: bytes, codec: str, limits: Limits = LIMITS, size: int = 1 << 20
) -> tuple[bytes, str]:
    """Return (what was readable, why it ended; "" for a clean end)."""
    stream = Inflated(WrappedStream(io.BytesIO(packed)), codec, limits)
    parts = []
    try:
        while data := stream.read(size):
            assert len(data) <= size
            parts.append(data)
    except BrokenError as error:
        return b"".join(parts), str(error)
    finally:
        stream.close()
    return b"".join(parts), ""


@pytest.mark.parametrize("codec", PACKERS)
@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_every_codec(codec: str, size: int) -> None:
    """Each format gives back the bytes, never more at once than was asked for."""
    packed = PACKERS[codec](TEXT)
    assert codec == streams.codec_of(packed)
    assert TEXT == drain(packed, codec, size=size)


@pytest.mark.parametrize("codec", PACKERS)
def test_several_members_and_padding(codec: str) -> None:
    """Concatenated members are one stream; zeros between and junk behind them are ignored."""
    pack = PACKERS[codec]
    assert TEXT * 3 == drain(pack(TEXT) + pack(TEXT) + b"\0" * 700 + pack(TEXT), codec)
    assert TEXT == drain(pack(TEXT) + b"junk", codec)
    assert b"" == drain(pack(b""), codec)
    assert TEXT == drain(pack(b"") + pack(TEXT), codec)


@pytest.mark.parametrize("codec", ["bzip2", "xz"])
def test_truncated_anywhere(codec: str) -> None:
    """Cut at any byte, a file gives a prefix of its text and says that it is truncated."""
    packed = PACKERS[codec](TEXT[:600])
    for cut in range(1, len(packed)):
        data, fault = salvage(packed[:cut], codec)
        assert f"truncated {codec}" == fault
        assert TEXT[:600].startswith(data)


@pytest.mark.usefixtures("inflater")
def test_gzip_truncated_anywhere() -> None:
    """Cut at every byte: all text before the cut is there, and the cut is noticed."""
    packed = gzip.compress(TEXT[:600], mtime=0)
    best = 0
    for cut in range(1, len(packed)):
        data, fault = salvage(packed[:cut], "gzip")
        assert "truncated gzip" == fault
        assert TEXT[:600].startswith(data)
        best = max(best, len(data))
    assert 600 == best  # only the checksum was missing


@pytest.mark.usefixtures("inflater")
def test_gzip_header_fields_and_checksum() -> None:
    """Names and comments in the header are skipped; a wrong checksum loses no text."""
    buffer = io.BytesIO()
    with gzip.GzipFile("rank3.log", "wb", fileobj=buffer) as file:
        file.write(TEXT)
    packed = bytearray(buffer.getvalue())
    assert TEXT == drain(bytes(packed), "gzip")
    extra = packed[:3] + bytes([packed[3] | 4 | 16]) + packed[4:10] + b"\x03\0abc" + packed[10:]
    end = extra.index(b"\0", 15) + 1
    assert TEXT == drain(bytes(extra[:end] + b"a comment\0" + extra[end:]), "gzip")
    packed[-8] ^= 1
    data, fault = salvage(bytes(packed), "gzip")
    assert (TEXT, True) == (data, "checksum" in fault)


@pytest.mark.usefixtures("zstd_library")
def test_zstd_truncated_anywhere() -> None:
    """Cut at any byte, a Zstandard file is noticed to be truncated, with either library."""
    packed = zstd(TEXT[:600])
    for cut in range(1, len(packed)):
        data, fault = salvage(packed[:cut], "zstd")
        assert "truncated zstd" == fault
        assert TEXT[:600].startswith(data)


@pytest.mark.usefixtures("zstd_library")
def test_zstd_frames_of_every_shape() -> None:
    """Large blocks, run-length blocks, skippable frames and streamed frames are all read."""
    zstandard = pytest.importorskip("zstandard")
    noise = random.Random(1).randbytes(700_000)
    skippable = b"\x52\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"table"
    assert noise == drain(zstd(noise), "zstd", size=1000)
    assert bytes(3_000_000) == drain(zstd(bytes(3_000_000)), "zstd")
    assert TEXT * 2 == drain(skippable + zstd(TEXT) + skippable + zstd(TEXT), "zstd")
    buffer = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(buffer, closefd=False) as writer:
        for i in range(0, len(TEXT), 777):
            writer.write(TEXT[i : i + 777])
            writer.flush()
    assert TEXT == drain(buffer.getvalue(), "zstd")


@pytest.mark.usefixtures("zstd_library")
def test_zstd_window_limit() -> None:
    """A frame that wants gigabytes of window is refused, not obeyed."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, 0xB0]) + b"\x01\0\0"  # 4 TiB window, empty block
    assert "corrupt zstd" in salvage(frame, "zstd")[1]


@pytest.mark.parametrize("codec", PACKERS)
def test_noise_and_flipped_bits_are_survived(codec: str) -> None:
    """Corrupt data ends the stream with a reason; it never raises anything else."""
    rng = random.Random(7)
    packed = PACKERS[codec](TEXT)
    for _ in range(150):
        broken = bytearray(packed)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        salvage(bytes(broken), codec)
    for _ in range(50):
        salvage(packed[:4] + rng.randbytes(300), codec)


@pytest.mark.parametrize("codec", PACKERS)
def test_a_bomb_stops_at_the_ratio(codec: str) -> None:
    """Zeros that grow a thousandfold end soon after the free part, with a reason."""
    limits = Limits(max_ratio=20, free_bytes=1 << 20)
    data, fault = salvage(PACKERS[codec](bytes(30 << 20)), codec, limits)
    assert "decompression stopped" in fault
    assert 1 << 20 <= len(data) < 6 << 20


def test_the_output_limit() -> None:
    """Output stops at the limit however well it is packed."""
    data, fault = salvage(gzip.compress(TEXT * 10), "gzip", Limits(max_output_bytes=1000), size=500)
    assert "decompression stopped at 1,000 bytes" == fault
    assert len(data) < 2000


def test_text_that_packs_well_is_no_bomb() -> None:
    """64 MiB of one repeated line pass."""
    assert 60 << 20 == len(drain(gzip.compress(bytes(60 << 20)), "gzip"))


def test_missing_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Zstandard library the error says what to install."""
    monkeypatch.setitem(sys.modules, "compression", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match="pip install zstandard"):
        Inflated(WrappedStream(io.BytesIO(b"")), "zstd", LIMITS)


def test_missing_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsspec a URL names the extra to install."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"rootrank\[fsspec\]"):
        streams.open_plain("s3://bucket/rank3.log")


class TestFiles:
    """A file that changes while it is read."""

    def test_a_growing_file_ends(self, tmp_path: Path) -> None:
        """What is appended meanwhile is read once more; then it ends, however busy the writer."""
        path = tmp_path / "a.log"
        path.write_bytes(b"x" * 100)
        stream = FileStream(str(path))
        total = 0
        for _ in range(1000):
            with path.open("ab") as file:
                file.write(b"y" * 50)
            data = stream.read(60)
            if not data:
                break
            total += len(data)
        stream.close()
        assert 100 <= total < 1000

    def test_a_truncated_file_is_told(self, tmp_path: Path) -> None:
        """A log that is cut while it is read says how much is missing."""
        path = tmp_path / "a.log"
        path.write_bytes(b"x" * 100)
        stream = FileStream(str(path))
        assert b"x" * 10 == stream.read(10)
        path.write_bytes(b"")
        with pytest.raises(BrokenError, match="file shrank to 10 of 100 bytes"):
            stream.read(10)
        stream.close()

    def test_a_vanished_file_is_told(self, tmp_path: Path) -> None:
        """A file that was listed and is gone is a break, not a crash."""
        with pytest.raises(BrokenError, match="vanished"):
            FileStream(str(tmp_path / "gone"), expected_bytes=5)
