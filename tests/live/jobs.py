"""Real processes to collect from: small Python children that look like ranks, and fakes of programs.

A fake stands in for a command that this machine lacks; its output is reconstructed after the
command's documentation, never captured.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PREAMBLE = "import os, sys, threading, time\nprint('up', flush=True)\n"
SLEEP = "time.sleep(300)"
LOCK = "lock = threading.Lock(); lock.acquire(); lock.acquire()"
SPIN = "while True: sum(range(10000))"
MANY = """
def idle(): time.sleep(300)
threading.stack_size(65536)
for _ in range(int(os.environ['THREADS'])): threading.Thread(target=idle, daemon=True).start()
print('ready', flush=True)
time.sleep(300)
"""


@dataclass
class Running:
    """Ranks that run, with the folder of their logs and the id that tells them from other jobs."""

    ranks: list[subprocess.Popen[bytes]]
    folder: Path
    run_id: str

    def pid(self, rank: int) -> int:
        """Return the process id of a rank."""
        return self.ranks[rank].pid


def environment(rank: int, world: int, run_id: str, **more: str) -> dict[str, str]:
    """Return what torchrun sets for a rank."""
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29599",
        "TORCHELASTIC_RUN_ID": run_id,
        **more,
    }


@contextmanager
def job(folder: Path, codes: Sequence[str], **env: str) -> Iterator[Running]:
    """Run one process per code as ranks 0, 1, …; end them afterwards."""
    run_id = f"test-{uuid.uuid4()}"
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for rank, code in enumerate(codes):
            script = folder / f"train{rank}.py"
            script.write_text(PREAMBLE + textwrap.dedent(code))
            with (folder / f"rank{rank}.log").open("wb") as log:
                ranks.append(
                    subprocess.Popen(
                        [sys.executable, str(script)],
                        env=environment(rank, len(codes), run_id, **env),
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        cwd=folder,
                    )
                )
        for rank in range(len(codes)):
            await_words(folder / f"rank{rank}.log", "up")
        yield Running(ranks, folder, run_id)
    finally:
        for one in ranks:
            if one.poll() is None:
                one.send_signal(signal.SIGKILL)
        for one in ranks:
            one.wait()


def await_words(log: Path, words: str, limit_s: float = 20.0) -> None:
    """Wait until a log holds some words."""
    until = time.monotonic() + limit_s
    while words not in log.read_text(errors="replace"):
        assert time.monotonic() < until, f"{log} never said {words!r}"
        time.sleep(0.02)


def fake(folder: Path, name: str, script: str) -> Path:
    """Put a shell script in place of a program."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + textwrap.dedent(script))
    path.chmod(0o755)
    return path
