"""What the name of a file says: who wrote it, and what kind of evidence it is.

Belongs here: the two tables of names.
Must not be here: a look into the file. A name that could mean two things means nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rootrank.model import UNKNOWN, Origin

_PACKED: Final = re.compile(r"(?:\.(?:tar|tgz|tbz2?|txz|tzst|zip|gz|zst|xz|bz2))+$", re.IGNORECASE)
_SUFFIX: Final = re.compile(
    r"(?:\.(?:log|out|err|txt|stdout|stderr|json|jsonl|csv)(?:\.\d{1,3})?)+$", re.IGNORECASE
)

# Names that sites give to machines. Others are hosts only beside kernel evidence (see _LOOSE_HOST).
_HOST_CORE: Final = (
    r"(?:ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}"
    r"|(?:gpu|cpu|compute|worker|kind)?-?(?:node|host|server|nid|dgx|hgx|trn|superpod)"
    r"(?!rank)[-_]?[a-z]?\d{1,6}(?:-\d{1,6})*"
    r"|(?!dmesg|kern|syslog|journal|messages|log|std|train|smi)[a-z]\w{1,11}-node-?\d{1,6})"
)
_DOMAIN: Final = r"(?:\.(?!(?:log|out|err|txt|stdout|stderr|stack|dump)(?:\.|$))[a-z][a-z0-9-]+)*"
_HOST: Final = re.compile(rf"(?:^|(?<=[._-])){_HOST_CORE}{_DOMAIN}(?=$|[._-])", re.IGNORECASE)
_HOST_DIR: Final = re.compile(rf"{_HOST_CORE}{_DOMAIN}", re.IGNORECASE)
_LOOSE_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*\d[A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*")
_NO_HOST: Final = re.compile(
    r"(?:attempt|restart|rank|local|run|job|case|exp|step|epoch|iter|seed|trial|version|ckpt"
    r"|checkpoint|log|test|v|worker|task|gpu|slurm|part|chunk|dmesg|kern|syslog)s?[-_]?\d",
    re.IGNORECASE,
)

_END: Final = r"(?=$|[._]|-(?!\d{1,3}(?:\D|$)))"  # "rank0-7" is a range, "rank3-2026…" is not
_LOCAL: Final = re.compile(rf"(?:^|[._-])local(?:[._-]?rank)?[._-]?(\d{{1,4}}){_END}", re.I)
_RANK: Final = re.compile(
    rf"(?:^|(?<!node)(?<!local)(?<!group)[._-])(?:global[._-]?)?rank[._-]?(\d{{1,6}}){_END}"
    r"(?!_\d{1,3}(?:\D|$))",
    re.I,
)
_RANK_DIR: Final = re.compile(r"(?:global[._-]?)?rank[._-]?(\d{1,6})", re.I)
_ATTEMPT: Final = re.compile(r"(?:^|[._-])attempt[._-]?(\d{1,4})(?=$|[._-])", re.I)
_TORCHRUN: Final = re.compile(
    r"(?:^|/)attempt_(\d{1,4})/(\d{1,4})/(?:stdout|stderr|error)\.(?:log|json)$"
)
# submitit: <job>_<task>_log.out, with one process per task.
_SUBMITIT: Final = re.compile(r"^\d+(?:_\d+)?_(\d{1,6})_log\.(?:out|err)$")
_RAY_WORKER: Final = re.compile(r"^worker-[0-9a-f]{20,64}-[0-9a-f]{8}-(\d{1,9})\.(?:out|err)$")
_RAY_CORE: Final = re.compile(r"^python-core-(?:worker|driver)-[0-9a-f]{20,64}_(\d{1,9})\.log$")
_POD_DIR: Final = re.compile(r"^[a-z0-9-]+_([a-z0-9.-]+)_[0-9a-f-]{16,64}$")
_POD_FILE: Final = re.compile(r"^([a-z0-9.-]+)_[a-z0-9-]+_[\w.-]+-[0-9a-f]{64}\.log$")
_ACTOR: Final = re.compile(
    r"^((?:[\w.-]*-)?(?:worker|trainer|actor|task|replica|executor|master|launcher|ps)[-_.]?\d{1,6})"
    r"(?=$|[._-])",
    re.I,
)
_PID: Final = re.compile(r"(?:^|[._-])pid[._-]?(\d{1,9})(?=$|[._-])", re.I)

# First match wins. Searched in the lower-cased file name without compression suffixes.
_W: Final = r"(?:^|[^a-z])"  # word boundaries that take "_" and digits for separators
_E: Final = r"(?=$|[^a-z])"
_KINDS: Final = (
    (r"nccl_trace_rank_|comm_lib_trace_rank_|\.pickle$", "flight-record"),
    (rf"py-?spy|{_W}stacks?{_E}|stack-?trace|{_W}gdb{_E}|backtrace|faulthandler", "stacks"),
    (
        r"^(?:ds_|deepspeed|accelerate).*\.json$|(?:config|hparams|args)[^/]*\.json$"
        r"|\.(?:ya?ml|toml|cfg|ini|conf|py|sh|sbatch|slurm)$|^manifest\.json$|^hostfile"
        r"|^\.deepspeed_env$",
        "config",
    ),
    (
        rf"{_W}(?:dmesg|kern|kernel|kmsg|syslog|journal|journalctl){_E}|^messages(?:$|\.)",
        "kernel-log",
    ),
    (
        rf"{_W}(?:sacct|scontrol|squeue|sinfo|slurmctld|slurmd|slurmdbd|slurmstepd|qstat|bhist"
        rf"|bjobs){_E}",
        "scheduler",
    ),
    (r"^slurm[-_.].*\d|^slurm.*\.(?:out|err)$", "training-log"),  # a batch job's own output
    (rf"{_W}slurm{_E}", "scheduler"),
    (
        rf"{_W}(?:kubectl|kubelet|events?|describe|k8s|raylet|gcs_server){_E}",
        "orchestrator",
    ),
    (
        rf"nvidia[-_]?smi|nvidia[-_]bug|{_W}dcgmi?{_E}|(?:rocm|amd)[-_]smi|{_W}gpu[-_]"
        rf"(?:metrics|telemetry|health){_E}",
        "gpu-telemetry",
    ),
    (
        rf"cgroup|(?:^|[._-])proc[_-]|{_W}(?:meminfo|df|vmstat|iostat|free|loadavg|mounts|lockdir"
        rf"|ulimit|lsof){_E}|^(?:io|threads)_rank|^memory\.",
        "host-telemetry",
    ),
)
_KIND_RES: Final = tuple((re.compile(pattern), kind) for pattern, kind in _KINDS)
_ROLES: Final = {
    "kernel-log": "kernel",
    "scheduler": "scheduler",
    "orchestrator": "orchestrator",
}


def parts_of(name: str) -> list[str]:
    """Return the components of a source's name; an archive counts as a folder of its stem."""
    parts = [p for p in name.replace("\\", "/").split("/") if p not in ("", ".", "..")]
    return [_PACKED.sub("", p[:-1]) if p.endswith("!") else p for p in parts]


def kind_of(name: str) -> str:
    """Return the kind of evidence (design, section 2) that a file's name suggests.

    Only the last component counts; a name that suggests nothing is a training log.
    """
    parts = parts_of(name)
    leaf = _PACKED.sub("", parts[-1]).lower() if parts else ""
    for pattern, kind in _KIND_RES:
        if pattern.search(leaf):
            return kind
    return "training-log"


@lru_cache(maxsize=65536)
def from_path(name: str) -> Origin:
    """Return what a source's name says of the writer; unknown fields are None.

    | name | says |
    |---|---|
    | `…/attempt_0/3/stderr.log` (torchrun --log-dir) | attempt 0, local rank 3 |
    | `rank3.log`, `rank_7.err`, `train-rank-12.out`, `rank3/…` | rank |
    | `local0.stderr.log`, `node0_local1.log`, `local_rank_2.txt` | local rank |
    | `123_4_log.out` (submitit) | rank 4 |
    | `node-7.out`, `log.node-7.3`, `node-7/…`, `ip-10-0-1-2.log` | host |
    | `gpu-a17/dmesg.txt`, `dmesg-node-7.txt` | role kernel, host |
    | `worker-<id>-<job>-<pid>.out` (Ray), `…pid-812.txt` | pid |
    | `pods/<ns>_<pod>_<uid>/<container>/0.log` (Kubernetes) | actor: the pod |
    | `worker-3.log`, `trainer_2.out` | actor only: what the number counts is unknown |
    | `slurm-123.out`, `slurm-123_4.out`, `node_rank_1.log` | nothing: the task is no rank |

    `name` uses `/`; `bundle.tar!/rank3.log` is a member of an archive.
    """
    parts = parts_of(name)
    if not parts:
        return UNKNOWN
    leaf, folders = _PACKED.sub("", parts[-1]), parts[:-1]
    kind = kind_of(leaf)
    rank, local_rank = _ranks(leaf, folders)
    attempt = _attempt(parts)
    torchrun = _TORCHRUN.search("/".join([*folders, leaf]))
    if torchrun:
        attempt, local_rank = int(torchrun[1]), int(torchrun[2])
    origin = Origin(
        rank=rank,
        local_rank=local_rank,
        host=_host(leaf, folders, kind == "kernel-log"),
        pid=_pid(leaf),
        attempt=attempt,
        role=_ROLES.get(kind) or _ray_role(leaf),
        actor=_actor(leaf, folders),
    )
    return UNKNOWN if origin == UNKNOWN else origin


def _ranks(leaf: str, folders: list[str]) -> tuple[int | None, int | None]:
    """Return (rank, local rank) of a file name, else of its folder."""
    stem = _SUFFIX.sub("", leaf)
    found = _SUBMITIT.match(leaf) or _RANK.search(stem)
    local = _LOCAL.search(stem)
    rank = int(found[1]) if found else None
    if rank is None and local is None and folders:
        folder = _RANK_DIR.fullmatch(folders[-1])
        rank = int(folder[1]) if folder else None
    return rank, int(local[1]) if local else None


def _attempt(parts: list[str]) -> int | None:
    for part in reversed(parts):
        found = _ATTEMPT.search(part)
        if found:
            return int(found[1])
    return None


def _pid(leaf: str) -> int | None:
    found = _RAY_WORKER.match(leaf) or _RAY_CORE.match(leaf) or _PID.search(_SUFFIX.sub("", leaf))
    return int(found[1]) if found else None


def _host(leaf: str, folders: list[str], kernel: bool) -> str | None:
    """Return the host named by the file, else by the nearest folder that is named like one."""
    found = _HOST.search(leaf)
    # node_rank_1 counts nodes; node0_local1 is a host and a local rank.
    if found and not re.match(r"[-_.]?rank", leaf[found.end() :], re.I):
        return found[0]
    for depth, folder in enumerate(reversed(folders)):
        if _HOST_DIR.fullmatch(folder):
            return folder
        # Beside a kernel log the folder is the machine, whatever a site calls it.
        if kernel and depth == 0 and _LOOSE_HOST.fullmatch(folder) and not _NO_HOST.match(folder):
            return folder
    return None


def _actor(leaf: str, folders: list[str]) -> str | None:
    if len(folders) >= 2:
        pod = _POD_DIR.match(folders[-2])
        if pod:
            return pod[1]
    found = _POD_FILE.match(leaf)
    if found:
        return found[1]
    if _RAY_WORKER.match(leaf):
        return None
    found = _ACTOR.match(_SUFFIX.sub("", leaf))
    return found[1] if found else None


def _ray_role(leaf: str) -> str | None:
    return "launcher" if re.match(r"(?:torchrun|launcher|launch)[._-]", leaf) else None
