"""A file of the data set is missing for one rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rootrank.lab.fault import START, Fault, Truth

FAULT = Fault(
    about="the shard of rank 2 does not exist",
    truth=Truth(kind=START, ranks=(2,), entries=("file-not-found",)),
)


def ready(job: Any) -> None:
    """Open this rank's shard."""
    shard = Path("data") / f"shard-{job.rank:05}.bin"
    if job.rank != 2:
        shard.parent.mkdir(exist_ok=True)
        shard.write_bytes(bytes(64))
    job.log.info("shard %s: %d bytes", shard, len(shard.read_bytes()))
