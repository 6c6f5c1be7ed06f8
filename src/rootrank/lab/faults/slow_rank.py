"""One rank becomes slow; all others wait for it at every step."""

from __future__ import annotations

import time
from typing import Any

from rootrank.lab.fault import LIVE, SLOW, Fault, Truth

FAULT = Fault(
    about="rank 1 takes ten times as long per step from step 8 on",
    truth=Truth(
        kind=SLOW,
        ranks=(1,),
        causes=("uneven-work", "local-input"),
        entries=("slow-rank",),
        symptoms=("throughput-drop",),
        decided_by=LIVE,
        silent=True,
    ),
    options={"steps": 20, "step_s": 0.2},
    snapshot="running",
    deadline_s=120,
)


def on_step(job: Any, step: int) -> None:
    """Augment a batch, more and more slowly."""
    if job.rank == 1 and step >= 3:
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            sum(range(1000))
