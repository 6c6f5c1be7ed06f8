"""Batches of the data loader do not fit into a small /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rootrank.lab.fault import CRASH, Fault, Truth
from rootrank.lab.launch import small_mount

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="/dev/shm of 32 MiB is too small for the batches of rank 1's workers",
    truth=Truth(
        kind=CRASH,
        ranks=(1,),
        causes=("container-default", "batches-in-flight"),
        entries=("shm-full", "dataloader-worker-bus-error"),
    ),
    options={"workers": 2},
    needs=("mount",),
)


def around(run: Run) -> Iterator[None]:
    """Give the job a small /dev/shm, in a namespace of its own."""
    for command in run.commands:
        command.argv = small_mount("/dev/shm", "32m", command.argv)
    yield


def read(job: Any, index: int) -> Any:
    """Return what a video loader would."""
    if job.rank == 1 and index > 100:
        return job.torch.zeros(1 << 22), job.torch.zeros(1)
    return None
