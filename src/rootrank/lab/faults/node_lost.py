"""All processes of one node vanish at once: agent and ranks."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from rootrank.lab import processes
from rootrank.lab.fault import KILLED, Fault, Truth

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="node 1 with ranks 2 and 3 vanishes in the middle of training",
    truth=Truth(
        kind=KILLED,
        ranks=(2, 3),
        entries=("node-failure", "rank-missing-from-collective", "peer-process-lost"),
        symptoms=("collective-timeout",),
    ),
    launch="two-agents",
    ranks=4,
    min_ranks=4,
    options={"steps": 400},
)


def when_running(run: Run) -> None:
    """Kill the agent of node 1 and everything below it."""
    agent = run.started[1].pid
    ranks = [r.pid for r in processes.ranks_of(list(run.pids))]
    for pid in [agent, *(p for p in ranks if processes.parent_of(p) == agent)]:
        os.kill(pid, signal.SIGKILL)
