"""Text is told from binary data, and its encoding found, by the first bytes."""

from __future__ import annotations

import pickle
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootrank.ingest.sniff import BINARY, FLIGHT_RECORD, ToUtf8, binary_reason, encoding_of

LOG = "[rank3]: RuntimeError: CUDA error: x\n" * 40


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"x",
        LOG.encode(),
        LOG.encode() + b"\0" * 4000,
        b"\0" * 4000 + LOG.encode(),
        b"\0" * 8192,
        b"step 1\0\0\0step 2\n",
        b"\x1b[31mred\x1b[0m 10%\r 20%\r\x07\n",
        "错误：训练进程失败\n".encode("gbk") * 30,
        "错误：训练进程失败\n".encode() * 30,
        "Größe überschritten: Gerät\n".encode("latin-1") * 30,
        LOG.encode("utf-16"),
        LOG.encode("utf-16-le"),
        LOG.encode("utf-16-be"),
        LOG.encode("utf-32"),
        "  5%|█▌        | 5/100\r".encode() * 100,
    ],
)
def test_logs_are_text(head: bytes) -> None:
    """Torn, coloured, foreign and wide text is text."""
    assert None is binary_reason(head)


@pytest.mark.parametrize(
    "head",
    [
        b"\x7fELF\x02\x01\x01" + bytes(200),
        random.Random(1).randbytes(4096),
        zlib.compress(LOG.encode() * 9),
        struct.pack("<500f", *(0.1 * i for i in range(500))),
        struct.pack("<900H", *range(900)),
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"\x93NUMPY\x01\0v\0{'descr': '<f4'}",
        pickle.dumps(list(range(1000))),
        b"LPKSHHRH" + bytes(100),
    ],
)
def test_data_is_binary(head: bytes) -> None:
    """Programs, arrays, images, compressed and pickled data are no text."""
    assert "binary" in (binary_reason(head) or "")


def test_flight_recorder_dumps_are_named() -> None:
    """A pickled collective trace is told from other pickles."""
    dump = pickle.dumps({"version": "2.4", "pg_config": {}, "entries": []})
    assert FLIGHT_RECORD == binary_reason(dump)
    assert BINARY == binary_reason(pickle.dumps({"loss": 1}))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_wide_text_becomes_utf8(encoding: str, step: int) -> None:
    """UTF-16 and UTF-32, marked or plain, arrive as UTF-8 without mark, however they are cut."""
    text = LOG + "Größe 🚀 end"
    raw = text.encode(encoding)
    convert = ToUtf8(encoding_of(raw[:8192]))
    out = b"".join(convert.feed(raw[i : i + step]) for i in range(0, len(raw), step))
    assert text.encode() == out + convert.finish()


def test_broken_wide_text_is_repaired() -> None:
    """Half a character at the end, or a lone surrogate, becomes a replacement mark."""
    convert = ToUtf8("utf-16-le")
    out = convert.feed(b"a\0\x00\xd8b\0c") + convert.finish()
    assert "a\ufffdb\ufffd" == out.decode()


@given(st.binary(max_size=400), st.integers(1, 50))
def test_utf8_passes_unchanged(raw: bytes, step: int) -> None:
    """Bytes that are not wide text are not touched, but for one mark at the start."""
    convert = ToUtf8("utf-8")
    out = b"".join(convert.feed(raw[i : i + step]) for i in range(0, len(raw), step))
    assert raw.removeprefix(b"\xef\xbb\xbf") == out + convert.finish()


@given(st.binary(max_size=600))
def test_any_head_is_survived(head: bytes) -> None:
    """No bytes raise."""
    binary_reason(head)
