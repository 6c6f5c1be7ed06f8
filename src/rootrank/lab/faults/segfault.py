"""A rank reads from address 0."""

from __future__ import annotations

import ctypes
from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 2 reads from address 0 and gets SIGSEGV",
    truth=Truth(kind=CRASH, ranks=(2,), entries=("process-segfault",)),
)


def on_step(job: Any, step: int) -> None:
    """Read a string that is not there."""
    if job.rank == 2 and step == 5:
        ctypes.string_at(0)
