"""The disk is full while rank 0 writes the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rootrank.lab.fault import CRASH, Fault, Truth
from rootrank.lab.launch import small_mount

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="the file system of the checkpoint is full; torch does not say so",
    truth=Truth(
        kind=CRASH,
        ranks=(0,),
        causes=("no-space",),
        entries=("disk-full", "checkpoint-write-failed"),
        symptoms=("uncaught-exception",),
    ),
    options={"save_every": 5},
    needs=("mount",),
)


def around(run: Run) -> Iterator[None]:
    """Keep checkpoints on a small disk, and look at it when the job has ended."""
    folder = run.work / "checkpoints"
    folder.mkdir()
    run.live.mkdir()
    report = str(run.live / "df.txt")
    for command in run.commands:
        command.argv = small_mount(str(folder), "1m", command.argv, report)
    yield


def save(job: Any, path: Any) -> None:
    """Write the state of the optimizer first, as large as the disk."""
    job.torch.save(job.torch.zeros(1 << 20), path.with_suffix(".optim"))
