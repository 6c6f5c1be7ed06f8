"""collect(): find the ranks, look twice, ask everything else in between, write one bundle.

Belongs here: order and deadlines. Must not be here: how one source is read (probes/), other
machines (remote.py), the form of a bundle (store.py).

Every probe runs in a thread of its own that nobody joins without a limit: one that hangs in the
kernel costs its own answer and is named in the manifest.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rootrank._version import __version__
from rootrank.errors import InputError, UsageError
from rootrank.live import ranks as finding
from rootrank.live.command import Runner
from rootrank.live.probes import (
    Context,
    Probe,
    cluster,
    gpu,
    host,
    process,
    records,
    software,
    stacks,
)
from rootrank.live.procfs import Proc, ticks_per_s
from rootrank.live.ranks import Job, Rank, child_kind
from rootrank.live.store import (
    SCHEMA,
    Store,
    codec_of,
    manifest_bytes,
    safe_name,
    stamp,
    write,
)

Say = Callable[[str], None]
_JOIN_STACKS_S = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to collect, and how far to go. The defaults stop, wake and change nothing."""

    output: str = ""  # "": a new name in the working folder
    pid: int | None = None  # any process of the job
    run_id: str | None = None  # torchrun's, or a scheduler's job
    slurm: str | None = None  # a Slurm job: its nodes are visited through srun
    k8s: str | None = None  # a pod, or a job whose pods are visited through kubectl exec
    hosts: tuple[str, ...] = ()  # visited through ssh
    interval_s: float = 5.0
    native: bool = False  # native frames: stops each rank for a moment
    allow_signals: bool = False  # faulthandler by SIGUSR1: can wake a blocked call
    trigger_dump: bool = False  # ask NCCL's flight recorder through its pipe
    redact: bool = True
    remote_deadline_s: float = 60.0
    proc: str = "/proc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Where the bundle is, and what its manifest says."""

    path: Path | None  # None for a stream
    manifest: dict[str, Any]
    files: dict[str, bytes]
    notes: tuple[str, ...] = ()


def probes() -> tuple[Probe, ...]:
    """Return what is asked between the two looks."""
    return (*host.PROBES, *gpu.PROBES, *records.PROBES, *software.PROBES, *cluster.PROBES)


def collect(options: Options | None = None, *, say: Say | None = None, **changes: Any) -> Result:
    """Collect evidence of a running job and write a bundle.

    Takes `Options`, or their fields as keywords. Raises UsageError or InputError when no job, or
    more than one, is found; what fails later is a line of the manifest's `missing`. With an output
    of "-" nothing is written: the caller has the files.
    """
    from rootrank.live import remote

    chosen = replace(options or Options(), **changes)
    tell = say or (lambda text: None)
    began = time.time()
    chosen = replace(chosen, output=chosen.output or default_name(began))
    _check(chosen)
    if remote.wanted(chosen):
        hosts, files, lost = remote.visit(chosen, tell)
    else:
        one, files = here(chosen, tell)
        hosts, lost = [one], []
    return finish(chosen, began, hosts, files, lost)


def default_name(at: float) -> str:
    """Return a name that no earlier bundle has: what was collected before cannot be had again."""
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    return f"rootrank-{safe_name(hostname())}-{when}.tar.zst"


def finish(
    o: Options,
    began: float,
    hosts: list[dict[str, Any]],
    files: dict[str, bytes],
    lost: list[dict[str, Any]],
) -> Result:
    """Return the result of all hosts, written where the options say."""
    manifest = {
        "schema": SCHEMA,
        "rootrank": __version__,
        "started": stamp(began),
        "ended": stamp(time.time()),
        "interval_s": o.interval_s,
        "hosts": hosts,
        "missing": lost,
    }
    everything = {"manifest.json": manifest_bytes(manifest), **files}
    if o.output == "-":
        return Result(path=None, manifest=manifest, files=everything)
    try:
        path, notes = write(o.output, everything, began)
    except OSError as error:
        fault = f"the bundle cannot be written: {error.strerror or error}"
        raise UsageError(o.output, fault, "give -o a place with room, or -o - | ssh …") from error
    return Result(path=path, manifest=manifest, files=everything, notes=tuple(notes))


def _check(o: Options) -> None:
    if not 0 <= o.interval_s <= 300:
        raise UsageError("--seconds", f"{o.interval_s:g} is no interval", "give 0 to 300 seconds")
    elsewhere = [n for n, v in (("--host", o.hosts), ("--k8s", o.k8s), ("--pid", o.pid)) if v]
    if len(elsewhere) > 1:
        fault = f"{' and '.join(elsewhere)} name different places"
        raise UsageError("collect", fault, "give one of them; --run-id goes with each")
    folder = Path(o.output)
    if o.output and codec_of(o.output) is None and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(o.output, "is a folder with files in it", "give -o a new name")
    if not sys.platform.startswith("linux") and o.proc == "/proc" and not (o.hosts or o.k8s):
        raise UsageError("collect", f"{sys.platform} has no /proc", "run it where the job runs")


# --------------------------------------------------------------------------- this machine


def prepare(o: Options) -> Context:
    """Return the job on this machine and everything that the probes need. Reads /proc only."""
    proc = Proc(o.proc)
    job = finding.find(proc, pid=o.pid, run_id=o.run_id, slurm=None if o.pid else o.slurm)
    store = Store(hostname(), clean=o.redact)
    return Context(
        proc=proc, job=job, store=store, runner=Runner(), interval_s=o.interval_s, native=o.native,
        allow_signals=o.allow_signals, trigger_dump=o.trigger_dump, slurm=o.slurm,
        began_s=_began(proc, job),
    )  # fmt: skip


def hostname() -> str:
    """Return the name of this machine without its domain, as launchers print it."""
    return socket.gethostname().split(".")[0] or "localhost"


def _began(proc: Proc, job: Job) -> float | None:
    boot, ticks = proc.boot_time_s(), job.start_ticks
    return boot + ticks / ticks_per_s() if boot is not None and ticks is not None else None


def here(o: Options, say: Say) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return (manifest of this host, its files)."""
    began = time.time()
    clock = time.monotonic()
    ctx = prepare(o)
    found = time.monotonic()
    ctx.store.probe("find", found - clock, "ok")
    say(f"found {found_words(ctx.job)} on {ctx.store.host}")
    try:
        _gather(ctx)
    except KeyboardInterrupt:
        # Half of the evidence is better than none.
        ctx.store.miss("the rest of the collection", "interrupted by the user")
    ctx.store.notes.update(_host_notes(ctx, began))
    return ctx.store.seal()


def found_words(job: Job) -> str:
    """Return how many ranks were found, in words."""
    count = len(job.ranks)
    of = f" of {job.world_size}" if job.world_size and job.world_size != count else ""
    named = [r for r in job.ranks if r.rank is not None]
    if not named:
        return f"process {job.ranks[0].pid}, which names no rank"
    run = f", run {job.run_id}" if job.run_id and job.run_id != "none" else ""
    return f"{count}{of} rank{'s' if count != 1 else ''}{run}"


def _gather(ctx: Context) -> None:
    clock = time.monotonic()
    first = process.look(ctx, full=True)
    _noted(ctx, "process", clock)
    early = _Asked(ctx, "stacks-early", stacks.first, stacks.DUMP_S + 1)
    asked = [_Asked(ctx, p.name, p.ask, p.deadline_s) for p in probes()]
    time.sleep(max(0.0, ctx.interval_s - (time.monotonic() - clock)))
    clock = time.monotonic()
    second = process.look(ctx, full=True)
    process.keep(ctx, first, second)
    _noted(ctx, "process-again", clock)
    early.wait()
    late = _Asked(ctx, "stacks", stacks.second, _JOIN_STACKS_S)
    for one in (*asked, late):
        one.wait()
    if ctx.allow_signals or ctx.trigger_dump:
        _Asked(ctx, "records-again", records.again, 3.0).wait()
    ctx.store.notes["ranks"] = [
        _rank_notes(ctx, one, two) for one, two in zip(first, second, strict=True)
    ]


def _noted(ctx: Context, name: str, since: float) -> None:
    ctx.store.probe(name, time.monotonic() - since, "ok")


class _Asked:
    """A probe under way in a thread of its own."""

    def __init__(
        self, ctx: Context, name: str, ask: Callable[[Context], None], deadline_s: float
    ) -> None:
        self._ctx, self._name, self._ask = ctx, name, ask
        self._deadline_s = deadline_s
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        outcome = "ok"
        try:
            self._ask(self._ctx)
        except Exception as error:  # a probe that breaks must not take the others with it
            self._ctx.store.miss(self._name, f"{type(error).__name__}: {error}")
            outcome = "failed"
        self._ctx.store.probe(self._name, time.monotonic() - self._began, outcome)

    def wait(self) -> None:
        """Wait for the rest of its time; a probe that is late is named and left alone."""
        left = self._deadline_s - (time.monotonic() - self._began)
        self._thread.join(max(0.0, left))
        if self._thread.is_alive():
            self._ctx.store.miss(self._name, f"no answer within {self._deadline_s:g} s")
            self._ctx.store.probe(self._name, time.monotonic() - self._began, "timeout")


# --------------------------------------------------------------------------- notes


def _host_notes(ctx: Context, began: float) -> dict[str, Any]:
    job = ctx.job
    notes: dict[str, Any] = {
        "via": "local",
        "started": stamp(began),
        "ended": stamp(time.time()),
        "clock": {"offset_s": 0.0, "error_s": 0.0},
        "uid": os.geteuid(),
        "kernel": os.uname().release,
        "run_id": job.run_id,
        "world_size": job.world_size,
        "launchers": [
            {"pid": p.pid, "command": ctx_redacted(ctx, " ".join(p.words)[:400])}
            for p in job.launchers
        ],
        "ranks": ctx.store.notes.get("ranks", [_named(ctx, r) for r in job.ranks]),
        "absent_local_ranks": list(job.absent),
        "unasked_pids": [p.pid for p in job.blocked],
    }
    if ctx.began_s is not None:
        notes["job_started"] = stamp(ctx.began_s)
    return notes


def ctx_redacted(ctx: Context, text: str) -> str:
    """Return text fit for the manifest, which never keeps secrets."""
    from rootrank.report import redact

    return redact(text)


def _rank_notes(ctx: Context, one: process.Sample, two: process.Sample) -> dict[str, Any]:
    moved = process.movement(one, two)
    change = ctx.moving.get(f"same {one.rank.pid}")
    if change:
        moved["main_stack"] = change
    notes = _named(ctx, one.rank)
    notes["movement"] = moved
    return notes


def _named(ctx: Context, r: Rank) -> dict[str, Any]:
    stat = r.process.stat
    notes: dict[str, Any] = {
        "rank": r.rank, "local_rank": r.local_rank, "node_rank": r.node_rank, "pid": r.pid,
        "basis": r.basis, "start_ticks": stat.start_ticks, "launcher_pid": stat.ppid,
    }  # fmt: skip
    devices = r.process.env.get("CUDA_VISIBLE_DEVICES") or r.process.env.get("HIP_VISIBLE_DEVICES")
    if devices:
        notes["visible_devices"] = devices[:400]
    held = ctx.moving.get(f"gpus {r.pid}")
    if held:
        notes["gpus"] = held
    notes["children"] = [{"pid": c.pid, "kind": child_kind(c)} for c in r.children[:64]]
    return notes


# --------------------------------------------------------------------------- preview


def preview(options: Options | None = None, **changes: Any) -> list[str]:
    """Return what `collect` would take and from where. Reads /proc, and runs nothing."""
    from rootrank.live import remote

    o = replace(options or Options(), **changes)
    _check(o)
    if remote.wanted(o):
        return remote.plan(o)
    ctx = prepare(o)
    lines = [f"{found_words(ctx.job)} on {ctx.store.host}"]
    lines += [
        f"{r.spoken}: pid {r.pid}, {len(r.children)} processes below it" for r in ctx.job.ranks
    ]
    lines += [f"local rank {n}: no process" for n in ctx.job.absent]
    lines += process.plan(ctx)
    lines += stacks.plan(ctx)
    for p in probes():
        lines += p.plan(ctx)
    return lines


__all__ = ["InputError", "Options", "Result", "collect", "preview"]
