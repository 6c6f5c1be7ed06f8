"""A rank hangs and the scheduler ends the job at its time limit."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="rank 1 hangs; the job is ended with SIGTERM before any timeout",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        causes=("network-request",),
        entries=("rank-stuck-outside-collective",),
        symptoms=("rank-missing-from-collective", "slurm-time-limit", "job-cancelled"),
        decided_by=LIVE,
    ),
    options={"timeout_s": 1800},
    snapshot="quiet",
)


def when_quiet(run: Run) -> None:
    """The time limit."""
    run.terminate()


def on_step(job: Any, step: int) -> None:
    """Wait for an answer of a service."""
    if job.rank == 1 and step == 5:
        left, _ = socket.socketpair()
        left.recv(1)
