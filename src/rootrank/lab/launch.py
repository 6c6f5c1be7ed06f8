"""How a job is started: the command lines of each way, with their environment and output files.

Belongs here: torchrun on one node and on two, direct processes as srun starts them, self-launching
frameworks. Must not be here: waiting for them.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True, kw_only=True)
class Process:
    """One command of a launch."""

    argv: list[str]
    output: str  # file in the evidence folder
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a job runs and what it is given."""

    work: Path
    evidence: Path
    ranks: int
    port: int


def free_port() -> int:
    """Return a port that nobody listens on now; somebody else may take it before the job does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def torchrun(place: Place) -> list[Process]:
    """One agent, all ranks; per-rank files and the combined output."""
    where = ["--nnodes=1", f"--nproc-per-node={place.ranks}", "--master-addr=127.0.0.1"]
    where.append(f"--master-port={place.port}")
    return [_agent(place, where, "train.log", "ranks")]


def two_agents(place: Place) -> list[Process]:
    """Two agents on this host with half of the ranks each, as on two nodes."""
    each = max(1, place.ranks // 2)
    agents = []
    for node in (0, 1):
        where = ["--nnodes=2", f"--nproc-per-node={each}", f"--node-rank={node}"]
        where += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{place.port}", "--rdzv-id=7"]
        agents.append(_agent(place, where, f"node{node}.log", f"node{node}"))
    return agents


def _agent(place: Place, where: list[str], output: str, folder: str) -> Process:
    logs = ["--log-dir", str(place.evidence / folder), "--redirects=3", "--tee=3"]
    argv = [sys.executable, "-m", "torch.distributed.run", *where, *logs, "train.py"]
    return Process(argv=argv, output=output)


def direct(place: Place) -> list[Process]:
    """One process per rank without an agent, as srun starts them."""
    started = []
    for rank in range(place.ranks):
        env = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(place.ranks)}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(place.port)}
        argv = [sys.executable, "train.py"]
        started.append(Process(argv=argv, output=f"rank{rank}.log", env=env))
    return started


def alone(place: Place) -> list[Process]:
    """One command that starts its own ranks, as Lightning does."""
    return [Process(argv=[sys.executable, "train.py"], output="train.log")]


WAYS: Mapping[str, Callable[[Place], list[Process]]] = {
    "torchrun": torchrun,
    "two-agents": two_agents,
    "direct": direct,
    "self": alone,
}


def small_mount(path: str, size: str, argv: list[str], report: str = "") -> list[str]:
    """Return a command that sees a small file system at `path`; nobody else does.

    The mount lives in a namespace of its own and goes with the last process in it. `report` names a
    file for what df says of it at the end.
    """
    after = f'; code=$?; df -h "{path}" > "{report}"; exit $code' if report else ""
    script = f'mount -t tmpfs -o size={size} tmpfs "{path}" && "$@"{after}'
    return ["unshare", "-m", "sh", "-c", script, "sh", *argv]


def environment(place: Place, token: str, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a job: this one's, with caches inside the folder and no network."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(_NOT_INHERITED)}
    caches = place.work / "cache"
    env |= {
        "JOB_TOKEN": token,
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(place.work / "tmp"),
        "XDG_CACHE_HOME": str(caches),
        "TORCH_EXTENSIONS_DIR": str(caches / "torch_extensions"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "HF_HOME": str(caches / "huggingface"),
        "HF_HUB_OFFLINE": "1",
        "MPLCONFIGDIR": str(caches / "matplotlib"),
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "",
        "DS_ACCELERATOR": "cpu",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**env, **extra}


# A lab inside a job must not join it.
_NOT_INHERITED = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_", "MASTER_", "TORCHELASTIC_"),
    *("SLURM_", "OMPI_", "PMI_", "ROLE_", "NODE_RANK", "COLUMNS", "PYTHONPATH"),
)
