"""ZeRO-3: one rank skips an empty micro-batch; collectives of different steps pair up."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import HANG, Fault, Truth

FAULT = Fault(
    about="ZeRO-3 with CPU offload: rank 1 skips one micro-batch",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        causes=("skipped-batch",),
        entries=("collective-across-different-steps", "collective-mismatch"),
        symptoms=("collective-timeout", "peer-process-lost", "rank-missing-from-collective"),
    ),
    job="deepspeed",
    ranks=2,
    snapshot="quiet",
)


def skip(job: Any, step: int, part: int) -> bool:
    """Leave out a micro-batch without samples."""
    if job.rank == 1 and step == 3 and part == 0:
        job.log.warning("empty batch, skipping")
        return True
    return False
