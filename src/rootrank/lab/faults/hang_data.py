"""The storage of one rank stops answering while a worker reads."""

from __future__ import annotations

import os
from typing import Any

from rootrank.lab.fault import HANG, LIVE, Fault, Truth

FAULT = Fault(
    about="a data-loader worker of rank 1 never gets its next sample",
    truth=Truth(
        kind=HANG,
        ranks=(1,),
        causes=("slow-source", "endless-getitem"),
        entries=("dataloader-worker-deadlock", "storage-hung-io"),
        symptoms=(
            "rank-missing-from-collective",
            "collective-timeout",
            "rank-stuck-outside-collective",
        ),
        decided_by=LIVE,
    ),
    options={"workers": 1},
    snapshot="quiet",
)


def read(job: Any, index: int) -> None:
    """Read the shard of a sample."""
    if job.rank == 1 and index > 100:
        out, _ = os.pipe()
        os.read(out, 1)
