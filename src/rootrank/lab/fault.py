"""A fault and its truth, and where all of them are found.

Belongs here: the two values, reading the fault files, what a fault needs of this machine.
Must not be here: running anything.
"""

from __future__ import annotations

import ast
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

# Functions of a fault file that the lab calls itself; the job never sees them.
LAB_SIDE = ("around", "when_running", "when_quiet")
ALL = (-1,)  # every rank fails alike: nobody is to be singled out

CRASH, KILLED, HANG, SLOW = "crash", "killed", "hang", "slow"
START, NUMBERS, HEALTHY = "wont-start", "wrong-numbers", "healthy"
KINDS = (CRASH, KILLED, HANG, SLOW, START, NUMBERS, HEALTHY)
LOGS, LIVE, NOTHING = "logs", "live", "nothing"
DECIDERS = (LOGS, LIVE, NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is true of a run, and which evidence can show it."""

    kind: str  # one of KINDS
    ranks: tuple[int, ...] = ()  # who failed first; ALL: everybody alike; (): no rank did
    entries: tuple[str, ...] = ()  # ids of entries that name the cause rightly
    symptoms: tuple[
        str, ...
    ] = ()  # ids that are right as far as they go, where the cause is hidden
    causes: tuple[str, ...] = ()  # ids of root causes that are right, where all evidence shows one
    # The least evidence that decides: the job's text, or what was taken from the live job as well.
    # With less, rootrank must say that the evidence is insufficient and what is missing.
    decided_by: str = LOGS
    silent: bool = False  # the text looks healthy; without more, no-failure is a right answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way to break the job."""

    about: str
    truth: Truth
    job: str = "plain"  # plain | deepspeed | accelerate | trainer | lightning
    launch: str = "torchrun"  # torchrun | two-agents | direct (as srun does) | self
    ranks: int = 3  # the default of --ranks
    min_ranks: int = 2
    options: Mapping[str, object] = field(default_factory=dict)  # for the job; see job.py
    env: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()  # modules, or "mount": permission to mount a small tmpfs
    snapshot: str = ""  # "quiet": once nothing is printed any more; "running": amid the steps
    deadline_s: int = 150


@dataclass(frozen=True, slots=True)
class Found:
    """A fault file, loaded."""

    name: str
    fault: Fault
    module: ModuleType

    def lab_side(self, name: str) -> Callable[..., object] | None:
        """Return a function of the fault that the lab calls, or None."""
        return getattr(self.module, name, None)

    def job_side(self) -> str:
        """Return the source of the hooks, without comments and without anything that tells.

        The job's folder, its tracebacks and its stacks must not hold the name of the fault: what
        rootrank finds, it has to find by the evidence.
        """
        tree = ast.parse(inspect.getsource(self.module))
        kept = [node for node in tree.body if _is_for_job(node)]
        return ast.unparse(ast.Module(body=kept, type_ignores=[])) + "\n"


def _is_for_job(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name not in LAB_SIDE
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__" or not (node.module or "").startswith("rootrank")
    return isinstance(node, ast.Import)


@lru_cache(maxsize=1)
def faults() -> dict[str, Found]:
    """Return every fault by its name, in order of name."""
    package = import_module("rootrank.lab.faults")
    found = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        loaded = import_module(f"rootrank.lab.faults.{module}")
        name = module.replace("_", "-")
        found[name] = Found(name, loaded.FAULT, loaded)
    return found


# --------------------------------------------------------------------------- what a fault needs


def lacking(fault: Fault) -> str:
    """Return why the fault cannot run here, with the remedy, or ""."""
    if sys.platform != "linux":
        return "the lab needs Linux (/proc)"
    modules = ("torch", *_JOB_NEEDS[fault.job], *(n for n in fault.needs if n != "mount"))
    absent = [m for m in dict.fromkeys(modules) if find_spec(m) is None]
    if absent:
        return f"needs {', '.join(absent)}: pip install {' '.join(absent)}"
    if "mount" in fault.needs and not can_mount():
        return "needs permission to mount a small tmpfs in a namespace of its own: run it as root"
    return ""


_JOB_NEEDS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "deepspeed": ("deepspeed",),
    "accelerate": ("accelerate", "transformers"),
    "trainer": ("accelerate", "transformers"),
    "lightning": ("lightning",),
}


@lru_cache(maxsize=1)
def can_mount() -> bool:
    """Return whether a private tmpfs can be mounted: nothing of it is seen or left outside."""
    if os.name != "posix" or not shutil.which("unshare"):
        return False
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
