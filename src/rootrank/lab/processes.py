"""The processes of a lab run: found by a token in their environment, photographed, ended.

Belongs here: /proc. Must not be here: what a state means.
A process group would not do: agents put their ranks in sessions of their own, and a killed agent
leaves orphans.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Rank:
    """A process of the job that trains, or a worker below it."""

    pid: int
    rank: int
    worker: bool


def pids_with(token: str) -> list[int]:
    """Return the processes whose environment holds the token, this one not among them."""
    mark = f"JOB_TOKEN={token}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                environ = Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue
            if mark in environ.split(b"\0"):
                found.append(int(name))
    return found


def ranks_of(pids: list[int]) -> list[Rank]:
    """Return those of `pids` that run the training script, with the rank each one has."""
    training = [pid for pid in pids if is_training(pid)]
    found = []
    for pid in training:
        env = environ_of(pid)
        rank = env.get("RANK") or env.get("LOCAL_RANK") or "0"
        # A worker is the child of a rank; a rank that started the others has no RANK of its own.
        parent = parent_of(pid)
        worker = parent in training and environ_of(parent).get("LOCAL_RANK") == env.get(
            "LOCAL_RANK"
        )
        found.append(Rank(pid, int(rank), worker))
    return sorted(found, key=lambda r: (r.rank, r.worker, r.pid))


def is_training(pid: int) -> bool:
    """Return whether a process runs the script itself, not a launcher of it."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    script = next((i for i, w in enumerate(words) if w.endswith(b"train.py")), None)
    return script is not None and b"-m" not in words[:script]


def environ_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; {} when it is gone."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (part.partition(b"=") for part in data.split(b"\0"))
    return {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, _, v in pairs}


def parent_of(pid: int) -> int:
    """Return the parent's pid, 0 when the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def end(token: str, limit_s: float = 10.0) -> list[int]:
    """Kill every process of the run; return the ones that would not go within the limit."""
    until = time.monotonic() + limit_s
    while left := pids_with(token):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if time.monotonic() > until:
            return [p for p in left if _alive(p)]
        time.sleep(0.1)
    return []


def _alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def drop_shared_memory(pids: set[int]) -> None:
    """Remove what killed processes of ours left in /dev/shm; names hold the pid of their maker."""
    for path in Path("/dev/shm").glob("torch_*"):
        maker = path.name.split("_")[1]
        if maker.isdigit() and int(maker) in pids:
            path.unlink(missing_ok=True)
