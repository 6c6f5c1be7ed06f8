"""ZeRO-3 with CPU offload: the host memory of one rank runs out."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="ZeRO-3 with CPU offload: rank 1 cannot get more host memory (RLIMIT_AS)",
    truth=Truth(kind=CRASH, ranks=(1,), entries=("host-memory-alloc-failed",)),
    job="deepspeed",
    ranks=2,
)


def on_step(job: Any, step: int) -> None:
    """Keep offloaded copies in a process that may not grow."""
    if job.rank == 1 and step == 3:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * 4096 + (200 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        copies = []
        while True:
            copies.append(job.torch.ones(1 << 24))
