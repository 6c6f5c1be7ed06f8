"""Words by which libraries complain about somebody else, and helpers to make sightings.

Belongs here: the one table that tells self from peer from teardown in a message, whatever wrapper printed it.
Must not be here: causes. Messages were read in the sources named beside each group.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from rootrank.model import UNKNOWN, Line, Origin, Sighting, SpeaksOf

Parser = Callable[[Line], "Sighting | None"]


class Word(NamedTuple):
    """A message that speaks of a peer or of the teardown."""

    kind: str
    speaks_of: SpeaksOf
    library: str
    pattern: re.Pattern[str]


def _w(kind: str, speaks: SpeaksOf, library: str, pattern: str) -> Word:
    return Word(kind, speaks, library, re.compile(pattern))


_PEER, _TEAR = SpeaksOf.PEER, SpeaksOf.TEARDOWN

WORDS: tuple[Word, ...] = (
    # gloo transport/tcp/{pair,unbound_buffer}.cc
    _w(
        "collective-timeout",
        _PEER,
        "gloo",
        r"Timed out waiting (?P<timeout_ms>\d+)ms for (?P<op>recv|send) operation",
    ),
    _w("peer-loss", _PEER, "gloo", r"Connection closed by peer \[?(?P<peer>[^\s\]]+)"),
    _w(
        "peer-loss",
        _PEER,
        "gloo",
        r"gloo/transport/tcp/\S+ (?:Read|Write) error .{0,80}(?:reset by peer|Broken pipe|Connection refused)",
    ),
    _w(
        "peer-loss",
        _PEER,
        "gloo",
        r"(?:Read|Write) error \[[^\]]{1,60}\]:\d+: (?:Connection reset by peer|Broken pipe)",
    ),
    _w("collective-timeout", _PEER, "gloo", r"Application timeout caused pair closure"),
    # torch ProcessGroupNCCL.cpp, all generations
    _w(
        "collective-timeout",
        _PEER,
        "nccl",
        r"[Ww]atchdog caught collective operation timeout: (?P<detail>.*)",
    ),
    _w(
        "collective-timeout",
        _PEER,
        "nccl",
        r"Timeout at NCCL work: (?P<seq>\d+), last enqueued NCCL work: (?P<last_enqueued>-?\d+), last completed NCCL work: (?P<last_completed>-?\d+)",
    ),
    _w(
        "collective-timeout",
        _PEER,
        "nccl",
        r"detected by watchdog at work(?: sequence id)?:? (?P<seq>\d+).{0,40}?last enqueued (?:NCCL )?work: (?P<last_enqueued>-?\d+),.{0,60}?last completed (?:NCCL )?work: (?P<last_completed>-?\d+)",
    ),
    _w(
        "watchdog-note",
        _PEER,
        "nccl",
        r"failure detected by watchdog at work sequence id: (?P<seq>\d+)",
    ),
    _w(
        "watchdog-note",
        _PEER,
        "nccl",
        r"To avoid data inconsistency, we are taking the entire process down",
    ),
    _w("watchdog-note", _PEER, "nccl", r"Some NCCL operations have failed or timed out"),
    _w(
        "watchdog-note",
        _PEER,
        "nccl",
        r"First PG on this rank to signal dumping|Received a (?:dump signal|global timeout)|Observed flight recorder dump signal",
    ),
    _w("watchdog-note", _PEER, "nccl", r"watchdog got stuck for (?P<stuck_s>\d+) seconds"),
    _w("watchdog-note", _PEER, "nccl", r"Could not acquire GIL within \d+ ms"),
    _w("watchdog-note", _PEER, "nccl", r"Stack trace of the failed collective"),
    _w(
        "teardown",
        _TEAR,
        "nccl",
        r"NCCL communicator was aborted on rank|ncclCommAbort|communicator was aborted",
    ),
    # nccl src: socket.cc, net_ib, enqueue; also what torch appends to ncclRemoteError
    _w(
        "peer-loss",
        _PEER,
        "nccl",
        r"(?:ncclRemoteError|remote process exited or there was a network error)",
    ),
    _w(
        "peer-loss",
        _PEER,
        "nccl",
        r"socketProgress(?:Opt)?: Connection closed by(?: remote)? peer (?P<peer>[^\s<(]+)",
    ),
    _w(
        "peer-loss",
        _PEER,
        "nccl",
        r"(?:Net|Call to recv from|NET/Socket).{0,60}(?:Connection closed by remote peer|Connection reset by peer)(?: (?P<peer>\S+))?",
    ),
    _w(
        "peer-loss",
        _PEER,
        "nccl",
        r"NCCL WARN .{0,80}(?:Connection reset by peer|Connection closed by remote peer)",
    ),
    # torch TCPStore / c10d socket
    _w(
        "peer-loss",
        _PEER,
        "store",
        r"(?:recvValue|recvBytes|sendBytes|recvValueWithTimeout|sendValue)\b.{0,160}(?:failed|Connection|Broken pipe)",
    ),
    _w("peer-loss", _PEER, "store", r"Failed to recv, got 0 bytes"),
    _w(
        "peer-loss",
        _PEER,
        "store",
        r"RendezvousConnectionError|[Tt]he connection to the C10d store has failed",
    ),
    _w("peer-loss", _PEER, "store", r"RendezvousClosedError"),
    _w("peer-loss", _PEER, "store", r"Failed to check the \"should dump\" flag on TCPStore"),
    _w(
        "collective-timeout",
        _PEER,
        "store",
        r"(?:wait timeout after|Timeout waiting for key).{0,20}?(?P<timeout_ms>\d+)? ?ms|^(?:\w+: )?Socket Timeout$",
    ),
    _w(
        "exception",
        _PEER,
        "store",
        r"Timed out after \d+ seconds waiting for clients|waiting for clients\. \d+/\d+ clients joined",
    ),
    _w(
        "peer-loss",
        _PEER,
        "ray",
        r"RayActorError|ActorDiedError|WorkerCrashedError|ActorUnavailableError",
    ),
    _w(
        "collective-timeout",
        _PEER,
        "gloo",
        r"Ranks? (?P<absent>\d[\d, ]*) failed to pass monitoredBarrier|(?:monitoredBarrier|monitored_barrier).{0,120}(?:timed out|failed to pass|timeout|received errors)",
    ),
    # JAX's coordination service: the tasks that did not come stand behind, each on a line of its own.
    _w(
        "collective-timeout",
        _PEER,
        "jax",
        r"Barrier timed out(?:[\s\S]{0,800}?imed out task names:(?P<absent_tasks>(?:\s*/job:\S+/task:\d+,?)+))?",
    ),
    _w(
        "peer-loss",
        _PEER,
        "python",
        r"at least one rank that (?:has )?exhausted|one of the ranks finished execution",
    ),
    _w(
        "peer-loss",
        _PEER,
        "nccl",
        r"Call to (?:recv|send|recvmsg|sendmsg)\b.{0,80}(?:Broken pipe|reset by peer|closed by)",
    ),
    _w("exception", _PEER, "c10d", r"Detected mismatch between collectives on ranks"),
    _w("collective-timeout", _PEER, "nccl", r"WARN Timeout waiting for"),
    _w("watchdog-note", _PEER, "neuron", r"nrt_init_global_comm.{0,60}(?:[Ff]ailed|error)"),
    _w(
        "peer-loss",
        _PEER,
        "vllm",
        r"EngineDeadError|EngineCore encountered an issue|[Ee]ngine core initialization failed|Engine core proc \S* ?died|died unexpectedly, shutting down",
    ),
    _w("collective-timeout", _PEER, "hccl", r"event wait timeout occurr?ed"),
    # JAX's coordination service (tsl/distributed_runtime/coordination)
    _w(
        "peer-loss",
        _PEER,
        "jax",
        r"Terminating process because the (?:JAX distributed service|coordinator) detected|task:?(?P<peer>\d+) has been set to ERROR in coordination service|(?:missing heartbeats|heartbeat timeout)",
    ),
    # MPI, UCC, gRPC, HCCL
    _w(
        "peer-loss",
        _PEER,
        "grpc",
        r"UNAVAILABLE: (?:Socket closed|failed to connect|Connection reset)|grpc_message\W{1,4}Socket closed",
    ),
    _w(
        "peer-loss",
        _PEER,
        "mpi",
        r"ORTE has lost communication with a remote daemon|PMIX ERROR: (?:UNREACHABLE|LOST)|btl_tcp_.{0,60}(?:Connection reset by peer|readv failed)",
    ),
    _w(
        "collective-timeout",
        _PEER,
        "hccl",
        r"Notify register (?:times out|timeout).{0,120}?remote rank: ?\[?(?P<peer>\d+)",
    ),
    _w(
        "watchdog-note",
        _PEER,
        "hccl",
        r"(?:SynchronizeDevice|SynchronizeStream)WithTimeout.{0,40}error code is (?:507046|507048|107020)\b",
    ),
    _w(
        "collective-timeout",
        _PEER,
        "hccl",
        r"(?:HCCL|hccl|Hccl).{0,120}(?:[Tt]imeout|timed out)|notify wait.{0,40}timeout|EI0002",
    ),
    # torchelastic, launchers, signals
    _w(
        "teardown",
        _TEAR,
        "torchelastic",
        r"SignalException: Process \d+ got signal: (?P<signum>\d+)",
    ),
    _w("teardown", _TEAR, "torchelastic", r"ChildFailedError"),
    _w("teardown", _TEAR, "deepspeed", r"Main process received SIG(?:TERM|INT), exiting"),
)

_PRESENCE = re.compile(
    r"timed out task|event wait|EngineDead|ngine[ C]|died unexpectedly|Timeout waiting|nrt_init_global|mismatch between|exhausted|ranks finished|Barrier|Broken pipe|eartbeat|Terminating process|coordination service|WithTimeout|Notify register|waiting for clients|ActorDied|RayActor|WorkerCrashed|ActorUnavail|"
    r"imed out|imeout|Connection|watchdog|ommunicator|ncclRemote|remote process|recv|sendBytes|sendValue|endezvous"
    r"|Socket closed|UNAVAILABLE|lost communication|PMIX|hccl|HCCL|EI0002|SignalException|ChildFailed|received SIG"
    r"|acquire GIL|failed or timed|data inconsistency|signal dumping|dump signal|onitored|TCPStore|global timeout"
    r"|failed collective"
)
_WORK = re.compile(
    r"SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)(?:.*?NumelIn=(?P<numel>\d+))?.*?Timeout\(ms\)=(?P<timeout_ms>\d+)\)(?: ran for (?P<elapsed_ms>\d+))?"
)
_GROUP = re.compile(r"\[PG (?:ID )?\d+ (?:PG GUID )?(?:\d+)?\(?(?P<group>[\w.]*)\)?")
_UNSIGNED_NONE = 1 << 40  # older libtorch prints garbage for "none completed"


def classify(message: str) -> tuple[str, SpeaksOf, dict[str, Any]] | None:
    """Return (kind, speaks-of, fields) when a message speaks of a peer or the teardown, else None."""
    if not _PRESENCE.search(message):
        return None
    for word in WORDS:
        m = word.pattern.search(message)
        if m:
            return word.kind, word.speaks_of, _fields(word, m, message)
    return None


def _fields(word: Word, m: re.Match[str], message: str) -> dict[str, Any]:
    out: dict[str, Any] = {"library": word.library}
    groups = dict(m.groupdict())
    detail = groups.pop("detail", None)
    if detail:
        work = _WORK.search(detail)
        if work:
            groups.update(work.groupdict())
    group = _GROUP.search(message)
    if group and group["group"] not in ("", "Rank"):
        out["group"] = group["group"]
    tasks = groups.pop("absent_tasks", None)
    if tasks:
        groups["absent"] = ", ".join(re.findall(r"task:(\d+)", tasks))
    for name, value in groups.items():
        if value is None:
            continue
        number = int(value) if re.fullmatch(r"-?\d+", value) else None
        if number is not None and number > _UNSIGNED_NONE:
            number = -1
        out[name] = value if number is None else number
    return out


_PROSE = re.compile(
    r"\b(?:[Ii]f you|[Yy]ou (?:can|may|might|should|will|have)|[Ff]or example|e\.g\.|[Pp]lease (?:try|see|refer)|[Ii]n order to|[Tt]o (?:fix|avoid|debug)|[Nn]ote that|[Ww]hen you|[Ss]ee also|such as|instead of|[Mm]ight be because)\b|`$"
)


def is_prose(text: str, at: int) -> bool:
    """Return True when the words before position `at` show that a failure is talked about, not reported."""
    return bool(_PROSE.search(text[max(0, at - 120) : at]))


_RANK_WORDS = re.compile(
    r"\[PG (?:ID )?0 (?:PG GUID 0)?\(?(?:default_pg)?\)? ?Rank (?P<pg>\d+)\]|\[Rank (?P<old>\d+)\]|RankID:(?P<npu>\d+)|\bon rank (?P<on>\d+)\b"
)


def _named_rank(line: Line) -> Origin:
    """Return the rank that the message itself names as its own, where no prefix does.

    In a ProcessGroupNCCL line `[Rank 5]` is the rank inside that group: the global one in the default group, and in
    versions that print no group (2.2 and before), whose default group is the usual one.
    """
    if line.origin.rank is not None or "ank" not in line.raw:
        return UNKNOWN
    m = _RANK_WORDS.search(line.raw)
    if not m:
        return UNKNOWN
    if m["old"] and "[PG " in line.raw:
        return UNKNOWN
    if m["on"] and not re.search(r"rror|ERROR|nan|NaN|fail", line.raw):
        return UNKNOWN
    return Origin(rank=int(m["pg"] or m["old"] or m["npu"] or m["on"]))


def sighting(
    line: Line,
    kind: str,
    speaks_of: SpeaksOf = SpeaksOf.SELF,
    *,
    origin: Origin | None = None,
    text: str | None = None,
    **fields: Any,
) -> Sighting:
    """Return a sighting on one line; empty fields are left out."""
    named = _named_rank(line)
    return Sighting(
        kind=kind,
        speaks_of=speaks_of,
        source=line.source,
        line=line.number,
        end_line=line.number,
        offset=line.offset,
        text=line.raw if text is None else text,
        origin=(UNKNOWN if origin is None else origin).over(line.origin).over(named),
        time_s=line.time_s,
        order=line.offset,
        fields={k: v for k, v in fields.items() if v not in (None, "", (), [])},
    )


SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
}  # fmt: skip


def signal_of(code: int) -> str | None:
    """Return the signal that an exit code stands for: negative, or 128+n as shells and containers say it."""
    if code < 0:
        return SIGNALS.get(-code)
    if code > 128:
        return SIGNALS.get(code - 128)
    return None
