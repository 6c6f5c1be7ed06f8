"""Two nodes: a rank of one raises; the other node sees lost connections only."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 3, on node 1, raises; node 0 loses the connection",
    truth=Truth(kind=CRASH, ranks=(3,), entries=("uncaught-exception",)),
    launch="two-agents",
    ranks=4,
    min_ranks=4,
)


def on_step(job: Any, step: int) -> None:
    """Look for a column that the batch does not have."""
    if job.rank == 3 and step == 5:
        batch = {"input_ids": [1, 2, 3]}
        job.log.debug("%s", batch["labels"])
