"""One rank reduces another number of values than the others."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 1 reduces 7 values where the others reduce gradients",
    truth=Truth(
        kind=CRASH,
        ranks=(1,),
        causes=("size-or-type", "rank-branch"),
        entries=("collective-mismatch",),
    ),
    options={"records": True},
)


def on_step(job: Any, step: int) -> None:
    """Sum up counters."""
    if job.rank == 1 and step == 5:
        job.dist.all_reduce(job.torch.ones(7))
