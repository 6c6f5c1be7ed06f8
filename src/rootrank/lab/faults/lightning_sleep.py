"""Lightning: one rank waits for a sample that never comes."""

from __future__ import annotations

import socket

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="Lightning: rank 1 waits for ever while it reads a sample",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        causes=("network-request",),
        entries=("rank-stuck-outside-collective",),
        symptoms=("rank-missing-from-collective", "collective-timeout"),
        decided_by=LIVE,
    ),
    job="lightning",
    launch="self",
    ranks=2,
    snapshot="quiet",
    deadline_s=120,
)


def read(rank: int, index: int) -> None:
    """Ask an object store for a sample."""
    if rank == 1 and index > 20:
        left, _ = socket.socketpair()
        left.recv(1)
