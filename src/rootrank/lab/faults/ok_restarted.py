"""A rank fails once, the launcher restarts all, and the job ends as planned."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rootrank.lab.fault import HEALTHY, Fault, Truth

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="rank 1 fails in the first attempt; the restarted job ends as planned",
    truth=Truth(kind=HEALTHY),
    deadline_s=150,
)


def around(run: Run) -> Iterator[None]:
    """Let the agent restart the ranks."""
    for command in run.commands:
        command.argv.insert(command.argv.index("train.py"), "--max-restarts=1")
    yield


def start(job: Any) -> None:
    """Lose the connection to the data service once.

    Before the process group exists: gloo meets the addresses of the first attempt in the store
    otherwise, and no restart succeeds. The agent ends the ranks that wait here.
    """
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        return
    if job.rank != 1:
        time.sleep(30)
    else:
        raise ConnectionRefusedError(111, "Connection refused: data service at 127.0.0.1")
