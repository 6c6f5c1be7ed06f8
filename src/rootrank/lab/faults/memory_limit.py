"""The memory of one rank is limited, as by a small container."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 1 may not have more memory and needs it (RLIMIT_AS)",
    truth=Truth(kind=CRASH, ranks=(1,), entries=("host-memory-alloc-failed",)),
)


def on_step(job: Any, step: int) -> None:
    """Keep copies of the parameters on the host, in a process that may not grow."""
    if job.rank == 1 and step == 5:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * 4096 + (200 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        copies = []
        while True:
            copies.append(job.torch.ones(1 << 24))
