"""A rank stalls for a while and goes on: nothing failed."""

from __future__ import annotations

import time
from typing import Any

from rootrank.lab.fault import HEALTHY, Fault, Truth

FAULT = Fault(
    about="rank 1 stalls for 12 s, then training goes on and ends as planned",
    truth=Truth(kind=HEALTHY),
)


def on_step(job: Any, step: int) -> None:
    """Wait for a slow read."""
    if job.rank == 1 and step == 5:
        job.log.warning("reading shard 3 takes longer than 5 s, still waiting")
        time.sleep(12)
