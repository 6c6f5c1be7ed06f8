"""What /proc says of each rank: twice, so that slow and stuck differ.

Belongs here: passive reading of /proc. Must not be here: anything that stops, wakes or signals a
process. wchan and syscall come before any tracer, which would change them.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rootrank.live.probes import Context
from rootrank.live.procfs import (
    MAX_FDS,
    MAX_SCANNED_THREADS,
    MAX_THREADS,
    OpenFile,
    Proc,
    Stat,
    ticks_per_s,
)
from rootrank.live.ranks import Process, Rank, child_kind
from rootrank.live.store import stamp

DEADLINE_S = 3.0
_THREADS_S = 1.0
_ENV = re.compile(
    r"(?:(?:LOCAL_|GROUP_|NODE_|ROLE_)?RANK|(?:LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|NNODES|NPROC_PER_NODE"
    r"|MASTER_(?:ADDR|PORT)|(?:TORCHELASTIC|TORCH|PYTORCH|NCCL|RCCL|GLOO|CUDA|HIP|ROCR|GPU|NVIDIA"
    r"|OMP|MKL|KMP|OPENBLAS|DS|DEEPSPEED|ACCELERATE|FSDP|MEGATRON|SLURM|OMPI|PMI|PMIX|MPI|UCX|FI|HF"
    r"|TRANSFORMERS|TOKENIZERS|TRITON|XLA|NEURON|PL|RAY|MALLOC|NVTE|XDG_CACHE|JEMALLOC)_\w+"
    r"|LD_(?:LIBRARY_PATH|PRELOAD)|PYTHON\w+|VIRTUAL_ENV|CONDA_PREFIX|TMPDIR|HOSTNAME|PWD|PATH)"
)
_PRIVATE = re.compile(r"TOKEN|SECRET|PASS|CRED|JWT|AUTH(?!OR)|API_?KEY|PRIVATE|COOKIE", re.I)
_LOG_FDS = (1, 2)


@dataclass(slots=True)
class Sample:
    """What one look at a rank found. Filled as it goes: what a stuck read kept back is simply not there."""

    rank: Rank
    at: float = 0.0
    stat: Stat | None = None
    sections: dict[str, str] = field(default_factory=dict)
    threads: list[str] = field(default_factory=list)
    files: list[OpenFile] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    reading: str = ""
    done: bool = False
    gone: str | None = None


def parts(full: bool) -> tuple[str, ...]:
    """Return the files of /proc/PID that a look reads, in order: those that take no lock first."""
    first = ("wchan", "syscall", "status", "stat", "stack", "io", "schedstat")
    return (*first, "limits", "oom_score", "oom_score_adj", "cgroup") if full else first


def look(ctx: Context, *, full: bool) -> list[Sample]:
    """Return a sample of every rank, taken at once; one that hangs costs its own answer only."""
    samples = [Sample(rank=r) for r in ctx.job.ranks]
    workers = [threading.Thread(target=_guarded, args=(ctx, s, full), daemon=True) for s in samples]
    for w in workers:
        w.start()
    until = time.monotonic() + DEADLINE_S
    for w in workers:
        w.join(max(0.0, until - time.monotonic()))
    return samples


def _guarded(ctx: Context, sample: Sample, full: bool) -> None:
    try:
        _look(ctx, sample, full)
    except OSError as error:
        sample.refused[sample.reading] = error.strerror or str(error)
    sample.done = True


def _look(ctx: Context, s: Sample, full: bool) -> None:
    pid = s.rank.pid
    s.at = time.time()
    s.stat = ctx.proc.stat(pid)
    if s.stat is None:
        s.gone = "the process had ended"
        return
    if s.stat.start_ticks != s.rank.process.stat.start_ticks:
        s.gone = "another process has its number now: it had ended"
        return
    if s.stat.state in "ZX":
        s.gone = "it had ended, and its parent has not taken notice"
        return
    for name in parts(full):
        s.reading = name
        _section(ctx.proc, s, name)
    s.reading = "task"
    s.threads = list(_threads(ctx.proc, pid))
    s.reading = "fd"
    try:
        s.files = list(ctx.proc.open_files(pid))
    except OSError as error:
        s.refused["fd"] = error.strerror or str(error)
    if full:
        s.reading = "children"
        s.sections["children"] = _children(ctx.proc, s.rank.children)
    # A process that ended half-way may have left its number to another one.
    if ctx.proc.start_ticks(pid) != s.stat.start_ticks:
        s.gone = "it ended while it was read"


def _section(proc: Proc, s: Sample, name: str) -> None:
    try:
        s.sections[name] = proc.read(s.rank.pid, name, limit=64 << 10).decode("utf-8", "replace")
    except OSError as error:
        s.refused[name] = error.strerror or str(error)


def _threads(proc: Proc, pid: int) -> Iterator[str]:
    """Yield one line per thread: all of the first few hundred, then only those that do not sleep."""
    tids = proc.threads(pid)
    until = time.monotonic() + _THREADS_S
    states: Counter[str] = Counter()
    for n, tid in enumerate(tids):
        stat = proc.stat(pid, "task", tid)
        if stat is None:
            continue
        states[stat.state] += 1
        if n < MAX_THREADS or (stat.state not in "SI" and sum(states.values()) < 4 * MAX_THREADS):
            wchan = (proc.text(pid, "task", tid, "wchan", limit=256) or "?").strip()
            yield f"{tid} comm={stat.comm} state={stat.state} wchan={wchan} cpu_ticks={stat.cpu_ticks}"
        if time.monotonic() > until:
            yield f"# no time for {len(tids) - n - 1} further threads"
            break
    more = "+" if len(tids) >= MAX_SCANNED_THREADS else ""
    counted = " ".join(f"{state}={n}" for state, n in sorted(states.items()))
    yield f"# {len(tids)}{more} threads; of those looked at: {counted}"


def _children(proc: Proc, children: tuple[Process, ...]) -> str:
    out = []
    for child in children[:256]:
        stat = proc.stat(child.pid)
        if stat is None or stat.start_ticks != child.stat.start_ticks:
            out.append(f"{child.pid} comm={child.stat.comm} ended")
            continue
        wchan = (proc.text(child.pid, "wchan", limit=256) or "?").strip()
        out.append(
            f"{child.pid} comm={stat.comm} state={stat.state} wchan={wchan} ppid={stat.ppid}"
            f" cpu_ticks={stat.cpu_ticks} kind={child_kind(child)}"
        )
    return "\n".join(out) + "\n" if out else ""


# --------------------------------------------------------------------------- keeping


def keep(ctx: Context, first: list[Sample], second: list[Sample]) -> None:
    """Keep both looks: the later one as the rank's state, both with their counters."""
    for one, two in zip(first, second, strict=True):
        best = two if two.sections and not two.gone else one
        _keep_state(ctx, best, one)
        for n, s in ((1, one), (2, two)):
            if s.sections:
                _put(ctx, s, f"io_{s.rank.label}_t{n}.txt", _counters(s), "counters")
        _note_faults(ctx, one, two)


def _put(ctx: Context, s: Sample, file: str, text: str, what: str) -> None:
    source = ctx.proc.path(s.rank.pid)
    ctx.store.put(file, text, what=what, source=source, rank=s.rank.rank)


def _keep_state(ctx: Context, s: Sample, first: Sample) -> None:
    label = s.rank.label
    if s.sections or s.refused:
        sections = {
            **{k: v for k, v in first.sections.items() if k not in s.sections},
            **s.sections,
        }
        order = [n for n in ("status", "stat", *sections) if n in sections]
        text = f"## collected {stamp(s.at)}\n"
        text += "".join(f"## {n}\n{sections[n].rstrip()}\n" for n in dict.fromkeys(order))
        text += f"## cmdline\n{' '.join(s.rank.process.words)[:8000]}\n"
        _put(ctx, s, f"proc_{label}.txt", text, "process state")
    if s.threads:
        _put(ctx, s, f"threads_{label}.txt", "\n".join(s.threads) + "\n", "threads")
    files = s.files or first.files
    if files:
        _put(ctx, s, f"proc_{label}_fds.txt", describe_files(files), "open files")
    env = shown_environment(s.rank.process.env)
    if env:
        text = "".join(f"{name}={value}\n" for name, value in env.items())
        _put(ctx, s, f"proc_{label}_env.txt", text, "environment (allow-list)")


def _counters(s: Sample) -> str:
    out = [f"# collected {stamp(s.at)}"]
    if s.stat:
        out.append(f"state: {s.stat.state}")
        out.append(f"cpu_ticks: {s.stat.cpu_ticks}")
        out.append(f"threads: {s.stat.threads}")
    out += [s.sections[n].rstrip() for n in ("io",) if n in s.sections]
    out += [f"# {f.target} fd {f.fd} position {f.position}" for f in moving_files(s.files)]
    return "\n".join(out) + "\n"


def moving_files(files: list[OpenFile]) -> list[OpenFile]:
    """Return the regular files that are open for writing: their positions show growth."""
    return [f for f in files if f.writable and f.regular and f.position is not None][:64]


def describe_files(files: list[OpenFile]) -> str:
    """Return how many descriptors of each kind there are, and those that can tell something."""
    kinds = Counter(_kind(f) for f in files)
    more = "+" if len(files) >= MAX_FDS else ""
    out = [
        f"# {len(files)}{more} descriptors: "
        + " ".join(f"{k}={n}" for k, n in sorted(kinds.items()))
    ]
    told = 0
    for f in files:
        if f.fd > 2 and _kind(f) in ("socket", "pipe", "anon", "device", "library"):
            continue
        told += 1
        if told > 400:
            out.append("# further ones are not listed")
            break
        mode = "w" if f.writable else "r"
        out.append(f"{f.fd} {mode} {f.target}" + (f" position {f.position}" if f.position else ""))
    return "\n".join(out) + "\n"


_KINDS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("socket", lambda t: t.startswith("socket:")),
    ("pipe", lambda t: t.startswith("pipe:")),
    ("anon", lambda t: t.startswith("anon_inode:")),
    ("deleted", lambda t: t.endswith(" (deleted)")),
    ("shm", lambda t: t.startswith("/dev/shm/")),
    ("device", lambda t: t.startswith("/dev/")),
    ("library", lambda t: ".so" in t.rpartition("/")[2]),
)


def _kind(f: OpenFile) -> str:
    return next((name for name, test in _KINDS if test(f.target)), "file")


def shown_environment(env: dict[str, str]) -> dict[str, str]:
    """Return the variables that say how a job runs; nothing that is named like a secret."""
    return {
        name: env[name][:4000].replace("\n", "\\n")
        for name in sorted(env)
        if _ENV.fullmatch(name) and not _PRIVATE.search(name)
    }


def _note_faults(ctx: Context, one: Sample, two: Sample) -> None:
    r = one.rank
    for s in (one, two):
        if s.gone:
            ctx.store.miss(f"state of {r.spoken}", s.gone, rank=r.rank)
        elif not s.done:
            reason = f"reading /proc/{r.pid}/{s.reading} gave no answer within {DEADLINE_S:.0f} s: the process holds a lock in the kernel"
            ctx.store.miss(f"state of {r.spoken}", reason, rank=r.rank)
    refused = {**one.refused, **two.refused}
    stack = refused.pop("stack", None)
    if stack:
        ctx.store.miss(
            f"kernel stack of {r.spoken}", stack, "run as root (CAP_SYS_ADMIN)", rank=r.rank
        )
    for name, why in refused.items():
        remedy = "run as the user of the job, or as root"
        ctx.store.miss(f"/proc/{r.pid}/{name} of {r.spoken}", why, remedy, rank=r.rank)


def movement(one: Sample, two: Sample) -> dict[str, Any]:
    """Return what moved between two looks; a key is absent where it was not seen twice."""
    out: dict[str, Any] = {}
    if one.stat and two.stat and not two.gone and not one.gone:
        out["seconds"] = round(two.at - one.at, 3)
        out["state"] = [one.stat.state, two.stat.state]
        out["cpu_s"] = round((two.stat.cpu_ticks - one.stat.cpu_ticks) / ticks_per_s(), 2)
        out["wchan"] = [x.sections.get("wchan", "").strip() for x in (one, two)]
        out["main_thread"] = _main_thread(one, two)
    before, after = _io(one), _io(two)
    if before and after and "seconds" in out:
        out["io"] = {k: after[k] - before[k] for k in before if k in after}
    grown = _growth(one, two)
    if grown is not None:
        out["written_files"] = grown
    if two.gone:
        out["ended"] = two.gone
    return out


def _main_thread(one: Sample, two: Sample) -> dict[str, int]:
    """Return how often the main thread gave up or lost its processor: what stands still does neither."""
    names = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
    counts = [_status(s) for s in (one, two)]
    return {n: counts[1][n] - counts[0][n] for n in names if n in counts[0] and n in counts[1]}


def _status(s: Sample) -> dict[str, int]:
    pairs = (line.partition(":") for line in s.sections.get("status", "").splitlines())
    return {k: int(v) for k, _, v in pairs if v.strip().isdecimal()}


def _io(s: Sample) -> dict[str, int]:
    pairs = (line.partition(": ") for line in s.sections.get("io", "").splitlines())
    return {k: int(v) for k, _, v in pairs if v.strip().isdecimal()}


def _growth(one: Sample, two: Sample) -> dict[str, int] | None:
    """Return path -> bytes by which its position moved, for files that are open for writing."""
    before = {(f.fd, f.target): f.position or 0 for f in moving_files(one.files)}
    after = {(f.fd, f.target): f.position or 0 for f in moving_files(two.files)}
    if not before or not after:
        return None
    return {key[1]: after[key] - before[key] for key in before if key in after}


def plan(ctx: Context) -> list[str]:
    """Return the preview of this probe."""
    names = ", ".join(parts(True))
    return [
        f"/proc/{r.pid}/{{{names}, task, fd, fdinfo}} of {r.spoken}, twice, {ctx.interval_s:g} s apart"
        for r in ctx.job.ranks
    ]
