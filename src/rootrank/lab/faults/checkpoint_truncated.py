"""The checkpoint to resume from was cut off while it was written."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rootrank.lab.fault import ALL, START, Fault, Truth

FAULT = Fault(
    about="every rank resumes from a truncated checkpoint",
    truth=Truth(kind=START, ranks=ALL, entries=("checkpoint-corrupt",)),
    options={"resume": "model.pt"},
)


def start(job: Any) -> None:
    """Leave half a checkpoint, as a job does that is killed while it writes."""
    if job.rank == 0:
        job.torch.save({"head.weight": job.torch.zeros(1 << 16)}, "half.pt")
        whole = Path("half.pt").read_bytes()
        Path("half.pt").write_bytes(whole[: len(whole) // 2])
        Path("half.pt").rename("model.pt")
    while not Path("model.pt").exists():
        time.sleep(0.1)
