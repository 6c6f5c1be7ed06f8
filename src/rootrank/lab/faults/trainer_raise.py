"""transformers Trainer: one rank raises in its training step."""

from __future__ import annotations

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="transformers Trainer: rank 1 raises ValueError on a batch",
    truth=Truth(kind=CRASH, ranks=(1,), entries=("uncaught-exception", "cpu-index-out-of-range")),
    job="trainer",
    ranks=2,
)


def read(rank: int, index: int) -> None:
    """Check a sample."""
    if rank == 1 and index > 20:
        raise ValueError(f"sample {index}: token 70 is outside the vocabulary of 64")
