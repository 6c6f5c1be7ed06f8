"""DeepSpeed halves the loss scale at every step until it cannot any more."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import ALL, NUMBERS, Fault, Truth

FAULT = Fault(
    about="every gradient overflows in fp16 until the loss scale is at its minimum",
    truth=Truth(kind=NUMBERS, ranks=ALL, entries=("loss-scale-exhausted",)),
    job="deepspeed",
    ranks=2,
    options={"fp16": True, "stage": 1, "offload": False, "steps": 12},
)


def on_loss(job: Any, step: int, loss: Any) -> Any:
    """Weigh the loss by something that half precision cannot hold."""
    return loss * 1e30 if step >= 2 else loss
