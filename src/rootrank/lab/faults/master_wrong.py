"""Ranks look for the master at an address where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rootrank.lab.fault import START, Fault, Truth
from rootrank.lab.launch import free_port

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="ranks 1 and 2 are given a master address where nobody listens",
    truth=Truth(
        kind=START,
        ranks=(1, 2),
        entries=("master-unreachable", "peer-connection-refused"),
        symptoms=("ranks-never-joined",),
    ),
    launch="direct",
    min_ranks=3,
    options={"timeout_s": 15},
    deadline_s=120,
)


def around(run: Run) -> Iterator[None]:
    """Send all but rank 0 to another port."""
    wrong = str(free_port())
    for command in run.commands[1:]:
        command.env["MASTER_PORT"] = wrong
    yield
