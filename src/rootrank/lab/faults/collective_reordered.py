"""One rank calls another collective than the others."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import HANG, Fault, Truth

FAULT = Fault(
    about="rank 1 broadcasts where the others reduce",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        causes=("rank-branch", "different-program"),
        entries=("collective-mismatch",),
        symptoms=("collective-timeout", "rank-missing-from-collective", "peer-process-lost"),
    ),
    options={"records": True},
    snapshot="quiet",
)


def on_step(job: Any, step: int) -> None:
    """Take the learning rate from rank 0."""
    if job.rank == 1 and step == 5:
        job.dist.broadcast(job.torch.ones(4), src=0)
