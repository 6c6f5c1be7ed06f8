"""A rank aborts, as a failed assertion in native code does."""

from __future__ import annotations

import os
from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 1 calls abort()",
    truth=Truth(kind=CRASH, ranks=(1,), entries=("process-aborted",)),
)


def on_step(job: Any, step: int) -> None:
    """End as native code does when an assertion fails."""
    if job.rank == 1 and step == 5:
        os.abort()
