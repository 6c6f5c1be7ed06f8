"""Reads /proc: bounded, never raising for a process that is gone, never following a link into a file system.

Belongs here: bytes of /proc becoming values. Must not be here: which process is which rank.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 256 << 10  # of one file of /proc; status and limits are 2 KiB, maps can be many MiB
MAX_THREADS = 512  # listed in full; of the rest only those that do not sleep
MAX_SCANNED_THREADS = 20_000
MAX_FDS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """The fields of /proc/PID/stat that are used here."""

    pid: int
    comm: str
    state: str
    ppid: int
    cpu_ticks: int  # user and system together
    threads: int
    start_ticks: int  # since boot; with the pid it names one process for ever
    rss_pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """One file descriptor. Position and flags come from fdinfo, so no file system is asked."""

    fd: int
    target: str
    position: int | None = None
    flags: int | None = None

    @property
    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self.flags is not None and self.flags & os.O_ACCMODE != os.O_RDONLY

    @property
    def regular(self) -> bool:
        """Whether the target is a path of a file rather than a socket, pipe or device."""
        return self.target.startswith("/") and not self.target.startswith(
            ("/dev/", "/proc/", "/sys/", "/memfd:", "/anon_hugepage")
        )


class Proc:
    """/proc, or a folder that looks like it."""

    def __init__(self, root: str | Path = "/proc") -> None:
        self.root = Path(root)

    def path(self, *parts: object) -> str:
        """Return a path below the root."""
        return "/".join([str(self.root), *map(str, parts)])

    def read(self, *parts: object, limit: int = MAX_BYTES) -> bytes:
        """Return the first `limit` bytes of a file. Raises OSError."""
        with open(self.path(*parts), "rb", buffering=0) as file:  # noqa: PTH123 - hot
            out = file.read(limit)
            while out and len(out) < limit:
                more = file.read(limit - len(out))
                if not more:
                    break
                out += more
            return out

    def text(self, *parts: object, limit: int = MAX_BYTES) -> str | None:
        """Return the text of a file, or None when it cannot be read."""
        try:
            return self.read(*parts, limit=limit).decode("utf-8", "replace")
        except OSError:
            return None

    def pids(self) -> list[int]:
        """Return all process ids that are visible, in order."""
        try:
            return sorted(int(name) for name in os.listdir(self.root) if name.isdecimal())
        except OSError:
            return []

    def stat(self, *parts: object) -> Stat | None:
        """Return the state of a process or thread (`pid` or `pid, "task", tid`); None when it is gone."""
        text = self.text(*parts, "stat", limit=4096)
        return parse_stat(text) if text else None

    def start_ticks(self, pid: int) -> int | None:
        """Return when the process began, in clock ticks since boot; None when it is gone."""
        stat = self.stat(pid)
        return stat.start_ticks if stat else None

    def words(self, pid: int) -> list[str]:
        """Return the command line; [] for kernel threads and what may not be read."""
        text = self.text(pid, "cmdline", limit=64 << 10)
        return text.rstrip("\0").split("\0") if text else []

    def environ(self, pid: int) -> dict[str, str]:
        """Return the environment that the process began with. Raises OSError when it may not be read."""
        raw = self.read(pid, "environ", limit=1 << 20).decode("utf-8", "replace")
        pairs = (item.partition("=") for item in raw.split("\0"))
        return {name: value for name, eq, value in pairs if eq}

    def link(self, *parts: object) -> str | None:
        """Return where a link of /proc points, without going there."""
        try:
            return os.readlink(self.path(*parts))  # noqa: PTH115 - hot
        except OSError:
            return None

    def threads(self, pid: int) -> list[int]:
        """Return the thread ids, the main thread first."""
        try:
            with os.scandir(self.path(pid, "task")) as entries:
                tids = []
                for entry in entries:
                    tids.append(int(entry.name))
                    if len(tids) >= MAX_SCANNED_THREADS:
                        break
        except (OSError, ValueError):
            return []
        return sorted(tids, key=lambda tid: (tid != pid, tid))

    def open_files(self, pid: int) -> Iterator[OpenFile]:
        """Yield up to MAX_FDS descriptors. Raises OSError when they may not be listed."""
        names = os.listdir(self.path(pid, "fd"))
        for name in sorted(names, key=int)[:MAX_FDS]:
            target = self.link(pid, "fd", name)
            if target is None:
                continue
            position, flags = self._fdinfo(pid, name) if target.startswith("/") else (None, None)
            yield OpenFile(fd=int(name), target=target, position=position, flags=flags)

    def _fdinfo(self, pid: int, fd: str) -> tuple[int | None, int | None]:
        text = self.text(pid, "fdinfo", fd, limit=4096) or ""
        found = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        try:
            return int(found["pos"]), int(found["flags"], 8)
        except (KeyError, ValueError):
            return None, None

    def boot_time_s(self) -> float | None:
        """Return when the kernel started, seconds since the epoch."""
        for line in (self.text("stat", limit=4 << 20) or "").splitlines():
            if line.startswith("btime "):
                return float(line.split()[1])
        return None


def parse_stat(text: str) -> Stat | None:
    """Return the values of a stat line; None when it is not one. The name may hold spaces and brackets."""
    head, _, tail = text.rpartition(")")
    pid, _, comm = head.partition(" (")
    rest = tail.split()
    try:
        return Stat(
            pid=int(pid), comm=comm, state=rest[0], ppid=int(rest[1]),
            cpu_ticks=int(rest[11]) + int(rest[12]), threads=int(rest[17]),
            start_ticks=int(rest[19]), rss_pages=int(rest[21]),
        )  # fmt: skip
    except (ValueError, IndexError):
        return None


def ticks_per_s() -> int:
    """Return how many clock ticks /proc counts in a second."""
    return os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
