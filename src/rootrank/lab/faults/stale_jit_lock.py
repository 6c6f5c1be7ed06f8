"""A killed build left its lock: every rank waits for a compiler that is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootrank.lab.fault import ALL, HANG, LIVE, Fault, Truth

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="every rank waits for the lock of an extension build that was killed",
    truth=Truth(
        kind=HANG,
        ranks=ALL,
        causes=("killed-build",),
        entries=("stale-jit-lock",),
        symptoms=("collective-timeout", "job-cancelled"),
        decided_by=LIVE,
    ),
    snapshot="quiet",
    deadline_s=60,
)


def around(run: Run) -> Iterator[None]:
    """Leave the lock of an earlier build."""
    folder = run.work / "cache" / "torch_extensions" / "fused_scale"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    yield


def when_quiet(run: Run) -> None:
    """Give up, as a user does."""
    run.terminate()


def ready(job: Any) -> None:
    """Build a small extension, as DeepSpeed and others do at the first use."""
    build = import_module("torch.utils.cpp_extension").load_inline
    folder = str(Path(os.environ["TORCH_EXTENSIONS_DIR"]) / "fused_scale")
    build("fused_scale", "int one() { return 1; }", functions=["one"], build_directory=folder)
