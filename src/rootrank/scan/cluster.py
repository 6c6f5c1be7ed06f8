"""Schedulers and orchestrators: Slurm, PBS, LSF, Kubernetes, Ray, submitit.

Belongs here: their words about jobs, steps, pods, nodes. Must not be here: guesses at why somebody cancelled.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rootrank.model import Line, Origin, Sighting, SpeaksOf
from rootrank.scan.words import sighting

_CANCEL = re.compile(
    r"\*\*\* (?P<what>JOB|STEP) (?P<job>[\d._+\[\]-]+)(?: (?:ON|STEPD TERMINATED ON) (?P<host>[\w.-]+))? ?(?:CANCELLED)? ?(?:AT (?P<at>\S+))?(?: DUE (?:TO|to) (?P<why>[A-Z ,]+?))?(?: \*\*\*|$)"
)
_WHY = {"TIME LIMIT": "time-limit", "PREEMPTION": "preempted", "NODE FAILURE": "node-fail", "NODE FAIL": "node-fail", "JOB NOT ENDING WITH SIGNALS": "cancelled"}  # fmt: skip
_SLURM_WORDS: tuple[tuple[str, SpeaksOf, re.Pattern[str]], ...] = (
    ("time-limit", SpeaksOf.TEARDOWN, re.compile(r"DUE TO TIME LIMIT|exceeded (?:its |the )?(?:wall ?time|time limit)|PBS: job killed: walltime|TERM_RUNLIMIT|walltime \d+ exceeded")),
    ("oom", SpeaksOf.SELF, re.compile(r"[Dd]etected \d+ oom[-_]kill event|Exceeded (?:job|step) memory limit|oom_kill event in|Some of (?:your|the step|your job's) .{0,60}(?:killed|OOM)|PBS: job killed: (?:mem|vmem)|TERM_MEMLIMIT")),
    ("node-fail", SpeaksOf.ENVIRONMENT, re.compile(r"DUE TO NODE FAIL|NODE_FAIL|Node failure on (?P<host>[\w.-]+)|error: Node (?P<h2>[\w.-]+) (?:is )?not responding|node (?P<h3>[\w.-]+) .{0,20}(?:set|is) down|lost connection to node|slurmstepd.{0,80}unable to contact")),
    ("preempted", SpeaksOf.TEARDOWN, re.compile(r"DUE TO PREEMPTION|this job is preempted|(?:[Jj]ob|JOB|[Ss]tep|[Nn]ode|[Ii]nstance|[Pp]od|VM)\b.{0,60}[Pp]reempted(?: by|\.|$)|spot (?:instance )?(?:interruption|reclaim|termination)|Spot Instance interruption|instance.{0,40}(?:terminated|reclaimed) by (?:EC2|the provider)")),
    ("requeue", SpeaksOf.ENVIRONMENT, re.compile(r"Requeued job \d+|has been requeued|Exiting gracefully after preemption|REQUEUED")),
    ("invalid", SpeaksOf.SELF, re.compile(r"(?:srun|sbatch|salloc): error: (?:Unable to (?:create step|allocate|confirm)|Batch job submission failed|Invalid|Requested node configuration|invalid partition)(?P<message>.*)")),
    ("cancelled", SpeaksOf.TEARDOWN, re.compile(r"TERM_OWNER|PBS: job killed: .*qdel|Job killed by (?:user|owner)|CANCELLED by \d+|(?:State|JobState)=CANCELLED")),
)  # fmt: skip
# `sacct` rows (parsable or in columns) and `scontrol show job`.
_SACCT = re.compile(
    r"^\s*(?P<job>\d+(?:[._+]\S+?)?)[| ].*?(?<=[| ])(?P<state>TIMEOUT|PREEMPTED|NODE_FAIL|OUT_OF_ME\w*|CANCELLED(?: by (?P<uid>\d+))?|DEADLINE|BOOT_FAIL)\+?(?=\||\s*$|.*\s\d+:\d+\b)"
)
_SCONTROL = re.compile(
    r"JobState=(?P<state>TIMEOUT|PREEMPTED|NODE_FAIL|OUT_OF_MEMORY|CANCELLED|DEADLINE|BOOT_FAIL)\b(?: Reason=(?P<reason>\S+))?"
)
_STATES = {
    "TIMEOUT": ("time-limit", SpeaksOf.TEARDOWN),
    "DEADLINE": ("time-limit", SpeaksOf.TEARDOWN),
    "PREEMPTED": ("preempted", SpeaksOf.TEARDOWN),
    "NODE_FAIL": ("node-fail", SpeaksOf.ENVIRONMENT),
    "BOOT_FAIL": ("node-fail", SpeaksOf.ENVIRONMENT),
    "OUT_OF_ME": ("oom", SpeaksOf.SELF),
    "CANCELLED": ("cancelled", SpeaksOf.TEARDOWN),
}
_SLURMD = re.compile(r"(?:slurmstepd(?:-(?P<host>[\w.-]+))?|slurmd): error: (?P<message>.*)")
_K8S_EVENT = re.compile(
    r"^\s*(?:\S+\s+)?(?:Warning|Normal)\s+(?P<reason>[A-Z][A-Za-z]+)\s+(?P<rest>.*)$"
)
_K8S_BAD = {
    "OOMKilled": SpeaksOf.SELF, "OOMKilling": SpeaksOf.SELF, "SystemOOM": SpeaksOf.SELF, "Evicted": SpeaksOf.TEARDOWN,
    "UnexpectedAdmissionError": SpeaksOf.SELF, "FailedScheduling": SpeaksOf.ENVIRONMENT, "FailedMount": SpeaksOf.ENVIRONMENT,
    "FailedAttachVolume": SpeaksOf.ENVIRONMENT, "BackOff": SpeaksOf.ENVIRONMENT, "Failed": SpeaksOf.SELF,
    "ErrImagePull": SpeaksOf.SELF, "ImagePullBackOff": SpeaksOf.SELF, "CreateContainerError": SpeaksOf.SELF,
    "CreateContainerConfigError": SpeaksOf.SELF, "RunContainerError": SpeaksOf.SELF, "StartError": SpeaksOf.SELF,
    "FailedCreatePodSandBox": SpeaksOf.SELF, "NodeNotReady": SpeaksOf.ENVIRONMENT, "TaintManagerEviction": SpeaksOf.TEARDOWN,
    "Preempted": SpeaksOf.TEARDOWN, "Preempting": SpeaksOf.TEARDOWN, "Unhealthy": SpeaksOf.ENVIRONMENT,
    "NodeShutdown": SpeaksOf.TEARDOWN, "DeadlineExceeded": SpeaksOf.TEARDOWN, "ContainerCannotRun": SpeaksOf.SELF,
    "CrashLoopBackOff": SpeaksOf.ENVIRONMENT, "Error": SpeaksOf.ENVIRONMENT, "NodeLost": SpeaksOf.ENVIRONMENT,
    "BackoffLimitExceeded": SpeaksOf.ENVIRONMENT, "DisruptionTarget": SpeaksOf.TEARDOWN, "PreemptionByScheduler": SpeaksOf.TEARDOWN,
    "FreeDiskSpaceFailed": SpeaksOf.ENVIRONMENT, "EvictionThresholdMet": SpeaksOf.ENVIRONMENT, "ExceededGracePeriod": SpeaksOf.ENVIRONMENT,
    "NodeHasDiskPressure": SpeaksOf.ENVIRONMENT, "NodeHasMemoryPressure": SpeaksOf.ENVIRONMENT, "InsufficientCapacityError": SpeaksOf.ENVIRONMENT,
}  # fmt: skip
_K8S_REASON = re.compile(
    r"[Rr]eason['\"]?\s*[:=]?\s*['\"]?(?P<reason>"
    + "|".join(sorted(_K8S_BAD, key=len, reverse=True))
    + r"|Terminated)\b"
)
_RAY = re.compile(
    r"(?P<reason>OutOfMemoryError|WorkerCrashedError|ActorDiedError|RayActorError|NodeDiedError|ObjectLostError|ActorUnavailableError)|(?P<words>The actor (?:died|is dead).{0,200}|A worker died or was killed.{0,200}|Worker unexpectedly exits?.{0,200}|[Tt]ask was killed due to the node running low on memory|\d+ Workers .{0,40}killed due to memory pressure|The node .{0,80}(?:has been marked dead|was terminated).{0,80})"
)
_MEMORY = re.compile(r"node running low on memory|killed due to memory pressure|OutOfMemoryError")


def cancelled(line: Line) -> Sighting | None:
    """slurmstepd's three-star line: what was cancelled, where, when, and if it says so, why."""
    m = _CANCEL.search(line.raw)
    if not m or ("CANCELLED" not in line.raw and not m["why"]):
        return None
    why = (m["why"] or "").strip().rstrip(",")
    event = next((v for k, v in _WHY.items() if k in why), "cancelled")
    return sighting(
        line, "scheduler", SpeaksOf.TEARDOWN, event=event, job=m["job"], step=m["job"] if m["what"] == "STEP" else None,
        host=m["host"], message=line.text.strip()[:400], origin=Origin(role="scheduler"),
    )  # fmt: skip


def accounting(line: Line) -> Sighting | None:
    """The accounting's or the controller's word on how a job or step ended."""
    m = _SACCT.match(line.raw) or _SCONTROL.search(line.raw)
    if not m:
        return None
    state = m["state"]
    event, speaks = next(v for k, v in _STATES.items() if state.startswith(k))
    groups = m.groupdict()
    return sighting(
        line, "scheduler", speaks, event=event, job=groups.get("job"), uid=groups.get("uid"),
        by="accounting", message=line.text.strip()[:400], origin=Origin(role="scheduler"),
    )  # fmt: skip


def slurm(line: Line) -> Sighting | None:
    """Other words of schedulers about limits, nodes and preemption."""
    if "CANCELLED AT" in line.raw:
        return None
    for event, speaks, pattern in _SLURM_WORDS:
        m = pattern.search(line.raw)
        if m:
            groups = m.groupdict()
            host = groups.get("host") or groups.get("h2") or groups.get("h3")
            return sighting(
                line,
                "scheduler",
                speaks,
                event=event,
                host=host,
                message=line.text.strip()[:400],
                origin=Origin(host=host, role="scheduler"),
            )
    m = _SLURMD.search(line.raw)
    if m:
        # The step daemon speaks, whatever task label srun put before it.
        line = replace(line, origin=replace(line.origin, rank=None, local_rank=None))
        return sighting(
            line,
            "log-error",
            SpeaksOf.SELF,
            level="ERROR",
            logger="slurmstepd",
            message=m["message"],
            origin=Origin(host=m["host"], role="scheduler"),
        )
    return None


def kubernetes(line: Line) -> Sighting | None:
    """`kubectl describe` fields and event rows."""
    m = _K8S_REASON.search(line.raw)
    reason, rest = (m["reason"], line.text) if m else ("", "")
    if not m:
        e = _K8S_EVENT.match(line.raw)
        if not e or e["reason"] not in _K8S_BAD:
            return None
        reason, rest = e["reason"], e["rest"]
    code = re.search(r"[Ee]xit [Cc]ode:?\s*(\d+)", line.raw)
    return sighting(
        line, "orchestrator", _K8S_BAD.get(reason, SpeaksOf.ENVIRONMENT), reason=reason,
        message=rest.strip()[:500], code=int(code[1]) if code else None, origin=Origin(role="orchestrator"),
    )  # fmt: skip


def ray(line: Line) -> Sighting | None:
    """Ray's words about dead actors, workers and nodes."""
    m = _RAY.search(line.text)
    if not m:
        return None
    reason = (
        "OutOfMemory"
        if _MEMORY.search(line.text)
        and ("ray" in line.text.lower() or "memory" in (m["words"] or ""))
        else (m["reason"] or "WorkerDied")
    )
    if m["reason"] == "OutOfMemoryError" and "ray" not in line.text.lower():
        return None
    speaks = SpeaksOf.SELF if reason == "OutOfMemory" else SpeaksOf.PEER
    return sighting(
        line,
        "orchestrator",
        speaks,
        reason=reason,
        message=line.text.strip()[:500],
        origin=Origin(role="orchestrator"),
    )


PARSERS = (
    (
        ("TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_ME", "CANCELLED", "DEADLINE", "BOOT_FAIL"),
        accounting,
    ),
    ((" CANCELLED AT ", " DUE TO ", "CANCELLED DUE"), cancelled),
    (
        (
            "DUE TO TIME LIMIT", "walltime", "TERM_RUNLIMIT", "time limit", "oom-kill event", "oom_kill event", "memory limit",
            "DUE TO NODE FAIL", "NODE_FAIL", "Node failure on", "not responding", "DUE TO PREEMPTION", "preempted",
            "reempted ", "Spot Instance", "Requeued job", "requeued", "after preemption", "srun: error: ", "sbatch: error: ",
            "salloc: error: ", "slurmstepd", "slurmd: error: ", "CANCELLED by ", "=CANCELLED", "TERM_OWNER", "TERM_MEMLIMIT",
            "PBS: job killed", "lost connection to node",
        ),
        slurm,
    ),
    (
        (
            "Reason:", "reason:", '"reason"', "Warning  ", "Normal   ", "Warning\t", "OOMKilled", "UnexpectedAdmissionError",
            "Evicted", "ErrImagePull", "ImagePullBackOff", "NodeNotReady",
        ),
        kubernetes,
    ),
    (
        (
            "WorkerCrashedError", "ActorDiedError", "RayActorError", "NodeDiedError", "ObjectLostError", "The actor ",
            "A worker died or was", "Worker unexpectedly", "running low on memory", "memory pressure", "marked dead",
            "ActorUnavailableError",
        ),
        ray,
    ),
)  # fmt: skip
