"""The machine around the ranks: memory, control groups, disks, the kernel's log, what is blocked.

Belongs here: facts of the host. Must not be here: GPUs (gpu.py), processes of the job (process.py).

Anything that touches a file system runs in a program of its own with a deadline: a dead mount holds
whoever asks about it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from rootrank.live.probes import Context, Probe, software
from rootrank.live.procfs import Proc
from rootrank.live.store import stamp

_DF_S = 3.0
_DMESG_S = 4.0
_MAX_PATHS = 24
_BEFORE_JOB_S = 60.0  # what preceded the job by a minute may have caused its end
_CGROUP_V2 = (
    "memory.current memory.peak memory.high memory.max memory.swap.current memory.swap.max"
    " memory.events memory.events.local memory.pressure cpu.max cpu.stat cpu.pressure io.pressure"
    " pids.current pids.max cgroup.events cgroup.freeze"
).split()
_CGROUP_V1 = {
    "memory": (
        "memory.usage_in_bytes memory.max_usage_in_bytes memory.limit_in_bytes memory.failcnt"
        " memory.memsw.usage_in_bytes memory.memsw.limit_in_bytes memory.oom_control"
    ).split(),
    "cpu": "cpu.cfs_quota_us cpu.cfs_period_us cpu.stat".split(),
    "pids": "pids.current pids.max".split(),
    "freezer": ["freezer.state"],
}
# Read with their own lines at the margin, as `cat` shows them; the others as `grep -H .` does.
_BARE = ("memory.oom_control",)
_PATH_WORDS = re.compile(r"(?:nvme|offload|swap|ckpt|checkpoint|output|save|cache|log|data)", re.I)
_VIRTUAL = frozenset(
    "proc sysfs devpts cgroup cgroup2 debugfs tracefs securityfs bpf pstore mqueue autofs configfs"
    " fusectl hugetlbfs binfmt_misc rpc_pipefs nsfs efivarfs".split()
)


# --------------------------------------------------------------------------- memory, load


def memory(ctx: Context) -> None:
    """Keep memory, load and pressure of the host."""
    for name in ("meminfo", "loadavg"):
        text = ctx.proc.text(name)
        if text is None:
            ctx.store.miss(name, "cannot be read")
        else:
            source = ctx.proc.path(name)
            ctx.store.put(f"{name}.txt", text, what=name, source=source)
    pressure = [
        f"## {name}\n{text}"
        for name in ("memory", "io", "cpu")
        if (text := ctx.proc.text("pressure", name))
    ]
    if pressure:
        source = ctx.proc.path("pressure")
        ctx.store.put("vmstat_pressure.txt", "".join(pressure), what="pressure", source=source)
    else:
        ctx.store.miss("pressure stall information", "this kernel keeps none", "boot with psi=1")


# --------------------------------------------------------------------------- control groups


def cgroups(ctx: Context) -> None:
    """Keep limits, usage and events of the ranks' control groups and of those above them."""
    mounts = cgroup_mounts(ctx.proc)
    found: dict[str, list[int]] = {}
    for n, r in enumerate(ctx.job.ranks):
        said = ctx.proc.text(r.pid, "cgroup")
        if said is not None:
            found.setdefault(said, []).append(n)
    for said, owners in found.items():
        text = "".join(_group_lines(said, mounts))
        if not text:
            ctx.store.miss(
                "control group", "its files are not visible here", "run outside the container"
            )
            continue
        shared = len(found) == 1
        for n in owners[:1] if shared else owners:
            r = ctx.job.ranks[n]
            file = "cgroup.txt" if shared else f"cgroup_{r.label}.txt"
            rank = None if shared else r.rank
            ctx.store.put(file, text, what="control group", source="/sys/fs/cgroup", rank=rank)


def cgroup_mounts(proc: Proc) -> dict[str, tuple[str, str]]:
    """Return controller ("" for the unified one) -> (mount point, root inside the hierarchy)."""
    out: dict[str, tuple[str, str]] = {}
    for line in (proc.text("self", "mountinfo", limit=1 << 20) or "").splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) < 5 or not kind:
            continue
        if kind[0] == "cgroup2":
            out[""] = (fields[4], fields[3])
        elif kind[0] == "cgroup":
            for controller in kind[-1].split(","):
                out[controller] = (fields[4], fields[3])
    return out


def _group_lines(said: str, mounts: dict[str, tuple[str, str]]) -> Iterator[str]:
    """Yield the files of every group that `said`, the text of /proc/PID/cgroup, names."""
    for line in said.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            names = _CGROUP_V1.get(controller) if controller else _CGROUP_V2
            if names and controller in mounts:
                for n, folder in enumerate(group_folders(*mounts[controller], path)):
                    # Events of a group above include those of strangers: they count where it limits.
                    if n == 0 or _limits(folder):
                        yield from _group_files(folder, names)


def group_folders(mount: str, root: str, path: str) -> list[str]:
    """Return the folders of a group and of its parents up to the mount, innermost first.

    In a container the path may be written as seen from outside: then the mount is all there is.
    """
    inside = path.removeprefix(root.rstrip("/")) if root != "/" else path
    if ".." in inside.split("/"):
        inside = "/"
    folder = Path(mount + "/" + inside.strip("/"))
    if not folder.is_dir():
        folder = Path(mount)
    out: list[str] = []
    while len(out) < 16:
        out.append(str(folder))
        if folder == Path(mount) or folder.parent == folder:
            break
        folder = folder.parent
    return out


_UNLIMITED = re.compile(r"max|-1|\d{19,}")
_LIMITS = (
    "memory.max",
    "memory.high",
    "memory.limit_in_bytes",
    "cpu.max",
    "cpu.cfs_quota_us",
    "pids.max",
)


def _limits(folder: str) -> bool:
    """Return whether a group limits anything."""
    for name in _LIMITS:
        try:
            with open(f"{folder}/{name}", encoding="ascii") as file:  # noqa: PTH123 - many small ones
                words = file.read(64).split()
        except (OSError, ValueError):
            continue
        if words and not _UNLIMITED.fullmatch(words[0]):
            return True
    return False


def _group_files(folder: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        try:
            with open(f"{folder}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - many small ones
                text = file.read(16 << 10).decode("utf-8", "replace")
        except OSError:
            continue
        if name in _BARE:
            yield f"## {folder}/{name}\n{text.rstrip()}\n"
        else:
            yield "".join(f"{folder}/{name}:{x}\n" for x in text.splitlines() if x)


# --------------------------------------------------------------------------- disks


def paths_of_interest(ctx: Context) -> list[str]:
    """Return the folders whose room and life matter to the job, without asking a file system."""
    out: list[str] = ["/dev/shm", os.environ.get("TMPDIR") or "/tmp", "/"]
    for r in ctx.job.ranks:
        cwd = ctx.proc.link(r.pid, "cwd")
        out += [cwd] if cwd else []
        env = r.process.env
        out += [env[n] for n in ("TMPDIR", "HF_HOME", "TORCH_HOME", "TRITON_CACHE_DIR") if n in env]
        out += _paths_in_words(r.process.words)
        try:
            files = [f for f in ctx.proc.open_files(r.pid) if f.regular and ".so" not in f.target]
        except OSError:
            files = []
        out += [str(Path(f.target.removesuffix(" (deleted)")).parent) for f in files[:64]]
    out += software.configured_paths(ctx)
    kept = [p for p in dict.fromkeys(out) if p.startswith("/")]
    return _one_per_mount(ctx.proc, kept)[:_MAX_PATHS]


def _paths_in_words(words: Iterable[str]) -> list[str]:
    out = []
    before = ""
    for word in words:
        name, eq, value = word.partition("=")
        value = value if eq else word
        if value.startswith("/") and _PATH_WORDS.search(f"{before} {name} {value}"):
            out.append(value)
        before = word
    return out[:32]


def _mounts(proc: Proc) -> list[tuple[str, str]]:
    """Return (mount point, type), in the order of mounting."""
    rows = [x.split() for x in (proc.text("self", "mounts", limit=1 << 20) or "").splitlines()]
    return [(r[1].replace("\\040", " "), r[2]) for r in rows if len(r) > 2]


def _one_per_mount(proc: Proc, paths: list[str]) -> list[str]:
    """Return the first path of each mounted file system: asking one twice tells nothing more."""
    points = [(point, kind) for point, kind in _mounts(proc) if kind not in _VIRTUAL]
    out: dict[str, str] = {}
    for path in paths:
        inside = [p for p, _ in points if path == p or path.startswith(p.rstrip("/") + "/")]
        out.setdefault(max(inside, key=len, default=path), path)
    return list(out.values())


def disks(ctx: Context) -> None:
    """Keep the room and the inodes of every file system that the job uses."""
    text = ctx.proc.text("self", "mounts", limit=1 << 20)
    if text:
        kept = [x for x in text.splitlines() if (x.split() + [""] * 3)[2] not in _VIRTUAL]
        source = ctx.proc.path("self/mounts")
        ctx.store.put("mounts.txt", "\n".join(kept) + "\n", what="mounts", source=source)
    paths = paths_of_interest(ctx)
    rows: dict[tuple[str, int], str] = {}
    threads = [
        threading.Thread(target=_df, args=(ctx, path, option, n, rows), daemon=True)
        for n, path in enumerate(paths)
        for option in ("-Pk", "-Pi")
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join(2 * _DF_S)
    ctx.store.put(
        "df.txt", _table(rows, len(paths)), what="room of file systems", source="df -P; df -Pi"
    )


def _df(ctx: Context, path: str, option: str, n: int, rows: dict[tuple[str, int], str]) -> None:
    done = ctx.runner.run(["df", option, "--", path], deadline_s=_DF_S)
    if done.ok:
        rows[option, n] = done.text
    elif done.timed_out:
        reason = f"df {path} gave no answer within {_DF_S:.0f} s: the file system does not answer"
        ctx.store.miss(f"room of {path}", reason)
    elif option == "-Pk":
        ctx.store.miss(f"room of {path}", done.fault)


def _table(rows: dict[tuple[str, int], str], count: int) -> str:
    """Return the answers of several `df` as the one table it would have printed."""
    out: list[str] = []
    for option in ("-Pk", "-Pi"):
        lines = [rows[option, n].splitlines() for n in range(count) if (option, n) in rows]
        out += lines[0][:1] if lines else []
        out += dict.fromkeys(x for answer in lines for x in answer[1:])
    return "\n".join(out) + "\n" if out else ""


# --------------------------------------------------------------------------- processes


def blocked(ctx: Context) -> None:
    """Keep state and wait of the job's processes, and whatever else on the host waits in the kernel."""
    own = {r.pid for r in ctx.job.ranks} | {p.pid for p in ctx.job.launchers}
    own |= {c.pid for r in ctx.job.ranks for c in r.children} | {p.pid for p in ctx.job.blocked}
    mine: list[str] = []
    others: list[str] = []
    head = f"{'PID':>8} STAT {'WCHAN':<32} {'RSS_KIB':>10} {'START':<24} COMMAND\n"
    boot = ctx.proc.boot_time_s() or 0.0
    until = time.monotonic() + 2.0
    for pid in [*sorted(own), *(p for p in ctx.proc.pids() if p not in own)]:
        stat = ctx.proc.stat(pid)
        if stat is None or (pid not in own and stat.state != "D") or time.monotonic() > until:
            continue
        wchan = (ctx.proc.text(pid, "wchan", limit=256) or "?").strip() or "?"
        began = stamp(boot + stat.start_ticks / os.sysconf("SC_CLK_TCK"))
        kib = stat.rss_pages * os.sysconf("SC_PAGE_SIZE") // 1024
        line = f"{pid:>8} {stat.state:<4} {wchan:<32} {kib:>10} {began} {stat.comm}\n"
        (mine if pid in own else others).append(line)
    ctx.store.put("ps.txt", head + "".join(mine), what="processes of the job", source="/proc")
    if others:
        text = head + "".join(others[:500])
        ctx.store.put("vmstat_blocked.txt", text, what="other processes in state D", source="/proc")


# --------------------------------------------------------------------------- kernel log


def kernel(ctx: Context) -> None:
    """Keep what the kernel logged since a minute before the job began."""
    since = ctx.began_s - _BEFORE_JOB_S if ctx.began_s else None
    done = ctx.runner.run(["dmesg", "--time-format", "iso"], deadline_s=_DMESG_S)
    if not done.ok and not done.timed_out and "permitted" not in done.err.lower():
        done = ctx.runner.run(["dmesg"], deadline_s=_DMESG_S)
        since = None  # seconds since boot: kept whole
    source = " ".join(done.argv)
    if not done.ok:
        fault = done.fault
        when = ["--since", f"@{since:.0f}"] if since else ["-b"]
        argv = ["journalctl", "-k", "--no-pager", "-o", "short-iso", *when]
        done = ctx.runner.run(argv, deadline_s=_DMESG_S)
        source = " ".join(argv)
        if not done.ok or not done.out.strip() or "-- No entries" in done.text:
            ctx.store.miss(
                "kernel log", fault, "sudo dmesg -T > dmesg.txt, or sysctl kernel.dmesg_restrict=0"
            )
            return
        since = None
    lines = list(_later(done.text.splitlines(), since))
    ctx.store.put(
        "dmesg.txt", "".join(f"{x}\n" for x in lines), what="kernel log", source=source,
        cut=done.cut, tail=True,
    )  # fmt: skip
    ctx.store.notes["kernel_log_lines"] = len(lines)


def _later(lines: Iterable[str], since: float | None) -> Iterator[str]:
    keep = since is None
    for line in lines:
        if since is not None:
            at = _iso(line.split(" ", 1)[0])
            keep = at >= since if at is not None else keep
        if keep:
            yield line


def _iso(word: str) -> float | None:
    try:
        return datetime.fromisoformat(word.replace(",", ".")).timestamp()
    except ValueError:
        return None


# --------------------------------------------------------------------------- previews


def _plan_memory(ctx: Context) -> list[str]:
    return [f"{ctx.proc.path()}/{{meminfo, loadavg, pressure/*}} of this host"]


def _plan_cgroups(ctx: Context) -> list[str]:
    return ["limits, usage, pressure and out-of-memory events of the ranks' control groups"]


def _plan_disks(ctx: Context) -> list[str]:
    return [f"df and df -i of {', '.join(paths_of_interest(ctx))}", "the table of mounts"]


def _plan_blocked(ctx: Context) -> list[str]:
    return ["state and wait of the job's processes, and of others in state D"]


def _plan_kernel(ctx: Context) -> list[str]:
    since = f" since {stamp(ctx.began_s - _BEFORE_JOB_S)}" if ctx.began_s else ""
    return [f"the kernel's log{since}: dmesg, else journalctl -k"]


PROBES = (
    Probe(name="memory", ask=memory, plan=_plan_memory, deadline_s=2.0),
    Probe(name="cgroup", ask=cgroups, plan=_plan_cgroups, deadline_s=3.0),
    Probe(name="disks", ask=disks, plan=_plan_disks, deadline_s=8.0),
    Probe(name="blocked", ask=blocked, plan=_plan_blocked, deadline_s=3.0),
    Probe(name="kernel-log", ask=kernel, plan=_plan_kernel, deadline_s=9.0),
)
