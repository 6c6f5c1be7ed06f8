"""ZeRO-3 with CPU offload: one rank raises."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="ZeRO-3 with CPU offload: rank 1 raises RuntimeError",
    truth=Truth(kind=CRASH, ranks=(1,), entries=("uncaught-exception",)),
    job="deepspeed",
    ranks=2,
)


def on_step(job: Any, step: int) -> None:
    """Tokenize."""
    if job.rank == 1 and step == 3:
        raise RuntimeError("tokenizer returned None")
