"""ZeRO-3 with CPU offload: one rank waits outside of any collective."""

from __future__ import annotations

import time
from typing import Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="ZeRO-3 with CPU offload: rank 1 sleeps, rank 0 waits in the gather of parameters",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        entries=("rank-stuck-outside-collective", "deepspeed-zero-hang"),
        symptoms=("rank-missing-from-collective", "collective-timeout"),
        decided_by=LIVE,
    ),
    job="deepspeed",
    ranks=2,
    snapshot="quiet",
)


def on_step(job: Any, step: int) -> None:
    """Wait for a lease that never comes."""
    if job.rank == 1 and step == 3:
        time.sleep(100_000)
