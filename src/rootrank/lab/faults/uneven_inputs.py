"""One rank runs out of data earlier and waits at the end."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import HANG, Fault, Truth

FAULT = Fault(
    about="rank 1 has fewer batches than the others",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        causes=("uneven-data", "fewer-batches"),
        entries=(
            "rank-missing-from-collective",
            "collective-mismatch",
            "collective-across-different-steps",
        ),
        symptoms=("collective-timeout", "peer-process-lost"),
    ),
    snapshot="quiet",
)


def ready(job: Any) -> None:
    """Take the number of steps from the own part of the data."""
    if job.rank == 1:
        job.steps -= 4
