"""The master's name cannot be resolved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rootrank.lab.fault import ALL, START, Fault, Truth

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="the master is given by a name that does not resolve",
    truth=Truth(kind=START, ranks=ALL, entries=("hostname-resolution-failed",)),
    launch="direct",
    options={"timeout_s": 15},
    deadline_s=120,
)


def around(run: Run) -> Iterator[None]:
    """Give the name of a pod that is not there."""
    for command in run.commands:
        command.env["MASTER_ADDR"] = "trainer-0.trainer.invalid"
    yield
