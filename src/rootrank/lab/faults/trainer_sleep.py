"""transformers Trainer: one rank waits for a sample that never comes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="transformers Trainer: rank 1 waits for ever while it reads a sample",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        causes=("network-request",),
        entries=("rank-stuck-outside-collective",),
        symptoms=("rank-missing-from-collective", "collective-timeout", "job-cancelled"),
        decided_by=LIVE,
    ),
    job="trainer",
    ranks=2,
    snapshot="quiet",
    deadline_s=120,
)


def when_quiet(run: Run) -> None:
    """The time limit: on CPU the Trainer's collectives wait half an hour, whatever ddp_timeout says."""
    run.terminate()


def read(rank: int, index: int) -> None:
    """Ask an object store for a sample."""
    if rank == 1 and index > 20:
        left, _ = socket.socketpair()
        left.recv(1)
