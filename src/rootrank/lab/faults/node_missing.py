"""One of two nodes never comes to the rendezvous."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rootrank.lab.fault import START, Fault, Truth

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="the agent of node 1 is never started; node 0 waits for it",
    truth=Truth(kind=START, entries=("rendezvous-timeout", "ranks-never-joined")),
    launch="two-agents",
    ranks=4,
    deadline_s=60,
)


def around(run: Run) -> Iterator[None]:
    """Start the first agent only, with little patience."""
    del run.commands[1]
    agent = run.commands[0].argv
    agent.insert(agent.index("train.py"), "--rdzv-conf=join_timeout=15")
    yield
