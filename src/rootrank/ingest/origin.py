"""What the prefix of a line says: who wrote it, and when.

Belongs here: the prefixes that launchers, runtimes, kernels and log libraries put before a message.
Must not be here: what the message means, and joins between names (that is the timeline's work).

Unknown rather than a guess: a rank is set only by a prefix that always means a global rank.
`[Rank 3]` inside a ProcessGroupNCCL line counts inside that group, and `3: ` may be a line number.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

from rootrank.ingest.clock import find_time, from_value, stamp_at
from rootrank.ingest.decode import clean_text
from rootrank.ingest.names import from_path
from rootrank.model import UNKNOWN, Origin

__all__ = ["Prefix", "detect_columns", "detect_labels", "from_path", "split_prefix"]

_MAX_PREFIXES: Final = 10  # stacked on one line; more is not a log
_MAX_NESTED_JSON: Final = 2  # a JSON application line inside a docker JSON line
_MAX_JSON_CHARS: Final = 1 << 20
_HEADER_CHARS: Final = 160  # how far a rank token may stand behind stamp, level and file

_LEVELS: Final = (
    *("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "ERR", "CRITICAL", "CRIT"),
    *("FATAL", "ALERT", "EMERG", "SEVERE"),
)
LEVELS: Final = frozenset((*_LEVELS, *(level.lower() for level in _LEVELS)))


class Prefix(NamedTuple):
    """A line taken apart."""

    tag: str  # what separates the writers of one source, "[default2]:[rank2]:"; "" for none
    origin: Origin
    rest: str  # the message, its indentation kept; may hold newlines if it was a JSON string
    time_s: float | None  # seconds since the epoch, UTC where no zone is stated


class _Found:
    """What the handlers have collected from one line so far."""

    __slots__ = (
        "actor",
        "columns",
        "device",
        "host",
        "hosts",
        "local_rank",
        "pid",
        "rank",
        "role",
        "srun",
        "stamped",
        "tag",
        "time_s",
        "year",
    )

    def __init__(
        self, srun: bool, hosts: bool, year: int | None, columns: frozenset[str] = frozenset()
    ) -> None:
        self.srun, self.hosts, self.year, self.columns = srun, hosts, year, columns
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.host: str | None = None
        self.pid: int | None = None
        self.device: str | None = None
        self.role: str | None = None
        self.actor: str | None = None
        self.time_s: float | None = None
        self.stamped = False
        self.tag = ""

    def origin(self) -> Origin:
        """Return the origin, shared between the lines of one writer."""
        key = (
            self.rank,
            self.local_rank,
            self.host,
            self.pid,
            self.device,
            self.role,
            self.actor,
        )
        known = _origins.get(key)
        if known is None:
            if len(_origins) >= 8192:  # hostile input may name a new writer on every line
                _origins.clear()
            known = _origins[key] = Origin(
                rank=self.rank,
                local_rank=self.local_rank,
                host=self.host,
                pid=self.pid,
                device=self.device,
                role=self.role,
                actor=self.actor,
            )
        return known


_origins: dict[tuple[object, ...], Origin] = {(None,) * 7: UNKNOWN}

# A handler looks at `text[pos]` and returns where the message goes on, `pos` when it learned
# something but strips nothing (then it is the last), or None when this is not its prefix.
_Handler = Callable[[str, int, _Found], "int | None"]

_RANK: Final = re.compile(r"\[(?:(global|local)[ _-]?)?rank[ _:=-]{0,2}(\d{1,6})\](:?)", re.I)
_ROLE: Final = re.compile(r"\[([A-Za-z_][\w-]{0,40}?)(\d{1,4})\]:")
# "[step3]:" and the like count something other than processes of a host.
_NO_ROLE: Final = frozenset(
    (
        *("node", "host", "gpu", "cuda", "device", "npu", "hip", "line", "frame", "thread", "v"),
        *("step", "epoch", "iter", "iteration", "batch", "layer", "stage", "attempt", "try"),
        *("dp", "tp", "pp", "cp", "ep", "sp", "group", "pg"),
    )
)
_MPI: Final = re.compile(
    r"(\[[\w.@-]{1,80},(?:mpirank:)?(\d{1,6})(?:,([\w.-]{1,80}))?\])(?:\[([\w.-]{1,253}):(\d{1,9})\])?"
    r"<std(?:out|err|diag)>:( *)"
)
_POD: Final = re.compile(r"(\[pod/([\w.-]{1,253})/[\w.-]{1,253}\]) ?")
_RAY: Final = re.compile(
    r"(\((?:([A-Za-z_][^\s()]{0,100}(?:\([^()]{0,80}\))?(?: [A-Za-z_][\w=]{0,60})?) )?"
    r"pid=(\d{1,9})(?:, ip=([\w.:-]{1,100}))?\)) ?"
)
_RAY_SYSTEM: Final = re.compile(
    r"(\((raylet|autoscaler|scheduler|gcs_server|dashboard)"
    r"(?:, ip=([\w.:-]{1,100})| \+[\w ]{1,20})?\)) ?"
)
_RAY_REPEATED: Final = re.compile(r" ?\[repeated \d{1,9}x across cluster\].{0,300}$")
_UPTIME: Final = re.compile(r"\[ {0,8}\d{1,10}\.(\d{3,9})\](?:\[[ TC\d]{1,12}\])? ?")
_KMSG: Final = re.compile(r"\d{1,4},\d{1,20},\d{1,20},[^;\s]{1,40};")
_FACILITY: Final = re.compile(
    r"(kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]) {0,6}"
    r":(?:emerg|alert|crit|err|warn|notice|info|debug) {0,6}: "
)
_PRIORITY: Final = re.compile(r"<(\d{1,3})>(?:1 )?(?=[\[A-Z\d])")
_SYSLOG: Final = re.compile(
    r"(([A-Za-z0-9][\w.-]{0,252}) ([A-Za-z_][\w./@()+-]{0,80})(?:\[(\d{1,9})\])?:) ?"
)
_SYSLOG_ROLES: Final = {
    "kernel": "kernel",
    "slurmd": "scheduler",
    "slurmctld": "scheduler",
    "slurmstepd": "scheduler",
    "kubelet": "orchestrator",
    "containerd": "orchestrator",
    "dockerd": "orchestrator",
}
_CRI: Final = re.compile(r"std(?:out|err) [FP] ")
_GLOG_PYTHON: Final = re.compile(r" +(\d{1,9}) ([^\s\]]{1,300}\.py):\d+\]")
_LAUNCHERS: Final = (
    "torch/distributed/elastic/",
    "torch/distributed/run.py",
    "torch/distributed/launch",
)
_NCCL: Final = re.compile(r"([A-Za-z0-9][\w.-]{0,252}):(\d{1,9}):\d{1,9} \[(\d{1,3})\] ")
_SRUN: Final = re.compile(r" {0,5}(\d{1,5}): ?(?=(.?))")
_LABEL: Final = re.compile(r"([A-Za-z0-9][\w.-]{0,252}): ?")
_SLURM_SAYS: Final = re.compile(r"(?:slurmstepd(?:-([\w.-]{1,253}))?|srun|sbatch|slurmctld): ")
_RANK_FIELD: Final = re.compile(r"(?:global_)?rank=(\d{1,6})(?=[\s,;:\]]|$)")
_HEAD_TOKEN: Final = re.compile(
    r"(?:\[[^\[\]]{0,100}\]|(?:" + "|".join(sorted(LEVELS)) + r")(?=[:|\s]):?"
    r"|[|:-]|\S{1,100}:\d+|[\w.]{1,100}(?= [|-] ))\s*"
)
_GROUP_WORDS: Final = ("NCCL", "atchdog", "ProcessGroup", "WorkGloo", "collective operation")


# --------------------------------------------------------------------------- handlers


def _after(text: str, end: int) -> int:
    """Return `end` moved over the one separator that stands between a stamp and what follows."""
    three = text[end : end + 3]
    if three in (" - ", " | "):
        return end + 3
    if three[:2] == ": ":
        return end + 2
    return end + 1 if three[:1] == " " else end


def _stamp(text: str, pos: int, found: _Found) -> int | None:
    """A bare time stamp, with the container stream or the syslog head behind it."""
    if text[pos].isdigit() and text[pos + 1 : pos + 2].isdigit() is False:
        return None  # "3: …", spared two regexes
    hit = stamp_at(text, pos, found.year)
    if hit is None:
        return None
    time_s, end = hit
    if found.time_s is None:
        found.time_s = time_s
    if text[pos + 1 : pos + 2].isdigit() and text[pos].isalpha():
        return _glog(text, pos, end, found)  # level and file stay for the reader of the message
    found.stamped = True
    if text[end : end + 1] == " ":
        cri = _CRI.match(text, end + 1)
        if cri is not None:
            return cri.end()
        # Python's "stamp name LEVEL:" looks like syslog; syslog's own stamp has no year or a T.
        if text[pos].isalpha() or text[pos + 10 : pos + 11] == "T":
            head = _syslog(text, end + 1, found)
            if head is not None:
                return head
    return _after(text, end)


def _syslog(text: str, pos: int, found: _Found) -> int | None:
    """`host process[pid]: ` behind a stamp."""
    match = _SYSLOG.match(text, pos)
    if match is None:
        return None
    tag, host, process, pid = match.groups()
    if host in LEVELS or process in LEVELS:
        return None
    found.tag += tag
    found.host = host
    if pid is not None:
        found.pid = int(pid)
    found.role = found.role or _SYSLOG_ROLES.get(process)
    return match.end()


def _glog(text: str, pos: int, end: int, found: _Found) -> int:
    """`E1201 01:26:39.995000 6565 path.py:12] `: nothing is stripped."""
    match = _GLOG_PYTHON.match(text, end)
    if match is not None:
        if found.pid is None:
            found.pid = int(match[1])
        if any(path in match[2] for path in _LAUNCHERS):
            found.role = "launcher"
            found.rank = None  # an srun label then counts launchers
    return pos


def _bracket(text: str, pos: int, found: _Found) -> int | None:
    """Everything that starts with `[`."""
    second = text[pos + 1 : pos + 2]
    for handler in _BRACKETS.get(second, _BRACKETS_OTHER):
        end = handler(text, pos, found)
        if end is not None:
            return end
    return None


def _pod(text: str, pos: int, found: _Found) -> int | None:
    """`[pod/name/container] ` of `kubectl logs --prefix`."""
    match = _POD.match(text, pos)
    if match is None:
        return None
    found.tag += match[1]
    found.actor = match[2]
    return match.end()


def _rank(text: str, pos: int, found: _Found) -> int | None:
    """`[rank3]:` of PyTorch's excepthook and c10, `[Rank 5]` of Megatron and DeepSpeed."""
    match = _RANK.match(text, pos)
    if match is None:
        return None
    scope, number, colon = match.groups()
    if not colon and text[pos + 1] == "R" and _counts_in_group(text, pos):
        return pos
    if scope is not None and scope.lower() == "local":
        found.local_rank = int(number)
    else:
        found.rank = int(number)
    # Behind a stamp the token is part of the message's own head, not a writer's label.
    if colon or not found.stamped:
        found.tag += match[0]
    end = match.end()
    return end + 1 if text[end : end + 1] == " " else end


def _counts_in_group(text: str, pos: int) -> bool:
    """Return whether a process group prints here: then its `Rank` is not the global one."""
    return any(text.find(word, pos, pos + 400) >= 0 for word in _GROUP_WORDS)


def _role(text: str, pos: int, found: _Found) -> int | None:
    """`[default3]:`, `[trainer3]:` of torchrun: role and local rank."""
    match = _ROLE.match(text, pos)
    if match is None or match[1].lower().rstrip("_-") in _NO_ROLE:
        return None
    found.local_rank = int(match[2])
    if found.tag[:1].isdigit():
        found.rank = None  # srun started torchrun: its label counts launchers
    found.tag += match[0]
    return match.end()  # torchrun adds no space: one that follows is the message's own


def _bracket_stamp(text: str, pos: int, found: _Found) -> int | None:
    """`[2026-12-01 01:29:22,377] `, `[Wed Mar  1 17:43:24 2023] `, `[E1003 18:37:01.8 …] `."""
    hit = stamp_at(text, pos + 1, found.year)
    if hit is None:
        return None
    time_s, end = hit
    if found.time_s is None:
        found.time_s = time_s
    if text[end : end + 1] != "]":
        return pos  # glog, or a bracket that holds more than the stamp
    # dmesg -T pads the day and has no fraction.
    if text[pos + 4 : pos + 5] == " " and end - pos == 25 and found.role is None:
        found.role = "kernel"
    found.stamped = True
    return _after(text, end + 1)


def _uptime(text: str, pos: int, found: _Found) -> int | None:
    """`[12345.678901] ` of the kernel: seconds since boot, so no time."""
    match = _UPTIME.match(text, pos)
    if match is None:
        return None
    if len(match[1]) == 6 and found.role is None:
        found.role = "kernel"
    found.stamped = True
    return match.end()


def _mpi(text: str, pos: int, found: _Found) -> int | None:
    """`[1,3]<stderr>:` of mpirun, prterun and SageMaker."""
    match = _MPI.match(text, pos)
    if match is None:
        return None
    tag, rank, node, host, pid, spaces = match.groups()
    found.rank = int(rank)
    found.host = host or node or found.host
    if pid is not None:
        found.pid = int(pid)
    found.tag += tag
    # Open MPI 5 adds a space, 4 does not; Python indents by even numbers.
    return match.end() - len(spaces) + len(spaces) % 2


def _ray(text: str, pos: int, found: _Found) -> int | None:
    """`(RayTrainWorker pid=123, ip=10.0.0.1) `, `(raylet) `."""
    match = _RAY.match(text, pos)
    if match is not None:
        tag, actor, pid, host = match.groups()
        found.pid = int(pid)
        _, told, rank = (actor or "").partition(" rank=")  # vLLM: "(VllmWorker rank=2 pid=812)"
        if told and rank.isdigit():
            found.rank = int(rank)
    else:
        match = _RAY_SYSTEM.match(text, pos)
        if match is None:
            return None
        tag, actor, host = match.groups()
        found.role = "orchestrator"
    found.tag += tag
    found.actor = actor or found.actor
    found.host = host or found.host
    return match.end()


def _digit(text: str, pos: int, found: _Found) -> int | None:
    """A stamp, a kmsg head, `03: ` of srun, or a host that starts with a digit."""
    end = _stamp(text, pos, found)
    if end is not None:
        return end
    match = _KMSG.match(text, pos)
    if match is not None:
        found.role = "kernel"
        found.stamped = True
        return match.end()
    end = _srun(text, pos, found)
    return end if end is not None else _word(text, pos, found)


def _srun(text: str, pos: int, found: _Found) -> int | None:
    """` 3: ` of `srun --label`: the task. It is the rank unless torchrun ran in the task."""
    if not found.srun or found.tag or found.stamped:
        return None
    match = _SRUN.match(text, pos)
    if match is None:
        return None
    found.rank = int(match[1])
    found.tag = f"{found.rank}:"
    return match.end()


def _facility(text: str, pos: int, found: _Found) -> int | None:
    """`kern  :warn  : ` of dmesg -x."""
    match = _FACILITY.match(text, pos)
    if match is None:
        return None
    if match[1] == "kern":
        found.role = "kernel"
    return match.end()


def _priority(text: str, pos: int, found: _Found) -> int | None:
    """`<6>` of a raw kernel or syslog line."""
    match = _PRIORITY.match(text, pos)
    if match is None:
        return None
    if int(match[1]) < 8 and text.startswith("[", match.end()):  # facility 0 is the kernel
        found.role = "kernel"
    return match.end()


def _lower(text: str, pos: int, found: _Found) -> int | None:
    """Words in lower case: a facility, a scheduler's word, `rank=3`, a host."""
    end = _facility(text, pos, found)
    if end is not None:
        return end
    if text.startswith(("rank=", "global_rank="), pos):
        field = _RANK_FIELD.match(text, pos)
        if field is not None:
            found.rank = int(field[1])
            return pos
    if text.startswith("s", pos):
        says = _SLURM_SAYS.match(text, pos)
        if says is not None:
            found.role = "scheduler"
            found.host = says[1] or found.host
            return pos
    return _word(text, pos, found)


def _upper(text: str, pos: int, found: _Found) -> int | None:
    """Words in upper case: a month or weekday, glog, a host."""
    if text[pos + 3 : pos + 4] in (" ", ",") or text[pos + 1 : pos + 2].isdigit():
        end = _stamp(text, pos, found)
        if end is not None:
            return end
    return _word(text, pos, found)


def _word(text: str, pos: int, found: _Found) -> int | None:
    """`host:pid:tid [device] NCCL …` (nothing stripped), or `node-7: ` where labels are on."""
    colon = text.find(":", pos, pos + 254)
    if colon < 0:
        return None
    if text[colon + 1 : colon + 2].isdigit():
        match = _NCCL.match(text, pos)
        if match is None or match[1].isdigit():  # a clock: "01:02:03 [0] "
            return None
        found.host, found.pid, found.device = match[1], int(match[2]), match[3]
        return pos
    if found.hosts and not found.tag and not found.stamped and is_host_label(text[pos:colon]):
        found.host = text[pos:colon]
        found.tag = text[pos : colon + 1]
        return colon + 2 if text[colon + 1 : colon + 2] == " " else colon + 1
    return None


_NO_LABEL: Final = re.compile(
    r"(?:step|epoch|iter|layer|loss|rank|cuda|device|frame|thread|line|slurmstepd|bash|sh|v)"
    r"[-_]?\d|gpu_?\d|.*\.(?:py|pyx|c|cc|cpp|cu|cuh|h|hpp|go|rs|sh|so|json|ya?ml)$|\d+(?:\.\d+)?$",
    re.I,
)


def is_host_label(word: str) -> bool:
    """Return whether `word` before `: ` can be a machine's name: holds a digit, is no file."""
    return (
        word not in LEVELS
        and any(c.isdigit() for c in word)
        and _LABEL.fullmatch(word + ":") is not None
        and _NO_LABEL.match(word) is None
    )


_BRACKETS_OTHER: Final[tuple[_Handler, ...]] = (_role, _bracket_stamp, _mpi)
_BRACKETS: Final[dict[str, tuple[_Handler, ...]]] = {
    **dict.fromkeys("0123456789", (_bracket_stamp, _uptime, _mpi)),
    **dict.fromkeys("rRgGlL", (_rank, _role, _mpi)),
    " ": (_uptime,),
    "p": (_pod, _role, _mpi),
}
_HANDLERS: Final[dict[str, _Handler]] = {
    "[": _bracket,
    "(": _ray,
    "<": _priority,
    " ": _srun,
    **dict.fromkeys("0123456789", _digit),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", _lower),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _upper),
}


# --------------------------------------------------------------------------- the whole line


def split_prefix(
    text: str,
    *,
    srun_labels: bool = False,
    host_labels: bool = False,
    year: int | None = None,
    columns: frozenset[str] = frozenset(),
) -> Prefix:
    """Return writer, time and message of one decoded line (see `Prefix`).

    Prefixes may be stacked in any order. Log levels, glog heads (`E1201 … file.py:12]`), NCCL heads
    and `[file.py:1:func]` stay in `rest`: the message's reader needs them. `srun_labels` and
    `host_labels` (see `detect_labels`) allow `3: ` and `node-7: `, which otherwise are text; so do
    `columns` (see `detect_columns`) for a host's name, or a pod's and a container's, as a column.
    `year` completes syslog and glog stamps; without it those lines have no time.
    """
    return _split(text, _Found(srun_labels, host_labels, year, columns), 0)


def _split(text: str, found: _Found, depth: int) -> Prefix:
    pos = 0
    for _ in range(_MAX_PREFIXES):
        head = text[pos : pos + 1]
        if head == "{" and depth < _MAX_NESTED_JSON:
            inner = _json_line(text[pos:], found, depth)
            if inner is not None:
                return inner
        if found.columns:
            end = _column(text, pos, found)
            if end is not None:
                pos = end
                continue
        handler = _HANDLERS.get(head)
        end = handler(text, pos, found) if handler is not None else None
        if end is None or end == pos:
            break
        pos = end
        if found.stamped and text[pos : pos + 2] in (": ", ":["):
            pos = pos + 1 + (text[pos + 1] == " ")  # "2026-03-10T13:22:37.443Z: [1,6]<stderr>:"
    if text.find("ank", pos, pos + _HEADER_CHARS) >= 0 and found.rank is None:
        _rank_in_header(text, pos, found)
    if found.time_s is None and text.find(":", pos + 2, pos + 52) >= 0:
        found.time_s = find_time(text[pos : pos + 96], found.year)
    rest = text[pos:] if pos else text
    if "[repeated " in rest and found.tag.startswith("("):
        rest = _RAY_REPEATED.sub("", rest)
    return Prefix(found.tag, found.origin(), rest, found.time_s)


def _column(text: str, pos: int, found: _Found) -> int | None:
    """`node-7 `, `node-7: ` or `pod-0 trainer `, where the source is known to have that column."""
    first = text.find(" ", pos, pos + 254) + 1
    if not first:
        return None
    second = text.find(" ", first, first + 254) + 1
    for end in (second, first):
        if end and text[pos:end] in found.columns:
            label = text[pos:end]
            found.columns = frozenset()
            found.tag += label.rstrip()
            found.host = found.host or label.split(" ")[0].rstrip(":")
            return end
    return None


def _rank_in_header(text: str, pos: int, found: _Found) -> None:
    """Take `[Rank 5]` behind level, file and logger; not from the midst of a sentence."""
    match = _RANK.search(text, pos, pos + _HEADER_CHARS)
    if match is None or (match[1] or "").lower() == "local" or _counts_in_group(text, pos):
        return
    here = pos
    while here < match.start():
        token = _HEAD_TOKEN.match(text, here)
        if token is None or token.end() > match.start():
            return
        here = token.end()
    found.rank = int(match[2])


_MESSAGE_KEYS: Final = ("message", "msg", "log", "event", "text")
_LEVEL_KEYS: Final = ("level", "levelname", "severity", "lvl", "log_level")
_TIME_KEYS: Final = ("time", "timestamp", "@timestamp", "ts", "asctime", "created")
_TRACE_KEYS: Final = ("exc_info", "exception", "traceback", "stack_trace", "stack", "exc_text")


def _json_line(text: str, found: _Found, depth: int) -> Prefix | None:
    """Return the line that a JSON log record wraps, or None when it is not one."""
    if len(text) > _MAX_JSON_CHARS or not text.rstrip().endswith("}"):
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    message = _first(record, _MESSAGE_KEYS, str)
    if message is None:
        return None
    _json_fields(record, found)
    trace = _first(record, _TRACE_KEYS, str)
    if trace and trace not in message:
        message = f"{message}\n{trace}"
    message = "\n".join(clean_text(line) for line in message.rstrip("\r\n").split("\n"))
    inner = _split(message, found, depth + 1)
    level = _first(record, _LEVEL_KEYS, str)
    if level and not inner.rest.startswith(level):
        inner = inner._replace(rest=f"{clean_text(level)} {inner.rest}")
    return inner


def _json_fields(record: dict[str, Any], found: _Found) -> None:
    """Take rank, place and time from the fields that log libraries agree on."""
    rank = _count(record, ("global_rank", "rank", "RANK"))
    local_rank = _count(record, ("local_rank", "LOCAL_RANK"))
    pid = _count(record, ("pid", "process", "process_id"))
    found.rank = rank if rank is not None else found.rank
    found.local_rank = local_rank if local_rank is not None else found.local_rank
    found.pid = pid if pid is not None else found.pid
    found.host = _first(record, ("host", "hostname", "node"), str) or found.host
    found.actor = _first(record, ("pod", "pod_name", "actor", "actor_name"), str) or found.actor
    if found.time_s is None:
        for key in _TIME_KEYS:
            found.time_s = from_value(record.get(key), found.year)
            if found.time_s is not None:
                break


def _first(record: dict[str, Any], keys: tuple[str, ...], kind: type[str]) -> str | None:
    for key in keys:
        value = record.get(key)
        if isinstance(value, kind) and value:
            return value
    return None


def _count(record: dict[str, Any], keys: tuple[str, ...]) -> int | None:
    """Return the first field that holds a number of a process: 0 to 2**31, also as a string."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value.isdecimal() and len(value) < 11:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31:
            return value
    return None


# --------------------------------------------------------------------------- labels of a source

_SRUN_LINE: Final = re.compile(r" {0,5}(\d{1,5}): ")


def detect_labels(sample_lines: list[str]) -> tuple[bool, bool]:
    """Return whether lines of this source carry (srun labels `3: `, host labels `node-7: `).

    Each needs at least 60 % of the non-blank lines, of which a few dozen are enough. Numbers that
    count up by one from 1 are line numbers. Host labels must be few names, one of them repeated.
    """
    lines = [line for line in sample_lines if line.strip()]
    if not lines:
        return False, False
    need = 0.6 * len(lines)
    numbers = [int(m[1]) for m in map(_SRUN_LINE.match, lines) if m]
    srun = len(numbers) >= need and not _counts_up(numbers)
    names: Counter[str] = Counter()
    for line in lines:
        name, colon, _ = line.partition(": ")
        if colon and is_host_label(name):
            names[name] += 1
    hosts = sum(names.values()) >= need and 2 * len(names) <= sum(names.values())
    return srun, hosts and not srun


_FIRST_WORD: Final = re.compile(r"([A-Za-z][\w.-]{0,252}:? )(?:([A-Za-z][\w.-]{0,100} ))?")


def _is_column(word: str) -> bool:
    """A machine's or pod's name: with a digit, or in parts as in node-a; no package's version."""
    if re.search(r"-\d+(?:\.\d+)+$", word):
        return False
    return is_host_label(word) or ("-" in word and is_host_label(word + "0"))


def detect_columns(sample_lines: list[str]) -> frozenset[str]:
    """Return the labels ("node-7 ", "pod-0 trainer ") that stand before nearly every message, or none.

    A column needs seven lines in ten, names that can be machines, and each of them several times. A second word that
    never changes (the container, as stern prints it) belongs to it.
    """
    rests = [split_prefix(line).rest for line in sample_lines if line.strip()]
    if len(rests) < 4:
        return frozenset()
    first: Counter[str] = Counter()
    both: Counter[str] = Counter()
    for m in map(_FIRST_WORD.match, rests):
        if m and _is_column(m[1].rstrip(": ")):
            first[m[1]] += 1
            both[m[1] + (m[2] or "")] += 1
    total = sum(first.values())
    if total < 0.7 * len(rests) or 2 * len(first) > total:
        return frozenset()
    if len(both) == len(first) and all(" " in b.rstrip() for b in both):
        if not any(b.split(" ")[1] in LEVELS for b in both):
            return frozenset(both)
    return frozenset(first)


def _counts_up(numbers: list[int]) -> bool:
    """Return whether the labels are those of `cat -n` or `grep -n`: each one higher, not from 0."""
    if len(numbers) < 3 or numbers[0] == 0:
        return False
    return all(b > a for a, b in pairwise(numbers))
