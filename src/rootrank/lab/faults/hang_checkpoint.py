"""Rank 0 hangs in writing the checkpoint; the others wait in the barrier behind it."""

from __future__ import annotations

import os
from typing import Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="rank 0 never gets its checkpoint written",
    truth=Truth(
        kind=HANG,
        ranks=(0,),
        causes=("one-rank-work", "writeback", "network-storage", "local-disk"),
        entries=("storage-hung-io", "rank-stuck-outside-collective"),
        symptoms=("rank-missing-from-collective", "collective-timeout"),
        decided_by=LIVE,
    ),
    options={"save_every": 5},
    snapshot="quiet",
)


def save(job: Any, path: Any) -> None:
    """Write to a file system that takes nothing any more: a pipe that nobody empties."""
    os.mkfifo(path)
    file = os.open(path, os.O_RDWR)
    while True:
        os.write(file, bytes(1 << 16))
