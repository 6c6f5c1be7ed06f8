"""Which processes are the ranks of a job: on a drawn /proc, so that every launcher can be had."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rootrank.errors import InputError, UsageError
from rootrank.live import ranks
from rootrank.live.procfs import Proc, parse_stat
from rootrank.live.ranks import child_kind, find


class Drawn:
    """A folder that looks like /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.add(1, 0, "systemd")

    def add(self, pid: int, parent: int, words: str, start: int = 0, **env: object) -> None:
        """Add a process."""
        folder = self.root / str(pid)
        folder.mkdir(parents=True)
        comm = Path(words.split()[0]).name[:15]
        fields = ["S", str(parent), *["0"] * 9, "5", "6", *["0"] * 4, "1", "0", str(start or pid)]
        (folder / "stat").write_text(f"{pid} ({comm}) {' '.join(fields)} 4096 100 0\n")
        (folder / "cmdline").write_bytes(words.replace(" ", "\0").encode() + b"\0")
        (folder / "environ").write_bytes(
            b"".join(f"{name}={value}\0".encode() for name, value in env.items())
        )

    def proc(self) -> Proc:
        """Return it for the search."""
        return Proc(self.root)


@pytest.fixture
def drawn(tmp_path: Path) -> Drawn:
    """Return an empty machine."""
    return Drawn(tmp_path / "proc")


def worker(n: int, world: int = 2, **more: object) -> dict[str, object]:
    """Return what torchrun sets."""
    return {
        "RANK": n, "LOCAL_RANK": n, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0,
        "MASTER_ADDR": "h", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": "none", **more,
    }  # fmt: skip


def test_torchrun(drawn: Drawn) -> None:
    """Ranks are torchrun's children; what they start themselves belongs to them."""
    drawn.add(10, 1, "python3 torchrun train.py")
    for n in range(2):
        drawn.add(11 + n, 10, "python3 train.py", **worker(n))
    drawn.add(20, 12, "python3 train.py", **worker(1))  # a forked data loader
    drawn.add(21, 12, "ninja -v", **worker(1))
    job = find(drawn.proc())
    assert [(0, 11), (1, 12)] == [(r.rank, r.pid) for r in job.ranks]
    assert [10] == [p.pid for p in job.launchers]
    assert [(20, "worker"), (21, "compiler")] == [
        (c.pid, child_kind(c)) for c in job.ranks[1].children
    ]
    assert (2, "none", ()) == (job.world_size, job.run_id, job.absent)


def test_an_agent_under_an_operator_is_no_rank(drawn: Drawn) -> None:
    """A Kubernetes operator gives the agent RANK and WORLD_SIZE that count nodes."""
    drawn.add(10, 1, "python3 torchrun train.py", RANK=0, WORLD_SIZE=2)
    drawn.add(11, 10, "python3 train.py", **worker(0))
    drawn.add(12, 10, "python3 train.py", **worker(1))
    assert [11, 12] == [r.pid for r in find(drawn.proc()).ranks]


def test_srun_with_a_shell(drawn: Drawn) -> None:
    """Under srun the task is a shell; the rank is the interpreter in it."""
    for n in range(2):
        env = {"SLURM_PROCID": n, "SLURM_LOCALID": n, "SLURM_NTASKS": 2, "SLURM_JOB_ID": 77}
        drawn.add(10 + n, 1, "bash run.sh", **env)
        drawn.add(20 + n, 10 + n, "python3 train.py", **env)
    job = find(drawn.proc(), run_id="77")
    assert [(0, 20), (1, 21)] == [(r.rank, r.pid) for r in job.ranks]


def test_torchrun_under_srun(drawn: Drawn) -> None:
    """Neither the shell nor the agent is a rank, although Slurm numbers them."""
    slurm = {"SLURM_PROCID": 1, "SLURM_LOCALID": 0, "SLURM_JOB_ID": 77}
    drawn.add(9, 1, "bash run.sh", **slurm)
    drawn.add(10, 9, "python3 torchrun train.py", **slurm)
    for n in range(2):
        more = {"RANK": n + 2, "GROUP_RANK": 1, **slurm}
        drawn.add(11 + n, 10, "python3 train.py", **{**worker(n, 4), **more, "LOCAL_WORLD_SIZE": 2})
    job = find(drawn.proc())
    assert [(2, 11), (3, 12)] == [(r.rank, r.pid) for r in job.ranks]
    assert 1 == job.ranks[0].node_rank


def test_mpirun(drawn: Drawn) -> None:
    """Open MPI's names count too."""
    drawn.add(10, 1, "mpirun python3 train.py")
    for n in range(3):
        env = {"OMPI_COMM_WORLD_RANK": n, "OMPI_COMM_WORLD_SIZE": 3}
        drawn.add(11 + n, 10, "python3 train.py", **env)
    job = find(drawn.proc(), pid=10)
    assert ([0, 1, 2], 3) == ([r.rank for r in job.ranks], job.world_size)


def test_lightning(drawn: Drawn) -> None:
    """Lightning's rank 0 carries no name; it is the parent of the other local ranks."""
    drawn.add(10, 1, "python3 train.py")
    drawn.add(11, 10, "python3 train.py", LOCAL_RANK=1, NODE_RANK=0, MASTER_PORT=4)
    drawn.add(12, 10, "python3 train.py", LOCAL_RANK=2, NODE_RANK=0, MASTER_PORT=4)
    job = find(drawn.proc())
    said = [(r.rank, r.pid, r.basis) for r in job.ranks]
    assert [(0, 10, "computed"), (1, 11, "computed"), (2, 12, "computed")] == said


def test_a_compile_worker_is_no_rank(drawn: Drawn) -> None:
    """What a script without launcher starts inherits names that the script set itself."""
    drawn.add(10, 1, "python3 train.py")
    drawn.add(11, 10, "python3 -m torch._inductor.compile_worker", **worker(0, 1))
    job = find(drawn.proc(), pid=10)
    assert [(None, 10, "given")] == [(r.rank, r.pid, r.basis) for r in job.ranks]


def test_any_process_of_a_job_chooses_it(drawn: Drawn) -> None:
    """--pid may name a launcher, a rank or a worker."""
    for base, port in ((10, 1), (30, 2)):
        drawn.add(base, 1, "python3 torchrun train.py")
        for n in range(2):
            env = {**worker(n), "MASTER_PORT": port}
            drawn.add(base + 1 + n, base, "python3 train.py", **env)
        drawn.add(base + 5, base + 2, "python3 train.py", **{**worker(1), "MASTER_PORT": port})
    for pid in (30, 31, 32, 35):
        assert [31, 32] == [r.pid for r in find(drawn.proc(), pid=pid).ranks], pid


def test_two_jobs_are_not_mixed(drawn: Drawn) -> None:
    """Without a choice between two jobs none is taken, and both are named."""
    drawn.add(11, 1, "python3 train.py", **worker(0))
    drawn.add(12, 1, "python3 train.py", **{**worker(0), "TORCHELASTIC_RUN_ID": "other"})
    with pytest.raises(UsageError, match=r"2 jobs run here: pid 11 .*pid 12 .*--pid"):
        find(drawn.proc())
    assert [12] == [r.pid for r in find(drawn.proc(), run_id="other").ranks]


def test_a_rank_that_is_gone_is_named(drawn: Drawn) -> None:
    """The launcher counts four processes, three are there."""
    for n in (0, 1, 3):
        drawn.add(11 + n, 1, "python3 train.py", **worker(n, 4))
    assert (2,) == find(drawn.proc()).absent


def test_a_leftover_of_an_earlier_attempt(drawn: Drawn) -> None:
    """Of two processes with one rank the younger one is it."""
    drawn.add(50, 1, "python3 train.py", 900, **worker(0))
    drawn.add(60, 1, "python3 train.py", 100, **worker(0))
    assert [50] == [r.pid for r in find(drawn.proc()).ranks]


def test_no_job(drawn: Drawn) -> None:
    """The message says what was looked for."""
    drawn.add(10, 1, "sleep 5")
    with pytest.raises(InputError, match="no process has the environment of a rank"):
        find(drawn.proc())
    with pytest.raises(InputError, match="no process 99"):
        find(drawn.proc(), pid=99)
    with pytest.raises(InputError, match="no rank of run x"):
        find(drawn.proc(), run_id="x")


def test_a_process_that_cannot_be_read_costs_its_own_answer_only(
    drawn: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the environment waits for a lock of the process: with several such, all others are found."""
    monkeypatch.setattr(ranks, "_STUCK_S", 0.1)
    monkeypatch.setattr(ranks, "_SEARCH_S", 1.5)
    for pid in (2000, 2001, 2002, 2003):
        drawn.add(pid, 1, "python3 stuck.py")
        (drawn.root / str(pid) / "environ").unlink()
        os.mkfifo(drawn.root / str(pid) / "environ")  # opening it waits for a writer, for ever
    drawn.add(3000, 1, "python3 train.py", **worker(0, 1))
    began = time.monotonic()
    job = find(drawn.proc(), pid=3000)
    assert [3000] == [r.pid for r in job.ranks]
    assert [2000, 2001, 2002, 2003] == [p.pid for p in job.blocked]
    assert time.monotonic() - began < 4


def test_names_with_brackets() -> None:
    """A process may call itself anything."""
    stat = parse_stat("7 (a) b (c) S 1 " + "0 " * 9 + "3 4 0 0 0 0 2 0 99 1 8\n")
    assert stat is not None
    assert ("a) b (c", "S", 1, 7, 2, 99) == (
        stat.comm, stat.state, stat.ppid, stat.cpu_ticks, stat.threads, stat.start_ticks
    )  # fmt: skip
    assert parse_stat("nonsense") is None


def test_a_batch_script_beside_its_steps(drawn: Drawn) -> None:
    """sbatch numbers its script 0 as well; the steps hang from another daemon."""
    drawn.add(8, 1, "bash batch.sh", SLURM_PROCID=0, SLURM_JOB_ID=77)
    drawn.add(9, 8, "srun python3 train.py", SLURM_PROCID=0, SLURM_JOB_ID=77)
    for n in range(2):
        env = {"SLURM_PROCID": n, "SLURM_JOB_ID": 77, "SLURM_STEP_ID": 0}
        drawn.add(20 + n, 1, "python3 train.py", **env)
    assert [20, 21] == [r.pid for r in find(drawn.proc()).ranks]


def test_a_shell_in_a_pod(drawn: Drawn) -> None:
    """Who looks into a pod inherits the name of its rank; so does the collector itself."""
    pod = {"RANK": 1, "WORLD_SIZE": 2, "MASTER_ADDR": "a-0", "MASTER_PORT": 1}
    drawn.add(7, 1, "python3 train.py", 10, **pod)
    drawn.add(40, 0, "bash", 900, **pod)
    drawn.add(os.getpid(), 40, "python3 -c collect", 901, **pod)
    assert [(1, 7)] == [(r.rank, r.pid) for r in find(drawn.proc()).ranks]
