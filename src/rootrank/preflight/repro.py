"""The user's own short command on one process and on two: is the configuration or the distribution
to blame?

Belongs here: running exactly what was asked, with a deadline. Must not be here: choosing what to
run. Nothing runs unless the user gave the command.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rootrank.errors import UsageError
from rootrank.preflight.finding import MAY, WILL, Finding, Place, rule

REPRO = rule(
    "repro", "the given command runs on one process and on two", "uncaught-exception",
    "torch.distributed.run --standalone",
)  # fmt: skip
_TAIL = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: `code` is None when it did not end within its deadline."""

    processes: int
    command: tuple[str, ...]
    code: int | None
    seconds: float
    log: str
    last: tuple[str, ...]


def commands(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what will run: on one process, then on two; both through torchrun, so that the number
    is all that differs."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError("--repro", f"cannot be split: {error}", "close the quotes") from error
    environment = []
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        environment.append(words.pop(0))
    if not words:
        raise UsageError("--repro", "no command", "give such as 'python train.py --max_steps 3'")
    interpreter, rest = _target(words)
    head = ("env", *environment) if environment else ()
    run = (interpreter, "-m", "torch.distributed.run", "--standalone")
    one, two = ((*head, *run, f"--nproc-per-node={n}", *rest) for n in (1, 2))
    return one, two


_PYTHON = re.compile(r"(?:.*/)?python[\d.]*\Z")


def _target(words: list[str]) -> tuple[str, list[str]]:
    """Return the interpreter and what torchrun shall start."""
    interpreter = sys.executable
    if _PYTHON.match(words[0]):
        interpreter, words = words[0], words[1:]
        while words[:1] in (["-u"], ["-B"]):
            words = words[1:]
        if words[:2] in (["-m", "torch.distributed.run"], ["-m", "torch.distributed.launch"]):
            return interpreter, _without_size(words[2:])
        if words[:1] == ["-c"]:
            raise UsageError("--repro", "python -c cannot be distributed", "put it in a file")
        return interpreter, words
    if words[0].rsplit("/", 1)[-1] == "torchrun":
        return interpreter, _without_size(words[1:])
    if words[0].endswith(".py"):
        return interpreter, words
    fault = f"{words[0]} is neither python, torchrun nor a .py file"
    raise UsageError("--repro", fault, "give such as 'python train.py --max_steps 3'")


_SIZE = {"nproc-per-node", "nnodes", "node-rank", "master-addr", "master-port", "rdzv-backend",
         "rdzv-endpoint", "rdzv-id"}  # fmt: skip


def _without_size(words: list[str]) -> list[str]:
    """Return torchrun's words without those that say how many and where."""
    kept: list[str] = []
    i = 0
    while i < len(words) and words[i].startswith("-"):
        name, has_value, _ = words[i].lstrip("-").replace("_", "-").partition("=")
        if name == "standalone":
            i += 1
        elif name in _SIZE:
            i += 1 if has_value else 2
        else:
            kept.append(words[i])
            i += 1
            if not has_value and name not in ("m", "module", "no-python") and i < len(words):
                kept.append(words[i])
                i += 1
    return kept + words[i:]


def reproduce(text: str, deadline_s: float, say: Callable[[str], None]) -> list[Finding]:
    """Say what will run, run it on one process, then on two, and return what follows."""
    both = commands(text)
    folder = tempfile.mkdtemp(prefix="rootrank-repro-")
    for n, command in enumerate(both, 1):
        say(f"will run ({n} of 2, at most {deadline_s:g} s): {shlex.join(command)}")
    say(f"output goes to {folder}")
    first = run(both[0], 1, deadline_s, folder)
    say(_outcome(first))
    if first.code != 0:
        return judge(first, None)
    second = run(both[1], 2, deadline_s, folder)
    say(_outcome(second))
    return judge(first, second)


def run(command: tuple[str, ...], processes: int, deadline_s: float, folder: str) -> Run:
    """Run one command to its end or its deadline; nothing of it is left behind."""
    log = Path(folder) / f"{processes}-process.log"
    began = time.monotonic()
    with log.open("wb") as stream:
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                start_new_session=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        except OSError as error:
            fault = f"cannot be started: {error.strerror}"
            raise UsageError(command[0], fault, "check the path") from error
        try:
            code: int | None = child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(child)
    return Run(
        processes=processes, command=command, code=code, seconds=time.monotonic() - began,
        log=str(log), last=_last(log),
    )  # fmt: skip


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the launcher and all it started: first by SIGTERM, so that it can end its ranks."""
    # torch's agent puts each rank into a session of its own: the launcher's group is not enough.
    below = _descendants(child.pid) if child.poll() is None else []
    for number, wait_s in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(child.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            child.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue
    for pid, started in below:
        if _stat(pid)[1] == started:  # not another process that got its number since
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass


def _stat(pid: int) -> tuple[int, str]:
    """Return the parent and the start time of a process; (0, "") when it is gone."""
    try:
        cells = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(cells[1]), cells[19]
    except (OSError, IndexError, ValueError):
        return 0, ""


def _descendants(pid: int) -> list[tuple[int, str]]:
    """Return the processes below one, with their start times; none where there is no /proc."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    facts = {p: _stat(p) for p in pids}
    found: list[tuple[int, str]] = []
    level = {pid}
    while level:
        level = {p for p, (parent, _) in facts.items() if parent in level}
        found.extend((p, facts[p][1]) for p in level)
    return found


def _last(log: Path) -> tuple[str, ...]:
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - _TAIL))
        lines = stream.read().decode("utf-8", "replace").splitlines()
    said = [line.strip() for line in lines if line.strip()]
    errors = [line for line in said if _ERROR.search(line)]
    own = [e for e in errors if not _OTHERS.search(e)]
    return tuple((own or errors or said)[-1:])


_ERROR = re.compile(r"\b\w{0,80}(?:Error|Exception)\b")
# What the launcher and the peers of a failed rank say, later and louder.
_OTHERS = re.compile(r"ChildFailedError|SignalException|torch/distributed|by peer|DistBackendError")


def _outcome(r: Run) -> str:
    how = "did not end" if r.code is None else f"ended with {r.code}"
    return f"{r.processes} process{'es' if r.processes > 1 else ''}: {how} after {r.seconds:.0f} s"


def judge(first: Run, second: Run | None) -> list[Finding]:
    """Return what the two runs say together."""
    if first.code != 0:
        return [_found(first, "the configuration, the code or this machine is to blame, not the "
                              "distribution: it fails with one process", "fix this first; it needs no second rank")]  # fmt: skip
    if second is not None and second.code != 0:
        return [_found(second, "the distribution is to blame: the same command runs to its end with "
                               "one process", "rootrank diagnose the log; while it hangs: rootrank collect")]  # fmt: skip
    return []


def _found(r: Run, why: str, remedy: str) -> Finding:
    hung = r.code is None
    what = f"no end within {r.seconds:.0f} s" if hung else f"exit code {r.code}"
    said = f": {r.last[-1][:200]}" if r.last else ""
    # No end within the deadline may only mean that the command is long.
    return REPRO.found(
        MAY if hung else WILL, Place(name=r.log),
        f"{r.processes} process{'es' if r.processes > 1 else ''}: {what}{said}", why + ".", remedy,
    )  # fmt: skip
