"""Two threads of one rank take two locks in opposite order."""

from __future__ import annotations

import threading
import time
from typing import Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="rank 1 deadlocks with its own metrics thread",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        causes=("two-locks",),
        entries=("thread-deadlock",),
        symptoms=(
            "rank-missing-from-collective",
            "collective-timeout",
            "rank-stuck-outside-collective",
        ),
        decided_by=LIVE,
    ),
    snapshot="quiet",
)


def on_step(job: Any, step: int) -> None:
    """Flush metrics while the buffer is held."""
    if job.rank == 1 and step == 5:
        buffer, file = threading.Lock(), threading.Lock()
        threading.Thread(target=flush, args=(buffer, file), name="metrics", daemon=True).start()
        with buffer:
            time.sleep(0.4)
            with file:
                job.log.info("metrics flushed")


def flush(buffer: Any, file: Any) -> None:
    """Write what is buffered."""
    with file:
        time.sleep(0.2)
        with buffer:
            time.sleep(0.1)
