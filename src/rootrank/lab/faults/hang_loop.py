"""A rank computes for ever: it looks busy, and the others wait for it."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="rank 2 is in an endless loop",
    truth=Truth(
        kind=HANG,
        ranks=(2,),
        entries=("rank-stuck-outside-collective",),
        causes=("endless-loop", "one-rank-work"),
        symptoms=("rank-missing-from-collective", "collective-timeout"),
        decided_by=LIVE,
    ),
    snapshot="quiet",
)


def on_step(job: Any, step: int) -> None:
    """Pack sequences until they fit, which the last one never does."""
    if job.rank == 2 and step == 5:
        room, left = 512, 700
        while left > room:
            left = max(left, sum(range(700)) % 1024)
