"""Two nodes: one rank sleeps, and each agent blames another rank of its own."""

from __future__ import annotations

import time
from typing import Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="rank 2, on node 1, sleeps; both agents name another first failure",
    truth=Truth(
        kind=HANG,
        ranks=(2,),
        entries=("rank-stuck-outside-collective",),
        symptoms=("rank-missing-from-collective", "collective-timeout"),
        decided_by=LIVE,
    ),
    launch="two-agents",
    ranks=4,
    min_ranks=4,
)


def on_step(job: Any, step: int) -> None:
    """Wait for a lease that never comes."""
    if job.rank == 2 and step == 5:
        time.sleep(100_000)
