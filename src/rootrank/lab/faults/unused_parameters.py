"""One rank leaves out a layer: DDP waits for gradients that never come."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 1 does not use the auxiliary head from step 5 on",
    truth=Truth(
        kind=CRASH, ranks=(1,), causes=("skipped-branch",), entries=("ddp-unused-parameters",)
    ),
)


def forward(job: Any, net: Any, hidden: Any) -> Any:
    """Leave out the auxiliary head."""
    return net.head(hidden) if job.rank == 1 and job.step >= 5 else None
