"""What is taken from a live job: stacks and /proc of every rank, the disk, the flight records.

Belongs here: reading, with a limit on each step; files named as the pipeline knows them.
Must not be here: what any of it means. No signals: they can wake the very rank
that hangs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from rootrank.lab.processes import Rank

_US = b" lab run "
_PROC = ("status", "wchan", "stack", "syscall", "io")


def take(pid: int, ranks: list[Rank], folder: Path, work: Path) -> None:
    """Write the state of the job below `pid` into `folder`: a bundle, as `rootrank collect` does.

    Where that fails, what this file can read by itself. Takes up to ten seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (work / "records.request").touch()
    if not _bundle(pid, folder):
        take_plain(ranks, folder, work)
    time.sleep(1.0)  # the job looks for the request twice a second
    keep_records(folder, work)


def _bundle(pid: int, folder: Path) -> bool:
    """Write a bundle; return whether it holds a stack of somebody."""
    try:
        from rootrank.live import collect

        files = collect(pid=pid, native=True, interval_s=2.0, output="-").files
    except Exception as error:  # the lab goes on without, and says so
        print(f"rootrank lab: collect failed: {type(error).__name__}: {error}", file=sys.stderr)
        return False
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_without_us(data))
    return any("py-spy" in name or "pyspy" in name or "stack" in name for name in files)


def _without_us(data: bytes) -> bytes:
    """Return the data without lines that show this process: its arguments name the fault."""
    if _US not in data:
        return data
    return b"".join(x for x in data.splitlines(keepends=True) if _US not in x)


def take_plain(ranks: list[Rank], folder: Path, work: Path) -> None:
    """Write /proc and stacks of the ranks, and the lock of a build."""
    for rank in ranks:  # passive first: what attaches to a process changes its wchan
        _write(folder / f"proc_{_name(rank)}.txt", _proc(rank.pid))
    for rank in ranks:
        _stacks(rank, folder)
    locks = sorted((work / "cache" / "torch_extensions").glob("**/lock"))
    if locks:
        _write(folder / "lockdir.txt", _output(["ls", "-lR", str(locks[0].parent)]))


def keep_records(folder: Path, work: Path) -> None:
    """Copy the flight records that the job has left."""
    for path in sorted((work / "records").glob("fr_trace_rank_*.json")):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.name)


def _name(rank: Rank) -> str:
    return f"rank{rank.rank}_worker{rank.pid}" if rank.worker else f"rank{rank.rank}"


def _proc(pid: int) -> str:
    parts = []
    for name in _PROC:
        parts.append(f"## {name}\n{_read(Path(f'/proc/{pid}/{name}'))}")
    parts.append("## threads")
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        state = _read(task / "stat").rpartition(")")[2].split()[:1]
        comm, wchan = _read(task / "comm").strip(), _read(task / "wchan").strip()
        parts.append(f"{task.name} comm={comm} state={''.join(state)} wchan={wchan}")
    return "\n".join(parts) + "\n"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"({error.strerror})"


def _stacks(rank: Rank, folder: Path) -> None:
    tool = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
    command = [tool, "dump", "--nonblocking", "--json", "--pid", str(rank.pid)]
    text = _output(command)
    if text.lstrip().startswith("["):
        _write(folder / f"pyspy_{_name(rank)}.json", text)
    # Python frames do not show a lock or a socket; native ones do, but reading them stops the
    # process for a moment, and would wait for ever for one that cannot be stopped.
    if not rank.worker and _state(rank.pid) in "RS":
        text = _output([tool, "dump", "--native", "--pid", str(rank.pid)])
        if "Thread " in text:
            _write(folder / f"pyspy_native_{_name(rank)}.txt", text)


def _state(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[0]


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=6, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
