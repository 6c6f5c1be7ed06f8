"""Two ranks stop at the same time, for different reasons."""

from __future__ import annotations

import socket
import threading
from typing import Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="rank 1 waits for a lock and rank 3 for a socket, at the same step",
    truth=Truth(
        kind=HANG,
        ranks=(1, 3),
        entries=("rank-stuck-outside-collective", "thread-deadlock"),
        symptoms=("rank-missing-from-collective", "collective-timeout"),
        decided_by=LIVE,
    ),
    ranks=4,
    min_ranks=4,
    snapshot="quiet",
)


def on_step(job: Any, step: int) -> None:
    """Stop where there is nothing to wait for."""
    if step != 5:
        return
    if job.rank == 1:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    if job.rank == 3:
        left, _ = socket.socketpair()
        left.recv(1)
