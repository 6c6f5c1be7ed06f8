"""One rank reduces integers where the others reduce floats: gloo adds them up in silence."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import LIVE, NUMBERS, Fault, Truth

FAULT = Fault(
    about="rank 1 reduces int32 where the others reduce float32; nothing complains",
    truth=Truth(
        kind=NUMBERS,
        ranks=(1,),
        causes=("size-or-type",),
        entries=("collective-mismatch",),
        decided_by=LIVE,
        silent=True,
    ),
    options={"evaluate_every": 5, "records": True},
)


def evaluate(job: Any) -> Any:
    """Average the loss, with a counter of another type on one rank."""
    kind = job.torch.int32 if job.rank == 1 else job.torch.float32
    value = job.torch.tensor([job.loss, 1.0]).to(kind)
    job.dist.all_reduce(value)
    return value.float().abs() + 1.0
