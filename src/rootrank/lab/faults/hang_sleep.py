"""A rank waits for something outside; the others wait for it and time out first."""

from __future__ import annotations

import time
from typing import Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="rank 1 sleeps for ever between two steps",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        entries=("rank-stuck-outside-collective",),
        symptoms=("rank-missing-from-collective", "collective-timeout"),
        decided_by=LIVE,
    ),
    snapshot="quiet",
)


def on_step(job: Any, step: int) -> None:
    """Wait for a lease that never comes."""
    if job.rank == 1 and step == 5:
        time.sleep(100_000)
