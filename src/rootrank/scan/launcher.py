"""What launchers say: summaries, exit codes, signals they sent.

Belongs here: torchelastic, DeepSpeed, accelerate, srun, mpirun, shells, containers. Must not be here: belief in them.
torchelastic's "Root Cause (first observed failure)" is the smallest whole-second stamp of one node's agent, ties by
dictionary order (torch/distributed/elastic/multiprocessing/errors/__init__.py): a word, not a cause.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from rootrank.model import Line, Origin, Sighting, SpeaksOf
from rootrank.scan.words import SIGNALS, sighting, signal_of

_FAILED = re.compile(
    r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)"
)
_CLOSING = re.compile(r"Sending process (?P<pid>\d+) closing signal (?P<signal>SIG\w+)")
_FORCED = re.compile(
    r"Unable to shutdown process (?P<pid>\d+) via (?:Signals\.)?\w+, forcefully exiting via (?:Signals\.)?(?P<signal>\w+)"
)
_DS_KILL = re.compile(r"Killing subprocess (?P<pid>\d+)")
_DS_EXIT = re.compile(r"exits with return code = (?P<code>-?\d+)")
_LOCAL_ARG = re.compile(r"--local[_-]rank[= ',]+(?P<local>\d+)")
_SRUN = re.compile(r"srun: error: (?P<host>[\w.\[\],-]+): tasks? (?P<tasks>[\d,\-]+): (?P<what>.*)")
_SRUN_CODE = re.compile(r"(?:Exited with exit code|exit code) (?P<code>\d+)")
_MPI = re.compile(
    r"(?:mpirun|mpiexec|prterun)(?:\.\w+)? noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) exited on signal (?P<signal>\d+)"
)
_MPI_ABORT = re.compile(r"MPI_ABORT was invoked on rank (?P<rank>\d+)")
_MPI_EXIT = re.compile(r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]")
_ACCELERATE = re.compile(
    r"CalledProcessError: Command '?\[?(?P<cmd>.{1,2000}?)\]?'? (?:returned non-zero exit status (?P<code>\d+)|died with <Signals\.(?P<signal>SIG\w+))"
)
_CONTAINER = re.compile(
    r"(?:[Cc]ontainer|[Pp]od|[Pp]rocess|[Ww]orker|[Tt]ask|rank \d+|pid \d+|[Cc]hild|[Jj]ob|script|[Cc]ommand)\b.{0,80}?\b(?:exited|terminated|finished|failed|died)\b.{0,40}?(?:exit ?code|status|code|exit)[ :=]+(?P<code>-?\d+)"
)
_PADDLE = re.compile(r"process with rank=\[?(?P<rank>\d+)\]? was aborted")
_EXITED = re.compile(r"^\S+ exited with (?:exit )?(?:code|status) (?P<code>-?\d+)")
_KILLED = re.compile(r"^(?:.{0,120}?: line \d+: +(?P<pid>\d+) )?Killed(?: {2,}.*)?$")
_SECTION = re.compile(r"^\s*\[(?P<index>\d+)\]:\s*$")
_ROW = re.compile(r"^\s*(?P<key>time|host|rank|exitcode|error_file|traceback)\s*: ?(?P<value>.*)$")
_RANK = re.compile(r"(?P<rank>\d+) \(local_rank: (?P<local>\d+)\)")
_CODE = re.compile(r"(?P<code>-?\d+) \(pid: (?P<pid>\d+)\)")
_JSON_KEY = re.compile(r'^\s*"(?P<rank>\d{1,6})": \{\s*$')
_JSON_ROW = re.compile(r'^\s*"(?P<key>local_rank|exitcode)": (?P<value>-?\d+),?\s*$')
_RESTART = re.compile(r"restart[_ ]?count[=: ]+(?P<n>\d+)|attempt[_ ](?P<a>\d+)\b")


def _exit(
    line: Line, code: int | None, by: str, origin: Origin, signal: str | None = None, **more: Any
) -> Sighting:
    signal = signal or (signal_of(code) if code is not None else None)
    if code == 0:
        speaks = SpeaksOf.ENVIRONMENT
    elif signal == "SIGTERM":
        speaks = SpeaksOf.TEARDOWN
    else:
        speaks = SpeaksOf.SELF
    return sighting(line, "exit", speaks, origin=origin, code=code, signal=signal, by=by, **more)


class ElasticTable:
    """Reads torchelastic's failure table, one writer at a time."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, str]] = {}
        self._root: dict[str, bool] = {}
        self._tables: set[str] = set()

    def feed(self, line: Line) -> Sighting | None:
        """Return one `exit` sighting per row of the table, when the row is complete."""
        text = line.text
        tag = line.tag
        if text.lstrip().startswith('"'):
            return self._json(line)
        if "Root Cause (first observed failure)" in text:
            self._root[tag] = True
            self._tables.add(tag)
            return None
        if text.strip() == "Failures:" or (text.rstrip().endswith(" FAILED") and len(text) < 300):
            self._tables.add(tag)
            self._root[tag] = False
            return None
        if tag not in self._tables:
            return None
        if _SECTION.match(text):
            self._rows[tag] = {}
            return None
        m = _ROW.match(text)
        if not m:
            return None
        rows = self._rows.setdefault(tag, {})
        rows[m["key"]] = m["value"]
        if m["key"] != "exitcode":
            return None
        return self._row(line, rows, self._root.get(tag, False))

    def _json(self, line: Line) -> Sighting | None:
        """Read the same record as JSON, keyed by rank: `"784": {"local_rank": 0, "exitcode": -6, …`."""
        m = _JSON_KEY.match(line.text)
        if m:
            self._rows[line.tag] = {"json": m["rank"]}
            return None
        rows = self._rows.get(line.tag, {})
        m = _JSON_ROW.match(line.text)
        if not m or "json" not in rows:
            return None
        rows[m["key"]] = m["value"]
        if m["key"] != "exitcode" or "local_rank" not in rows:
            return None
        origin = Origin(rank=int(rows["json"]), local_rank=int(rows["local_rank"]), role="worker")
        return _exit(line, int(m["value"]), "torchelastic", origin)

    def _row(self, line: Line, rows: dict[str, str], root: bool) -> Sighting | None:
        rank, code = _RANK.search(rows.get("rank", "")), _CODE.search(rows["exitcode"])
        if not rank or not code:
            return None
        origin = Origin(
            rank=int(rank["rank"]), local_rank=int(rank["local"]), pid=int(code["pid"]),
            host=_host(rows.get("host")), role="worker",
        )  # fmt: skip
        return _exit(
            line,
            int(code["code"]),
            "torchelastic",
            origin,
            first_observed=root or None,
            when=_stamp(rows.get("time", "")),
        )


def _host(name: str | None) -> str | None:
    return None if not name or name.strip() in {"localhost", "<N/A>"} else name.strip()


def _stamp(text: str) -> float | None:
    try:
        return (
            datetime.strptime(text.strip(), "%Y-%m-%d_%H:%M:%S")
            .replace(tzinfo=timezone.utc)
            .timestamp()
        )
    except ValueError:
        return None


def elastic_failed(line: Line) -> Sighting | None:
    """The agent's line about the first worker it saw dead."""
    m = _FAILED.search(line.text)
    if not m:
        return None
    origin = Origin(local_rank=int(m["local"]), pid=int(m["pid"]), role="worker")
    return _exit(line, int(m["code"]), "torchelastic", origin)


def closing(line: Line) -> Sighting | None:
    """The agent ends the workers that are left; a forced end means the worker did not react for 30 s."""
    m = _FORCED.search(line.text)
    if m:
        return sighting(
            line,
            "teardown",
            SpeaksOf.TEARDOWN,
            origin=Origin(pid=int(m["pid"]), role="worker"),
            signal="SIGKILL",
            by="torchelastic",
            forced=True,
            target=int(m["pid"]),
        )
    m = _CLOSING.search(line.text)
    if m:
        return sighting(
            line,
            "teardown",
            SpeaksOf.TEARDOWN,
            origin=Origin(role="launcher"),
            signal=m["signal"],
            by="torchelastic",
            target=int(m["pid"]),
        )
    m = _DS_KILL.search(line.text)
    if m:
        return sighting(
            line,
            "teardown",
            SpeaksOf.TEARDOWN,
            origin=Origin(role="launcher"),
            by="deepspeed",
            target=int(m["pid"]),
        )
    return None


def deepspeed_exit(line: Line) -> Sighting | None:
    """DeepSpeed's launcher prints a whole command; --local_rank in it is whose command, not who is guilty."""
    m = _DS_EXIT.search(line.text)
    if not m:
        return None
    local = _LOCAL_ARG.search(line.text)
    return _exit(
        line,
        int(m["code"]),
        "deepspeed",
        Origin(local_rank=int(local["local"]) if local else None, role="worker"),
    )


def srun_exit(line: Line) -> Sighting | None:
    """srun names tasks; with one process per task a task is a rank."""
    m = _SRUN.search(line.text)
    if not m:
        return None
    what = m["what"]
    code = _SRUN_CODE.search(what)
    signal = None
    for word, name in (
        ("Killed", "SIGKILL"),
        ("Terminated", "SIGTERM"),
        ("Segmentation fault", "SIGSEGV"),
        ("Aborted", "SIGABRT"),
        ("Bus error", "SIGBUS"),
        ("Out Of Memory", "SIGKILL"),
    ):
        if word in what:
            signal = name
            break
    if not code and not signal:
        return None
    tasks = m["tasks"]
    rank = int(tasks) if tasks.isdigit() else None
    host = m["host"] if "[" not in m["host"] and "," not in m["host"] else None
    value = int(code["code"]) if code else None
    return _exit(
        line,
        value,
        "srun",
        Origin(rank=rank, host=host, role="worker"),
        signal,
        tasks=tasks,
        oom="Out Of Memory" in what or None,
    )


def mpi_exit(line: Line) -> Sighting | None:
    """Open MPI: the rank it noticed first, with its signal; or the rank that called MPI_ABORT."""
    m = _MPI.search(line.text)
    if m:
        origin = Origin(
            rank=int(m["rank"]), host=m["host"], pid=int(m["pid"]) or None, role="worker"
        )
        return _exit(line, -int(m["signal"]), "mpirun", origin)
    m = _MPI_ABORT.search(line.text)
    if m:
        return _exit(line, 1, "mpirun", Origin(rank=int(m["rank"]), role="worker"), abort=True)
    m = _MPI_EXIT.search(line.text)
    if m:
        return _exit(line, 1, "mpirun", Origin(rank=int(m["rank"]), role="worker"))
    return None


def called_process(line: Line) -> Sighting | None:
    """A launcher in Python re-raises: "CalledProcessError: Command … returned non-zero exit status 1"."""
    m = _ACCELERATE.search(line.text)
    if not m:
        return None
    number = next((k for k, v in SIGNALS.items() if v == m["signal"]), None)
    code = int(m["code"]) if m["code"] else -number if number else None
    local = _LOCAL_ARG.search(m["cmd"])
    return _exit(
        line,
        code,
        "accelerate",
        Origin(local_rank=int(local["local"]) if local else None, role="worker"),
    )


def paddle_abort(line: Line) -> Sighting | None:
    """Paddle's launcher: "the trainer process with rank=[3] was aborted"."""
    m = _PADDLE.search(line.text)
    return _exit(line, None, "paddle", Origin(rank=int(m["rank"]), role="worker")) if m else None


def container_exit(line: Line) -> Sighting | None:
    """Containers, pods and job systems: "… exited with code 137"."""
    m = _CONTAINER.search(line.text) or _EXITED.search(line.text)
    if not m or len(line.text) > 600:
        return None
    code = int(m["code"])
    if code == 0:
        return None
    return _exit(line, code, "shell", Origin())


def killed(line: Line) -> Sighting | None:
    """A shell's bare "Killed": SIGKILL, by whom it does not say."""
    m = _KILLED.match(line.text.strip())
    if not m:
        return None
    return _exit(line, -9, "shell", Origin(pid=int(m["pid"]) if m["pid"] else None))


PARSERS = (
    (("failed (exitcode: ",), elastic_failed),
    (("closing signal ", "forcefully exiting", "Killing subprocess "), closing),
    (("exits with return code = ",), deepspeed_exit),
    (("srun: error: ",), srun_exit),
    (("noticed that process rank ", "MPI_ABORT was invoked", "Process name: [["), mpi_exit),
    (("was aborted. Please check",), paddle_abort),
    (("CalledProcessError: Command",), called_process),
    (("exited with", "exit code", "exitcode", "exit status", "exit-code"), container_exit),
    (("Killed",), killed),
)
