"""The bundle: bounds, secrets, places that are full."""

from __future__ import annotations

import errno
import json
import os
import tarfile
from pathlib import Path

import pytest

from rootrank.live import store
from rootrank.live.store import MAX_FILE, MAX_RANK, Store, codec_of, write

TOKEN = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"


def put(
    one: Store, file: str, data: str | bytes, rank: int | None = None, tail: bool = False
) -> None:
    """Put a file."""
    one.put(file, data, what="test", source="here", rank=rank, tail=tail)


def test_secrets_do_not_get_in() -> None:
    """Text is redacted as reports are; so are reasons."""
    one = Store("node-1")
    put(one, "proc_rank0.txt", f"python train.py --token {TOKEN}\n")
    one.miss("x", f"curl -H {TOKEN}: refused")
    manifest, files = one.seal()
    assert TOKEN.encode() not in files["node-1/proc_rank0.txt"]
    assert TOKEN not in json.dumps(manifest)
    assert b"--token <redacted:" in files["node-1/proc_rank0.txt"]


def test_records_stay_as_they_are() -> None:
    """Bytes are kept byte for byte: a pickle with other bytes is none."""
    one = Store("h")
    put(one, "nccl_trace_rank_0", b"\x80\x05N." + TOKEN.encode())
    assert b"\x80\x05N." + TOKEN.encode() == one.seal()[1]["h/nccl_trace_rank_0"]


def test_bounds() -> None:
    """A file and all files of one rank have a limit, and the manifest says that they were cut."""
    one = Store("h")
    for n in range(5):
        put(one, f"big{n}.txt", b"x" * (MAX_FILE + 10), rank=3)
    put(one, "other.txt", "small", rank=4)
    manifest, files = one.seal()
    assert MAX_RANK == sum(len(d) for name, d in files.items() if "big" in name)
    assert b"small" == files["h/other.txt"]
    assert all(line["cut"] for line in manifest["collected"] if "big" in line["file"])


def test_a_log_keeps_its_end() -> None:
    """The failure is at the end of a log."""
    one = Store("h")
    put(one, "rank0.log", "x" * MAX_FILE + "the end", tail=True)
    assert one.get("rank0.log").endswith(b"the end")


def test_who_is_late_speaks_to_nobody() -> None:
    """A probe that answers after the end changes nothing, and breaks nothing."""
    one = Store("h")
    one.seal()
    put(one, "late.txt", "x")
    one.miss("late", "x")
    one.probe("late", 1, "ok")
    manifest, files = one.seal()
    assert ({}, [], []) == (files, manifest["missing"], manifest["probes"])


def test_host_names_are_no_paths() -> None:
    """Whatever a machine is called, its folder lies inside the bundle."""
    assert "_.._etc" == Store("/../etc").folder
    assert "unnamed" == Store("..").folder


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.tar.zst", "zst"),
        ("a.TZST", "zst"),
        ("a.tar.gz", "gz"),
        ("a.tgz", "gz"),
        ("a.tar", "none"),
        ("a", None),
    ],
)
def test_forms(tmp_path: Path, name: str, codec: str | None) -> None:
    """The name decides on the form, and every form holds the same."""
    assert codec == codec_of(name)
    if codec == "zst" and not store.zstd_available():
        pytest.skip("no Zstandard")
    path, notes = write(str(tmp_path / name), {"manifest.json": b"{}", "h/a.txt": b"x"}, 0.0)
    assert (tmp_path / name, []) == (path, notes)
    if codec is None:
        assert b"x" == (path / "h" / "a.txt").read_bytes()
    elif codec != "zst":
        with tarfile.open(path) as tar:
            assert ["manifest.json", "h/a.txt"] == tar.getnames()
    assert [path] == list(tmp_path.iterdir())
    assert 0 == path.stat().st_mode & 0o077


def test_without_zstandard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes a .tar.gz and says so."""
    monkeypatch.setattr(store, "_zstd", lambda raw: None)
    path, notes = write(str(tmp_path / "b.tar.zst"), {"manifest.json": b"{}"}, 0.0)
    assert "b.tar.gz" == path.name
    assert "pip install zstandard" in notes[0]


def test_a_full_disk_is_no_reason_to_lose_the_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next place that takes it is used, and it is said why; nothing half stays behind."""
    full, free = tmp_path / "full", tmp_path / "free"
    full.mkdir()
    free.mkdir()
    monkeypatch.setenv("TMPDIR", str(free))
    real = os.fsync

    def fsync(fd: int) -> None:
        if "/full/" in str(Path(f"/proc/self/fd/{fd}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    path, notes = write(str(full / "b.tar.gz"), {"manifest.json": b"{}"}, 0.0)
    assert free / "b.tar.gz" == path
    assert ["No space left on device" in n for n in notes] == [True]
    assert [] == list(full.iterdir())


def test_nowhere_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When no place takes it the first reason is raised."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(store, "_write_one", refuse)
    with pytest.raises(OSError, match="Read-only"):
        write(str(tmp_path / "b.tar.gz"), {}, 0.0)


def test_half_a_folder_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that could not be filled goes; what others have in it stays."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").write_text("x")
    monkeypatch.setattr(store, "_places", lambda output: [output])
    with pytest.raises(OSError):
        write(str(tmp_path / "b"), {"a/1": b"x", "a/2" + "x" * 300: b"x"}, 0.0)
    assert ["mine"] == [p.name for p in (tmp_path / "b").iterdir()]
