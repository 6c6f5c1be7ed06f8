"""The checkpoint to resume from belongs to another model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rootrank.lab.fault import ALL, START, Fault, Truth

FAULT = Fault(
    about="every rank resumes from the checkpoint of another model",
    truth=Truth(kind=START, ranks=ALL, entries=("checkpoint-mismatch",)),
    options={"resume": "model.pt"},
)


def start(job: Any) -> None:
    """Leave the checkpoint of a larger model."""
    if job.rank == 0:
        weights = {"head.weight": job.torch.zeros(1, 64), "head.bias": job.torch.zeros(1)}
        job.torch.save(weights, "new.pt")
        Path("new.pt").rename("model.pt")
    while not Path("model.pt").exists():
        time.sleep(0.1)
