"""The data model: what every stage receives and returns.

Belongs here: frozen values, their units, and nothing that computes a verdict.
Must not be here: imports of any other rootrank module, I/O, failure knowledge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any

# --------------------------------------------------------------------------- words


class SpeaksOf(str, Enum):
    """Of whom a sighting says something."""

    SELF = "self"  # the process or device that prints it is in trouble
    PEER = "peer"  # somebody else is: connection closed, timeout waiting
    TEARDOWN = "teardown"  # the job is being ended: SIGTERM, destructors
    ENVIRONMENT = "environment"  # a component warning; no job is named


class Role(str, Enum):
    """What a signal means inside one entry."""

    INITIATING = "initiating"
    DOWNSTREAM = "downstream"
    CONFIRMING = "confirming"
    CONTEXT = "context"


class Status(str, Enum):
    """How far the evidence carries a hypothesis. Words, never a percentage."""

    ESTABLISHED = "established"
    SUPPORTED = "supported"
    SUSPECTED = "suspected"
    RULED_OUT = "ruled-out"

    @property
    def order(self) -> int:
        """0 is the strongest; sort key."""
        return _STATUS_ORDER[self]


_STATUS_ORDER = {
    Status.ESTABLISHED: 0,
    Status.SUPPORTED: 1,
    Status.SUSPECTED: 2,
    Status.RULED_OUT: 3,
}


class Verdict(str, Enum):
    """The answer in one word; decides the exit code."""

    FAILURE = "failure"
    INSUFFICIENT = "insufficient-evidence"
    NO_FAILURE = "no-failure"


# --------------------------------------------------------------------------- evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who wrote a line, as far as path and prefix tell. Unknown is None."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    attempt: int | None = None
    device: str | None = None  # PCI address or device index as printed
    role: str | None = None  # "worker" | "launcher" | "kernel" | "scheduler" | "orchestrator"
    actor: str | None = None  # pod, Ray actor, thread or container name

    def over(self, other: Origin) -> Origin:
        """Return this origin with unknown fields taken from `other`."""
        if other is UNKNOWN or self is other:
            return self
        if self is UNKNOWN:
            return other
        return Origin(
            rank=self.rank if self.rank is not None else other.rank,
            local_rank=self.local_rank if self.local_rank is not None else other.local_rank,
            host=self.host or other.host,
            pid=self.pid if self.pid is not None else other.pid,
            attempt=self.attempt if self.attempt is not None else other.attempt,
            device=self.device or other.device,
            role=self.role or other.role,
            actor=self.actor or other.actor,
        )


UNKNOWN = Origin()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One decoded line: where it stands, who wrote it, when, and its text without prefix."""

    source: str
    number: int  # 1-based
    offset: int  # bytes from the start of the decoded source
    raw: str  # decoded, escapes removed, prefix kept
    text: str  # raw without origin prefix and time stamp
    origin: Origin = UNKNOWN
    time_s: float | None = None  # seconds since the epoch, UTC when the stamp names no zone
    tag: str = ""  # the prefix that separates writers inside this source; "" for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One line of one source."""

    source: str
    line: int
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """An observation with typed fields, never a cause."""

    kind: str  # see docs/sightings.md
    speaks_of: SpeaksOf
    source: str
    line: int
    end_line: int
    offset: int
    text: str  # the decisive line, verbatim without terminal escapes
    origin: Origin = UNKNOWN
    time_s: float | None = None
    order: int = 0  # position in its source; ties broken by source name
    count: int = 1
    fields: Mapping[str, Any] = field(default_factory=dict)
    places: tuple[Place, ...] = ()  # further places where the same message stands
    quotes: tuple[str, ...] = ()  # further lines that belong to it, verbatim
    last_line: int = 0  # last repetition, 0 when seen once
    signals: tuple[str, ...] = ()  # "entry-id/signal" whose literal and regex matched this line

    def get(self, name: str, default: Any = None) -> Any:
        """Return one typed field."""
        return self.fields.get(name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One sample of a job's own progress line. Times in seconds, rates as printed."""

    line: int
    offset: int
    step: int | None
    time_s: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    loss_scale: float | None = None
    step_s: float | None = None
    throughput: float | None = None
    total: int | None = None
    skipped: int | None = None
    unit: str = "step"
    text: str = ""
    rank: int | None = None
    order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One line that joins names of a process: rank, local rank, pid, host, device."""

    origin: Origin
    world_size: int | None = None
    source: str = ""
    line: int = 0
    owns_source: bool = False  # the line says that its whole source is this rank's


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Evidence that could not be read, and why."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTail:
    """The last that one writer of one source said."""

    tag: str
    origin: Origin
    lines: int
    first_line: int
    last_line: int
    last_text: str
    first_time_s: float | None
    last_time_s: float | None
    last_order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """All that scanning one source yields; bounded in size, mergeable in any order."""

    source: str
    kind: str
    size_bytes: int = 0
    lines: int = 0
    origin: Origin = UNKNOWN
    first_time_s: float | None = None
    last_time_s: float | None = None
    sightings: tuple[Sighting, ...] = ()
    progress: tuple[Progress, ...] = ()
    identities: tuple[Identity, ...] = ()
    tails: tuple[LaneTail, ...] = ()
    gaps: tuple[Gap, ...] = ()
    job_words: int = 0  # lines that look like a training job at all
    end_lines: tuple[str, ...] = ()  # last few lines, verbatim


# --------------------------------------------------------------------------- timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What one process said, in order."""

    key: str
    origin: Origin
    sightings: tuple[Sighting, ...] = ()
    progress: tuple[Progress, ...] = ()
    tails: tuple[LaneTail, ...] = ()
    last_time_s: float | None = None
    last_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Ordered lanes of all sources and what comparing them shows."""

    lanes: tuple[Lane, ...]
    sightings: tuple[Sighting, ...]  # all, best-known order
    derived: tuple[Sighting, ...]  # comparisons over lanes; kind is a word of the derived table
    world_size: int | None
    ranks: tuple[int, ...]  # global ranks that appear anywhere
    attempts: tuple[int, ...]
    digests: tuple[Digest, ...]
    as_of_s: float | None = None
    ordered: bool = True  # False when several sources carry no comparable order


# --------------------------------------------------------------------------- diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One piece of evidence, quoted."""

    kind: str  # line | record | absence | comparison | trend
    source: str
    line: int
    end_line: int
    text: str
    count: int = 1
    says: str | None = None
    lines: tuple[str, ...] = ()
    rank: int | None = None
    host: str | None = None
    time: str | None = None
    role: str = "initiating"
    limits: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Initiating:
    """Who failed first."""

    kind: str = "job"  # rank | process | host | gpu | link | storage | job | external
    extent: str = "unknown"  # one | some | all | unknown
    rank: int | None = None
    ranks: str | None = None
    local_rank: int | None = None
    pid: int | None = None
    host: str | None = None
    device: str | None = None
    group: str | None = None
    basis: str = "spoke"  # spoke | absent | behind | different | joined
    attempt: int = 0
    time: str | None = None
    source: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RootCause:
    """One reason an entry's failure can have."""

    id: str
    text: str
    status: Status
    evidence: tuple[Evidence, ...] = ()
    against: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """An entry (or a failure that no entry knows) with its evidence."""

    entry: str | None
    title: str
    category: str
    layer: str
    status: Status
    root_cause: RootCause | None = None
    root_causes: tuple[RootCause, ...] = ()
    owner: str = "unknown"  # user-code | configuration | framework | infrastructure | unknown
    retry: str = "unknown"  # will-recur | may-succeed | unknown
    repair: str = "unknown"  # code | config | environment | resubmit | drain-node | unknown
    evidence: tuple[Evidence, ...] = ()
    against: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Also:
    """Another failure beside the leading one."""

    relation: str  # independent | earlier-attempt | masked
    initiating: Initiating
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Collateral:
    """Complaints that the initiating failure explains, folded."""

    entry: str | None
    what: str
    count: int
    ranks: str | None
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Trouble that normal progress followed."""

    what: str
    from_: str
    until: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The fact that would decide, and the command that gets it."""

    fact: str
    decides: tuple[str, ...] = ()
    command: str | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do. `command` and `verify` are shown, never run."""

    text: str
    command: str | None = None
    edit: str | None = None
    risk: str | None = None
    verify: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prevent:
    """One thing that keeps it from coming back."""

    text: str
    watch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How the job stopped; never its cause."""

    how: str = "unknown"  # completed|failed|killed|cancelled|time-limit|preempted|running|unknown
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The last checkpoint the log mentions."""

    step: int | None
    path: str | None
    complete: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What the failure cost, as far as the log tells."""

    last_step: int | None = None
    last_time: str | None = None
    last_checkpoint: Checkpoint | None = None
    lost_s: float | None = None
    idle_rank_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One (re)start of the job."""

    n: int
    end: str
    entry: str | None
    status: Status | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was read, and what could not be."""

    sources: int = 0
    bytes: int = 0
    lines: int = 0
    ranks_seen: int = 0
    world_size: int | None = None
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """One row of the per-rank picture. Times in seconds since the epoch, or None."""

    label: str
    rank: int | None
    host: str | None
    first_time_s: float | None
    last_time_s: float | None
    last_step: int | None
    state: str  # initiating | collateral | silent | normal
    mark: str | None = None  # what it said last, in a few words


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The whole answer; schema rootrank.diagnosis/1."""

    verdict: Verdict
    summary: str
    end: End = field(default_factory=End)
    initiating: Initiating | None = None
    cause: Cause | None = None
    alternatives: tuple[Cause, ...] = ()
    also: tuple[Also, ...] = ()
    collateral: tuple[Collateral, ...] = ()
    recovered: tuple[Recovered, ...] = ()
    missing: tuple[Missing, ...] = ()
    actions: tuple[Action, ...] = ()
    prevent: tuple[Prevent, ...] = ()
    impact: Impact = field(default_factory=Impact)
    attempts: tuple[Attempt, ...] = ()
    unexplained: tuple[Evidence, ...] = ()
    coverage: Coverage = field(default_factory=Coverage)
    lanes: tuple[LaneView, ...] = ()  # for pictures; bounded

    @property
    def exit_code(self) -> int:
        """0 no failure, 1 failure, 3 insufficient evidence."""
        return {Verdict.NO_FAILURE: 0, Verdict.FAILURE: 1, Verdict.INSUFFICIENT: 3}[self.verdict]


def to_plain(value: Any) -> Any:
    """Return `value` as dicts, lists and scalars, in field order, ready for JSON."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        # `from_` is `from` in the contract; a keyword in Python.
        return {f.name.rstrip("_"): to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(v) for v in value]
    return value


def fold_ranks(ranks: Iterable[int]) -> str:
    """Return `ranks` as "0-36,38-63"; "" for none."""
    parts: list[str] = []
    start = prev = None
    for r in sorted(set(ranks)):
        if prev is not None and r == prev + 1:
            prev = r
            continue
        if start is not None:
            parts.append(str(start) if start == prev else f"{start}-{prev}")
        start = prev = r
    if start is not None:
        parts.append(str(start) if start == prev else f"{start}-{prev}")
    return ",".join(parts)


_NOT_LETTERS = re.compile(r"[^A-Za-z]+")


def words_of(s: Sighting) -> str:
    """Return kind, type and the letters of the message's first line: equal for the same failure on any rank."""
    if s.kind == "exit":
        return f"exit|{s.get('signal') or s.get('code')}"
    message = str(s.get("message") or s.text).split("\n")[0]
    what = s.get("type") or s.get("signal") or s.get("code") or ""
    return f"{s.kind}|{what}|{_NOT_LETTERS.sub(' ', message)[:120].strip()}"
