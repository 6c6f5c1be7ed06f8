"""The same collector on other machines: through ssh, srun or kubectl exec.

Belongs here: reaching a machine, and taking over what it sends. Must not be here: what is collected.

Nothing has to be installed there but Python 3.10: the collector's own source travels along, as a zip
on standard input, and its bundle comes back on standard output. A machine that does not answer is a
line of the manifest; the others are read all the same.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
import sys
import tarfile
import threading
import time
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import rootrank
from rootrank.errors import InputError, UsageError
from rootrank.live import command
from rootrank.live.command import Done, Runner
from rootrank.live.probes import cluster
from rootrank.live.store import Store, safe_name, stamp
from rootrank.report import redact

if TYPE_CHECKING:
    from rootrank.live.collector import Options, Say

MAX_HOSTS = 4096
AT_ONCE = 64
_ASK_S = 15.0
_BUNDLE_LIMIT = 64 << 20  # of one host, unpacked
_HOST_NAME = re.compile(r"[A-Za-z0-9_.@%:\[\]-]{1,255}")
_CLOSE_IN = ("python3", "python")
# Reads the zip from standard input into memory (the disk there may be full) and runs the command in
# it. -I: nothing of the user's own is imported.
_BOOT = (
    "import os,sys\n"
    "f=os.memfd_create('rootrank')\n"
    "os.write(f,sys.stdin.buffer.read())\n"
    "sys.path.insert(0,'/proc/self/fd/%d'%f)\n"
    "from rootrank.cli import main\n"
    "sys.exit(main(sys.argv[1:]))\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One machine and how to run a command on it."""

    name: str
    via: str  # ssh | srun | kubectl
    prefix: tuple[str, ...]
    quoted: bool = False  # the command passes through a shell there


def wanted(o: Options) -> bool:
    """Return whether other machines are to be visited."""
    return bool(o.hosts or o.k8s or (o.slurm and o.pid is None))


# --------------------------------------------------------------------------- who


def targets(o: Options, runner: Runner) -> list[Target]:
    """Return the machines to visit. Raises InputError when they cannot be listed."""
    if o.hosts:
        return [_ssh(h) for h in dict.fromkeys(o.hosts)]
    if o.slurm:
        return [_srun(o.slurm, node) for node in slurm_nodes(o.slurm, runner)]
    assert o.k8s is not None
    return [_exec(namespace, pod) for namespace, pod in pods(o.k8s, runner)]


def _ssh(host: str) -> Target:
    if not _HOST_NAME.fullmatch(host) or host.startswith("-"):
        raise UsageError("--host", f"{host!r} is no host name", "give a name or user@name")
    options = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=8")
    return Target(name=host, via="ssh", prefix=("ssh", *options, "--", host), quoted=True)


def _srun(job: str, node: str) -> Target:
    # --overlap: the job's own steps hold all of its processors.
    options = (
        f"--jobid={job}",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        "--mem=0",
    )
    return Target(name=node, via="srun", prefix=("srun", *options, "--quiet"))


def _exec(namespace: str | None, pod: str) -> Target:
    where = ("-n", namespace) if namespace else ()
    return Target(name=pod, via="kubectl", prefix=("kubectl", "exec", "-i", *where, pod, "--"))


def slurm_nodes(job: str, runner: Runner) -> list[str]:
    """Return the nodes of a running Slurm job."""
    if not re.fullmatch(r"\d{1,12}(?:_\d{1,9})?", job):
        raise UsageError("--slurm", f"{job!r} is no job id", "give a number, as squeue shows it")
    listed = _ask(runner, ["squeue", "-h", "-j", job, "-o", "%N"], "--slurm")
    names = ",".join(x.strip() for x in listed.text.splitlines() if x.strip())
    if not names:
        raise InputError("--slurm", f"job {job} has no nodes", "is it still running? see squeue")
    spread = _ask(runner, ["scontrol", "show", "hostnames", names], "--slurm")
    return [x.strip() for x in spread.text.splitlines() if _HOST_NAME.fullmatch(x.strip())][
        :MAX_HOSTS
    ]


def pods(name: str, runner: Runner) -> list[tuple[str | None, str]]:
    """Return (namespace, pod) for a pod's name, or for the pods of a job of that name."""
    space, _, short = name.rpartition("/")
    namespace = space or None
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,252}", short):
        raise UsageError("--k8s", f"{name!r} is no pod or job", "give [NAMESPACE/]NAME")
    where = ["-n", namespace] if namespace else []
    argv = ["kubectl", "get", "pods", *where, "-o", "json"]
    try:
        items = json.loads(_ask(runner, argv, "--k8s").text).get("items", [])
        found = [p["metadata"] for p in items if _of_job(p["metadata"], short)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            "--k8s",
            f"kubectl's list of pods cannot be read: {error}",
            "see kubectl get pods -o json",
        ) from error
    if not found:
        raise InputError("--k8s", f"no pod or job {short}", "check the name and the namespace")
    return [(namespace, str(m["name"])) for m in found][:MAX_HOSTS]


_JOB_LABELS = (
    "job-name", "batch.kubernetes.io/job-name", "training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name",
    "pytorch-job-name", "ray.io/cluster", "leaderworkerset.sigs.k8s.io/name", "volcano.sh/job-name",
)  # fmt: skip


def _of_job(meta: dict[str, Any], name: str) -> bool:
    labels = meta.get("labels") or {}
    return meta["name"] == name or any(labels.get(label) == name for label in _JOB_LABELS)


def _ask(runner: Runner, argv: list[str], where: str) -> Done:
    program = command.find(argv[0])
    if program is None:
        raise InputError(
            where, f"{argv[0]} is not here", f"run it where {argv[0]} works, or use --host"
        )
    done = runner.run([program, *argv[1:]], deadline_s=_ASK_S, limit=32 << 20)
    if not done.ok:
        raise InputError(where, done.fault, f"try: {shlex.join(argv)}")
    return done


# --------------------------------------------------------------------------- the visit


def visit(
    o: Options, say: Say
) -> tuple[list[dict[str, Any]], dict[str, bytes], list[dict[str, Any]]]:
    """Return (hosts, files, what is missing) of all machines."""
    runner = Runner()
    chosen = targets(o, runner)
    say(f"visiting {len(chosen)} host{'s' if len(chosen) != 1 else ''} through {chosen[0].via}")
    answers: dict[str, tuple[Done, float, float]] = {}
    around = _Around(o, chosen, runner)
    _all(o, chosen, answers, around)
    hosts, files, lost = [], dict[str, bytes](), []
    taken: set[str] = set()
    for target in chosen:
        done, began, ended = answers.get(target.name, (None, 0.0, 0.0))
        try:
            if done is None:
                raise ValueError("not asked in time")
            host, own = _received(target, done, (began, ended), taken)
        except ValueError as error:
            lost.append({"what": f"host {target.name}", "reason": redact(str(error))})
            say(f"{target.name}: {lost[-1]['reason']}")
            continue
        hosts.append(host)
        files.update(own)
    extra = around.result()
    if extra is not None:
        hosts.append(extra[0])
        files.update(extra[1])
    if not any(h.get("ranks") for h in hosts):
        lost.append({"what": "ranks", "reason": "no host named one"})
    return hosts, files, lost


def _all(
    o: Options,
    chosen: Sequence[Target],
    answers: dict[str, tuple[Done, float, float]],
    around: _Around,
) -> None:
    """Ask all machines, a number of them at once, within one deadline."""
    todo = iter(chosen)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                target = next(todo, None)
            if target is None:
                return
            began = time.time()
            done = _run(o, target, around.runner)
            with lock:
                answers[target.name] = (done, began, time.time())

    threads = [threading.Thread(target=work, daemon=True) for _ in chosen[:AT_ONCE]]
    threads.append(threading.Thread(target=around.ask, daemon=True))
    for t in threads:
        t.start()
    rounds = -(-len(chosen) // AT_ONCE)
    until = time.monotonic() + rounds * (o.remote_deadline_s + 2)
    for t in threads:
        t.join(max(0.0, until - time.monotonic()))


def _run(o: Options, target: Target, runner: Runner) -> Done:
    program = command.find(target.prefix[0])
    if program is None:
        return Done(argv=target.prefix, code=None, err=f"{target.prefix[0]} is not here")
    argv = remote_command(o)
    words = [shlex.join(argv)] if target.quoted else argv
    return runner.run(
        [program, *target.prefix[1:], *words], deadline_s=o.remote_deadline_s, stdin=source_zip(),
        limit=_BUNDLE_LIMIT, free=True,
    )  # fmt: skip


def remote_command(o: Options) -> list[str]:
    """Return the command to run there: the first Python that is new enough, with our source."""
    options = ["collect", "-o", "-", "--seconds", f"{o.interval_s:g}"]
    run = o.run_id or o.slurm
    if run:
        options += ["--run-id", run]
    options += [
        word
        for word, on in (
            ("--native", o.native), ("--allow-signals", o.allow_signals),
            ("--trigger-dump", o.trigger_dump), ("--no-redact", not o.redact),
        )
        if on
    ]  # fmt: skip
    # The interpreter that runs here is often there as well, on a shared file system, with py-spy.
    tried = " ".join(shlex.quote(p) for p in dict.fromkeys((sys.executable, *_CLOSE_IN)))
    script = (
        f'for p in {tried}; do if "$p" -c "import sys; sys.exit(sys.version_info<(3,10))" '
        f'</dev/null 2>/dev/null; then exec "$p" -I -c "$0" "$@"; fi; done; '
        'echo "no Python 3.10 or newer here" >&2; exit 127'
    )
    return ["sh", "-c", script, _BOOT, *options]


@lru_cache(maxsize=1)
def source_zip() -> bytes:
    """Return the part of this package that collects, as a zip."""
    root = Path(rootrank.__file__).parent
    names = [
        "__init__.py",
        "_version.py",
        "errors.py",
        "model.py",
        "cli/__init__.py",
        "cli/shared.py",
        "cli/collect.py",
    ]
    names += ["report/__init__.py", "report/redact.py", "report/secret_formats.py"]
    names += sorted(str(p.relative_to(root)) for p in root.glob("live/**/*.py"))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            packed.writestr(
                zipfile.ZipInfo(f"rootrank/{name}"),
                (root / name).read_bytes(),
                zipfile.ZIP_DEFLATED,
            )
    return out.getvalue()


# --------------------------------------------------------------------------- what comes back


def _received(
    target: Target, done: Done, asked: tuple[float, float], taken: set[str]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return (manifest of the host, files). Raises ValueError when what came is no bundle."""
    if not done.out:
        raise ValueError(done.fault)
    files, whole = unpack(done.out)
    try:
        manifest = json.loads(files.pop("manifest.json"))
        host = manifest["hosts"][0]
        folder = str(host["folder"])
    except (ValueError, KeyError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"what it sent is no bundle ({done.fault})") from error
    name = safe_name(folder)
    if name in taken:  # two pods, one host name
        name = safe_name(target.name)
    while name in taken:
        name += "_"
    taken.add(name)
    host.update(folder=name, via=target.via, target=target.name)
    host["clock"] = clock_offset(host, *asked)
    host.setdefault("missing", [])
    host["missing"] += manifest.get("missing", [])
    if not whole or done.cut:
        host["missing"].append({"what": "part of the bundle", "reason": "it came incomplete"})
    own = {
        f"{name}/{f.partition('/')[2]}": data
        for f, data in files.items()
        if f.startswith(folder + "/")
    }
    return host, own


def unpack(data: bytes) -> tuple[dict[str, bytes], bool]:
    """Return (name -> bytes, whether it was whole) of a .tar.gz from another machine; bounded.

    Names that lead out of the bundle, links and devices are left out: the sender may be anybody.
    """
    files: dict[str, bytes] = {}
    room = _BUNDLE_LIMIT
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(data)) as raw,
            tarfile.open(fileobj=_Bounded(raw), mode="r|") as tar,
        ):
            for member in tar:
                name = PurePosixPath(member.name)
                fit = member.isreg() and not name.is_absolute() and ".." not in name.parts
                if not fit or len(files) > 20000:
                    continue
                if member.size > room:
                    return files, False
                stream = tar.extractfile(member)
                content = stream.read() if stream else b""
                room -= len(content)
                files[str(name)] = content
    except (OSError, EOFError, tarfile.TarError, zlib.error):
        return files, False
    return files, True


class _Bounded(io.RawIOBase):
    """A stream that ends after so many bytes: a header can promise, and a gzip can hold, gigabytes."""

    def __init__(self, raw: gzip.GzipFile) -> None:
        self._raw, self._left = raw, _BUNDLE_LIMIT + (8 << 20)

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes. Raises EOFError beyond the bound."""
        if size < 0 or size > self._left:
            raise EOFError("larger than a bundle may be")
        data = self._raw.read(size)
        self._left -= len(data)
        return data


def clock_offset(host: dict[str, Any], began: float, ended: float) -> dict[str, float | None]:
    """Return how far the clock there is ahead of ours, and the error of that, in seconds.

    It began after we asked and ended before we had the answer; that bounds the offset.
    """
    there = (_seconds(host.get("started")), _seconds(host.get("ended")))
    if there[0] is None or there[1] is None:
        return {"offset_s": None, "error_s": None}
    high, low = there[0] - began, there[1] - ended
    return {"offset_s": round((high + low) / 2, 3), "error_s": round(abs(high - low) / 2, 3)}


def _seconds(text: Any) -> float | None:
    from datetime import datetime

    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


# --------------------------------------------------------------------------- around the machines


class _Around:
    """What is asked about the machines from here: Slurm's and Kubernetes' own words."""

    def __init__(self, o: Options, chosen: Sequence[Target], runner: Runner) -> None:
        self._o, self._chosen, self.runner = o, chosen, runner
        self._store: Store | None = None
        if o.slurm or o.k8s:
            self._store = Store("cluster", clean=o.redact)

    def ask(self) -> None:
        """Ask; what does not answer is missing."""
        if self._store is None:
            return
        for file, argv in self._commands().items():
            program = command.find(argv[0]) or argv[0]
            done = self.runner.run([program, *argv[1:]], deadline_s=_ASK_S)
            if done.ok:
                self._store.put(
                    file, done.text, what=argv[0], source=shlex.join(argv), cut=done.cut
                )
            elif "--previous" not in argv:  # most containers have no earlier life
                self._store.miss(shlex.join(argv[:4]), done.fault)

    def _commands(self) -> dict[str, list[str]]:
        if self._o.slurm:
            return cluster.commands(self._o.slurm)
        out: dict[str, list[str]] = {}
        where: list[str] = []
        for t in self._chosen[:64]:
            where = list(t.prefix[3:-2])
            pod = t.name
            out[f"kubectl_describe_{pod}.txt"] = ["kubectl", "describe", "pod", *where, pod]
            out[f"kubectl_get_{pod}.json"] = ["kubectl", "get", "pod", *where, pod, "-o", "json"]
            tail = ["--all-containers", "--tail=2000", "--timestamps", *where, pod]
            out[f"pods/{pod}.log"] = ["kubectl", "logs", *tail]
            out[f"pods/{pod}-previous.log"] = ["kubectl", "logs", "--previous", *tail]
        out["kubectl_events.txt"] = ["kubectl", "get", "events", *where, "--sort-by=.lastTimestamp"]
        return out

    def result(self) -> tuple[dict[str, Any], dict[str, bytes]] | None:
        """Return (manifest of what was asked here, files)."""
        if self._store is None:
            return None
        self._store.notes.update(via="cluster", ranks=[], ended=stamp(time.time()))
        return self._store.seal()


def plan(o: Options) -> list[str]:
    """Return the preview of a visit: whom, and the command."""
    runner = Runner()
    chosen = targets(o, runner)
    out = [f"{t.name}: {' '.join(t.prefix)} sh -c … collect" for t in chosen]
    out.append(
        f"on each: the collector ({len(source_zip()) >> 10} KiB of Python source on its standard input), as --preview shows there"
    )
    out += [
        f"from here: {shlex.join(argv)}"
        for argv in _Around(o, chosen, runner)._commands().values()
        if o.slurm or o.k8s
    ]
    return out
