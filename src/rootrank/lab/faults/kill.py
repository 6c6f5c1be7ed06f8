"""A rank gets SIGKILL, as from the kernel or an operator; it says nothing."""

from __future__ import annotations

import os
import signal
from typing import Any

from rootrank.lab.fault import KILLED, Fault, Truth

FAULT = Fault(
    about="rank 1 is killed with SIGKILL",
    truth=Truth(kind=KILLED, ranks=(1,), entries=("process-killed-sigkill",)),
)


def on_step(job: Any, step: int) -> None:
    """End at once."""
    if job.rank == 1 and step == 5:
        os.kill(os.getpid(), signal.SIGKILL)
