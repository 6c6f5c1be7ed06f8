"""Stacks of the ranks and of what works for them.

Belongs here: py-spy, pystack, and why they were refused. Must not be here: reading the frames.

py-spy reads memory without stopping the process (`--nonblocking`); its default stops it, and hangs
on just the processes that matter: those in state D or T. Native frames need the process stopped,
so they are taken only when asked for. A signal can wake the very call that hangs; it comes last.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from rootrank.live import command
from rootrank.live.command import Done
from rootrank.live.probes import Context
from rootrank.live.ranks import Rank, child_kind

Frames = list[tuple[Any, Any, Any]]

DUMP_S = 3.0
NATIVE_S = 5.0
MAX_WORKERS = 8  # of one rank
_REFUSED = ("permission denied", "operation not permitted", "eperm", "ptrace")
_NEEDS_NATIVE = ("_engine_run_backward",)


def tool(ctx: Context, name: str) -> str | None:
    """Return the path of py-spy or pystack, also from the environment of a rank."""
    beside = []
    for r in ctx.job.ranks[:1]:
        first = r.process.words[0] if r.process.words else ""
        if first.startswith("/"):
            beside.append(str(Path(first).parent))
        if "VIRTUAL_ENV" in r.process.env:
            beside.append(r.process.env["VIRTUAL_ENV"] + "/bin")
    return command.find(name, beside=beside)


def first(ctx: Context) -> None:
    """Take one dump per rank early: a rank may be gone at the second look."""
    _each(ctx, _first)


def second(ctx: Context) -> None:
    """Take the dumps that are kept as the state of each rank, and those of its workers."""
    _each(ctx, _second)
    if tool(ctx, "py-spy") is None and tool(ctx, "pystack") is None:
        ctx.store.miss(
            "Python stacks", "neither py-spy nor pystack is installed here",
            "pip install py-spy (one static binary, also when copied)",
        )  # fmt: skip


def _each(ctx: Context, ask: Any) -> None:
    threads = [threading.Thread(target=ask, args=(ctx, r), daemon=True) for r in ctx.job.ranks]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def _first(ctx: Context, r: Rank) -> None:
    spy = tool(ctx, "py-spy")
    if spy is None or not ctx.alive(r):
        return
    done = _dump(ctx, spy, r.pid, "--json")
    if done.ok and ctx.alive(r):
        ctx.moving[f"stack {r.pid}"] = done.out
        _keep(ctx, r, f"pyspy_{r.label}.json", done)
    elif done.timed_out:
        ctx.moving[f"slow {r.pid}"] = done


def _second(ctx: Context, r: Rank) -> None:
    if not ctx.alive(r):
        ctx.store.miss(f"stack of {r.spoken}", "the process had ended", rank=r.rank)
        return
    spy = tool(ctx, "py-spy")
    done = _spy(ctx, spy, r) if spy else None
    if done is None or not done.ok:
        stacked = _pystack(ctx, r)
        if done is not None:
            _explain(ctx, r, done, stacked)
    if ctx.native:
        _native(ctx, spy, r)
    if ctx.allow_signals:
        _signal(ctx, r)
    if done is not None and done.ok and spy:
        _workers(ctx, spy, r)


def _dump(ctx: Context, spy: str, pid: int, *options: str) -> Done:
    argv = [spy, "dump", "--nonblocking", *options, "--pid", str(pid)]
    return ctx.runner.run(argv, deadline_s=DUMP_S)


def _spy(ctx: Context, spy: str, r: Rank) -> Done:
    """Keep the later dump; the earlier one stays beside it only where they differ."""
    slow = ctx.moving.get(f"slow {r.pid}")
    if isinstance(slow, Done):  # asked once, no answer: a second wait brings nothing
        return slow
    data = _dump(ctx, spy, r.pid, "--json")
    if data.ok and ctx.alive(r):
        before = ctx.moving.get(f"stack {r.pid}")
        if isinstance(before, bytes):
            change = changed(main_frames(before), main_frames(data.out))
            ctx.moving[f"same {r.pid}"] = change
            if change != "same":
                ctx.store.put(
                    f"pyspy_{r.label}_t1.json", before.decode("utf-8", "replace"),
                    what="stack at the first look", source="py-spy dump --nonblocking --json", rank=r.rank,
                )  # fmt: skip
        _keep(ctx, r, f"pyspy_{r.label}.json", data)
    if data.timed_out:
        return data
    text = _dump(ctx, spy, r.pid)
    if text.ok and ctx.alive(r):
        _keep(ctx, r, f"pyspy_{r.label}.txt", text)
    return text if text.ok else data if data.ok else text


def _keep(ctx: Context, r: Rank, file: str, done: Done) -> None:
    source = " ".join([Path(done.argv[0]).name, *done.argv[1:]])
    ctx.store.put(file, done.text, what="stack", source=source, rank=r.rank, cut=done.cut)


def main_frames(data: bytes) -> Frames | None:
    """Return (function, file, line) of the main thread in a JSON dump; None when it is none."""
    try:
        threads = json.loads(data)
        main = next((t for t in threads if t.get("thread_name") == "MainThread"), threads[0])
        return [(f.get("name"), f.get("filename"), f.get("line")) for f in main["frames"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def changed(before: Frames | None, after: Frames | None) -> str:
    """Return what differs between two stacks: same, line (of the same functions), or functions."""
    if before == after:
        return "same"
    names = [[f[:2] for f in x or ()] for x in (before, after)]
    return "line" if names[0] == names[1] else "functions"


def _pystack(ctx: Context, r: Rank) -> bool:
    """Keep what pystack reads without stopping the process; return whether it did."""
    stack = tool(ctx, "pystack")
    if stack is None:
        return False
    argv = [stack, "remote", "--no-color", "--no-block", str(r.pid)]
    done = ctx.runner.run(argv, deadline_s=DUMP_S)
    if done.ok and done.out.strip() and ctx.alive(r):
        _keep(ctx, r, f"pystack_{r.label}.txt", done)
        return True
    return False


def _workers(ctx: Context, spy: str, r: Rank) -> None:
    """Dump what works for the rank: a data loader that hangs is the reason its rank waits."""
    workers = [c for c in r.children if c.python and child_kind(c) == "worker"]
    for n, child in enumerate(workers[:MAX_WORKERS]):
        if ctx.proc.start_ticks(child.pid) != child.stat.start_ticks:
            ctx.store.miss(
                f"stack of worker {child.pid} of {r.spoken}", "it had ended", rank=r.rank
            )
            continue
        done = _dump(ctx, spy, child.pid)
        if done.ok:
            _keep(ctx, r, f"pyspy_{r.label}_worker{n}.txt", done)
        else:
            ctx.store.miss(f"stack of worker {child.pid} of {r.spoken}", done.fault, rank=r.rank)
    if len(workers) > MAX_WORKERS:
        left = len(workers) - MAX_WORKERS
        ctx.store.miss(f"stacks of {left} further workers of {r.spoken}", "bounded", rank=r.rank)


# --------------------------------------------------------------------------- only when asked


def _native(ctx: Context, spy: str | None, r: Rank) -> None:
    """Take native frames where the Python ones end in C: this stops the process for a moment."""
    what = f"native stack of {r.spoken}"
    frames = main_frames(ctx.store.get(f"pyspy_{r.label}.json"))
    if frames and not _unknown(str(frames[0][0])):
        return
    stat = ctx.proc.stat(r.pid)
    if spy is None or stat is None:
        return
    if stat.state in "DTtZ":
        # A tracer waits for the process to stop: one in D never does, and the tracer hangs with it.
        ctx.store.miss(
            what, f"the process is in state {stat.state}: a tracer would hang", rank=r.rank
        )
        return
    argv = [spy, "dump", "--native", "--pid", str(r.pid)]
    done = ctx.runner.run(argv, deadline_s=NATIVE_S)
    if done.ok:
        _keep(ctx, r, f"pyspy_native_{r.label}.txt", done)
    else:
        ctx.store.miss(what, done.fault, rank=r.rank)


def _unknown(function: str) -> bool:
    return any(name in function for name in _NEEDS_NATIVE)


def _signal(ctx: Context, r: Rank) -> None:
    """Ask a registered faulthandler for its stacks; never a process that would die of the signal."""
    what = f"faulthandler dump of {r.spoken}"
    status = ctx.proc.text(r.pid, "status") or ""
    caught = next((x.split()[1] for x in status.splitlines() if x.startswith("SigCgt:")), "0")
    if not int(caught, 16) >> (signal.SIGUSR1 - 1) & 1:
        reason = "it has no handler for SIGUSR1, which would end it"
        ctx.store.miss(
            what, reason, "faulthandler.register(signal.SIGUSR1) in the job", rank=r.rank
        )
        return
    try:
        _send(ctx, r)
    except OSError as error:
        ctx.store.miss(what, error.strerror or str(error), rank=r.rank)
    else:
        time.sleep(0.3)  # the log's tail is read after this
        ctx.moving[f"signalled {r.pid}"] = True


def _send(ctx: Context, r: Rank) -> None:
    # Through a descriptor of the process: between looking and sending its number may change hands.
    fd = os.pidfd_open(r.pid)
    try:
        if ctx.alive(r):
            signal.pidfd_send_signal(fd, signal.SIGUSR1)
    finally:
        os.close(fd)


# --------------------------------------------------------------------------- why not


def _explain(ctx: Context, r: Rank, done: Done, stacked: bool) -> None:
    what = f"py-spy stack of {r.spoken}"
    reason, remedy = done.fault, None
    if any(word in reason.lower() for word in _REFUSED):
        reason, remedy = refusal(ctx, r)
    if stacked:
        reason += " (pystack answered)"
    ctx.store.miss(what, reason, remedy, rank=r.rank)


def refusal(ctx: Context, r: Rank) -> tuple[str, str]:
    """Return why this process may not be read, and how to allow it."""
    status = ctx.proc.text(r.pid, "status") or ""
    own = ctx.proc.text("self", "status") or ""
    theirs = _field(status, "Uid").split()
    capable = bool(int(_field(own, "CapEff") or "0", 16) >> 19 & 1)  # CAP_SYS_PTRACE
    yama = (ctx.proc.text("sys/kernel/yama/ptrace_scope", limit=16) or "0").strip()
    container = "docker run --cap-add SYS_PTRACE, or in a pod securityContext.capabilities.add: [SYS_PTRACE]"
    if not capable and theirs and theirs[0] != str(os.geteuid()):
        return (
            f"it runs as uid {theirs[0]}, this as {os.geteuid()}, without CAP_SYS_PTRACE",
            "run as the user of the job, or as root",
        )
    if yama == "3":
        return "kernel.yama.ptrace_scope is 3: no process may be read", "reboot with a lower value"
    if not capable and yama in ("1", "2"):
        return (
            f"kernel.yama.ptrace_scope is {yama} and CAP_SYS_PTRACE is missing",
            f"sudo, or sysctl kernel.yama.ptrace_scope=0, or in a container: {container}; or the job"
            " calls prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)",
        )
    if not capable:
        return "reading another process was refused; CAP_SYS_PTRACE is missing", container
    return (
        "reading another process was refused although CAP_SYS_PTRACE is there: a seccomp profile or"
        " security module forbids it",
        "docker run --security-opt seccomp=unconfined, or allow process_vm_readv and ptrace",
    )


def _field(status: str, name: str) -> str:
    lines = (x for x in status.splitlines() if x.startswith(name + ":"))
    return next(lines, "").partition(":")[2].strip()


def plan(ctx: Context) -> list[str]:
    """Return the preview of this probe."""
    spy, stack = tool(ctx, "py-spy"), tool(ctx, "pystack")
    out = []
    for r in ctx.job.ranks:
        workers = sum(child_kind(c) == "worker" and c.python for c in r.children)
        with_them = f" and of {min(workers, MAX_WORKERS)} workers" if workers else ""
        if spy:
            how = f"{spy} dump --nonblocking (does not stop it)"
        elif stack:
            how = f"{stack} remote --no-block (does not stop it)"
        else:
            how = "not possible: neither py-spy nor pystack is installed"
        out.append(f"stacks of {r.spoken}, pid {r.pid}{with_them}: {how}")
    if ctx.native:
        out.append("native stacks, because of --native: these stop a rank for up to a second")
    if ctx.allow_signals:
        out.append(
            "SIGUSR1 to ranks that handle it, because of --allow-signals: this can wake a blocked call"
        )
    return out
