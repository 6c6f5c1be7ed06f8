"""A rank leaves with an exit code and no words."""

from __future__ import annotations

import os
from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 1 ends with exit code 3 and prints nothing",
    truth=Truth(kind=CRASH, ranks=(1,), entries=("process-exit-nonzero",)),
)


def on_step(job: Any, step: int) -> None:
    """Leave with a code that means something to its author."""
    if job.rank == 1 and step == 5:
        os._exit(3)
