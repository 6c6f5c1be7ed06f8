"""Members of tar and zip archives are read as streams, whatever their headers claim."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rootrank.errors import InputError
from rootrank.ingest import streams
from rootrank.ingest.archives import safe_name
from rootrank.ingest.sources import Limits, Source, open_sources

LOG = b"[rank3]: RuntimeError: boom\n"


def write_tar(
    path: Path, files: dict[str, bytes], mode: str = "w", format: int = tarfile.PAX_FORMAT
) -> Path:
    with tarfile.open(path, mode, format=format) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_zip(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def texts(sources: list[Source]) -> dict[str, bytes]:
    return {s.name.partition("!/")[2]: b"".join(s.blocks()) for s in sources}


FILES = {
    "node-1/rank3.log": LOG,
    "node-1/empty.log": b"",
    "node-2/" + "d" * 120 + "/rank11.log": LOG * 1000,
    "größe.log": b"x\n",
}


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tgz", "tar.bz2", "tar.xz", "tar.zst"])
@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_tar(tmp_path: Path, suffix: str, format: int) -> None:
    """Every compression and header format of tar gives all members, in archive order."""
    plain = write_tar(tmp_path / "b.tar", FILES, format=format).read_bytes()
    path = tmp_path / f"bundle.{suffix}"
    path.write_bytes(_pack(plain, suffix))
    sources, gaps = open_sources([str(path)])
    assert [] == gaps
    assert FILES == texts(sources)
    assert list(FILES) == [s.name.partition("!/")[2] for s in sources]
    assert FILES == texts(list(reversed(sources)))  # out of order, and a second time
    assert (3, "node-1") == (sources[0].origin.rank, sources[0].origin.host)


def _pack(data: bytes, suffix: str) -> bytes:
    if suffix.endswith("gz"):
        return gzip.compress(data)
    if suffix.endswith("bz2"):
        return bz2.compress(data)
    if suffix.endswith("xz"):
        return lzma.compress(data)
    if suffix.endswith("zst"):
        zstandard = pytest.importorskip("zstandard")
        return bytes(zstandard.ZstdCompressor().compress(data))
    return data


@pytest.mark.parametrize(
    "method",
    [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2],
)
def test_zip(tmp_path: Path, method: int) -> None:
    """Stored, deflated and bzip2 members of a zip are read."""
    sources, gaps = open_sources([str(write_zip(tmp_path / "b.zip", FILES, method))])
    assert [] == gaps
    assert FILES == texts(sources)


def test_names_cannot_lead_out_or_deceive(tmp_path: Path) -> None:
    """`..`, absolute and control characters in member names are neither followed nor shown."""
    files = {
        "../../etc/passwd": LOG,
        "/abs/rank1.log": LOG,
        "C:\\temp\\rank2.log": LOG,
        "a\x1b[31m\n\u202egol.log": LOG,
        "..": LOG,
    }
    for path in (write_tar(tmp_path / "a.tar", files), write_zip(tmp_path / "a.zip", files)):
        sources, _ = open_sources([str(path)])
        for source in sources:
            shown = source.name.partition("!/")[2]
            assert ".." not in shown.split("/")
            assert not shown.startswith("/")
            assert shown.isprintable()
            assert LOG == b"".join(source.blocks())
    assert ["a.tar", "a.zip"] == sorted(p.name for p in tmp_path.iterdir())


def test_safe_name_is_never_empty_or_endless() -> None:
    """Every name can be shown, on one line of bounded length."""
    assert "unnamed" == safe_name("../..")
    assert 513 == len(safe_name("x" * 10_000))


@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_a_truncated_tar_gives_what_is_there(tmp_path: Path, suffix: str) -> None:
    """Members before the cut are whole, the one at the cut is cut, and both say so."""
    rng = random.Random(3)
    files = {f"rank{i}.log": rng.randbytes(20_000).hex().encode() for i in range(4)}
    path = write_tar(tmp_path / f"b.{suffix}", files, "w:gz" if "gz" in suffix else "w")
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    sources, gaps = open_sources([str(path)])
    found = texts(sources)
    assert 1 <= len(found) < 4
    for name, text in found.items():
        assert files[name].startswith(text)
    assert gaps
    assert sources[-1].gaps or found[sources[-1].name.partition("!/")[2]] in files.values()


def test_any_cut_and_any_flip_of_a_tar_is_survived(tmp_path: Path) -> None:
    """No damage to a tar raises anything but InputError."""
    raw = write_tar(tmp_path / "b.tar", {"rank1.log": LOG * 30, "x" * 150: LOG}).read_bytes()
    path = tmp_path / "c.tar"
    for i in range(0, len(raw), 41):
        for broken in (raw[:i], raw[:i] + b"\xff" + raw[i + 1 :]):
            path.write_bytes(broken)
            try:
                sources, _ = open_sources([str(path)])
            except InputError:
                continue
            texts(sources)


def test_any_cut_and_any_flip_of_a_zip_is_survived(tmp_path: Path) -> None:
    """No damage to a zip raises anything but InputError."""
    raw = write_zip(tmp_path / "b.zip", {"rank1.log": LOG * 30, "rank2.log": LOG}).read_bytes()
    path = tmp_path / "c.zip"
    for i in range(len(raw)):
        for broken in (raw[:i], raw[:i] + b"\xff" + raw[i + 1 :]):
            path.write_bytes(broken)
            try:
                sources, _ = open_sources([str(path)])
            except InputError:
                continue
            texts(sources)


def test_a_zip_checksum_is_compared(tmp_path: Path) -> None:
    """Changed text in a zip is read, and noted."""
    path = write_zip(tmp_path / "b.zip", {"rank1.log": LOG}, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"boom", b"bomb"))
    (source,), _ = open_sources([str(path)])
    assert LOG.replace(b"boom", b"bomb") == b"".join(source.blocks())
    assert "checksum" in source.gaps[0].reason


def test_compressed_members_are_read_but_archives_in_archives_are_not(tmp_path: Path) -> None:
    """One level: rank3.log.gz inside a tar is read, a tar or a twice packed file is a gap."""
    inner = write_tar(tmp_path / "in.tar", {"rank9.log": LOG}).read_bytes()
    files = {
        "rank3.log.gz": gzip.compress(LOG),
        "inner.tar": inner,
        "inner.tgz": gzip.compress(inner),
        "twice.gz.gz": gzip.compress(gzip.compress(LOG)),
        "inner.zip": write_zip(tmp_path / "in.zip", {"a": LOG}).read_bytes(),
    }
    sources, gaps = open_sources([str(write_tar(tmp_path / "b.tar", files))])
    assert {"rank3.log.gz": LOG} == texts(sources)
    assert {
        "inner.tar": archives_nested(),
        "inner.tgz": archives_nested(),
        "inner.zip": archives_nested(),
        "twice.gz.gz": "compressed twice: not read, decompress it once",
    } == {g.source.partition("!/")[2]: g.reason for g in gaps}


def archives_nested() -> str:
    return "archive inside an archive: not read, unpack it first"


def test_members_without_text_are_gaps(tmp_path: Path) -> None:
    """Binary members are skipped with a reason, hidden files silently; dumps are sources."""
    files = {
        "rank1.log": LOG,
        "core.812": b"\x7fELF" + bytes(300),
        "nccl_trace_rank_0": b"x",
        ".hidden": LOG,
    }
    sources, gaps = open_sources([str(write_zip(tmp_path / "b.zip", files))])
    assert ["training-log", "flight-record"] == [
        s.kind
        for s in sorted(
            sources, key=lambda s: s.name != "b.zip!/rank1.log" and "rank1" not in s.name
        )
    ]
    assert ["binary file, skipped"] == [g.reason for g in gaps]


def test_an_archive_without_text_is_an_error(tmp_path: Path) -> None:
    """Given alone, an empty or binary-only archive is unreadable input."""
    for path in (
        write_tar(tmp_path / "a.tar.gz", {}, "w:gz"),
        write_zip(tmp_path / "a.zip", {}),
        write_tar(tmp_path / "b.tar", {"core": b"\x7fELF" + bytes(99)}),
    ):
        with pytest.raises(InputError):
            open_sources([str(path)])


def test_a_zip_bomb_is_stopped(tmp_path: Path) -> None:
    """A member that grows a thousandfold is cut at the limit, with a gap, in bounded memory."""
    path = write_zip(tmp_path / "bomb.zip", {"rank0.log": b"x" * (40 << 20), "rank1.log": LOG})
    limits = Limits(max_ratio=50, free_bytes=1 << 20)
    sources, _ = open_sources([str(path)], limits=limits)
    tracemalloc.start()
    done = sum(len(block) for block in sources[0].blocks(1 << 16))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 1 << 20 <= done < 8 << 20
    assert "decompression stopped" in sources[0].gaps[0].reason
    assert 4 << 20 > peak
    assert LOG == b"".join(sources[1].blocks())


def test_a_bzip2_member_bomb_is_bounded_in_memory(tmp_path: Path) -> None:
    """bzip2 packs 45 MB into 40 bytes; the standard zip reader would hold all of it at once."""
    path = write_zip(tmp_path / "b.zip", {"rank0.log": bytes(90 << 20)}, zipfile.ZIP_BZIP2)
    (source,), _ = open_sources([str(path)], limits=Limits(free_bytes=1 << 20, max_ratio=10))
    tracemalloc.start()
    sum(len(block) for block in source.blocks(1 << 16))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 16 << 20 > peak


def test_overlapping_zip_members_are_refused(tmp_path: Path) -> None:
    """Entries that share their bytes make a small file hold petabytes."""
    path = write_zip(tmp_path / "b.zip", {"a.log": LOG * 99, "b.log": LOG * 99})
    raw = bytearray(path.read_bytes())
    second = raw.rindex(b"PK\x01\x02")
    raw[second + 42 : second + 46] = (0).to_bytes(4, "little")
    path.write_bytes(bytes(raw))
    with pytest.raises(InputError, match="overlap"):
        open_sources([str(path)])


def test_encrypted_members_are_gaps(tmp_path: Path) -> None:
    """A member that needs a password is named, not read."""
    path = write_zip(tmp_path / "b.zip", {"a.log": LOG, "b.log": LOG})
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(raw))
    sources, gaps = open_sources([str(path)])
    assert ["a.log"] == list(texts(sources))
    assert "encrypted" in gaps[0].reason


def test_a_header_that_claims_a_huge_name_costs_no_memory(tmp_path: Path) -> None:
    """A long-name record of 8 GiB is corruption, not a reason to read 8 GiB."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, (8 << 30) - 1
    path = tmp_path / "b.tar"
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(InputError, match="corrupt tar header"):
        open_sources([str(path)])


def test_the_member_limit(tmp_path: Path) -> None:
    """An archive of too many members is read up to the limit."""
    files = {f"rank{i}.log": LOG for i in range(20)}
    for path in (write_tar(tmp_path / "a.tar", files), write_zip(tmp_path / "a.zip", files)):
        sources, gaps = open_sources([str(path)], limits=Limits(max_members=5))
        assert 5 == len(sources)
        assert "more than 5 members" in gaps[0].reason


def test_sparse_and_special_members(tmp_path: Path) -> None:
    """Links, devices and folders in a tar are passed over; a sparse file is a gap."""
    path = tmp_path / "b.tar"
    with tarfile.open(path, "w") as archive:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("special")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("sparse.log")
        info.type = tarfile.GNUTYPE_SPARSE
        archive.addfile(info)
        info = tarfile.TarInfo("rank1.log")
        info.size = len(LOG)
        archive.addfile(info, io.BytesIO(LOG))
    sources, gaps = open_sources([str(path)])
    assert {"rank1.log": LOG} == texts(sources)
    assert ["sparse.log"] == [g.source.partition("!/")[2] for g in gaps]


def test_a_compressed_tar_is_read_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the members in order goes on from member to member instead of starting over."""
    path = write_tar(tmp_path / "b.tar.gz", {f"rank{i}.log": LOG for i in range(50)}, "w:gz")
    sources, _ = open_sources([str(path)])
    opened = []

    def count(*args: Any) -> streams.Stream:
        opened.append(args)
        return streams.open_stream(*args)

    monkeypatch.setattr("rootrank.ingest.archives.open_stream", count)
    texts(sources)
    assert 1 == len(opened)
