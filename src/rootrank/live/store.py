"""What was collected, in memory, and how it becomes one file or folder.

Belongs here: names and bounds of a bundle, redaction, the manifest, writing. Must not be here: where
evidence comes from.

Everything stays in memory until the end (at most a few MiB per rank): a full disk is one of the
failures to be diagnosed, and half a bundle on it helps nobody.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rootrank.report import redact

SCHEMA = "rootrank.bundle/1"
MAX_FILE = 2 << 20
MAX_RANK = 5 << 20  # all files of one rank together
MAX_HOST = 32 << 20  # files of no rank
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")


def stamp(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC, to the millisecond."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


def safe_name(text: str) -> str:
    """Return a name fit for one file or folder."""
    return _UNSAFE.sub("_", text).strip(".") or "unnamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One file of the bundle."""

    file: str  # inside the folder of its host
    what: str
    source: str  # path or command it is from
    data: bytes
    rank: int | None = None
    cut: bool = False

    def plain(self) -> dict[str, Any]:
        """Return the manifest's line."""
        line: dict[str, Any] = {"file": self.file, "what": self.what, "from": self.source}
        if self.rank is not None:
            line["rank"] = self.rank
        line["bytes"] = len(self.data)
        if self.cut:
            line["cut"] = True
        return line


class Store:
    """The evidence of one host. Threads that answer after the end speak to nobody."""

    def __init__(self, host: str, *, clean: bool = True) -> None:
        self.host, self.folder = host, safe_name(host)
        self._clean = clean
        self._lock = threading.Lock()
        self._sealed = False
        self._files: dict[str, Taken] = {}
        self._missing: list[dict[str, Any]] = []
        self._probes: dict[str, dict[str, Any]] = {}
        self._room: dict[int | None, int] = {}
        self.notes: dict[str, Any] = {}

    def put(
        self,
        file: str,
        data: str | bytes,
        *,
        what: str,
        source: str,
        rank: int | None = None,
        cut: bool = False,
        tail: bool = False,
    ) -> None:
        """Keep one file, redacted if it is text; longer ones lose their end, or with `tail` their start."""
        if isinstance(data, str):
            if len(data) > MAX_FILE:  # redacting what is thrown away would take seconds
                data, cut = (data[-MAX_FILE:] if tail else data[:MAX_FILE]), True
            data = self._redacted(data)
        with self._lock:
            if self._sealed:
                return
            whole = MAX_RANK if rank is not None else MAX_HOST
            old = self._files.get(file)
            room = self._room.get(rank, whole) + (len(old.data) if old else 0)
            keep = max(0, min(MAX_FILE, room))
            if len(data) > keep:
                data, cut = (data[-keep:] if tail and keep else data[:keep]), True
            self._room[rank] = room - len(data)
            self._files[file] = Taken(
                file=file, what=what, source=source, data=data, rank=rank, cut=cut
            )

    def _redacted(self, text: str) -> bytes:
        return (redact(text) if self._clean else text).encode("utf-8", "replace")

    def miss(
        self, what: str, reason: str, remedy: str | None = None, rank: int | None = None
    ) -> None:
        """Note what could not be had, and why."""
        line: dict[str, Any] = {"what": what, "reason": redact(reason)}
        if rank is not None:
            line["rank"] = rank
        if remedy:
            line["remedy"] = remedy
        with self._lock:
            if not self._sealed and line not in self._missing and len(self._missing) < 1000:
                self._missing.append(line)

    def probe(self, name: str, seconds: float, outcome: str) -> None:
        """Note what a probe cost and how it went: ok, failed or timeout. What it missed is in `missing`."""
        with self._lock:
            if not self._sealed:
                said = {"name": name, "seconds": round(seconds, 3), "outcome": outcome}
                self._probes[name] = said

    def has(self, file: str) -> bool:
        """Return whether a file is there."""
        with self._lock:
            return file in self._files

    def get(self, file: str) -> bytes:
        """Return the bytes of a file; b"" when it is not there."""
        with self._lock:
            one = self._files.get(file)
            return one.data if one else b""

    def drop(self, file: str) -> None:
        """Forget a file."""
        with self._lock:
            old = self._files.pop(file, None)
            if old and old.rank in self._room:
                self._room[old.rank] += len(old.data)

    def seal(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Take nothing more; return (manifest of the host, name in the bundle -> bytes)."""
        with self._lock:
            self._sealed = True
            taken = [self._files[name] for name in sorted(self._files)]
            host = {
                "host": self.host, "folder": self.folder, **self.notes,
                "collected": [t.plain() for t in taken],
                "missing": list(self._missing),
                "probes": sorted(self._probes.values(), key=lambda p: str(p["name"])),
            }  # fmt: skip
            return host, {f"{self.folder}/{t.file}": t.data for t in taken}


# --------------------------------------------------------------------------- writing


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return the manifest as it lies in the bundle."""
    return (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def zstd_available() -> bool:
    """Return whether this Python can write Zstandard."""
    return _zstd(io.BytesIO()) is not None


def _zstd(raw: BinaryIO) -> Any:
    """Return a writer that compresses into `raw`, or None where there is no Zstandard."""
    try:
        from compression import zstd

        return zstd.ZstdFile(raw, "wb")
    except ImportError:
        pass
    try:
        import zstandard

        return zstandard.ZstdCompressor(level=6).stream_writer(raw, closefd=False)
    except ImportError:
        return None


def write_archive(raw: BinaryIO, files: Mapping[str, bytes], codec: str, at: float) -> None:
    """Write the files as a tar; codec is zst, gz or none."""
    if codec == "zst":
        packer = _zstd(raw)
        if packer is None:
            raise ValueError("no Zstandard in this Python")
        try:
            _tar(packer, files, at, "w|")
        finally:
            packer.close()
    else:
        _tar(raw, files, at, "w|gz" if codec == "gz" else "w|")


def _tar(out: Any, files: Mapping[str, bytes], at: float, mode: str) -> None:
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]  # the mode is a variable
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(data), int(at), 0o600
            tar.addfile(info, io.BytesIO(data))


def codec_of(output: str) -> str | None:
    """Return the form that an output name asks for: zst, gz, none (a plain tar), or None: a folder."""
    lower = output.lower()
    if lower.endswith((".tar.zst", ".tzst")):
        return "zst"
    if lower.endswith((".tar.gz", ".tgz")):
        return "gz"
    return "none" if lower.endswith(".tar") else None


def write(output: str, files: Mapping[str, bytes], at: float) -> tuple[Path, list[str]]:
    """Write a bundle; return (where it is, what the user should know).

    Where the place is full or may not be written, the first other place that takes it is used: the
    evidence cannot be collected twice. Raises OSError when no place does.
    """
    said: list[str] = []
    codec = codec_of(output)
    if codec == "zst" and not zstd_available():
        codec, output = "gz", re.sub(r"\.(tar\.zst|tzst)$", ".tar.gz", output, flags=re.I)
        said.append("no Zstandard here (pip install zstandard): written as .tar.gz")
    first: OSError | None = None
    for place in _places(Path(output)):
        try:
            _write_one(place, files, codec, at)
        except OSError as error:
            first = first or error
            said.append(f"{place.parent}: {error.strerror or error}")
            continue
        return place, said
    assert first is not None
    raise first


def _places(output: Path) -> list[Path]:
    """Return the asked place and then others, each once."""
    others = [os.environ.get("TMPDIR"), "/tmp", "/dev/shm", os.environ.get("HOME")]
    out = [output]
    for folder in others:
        if folder and Path(folder) != output.parent and Path(folder).is_dir():
            place = Path(folder) / output.name
            if not place.exists() and place not in out:
                out.append(place)
    return out


def _write_one(place: Path, files: Mapping[str, bytes], codec: str | None, at: float) -> None:
    if codec is None:
        _write_folder(place, files)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        # Evidence holds command lines and paths: for its owner's eyes until they share it.
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as raw:  # noqa: PTH123
            write_archive(raw, files, codec, at)
            raw.flush()
            os.fsync(raw.fileno())  # a full disk may say so only here
        os.replace(aside, place)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _write_folder(place: Path, files: Mapping[str, bytes]) -> None:
    made: list[Path] = []
    try:
        for name, data in files.items():
            path = place / name
            for folder in reversed([f for f in path.parents if not f.exists()]):
                folder.mkdir(mode=0o700)
                made.append(folder)
            made.append(path)
            path.write_bytes(data)
    except OSError:
        _undo(made)
        raise


def _undo(made: list[Path]) -> None:
    """Remove what a failed attempt left: half a bundle looks like a whole one."""
    for path in reversed(made):
        try:
            path.rmdir() if path.is_dir() else path.unlink()
        except OSError:
            continue
