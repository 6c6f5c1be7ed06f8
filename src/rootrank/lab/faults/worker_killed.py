"""A data-loader worker gets SIGKILL."""

from __future__ import annotations

import os
import signal
from typing import Any

from rootrank.lab.fault import KILLED, Fault, Truth

FAULT = Fault(
    about="a data-loader worker of rank 1 is killed",
    truth=Truth(kind=KILLED, ranks=(1,), entries=("dataloader-worker-killed",)),
    options={"workers": 1},
)


def read(job: Any, index: int) -> None:
    """End at once in the middle of the data."""
    if job.rank == 1 and index > 100:
        os.kill(os.getpid(), signal.SIGKILL)
