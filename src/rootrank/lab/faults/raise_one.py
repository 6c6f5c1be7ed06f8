"""One rank raises in its training step; the others lose it."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 1 raises KeyError in its training step",
    truth=Truth(kind=CRASH, ranks=(1,), entries=("uncaught-exception",)),
)


def on_step(job: Any, step: int) -> None:
    """Look for a column that the batch does not have."""
    if job.rank == 1 and step == 5:
        batch = {"input_ids": [1, 2, 3]}
        job.log.debug("%s", batch["labels"])
