"""A rank leaves with exit code 0 in the middle; launchers call that success."""

from __future__ import annotations

import os
from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 1 ends with exit code 0 in the middle of training",
    truth=Truth(
        kind=CRASH,
        ranks=(1,),
        entries=("rank-missing-from-collective", "peer-process-lost"),
    ),
)


def on_step(job: Any, step: int) -> None:
    """Leave, as a stray early return of a script does."""
    if job.rank == 1 and step == 5:
        os._exit(0)
