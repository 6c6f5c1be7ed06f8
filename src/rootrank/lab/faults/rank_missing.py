"""One rank was never started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rootrank.lab.fault import START, Fault, Truth

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="rank 2 is never started; the others wait for it",
    truth=Truth(kind=START, ranks=(2,), entries=("ranks-never-joined",)),
    launch="direct",
    min_ranks=3,
    options={"timeout_s": 15},
    deadline_s=90,
)


def around(run: Run) -> Iterator[None]:
    """Start all but one."""
    del run.commands[2]
    yield
