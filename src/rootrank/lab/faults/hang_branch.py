"""One rank takes another branch: it evaluates while the others go on training."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import HANG, Fault, Truth

FAULT = Fault(
    about="rank 1 evaluates at a step where the others do not",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        causes=("rank-branch",),
        entries=("collective-mismatch", "rank-stuck-outside-collective"),
        symptoms=("collective-timeout", "rank-missing-from-collective", "peer-process-lost"),
    ),
    options={"records": True},
    snapshot="quiet",
)


def on_step(job: Any, step: int) -> None:
    """Gather the losses when the own one is small enough."""
    if job.rank == 1 and step == 5:
        mine = job.torch.tensor([job.loss])
        losses = [job.torch.zeros(1) for _ in range(job.world)]
        job.dist.all_gather(losses, mine)
