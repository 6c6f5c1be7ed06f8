"""A rank is stopped with SIGSTOP, as by a debugger or a frozen control group."""

from __future__ import annotations

import os
import signal
from typing import Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="rank 2 is stopped with SIGSTOP",
    truth=Truth(
        kind=HANG,
        ranks=(2,),
        causes=("stopped-process",),
        entries=("rank-stuck-outside-collective",),
        symptoms=("rank-missing-from-collective", "collective-timeout"),
        decided_by=LIVE,
    ),
    snapshot="quiet",
)


def on_step(job: Any, step: int) -> None:
    """Stop."""
    if job.rank == 2 and step == 5:
        os.kill(os.getpid(), signal.SIGSTOP)
