"""A module is missing on one node only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rootrank.lab.fault import START, Fault, Truth

FAULT = Fault(
    about="rank 1 cannot import a module that the others do not need",
    truth=Truth(kind=START, ranks=(1,), entries=("import-error", "python-env-not-activated")),
)


def ready(job: Any) -> None:
    """Load the fast tokenizer where this rank is to tokenize."""
    if job.rank == 1:
        import_module("fast_tokens_v2")
