"""The loss becomes NaN on one rank first, one step later everywhere."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import NUMBERS, Fault, Truth

FAULT = Fault(
    about="the loss of rank 1 becomes NaN; the reduced gradients carry it to all",
    truth=Truth(kind=NUMBERS, ranks=(1,), entries=("loss-nan",)),
)


def on_loss(job: Any, step: int, loss: Any) -> Any:
    """Divide by the number of tokens, of which there are none once."""
    return loss * float("nan") if job.rank == 1 and step == 5 else loss
