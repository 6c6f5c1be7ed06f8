"""Finds the ranks of a job among the processes of this machine.

Belongs here: who is a rank, a launcher, a worker of a rank. Must not be here: what they are doing.

Workers and compilers inherit the environment of their rank, and launchers under a scheduler carry
one that looks like a rank's. So a rank is the topmost Python process of its name, and a process
above it that only counts nodes is a launcher.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rootrank.errors import InputError, UsageError
from rootrank.live.procfs import Proc, Stat

_STUCK_S = 0.5  # a read of /proc that takes longer waits for a lock that the process holds
_SEARCH_S = 4.0
_MAX_READERS = 64
_PYTHON = re.compile(r"python|pt_main_thread|pypy", re.I)
_WORKER = re.compile(
    r"pt_data_worker|_worker_loop|compile_worker|multiprocessing\.(?:spawn|forkserver|resource)"
)
_COMPILER = re.compile(r"^(?:ninja|nvcc|cicc|ptxas|cc1plus|cc1|ld|c\+\+|g\+\+|gcc|clang\S*|hipcc)$")
# In order of trust: the first that a process has is its rank.
_RANK_NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_LOCAL_NAMES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_WORLD_NAMES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_NODE_NAMES = ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID")
_RUN_NAMES = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PMIX_NAMESPACE", "LSB_JOBID", "PBS_JOBID")
_MARKS = frozenset((*_RANK_NAMES, "LOCAL_RANK", "TORCHELASTIC_RUN_ID"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process as it was when the search passed it. `env` stays inside the collector."""

    stat: Stat
    words: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    readable: bool = True  # False: its environment belongs to somebody else, or a lock is held

    @property
    def pid(self) -> int:
        """The process id."""
        return self.stat.pid

    @property
    def python(self) -> bool:
        """Whether it looks like an interpreter."""
        first = Path(self.words[0]).name if self.words else ""
        return bool(_PYTHON.search(self.stat.comm) or _PYTHON.search(first))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank and what runs below it."""

    process: Process
    rank: int | None
    local_rank: int | None = None
    world_size: int | None = None
    node_rank: int | None = None
    basis: str = "environment"  # environment | computed | given
    children: tuple[Process, ...] = ()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def label(self) -> str:
        """The part of file names that says whose they are."""
        return f"rank{self.rank}" if self.rank is not None else f"pid{self.pid}"

    @property
    def spoken(self) -> str:
        """The words for a person."""
        return f"rank {self.rank}" if self.rank is not None else f"process {self.pid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The part of a job that runs on this machine."""

    ranks: tuple[Rank, ...]
    launchers: tuple[Process, ...] = ()
    run_id: str | None = None
    world_size: int | None = None
    absent: tuple[int, ...] = ()  # local ranks that the environment counts and no process is
    blocked: tuple[Process, ...] = ()  # processes that could not be asked who they are
    seen: int = 0  # processes looked at

    @property
    def start_ticks(self) -> int | None:
        """When its first process here began."""
        all_of_it = [*(r.process for r in self.ranks), *self.launchers]
        return min((p.stat.start_ticks for p in all_of_it), default=None)


# --------------------------------------------------------------------------- the walk


class _Walk:
    """Reads who every process is; a process that cannot be read costs one thread, not the search."""

    def __init__(self, proc: Proc, pids: Sequence[int]) -> None:
        self._proc = proc
        self._todo = iter(pids)
        self._lock = threading.Lock()
        self._at: dict[int, tuple[int, float]] = {}  # reader -> (pid, since when)
        self._given_up: set[int] = set()
        self.found: dict[int, Process] = {}

    def run(self) -> set[int]:
        """Read all; return the pids that did not answer."""
        until = time.monotonic() + _SEARCH_S
        readers = [self._reader(n) for n in range(2)]
        while any(t.is_alive() for n, t in enumerate(readers) if n not in self._given_up):
            time.sleep(0.002)
            now = time.monotonic()
            with self._lock:
                late = [n for n, (_, t) in self._at.items() if now - t > _STUCK_S]
            for n in set(late) - self._given_up:
                self._given_up.add(n)
                if len(readers) < _MAX_READERS:
                    readers.append(self._reader(len(readers)))
            if now > until:
                break
        with self._lock:
            return {pid for pid, _ in self._at.values()}

    def _reader(self, n: int) -> threading.Thread:
        thread = threading.Thread(target=self._work, args=(n,), daemon=True)
        thread.start()
        return thread

    def _work(self, n: int) -> None:
        while n not in self._given_up:
            with self._lock:
                pid = next(self._todo, None)
                if pid is None:
                    return
                self._at[n] = (pid, time.monotonic())
            one = read_process(self._proc, pid)
            with self._lock:
                self._at.pop(n, None)
                if one:
                    self.found[pid] = one


def read_process(proc: Proc, pid: int) -> Process | None:
    """Return who a process is; None when it is gone or a part of the kernel."""
    stat = proc.stat(pid)
    if stat is None or stat.ppid == 2 or pid == 2:  # kthreadd and its children
        return None
    try:
        env = proc.environ(pid)
    except OSError:
        return Process(stat=stat, words=tuple(proc.words(pid)), readable=False)
    return Process(stat=stat, words=tuple(proc.words(pid)), env=env)


# --------------------------------------------------------------------------- who is what


def find(
    proc: Proc, *, pid: int | None = None, run_id: str | None = None, slurm: str | None = None
) -> Job:
    """Return the ranks of one job on this machine.

    `pid` is any process of the job: a launcher, a rank, a worker. `run_id` is that of torchrun, or
    a scheduler's job. Without either there must be one job only. Raises UsageError when several are
    there or nothing was chosen right, InputError when there is none.
    """
    walk = _Walk(proc, proc.pids())
    stuck = walk.run()
    # Readers finish in any order. Inside a job's step or pod this very process looks like a rank.
    table = {p: walk.found[p] for p in sorted(walk.found) if p != os.getpid() or p == pid}
    blocked = tuple(
        Process(stat=s, readable=False) for p in sorted(stuck) if (s := proc.stat(p)) is not None
    )
    ranks, launchers = _classify(table)
    if pid is not None:
        ranks = _of_pid(table, ranks, pid)
    if run_id is not None or slurm is not None:
        wanted = run_id if run_id is not None else slurm
        ranks = [r for r in ranks if wanted in _run_ids(r.process)]
    jobs = _jobs(ranks, table)
    if len(jobs) > 1 and pid is None:
        raise UsageError(
            "collect",
            f"{len(jobs)} jobs run here: {_listed(jobs)}",
            "choose one with --pid or --run-id",
        )
    if not ranks:
        raise _none(pid, run_id or slurm, table, blocked)
    return _job(ranks, launchers, table, blocked)


def _none(
    pid: int | None, run: str | None, table: dict[int, Process], blocked: Sequence[Process]
) -> InputError:
    hidden = sum(not p.readable and p.python for p in table.values())
    why = "no process has the environment of a rank (RANK, LOCAL_RANK, SLURM_PROCID …)"
    if pid is not None and pid not in table:
        why = f"no process {pid}"
    elif run is not None:
        why = f"no rank of run {run}"
    if hidden or blocked:
        why += f"; {hidden + len(blocked)} processes could not be asked"
    remedy = "run as the user of the job" if hidden else "name a process of the job with --pid"
    return InputError("collect", why, remedy)


def _classify(table: dict[int, Process]) -> tuple[list[Rank], list[Process]]:
    """Return (ranks, launchers) of all jobs."""
    below = _children(table)
    launchers, skip = _launchers(table, below)
    named: list[Rank] = []
    for p in table.values():
        if p.pid in skip or not _MARKS & p.env.keys() or _is_helper(p):
            continue
        one = _named(p)
        if one and _is_top(p, one, table, skip):
            named.append(one)
    named = _without_shells(_python_below(named, table, below, skip))
    named += _lightning(named, table)
    with_children = [
        replace(r, children=tuple(_below(r.pid, below, {x.pid for x in named}))) for r in named
    ]
    return sorted(with_children, key=_order), launchers


def _order(r: Rank) -> tuple[int, int]:
    return (r.rank if r.rank is not None else 1 << 40, r.pid)


def _children(table: dict[int, Process]) -> dict[int, list[Process]]:
    below: dict[int, list[Process]] = {}
    for p in table.values():
        below.setdefault(p.stat.ppid, []).append(p)
    return below


def _below(pid: int, below: dict[int, list[Process]], stop: set[int]) -> list[Process]:
    """Return all descendants, without those that are ranks of their own."""
    out: list[Process] = []
    todo = list(below.get(pid, ()))
    while todo:
        p = todo.pop(0)
        if p.pid in stop:
            continue
        out.append(p)
        todo.extend(below.get(p.pid, ()))
    return out


def _launchers(
    table: dict[int, Process], below: dict[int, list[Process]]
) -> tuple[list[Process], set[int]]:
    """Return the processes that start ranks, and the pids that stand above ranks and are none.

    What stands above a local rank 0 and has no local rank only counts nodes, whatever its own
    environment says. Lightning's rank 0 starts local ranks from 1 on: that one is a rank itself.
    """
    starters: dict[int, Process] = {}
    above: set[int] = set()
    for p in table.values():
        if p.env.get("LOCAL_RANK") != "0" or _is_helper(p):
            continue
        parent = table.get(p.stat.ppid)
        first = True
        while parent is not None and "LOCAL_RANK" not in parent.env and parent.pid not in above:
            if first and parent.pid > 1:
                starters[parent.pid] = parent
            first = False
            above.add(parent.pid)
            parent = table.get(parent.stat.ppid)
    return list(starters.values()), above


def _is_helper(p: Process) -> bool:
    """Return whether a process works for another one: it inherits a name that is not its own."""
    return bool(_COMPILER.match(p.stat.comm) or _WORKER.search(" ".join(p.words)[:4000]))


def _named(p: Process) -> Rank | None:
    """Return a process with the rank that its environment names."""
    rank = _first(p.env, _RANK_NAMES)
    local = _first(p.env, _LOCAL_NAMES)
    if rank is None and "LOCAL_RANK" not in p.env:
        return None
    return Rank(
        process=p, rank=rank, local_rank=local, world_size=_first(p.env, _WORLD_NAMES),
        node_rank=_first(p.env, _NODE_NAMES),
    )  # fmt: skip


def _first(env: dict[str, str], names: Iterable[str]) -> int | None:
    for name in names:
        value = env.get(name, "")
        if value.isdecimal() and len(value) < 8:
            return int(value)
    return None


def _is_top(p: Process, one: Rank, table: dict[int, Process], skip: set[int]) -> bool:
    """Return whether no process above it has the same name."""
    above = table.get(p.stat.ppid)
    for _ in range(64):
        if above is None or above.pid in skip:
            return True
        other = _named(above) if _MARKS & above.env.keys() else None
        if other and (other.rank, other.local_rank) == (one.rank, one.local_rank):
            return False
        above = table.get(above.stat.ppid)
    return True


def _python_below(
    named: list[Rank], table: dict[int, Process], below: dict[int, list[Process]], skip: set[int]
) -> list[Rank]:
    """Return the ranks with shells and wrappers replaced by the first interpreter below them."""
    out = []
    for one in named:
        inside = [p for p in _below(one.pid, below, skip) if p.python]
        if one.process.python or not inside:
            out.append(one)
        else:
            out.append(replace(one, process=inside[0]))
    return out


def _without_shells(named: list[Rank]) -> list[Rank]:
    """Return the ranks without what only carries a name: a batch script beside its steps, a shell."""
    pythons = [r for r in named if r.process.python]
    ids: set[str] = set().union(*(_run_ids(r.process) for r in pythons))
    return [r for r in named if r.process.python or not ids & _run_ids(r.process)]


def _lightning(named: list[Rank], table: dict[int, Process]) -> list[Rank]:
    """Return the ranks 0 that started the others of their node and carry no name themselves.

    Also fills nothing in: a global rank that nobody states is computed in `_job`.
    """
    parents = {r.process.stat.ppid for r in named if r.rank is None and (r.local_rank or 0) > 0}
    zero_below = {r.process.stat.ppid for r in named if r.local_rank == 0}
    out = []
    for pid in sorted(parents - zero_below):
        parent = table.get(pid)
        if parent is not None and parent.python:
            child = next(r for r in named if r.process.stat.ppid == pid)
            node = child.node_rank
            rank = 0 if node in (0, None) else None
            out.append(
                Rank(process=parent, rank=rank, local_rank=0, node_rank=node, basis="computed")
            )
    return out


# --------------------------------------------------------------------------- which job


def _run_ids(p: Process) -> set[str]:
    return {p.env[name] for name in _RUN_NAMES if p.env.get(name)}


def _key(r: Rank, table: dict[int, Process]) -> tuple[str, ...]:
    """Return what ranks of one job on one machine have in common."""
    env = r.process.env
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID")
    said = tuple(env.get(name, "") for name in names)
    if any(said):
        return said
    return ("below", str(r.process.stat.ppid))


def _jobs(ranks: Sequence[Rank], table: dict[int, Process]) -> dict[tuple[str, ...], list[Rank]]:
    jobs: dict[tuple[str, ...], list[Rank]] = {}
    parents: dict[int, tuple[str, ...]] = {}
    for r in ranks:
        if r.basis != "computed":
            parents.setdefault(r.process.stat.ppid, _key(r, table))
    for r in ranks:
        # Lightning's rank 0 has no environment of its own: it belongs to its children's job.
        key = parents.get(r.pid) if r.basis == "computed" else _key(r, table)
        jobs.setdefault(key or _key(r, table), []).append(r)
    return jobs


def _listed(jobs: dict[tuple[str, ...], list[Rank]]) -> str:
    said = []
    for ranks in list(jobs.values())[:5]:
        env = ranks[0].process.env
        run = env.get("TORCHELASTIC_RUN_ID") or env.get("SLURM_JOB_ID") or "no run id"
        count = f"{len(ranks)} rank" + "s" * (len(ranks) > 1)
        said.append(f"pid {ranks[0].pid} ({count}, {run})")
    return ", ".join(said) + (" …" if len(jobs) > 5 else "")


def _of_pid(table: dict[int, Process], ranks: list[Rank], pid: int) -> list[Rank]:
    """Return the ranks of the job that a process belongs to."""
    if pid not in table:
        return []
    own = {pid, *(p.pid for p in _below(pid, _children(table), set()))}
    inside = [r for r in ranks if r.pid in own]
    holder = next((r for r in ranks if r.pid == pid or pid in {c.pid for c in r.children}), None)
    if holder is not None:
        key = next((k for k, v in _jobs(ranks, table).items() if holder in v), None)
        return _jobs(ranks, table).get(key, [holder]) if key else [holder]
    if inside:
        return inside
    # No rank anywhere near: a job of one process.
    p = table[pid]
    return [
        Rank(
            process=p,
            rank=None,
            basis="given",
            children=tuple(_below(pid, _children(table), set())),
        )
    ]


def _job(
    ranks: list[Rank],
    launchers: list[Process],
    table: dict[int, Process],
    blocked: tuple[Process, ...],
) -> Job:
    ranks = _computed(_newest(ranks))
    above: set[int] = set()
    for r in ranks:
        p = table.get(r.process.stat.ppid)
        while p is not None and p.pid not in above and p.pid > 1:
            above.add(p.pid)
            p = table.get(p.stat.ppid)
    env = ranks[0].process.env
    run = env.get("TORCHELASTIC_RUN_ID") or env.get("SLURM_JOB_ID")
    return Job(
        ranks=tuple(ranks),
        launchers=tuple(p for p in launchers if p.pid in above),
        run_id=run,
        world_size=max((r.world_size for r in ranks if r.world_size), default=None),
        absent=_absent(ranks),
        blocked=blocked,
        seen=len(table) + len(blocked),
    )


def _newest(ranks: list[Rank]) -> list[Rank]:
    """Return one process per rank: a worker that outlived an earlier attempt is older.

    An interpreter comes before a shell that somebody opened in the rank's pod.
    """
    best: dict[object, Rank] = {}
    for r in ranks:
        key: object = (
            r.rank if r.rank is not None else ("local", r.local_rank, r.basis == "given" and r.pid)
        )
        old = best.get(key)
        if old is None or _age(r) > _age(old):
            best[key] = r
    return sorted(best.values(), key=_order)


def _age(r: Rank) -> tuple[bool, int]:
    return (r.process.python, r.process.stat.start_ticks)


def _computed(ranks: list[Rank]) -> list[Rank]:
    """Return the ranks with global numbers where only local ones are stated."""
    count = max((r.local_rank for r in ranks if r.local_rank is not None), default=0) + 1
    out = []
    for r in ranks:
        if r.rank is None and r.local_rank is not None and r.basis != "given":
            r = replace(r, rank=(r.node_rank or 0) * count + r.local_rank, basis="computed")
        out.append(r)
    return sorted(out, key=_order)


def _absent(ranks: list[Rank]) -> tuple[int, ...]:
    """Return the local ranks that the launcher counts on this machine and that no process is."""
    counts = [r.process.env.get("LOCAL_WORLD_SIZE", "") for r in ranks]
    expected = max((int(c) for c in counts if c.isdecimal() and len(c) < 5), default=0)
    here = {r.local_rank for r in ranks}
    return tuple(n for n in range(expected) if n not in here)


def child_kind(p: Process) -> str:
    """Return what a process below a rank is for: worker, compiler or other."""
    if _COMPILER.match(p.stat.comm):
        return "compiler"
    if _WORKER.search(p.stat.comm) or _WORKER.search(" ".join(p.words)[:4000]):
        return "worker"
    # Forked data loaders keep the command line of their rank.
    return "worker" if p.python else "other"
