"""Files that the job itself left: flight records, error files, locks of a build, the ends of its logs.

Belongs here: where such files lie. Must not be here: reading them (scan does that, safely).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from rootrank.live.probes import Context, Probe
from rootrank.live.ranks import Process, Rank
from rootrank.live.store import safe_name, stamp
from rootrank.model import fold_ranks

_RECORD_LIMIT = 2 << 20
_LOG_TAIL = 256 << 10
_TEMPLATES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_DEFAULTS = ("/tmp/nccl_trace_rank_", "/tmp/comm_lib_trace_rank_")
_PIPES = ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DEBUG_INFO_PIPE_FILE")
_MAX_FOLDERS = 2000


def flight(ctx: Context) -> None:
    """Keep the flight records of this job; ask for new ones only where told to and prepared for."""
    if ctx.trigger_dump:
        for r in ctx.job.ranks:
            _trigger(ctx, r)
    left = [r.rank for r in ctx.job.ranks if r.rank is not None and not _flight_of(ctx, r)]
    if left:
        what = f"flight records (ranks {fold_ranks(left)})"
        remedy = "TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 in the job (NCCL only)"
        ctx.store.miss(what, "no dump file", remedy)


def _flight_of(ctx: Context, r: Rank) -> bool:
    """Keep the dump of a rank; return whether there was a file."""
    seen = False
    for path in record_paths(r):
        inside = _inside(ctx, r, path)
        try:
            status = os.stat(inside)  # noqa: PTH116 - a path below /proc/PID/root
        except OSError:
            continue
        seen = True
        if ctx.began_s and status.st_mtime < ctx.began_s - 1:
            reason = f"{path} is from {stamp(status.st_mtime)}, before this job"
            ctx.store.miss(f"flight record of {r.spoken}", reason, rank=r.rank)
            continue
        _copy(ctx, r, inside, path)
    return seen


def record_paths(r: Rank) -> list[str]:
    """Return where the dump of a rank would lie."""
    env = r.process.env
    prefixes = [env[name] for name in _TEMPLATES if env.get(name)] or list(_DEFAULTS)
    return [f"{prefix}{r.rank}" for prefix in prefixes]


def _inside(ctx: Context, r: Rank, path: str) -> str:
    """Return a path as the rank sees it: in a container /tmp is another one."""
    if not path.startswith("/"):
        return ctx.proc.path(r.pid, "cwd", path)
    through = ctx.proc.path(r.pid, "root") + path
    return through if os.path.exists(through) else path  # noqa: PTH110


def _copy(ctx: Context, r: Rank, inside: str, path: str) -> None:
    try:
        data = _head(inside, _RECORD_LIMIT + 1)
    except OSError as error:
        ctx.store.miss(f"flight record of {r.spoken}", error.strerror or str(error), rank=r.rank)
        return
    if len(data) > _RECORD_LIMIT:
        # Half a record cannot be read; the whole one is too much for a bundle.
        reason = f"{path} is larger than {_RECORD_LIMIT >> 20} MiB: give it to diagnose beside the bundle"
        ctx.store.miss(f"flight record of {r.spoken}", reason, rank=r.rank)
        return
    name = safe_name(Path(path).name)
    if not name.endswith(f"rank_{r.rank}"):
        name = f"nccl_trace_rank_{r.rank}"
    ctx.store.put(name, data, what="flight record", source=path, rank=r.rank)


def _head(path: str, limit: int) -> bytes:
    # Not blocking: what is named like a record may be a FIFO.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(fd, "rb") as file:
        return file.read(limit) or b""


def _trigger(ctx: Context, r: Rank) -> None:
    """Write to the pipe that the job made for this; a job without one is left alone."""
    prefixes = [r.process.env[name] for name in _PIPES if r.process.env.get(name)]
    for prefix in prefixes:
        path = _inside(ctx, r, f"{prefix}{r.rank}.pipe")
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            reason = f"{prefix}{r.rank}.pipe: {error.strerror or error}"
            ctx.store.miss(f"flight record on demand of {r.spoken}", reason, rank=r.rank)
            continue
        try:
            os.write(fd, b"1")
        finally:
            os.close(fd)
    if not prefixes:
        remedy = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/fr_ in the job"
        ctx.store.miss(
            f"flight record on demand of {r.spoken}",
            "the job made no pipe for it",
            remedy,
            rank=r.rank,
        )


def again(ctx: Context) -> None:
    """Look once more for what a signal or a trigger brought forth."""
    if ctx.trigger_dump:
        time.sleep(1.0)  # a dump with stacks takes the rank some seconds; a part of it is none
        for r in ctx.job.ranks:
            _flight_of(ctx, r)
    if ctx.allow_signals:
        logs(ctx)


# --------------------------------------------------------------------------- error files


def errors(ctx: Context) -> None:
    """Keep what `@record` wrote about an exception, for ranks that are still there to be asked."""
    for r in ctx.job.ranks:
        path = r.process.env.get("TORCHELASTIC_ERROR_FILE")
        if not path:
            continue
        try:
            data = _head(_inside(ctx, r, path), 1 << 20)
        except FileNotFoundError:
            continue  # no exception so far: nothing is missing
        except OSError as error:
            ctx.store.miss(f"error file of {r.spoken}", error.strerror or str(error), rank=r.rank)
            continue
        text = data.decode("utf-8", "replace")
        ctx.store.put(f"error_{r.label}.json", text, what="error file", source=path, rank=r.rank)


# --------------------------------------------------------------------------- logs


def logs(ctx: Context) -> None:
    """Keep the end of every file that a rank or its launcher writes its output to."""
    taken: dict[str, str] = {}
    users = [(r.label, r.rank, r.process) for r in ctx.job.ranks]
    users += [(f"launcher-{n}", None, p) for n, p in enumerate(ctx.job.launchers)]
    count: dict[str, int] = {}
    outputs = [(u, fd, target) for u in users for fd, target in _outputs(ctx, u[2])]
    for _, _, target in outputs:
        count[target] = count.get(target, 0) + 1
    if not outputs:
        reason = "standard output is a pipe or terminal"
        ctx.store.miss(
            "logs of the ranks", reason, "give the log files to diagnose beside the bundle"
        )
    for (label, rank, process), fd, target in outputs:
        if target in taken:
            continue
        stream = "stdout" if fd == 1 else "stderr"
        alone = count[target] == 1 or label.startswith("launcher") or len(ctx.job.ranks) == 1
        file = f"{label}.{stream}.log" if alone else f"job-{len(taken)}.log"
        taken[target] = file
        _tail(ctx, process, fd, target, file, rank if alone else None)


def _outputs(ctx: Context, process: Process) -> Iterator[tuple[int, str]]:
    seen = set()
    for fd in (1, 2):
        target = ctx.proc.link(process.pid, "fd", fd)
        if target and target.startswith("/") and not target.startswith(("/dev/", "/proc/")):
            if target not in seen:
                seen.add(target)
                yield fd, target


def _tail(
    ctx: Context, process: Process, fd: int, target: str, file: str, rank: int | None
) -> None:
    try:
        # Through the descriptor: the file may be deleted, or lie in another mount namespace.
        with open(ctx.proc.path(process.pid, "fd", fd), "rb") as log:  # noqa: PTH123
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - _LOG_TAIL))
            data = log.read(_LOG_TAIL)
    except OSError as error:
        ctx.store.miss(f"end of {target}", error.strerror or str(error), rank=rank)
        return
    if size > len(data):
        data = data.partition(b"\n")[2]  # from the next whole line on
    text = data.decode("utf-8", "replace")
    cut = size > len(data)
    ctx.store.put(file, text, what="end of a log", source=target, rank=rank, cut=cut, tail=True)


# --------------------------------------------------------------------------- locks of a build


def locks(ctx: Context) -> None:
    """Keep the locks that a build of an extension left, with their age and the compilers that live."""
    found: list[str] = []
    for root in lock_roots(ctx):
        found += list(_locks_below(Path(root)))
    if not found:
        return
    compilers = sorted(
        {
            f"{stat.pid} {stat.comm}"
            for pid in ctx.proc.pids()
            if (stat := ctx.proc.stat(pid))
            and stat.comm in ("ninja", "nvcc", "cc1plus", "c++", "g++", "cicc", "ptxas", "hipcc")
        }
    )
    text = "\n".join(found) + "\n# compilers that run: " + (", ".join(compilers) or "none") + "\n"
    ctx.store.put("lockdir.txt", text, what="locks of extension builds", source="torch_extensions")


def lock_roots(ctx: Context) -> list[str]:
    """Return the folders where PyTorch builds extensions for the ranks."""
    out = []
    for r in ctx.job.ranks:
        env = r.process.env
        cache = env.get("XDG_CACHE_HOME") or (env["HOME"] + "/.cache" if env.get("HOME") else None)
        chosen = env.get("TORCH_EXTENSIONS_DIR") or (cache and f"{cache}/torch_extensions")
        if chosen:
            out.append(chosen)
    return list(dict.fromkeys(out))


def _locks_below(root: Path) -> Iterator[str]:
    """Yield one `ls -l` line per lock, three levels deep: version, extension, lock."""
    now = time.time()
    todo, seen = [(root, 0)], 0
    while todo:
        folder, depth = todo.pop()
        seen += 1
        try:
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if depth < 3 and seen < _MAX_FOLDERS:
                        todo.append((Path(entry.path), depth + 1))
                elif entry.name == "lock":
                    status = entry.stat(follow_symlinks=False)
                    age = now - status.st_mtime
                    yield f"# the next lock is {age:.0f} s old"
                    yield f"-rw-r--r-- {status.st_uid} {status.st_size} {stamp(status.st_mtime)} {entry.path}"
            except OSError:
                continue


# --------------------------------------------------------------------------- previews


def _plan_flight(ctx: Context) -> list[str]:
    out = [
        f"flight record of {r.spoken}: {', '.join(record_paths(r))}"
        for r in ctx.job.ranks
        if r.rank is not None
    ]
    if ctx.trigger_dump:
        out.append("a byte to each rank's flight-recorder pipe, because of --trigger-dump")
    return out


def _plan_errors(ctx: Context) -> list[str]:
    paths = [r.process.env.get("TORCHELASTIC_ERROR_FILE") for r in ctx.job.ranks]
    return [f"error file {p}, if it is there" for p in paths if p]


def _plan_logs(ctx: Context) -> list[str]:
    users = [*(r.process for r in ctx.job.ranks), *ctx.job.launchers]
    targets = dict.fromkeys(t for p in users for _, t in _outputs(ctx, p))
    return [f"the last {_LOG_TAIL >> 10} KiB of {t}" for t in targets]


def _plan_locks(ctx: Context) -> list[str]:
    return [f"names and age of locks below {root}" for root in lock_roots(ctx)]


PROBES = (
    Probe(name="flight-record", ask=flight, plan=_plan_flight, deadline_s=4.0),
    Probe(name="error-files", ask=errors, plan=_plan_errors, deadline_s=3.0),
    Probe(name="logs", ask=logs, plan=_plan_logs, deadline_s=4.0),
    Probe(name="build-locks", ask=locks, plan=_plan_locks, deadline_s=3.0),
)
