"""One rank leaves out a collective and is one ahead of the others."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import HANG, NOTHING, Fault, Truth

FAULT = Fault(
    about="rank 1 skips the all_reduce of an evaluation",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        entries=("collective-mismatch", "collective-across-different-steps"),
        symptoms=("collective-timeout", "rank-missing-from-collective", "peer-process-lost"),
        decided_by=NOTHING,  # the one that is ahead is ended before it meets anything odd
    ),
    options={"evaluate_every": 5, "records": True},
    snapshot="quiet",
)


def evaluate(job: Any) -> Any:
    """Leave early where there is nothing to evaluate."""
    return job.torch.tensor([job.loss, 1.0]) if job.rank == 1 else None
