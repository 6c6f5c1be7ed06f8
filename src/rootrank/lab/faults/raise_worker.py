"""A sample cannot be decoded in a data-loader worker of one rank."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="a data-loader worker of rank 1 raises ValueError on a sample",
    truth=Truth(
        kind=CRASH,
        ranks=(1,),
        entries=("dataloader-worker-exception", "data-file-malformed", "uncaught-exception"),
    ),
    options={"workers": 1},
)


def read(job: Any, index: int) -> None:
    """Decode the image of a sample."""
    if job.rank == 1 and index > 100:
        raise ValueError(f"could not decode sample {index}: truncated JPEG")
