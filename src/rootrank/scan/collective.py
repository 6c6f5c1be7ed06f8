"""Collective libraries outside tracebacks: watchdogs, desync reports, NCCL/RCCL/HCCL warnings.

Belongs here: who prints what about whom, sequence numbers, process groups. Must not be here: blame.
"""

from __future__ import annotations

import re

from rootrank.model import Line, Origin, Sighting, SpeaksOf
from rootrank.scan.words import classify, sighting

_DESYNC_HEAD = re.compile(
    r"ranks (?:\[(?P<inline>[\d, ]+)\] )?(?:are the |are )?.{0,40}(?:lagging|dead|mismatched)|lagging/dead/mismatched ranks"
)
_DESYNC_ROW = re.compile(
    r"^\s*-?\s*\[(?P<ranks>[\d, ]+)\] (?P<what>finished collective #(?P<done>\d+),? (?:but )?(?:didn't|did not) join collective #(?P<seq>\d+)|joined but didn't finish collective #(?P<joined>\d+)|.{0,20}never joined any collectives)"
)
_MISMATCH = re.compile(
    r"Detected mismatch between collectives on ranks\. ?Rank (?P<rank>\d+) is running (?:collective|inconsistent collective)?:? ?(?P<what>.{0,200})"
)
_BARRIER = re.compile(
    r"[Rr]ank\(?s?\)? (?P<ranks>[\d, ]+) failed to pass monitoredBarrier|Ranks? (?P<missing>[\d, ]+) (?:did not|failed to) (?:join|respond)|missing ranks?:? ?[\[{]?(?P<set>[\d, ]+)",
    re.I,
)
_WARN = re.compile(
    r"(?:(?P<file>[\w./]+\.(?:cc|h|cpp|c)):(?P<line>\d+) )?(?:\((?P<func>\w+)\) )?(?:NCCL|RCCL|CCOM) WARN (?P<message>.*)"
)
_OTHER_END = re.compile(
    r"[Cc]onnect(?:ion)? (?:to|from) .{0,60}(?:refused|timed out|failed)|Got completion from peer|collective mismatch error|connect returned Connection"
)
_INIT = re.compile(
    r"comm 0x[0-9a-f]+ rank (?P<rank>\d+) n[rR]anks (?P<world>\d+) cudaDev (?P<dev>\d+)"
)


def watchdog(line: Line) -> Sighting | None:
    """Timeouts, notes and peer loss that are printed by a library's own logger."""
    words = classify(line.raw)
    if not words:
        return None
    kind, speaks, fields = words
    if kind == "exception":
        return None  # the traceback reader's
    fields.setdefault("message", line.text[:600])
    return sighting(line, kind, speaks, **fields)


def desync(line: Line) -> Sighting | None:
    """torch's desync report names the ranks that lag; that is a statement about them, not about the printer."""
    m = _DESYNC_ROW.match(line.text) or _DESYNC_ROW.match(line.text.replace("'", "'"))
    if m:
        ranks = tuple(int(x) for x in re.findall(r"\d+", m["ranks"]))
        seq = m["seq"] or m["joined"]
        return sighting(
            line,
            "desync",
            origin=_one(ranks),
            ranks=ranks,
            seq=int(seq) if seq else None,
            message=m["what"],
        )
    m2 = _DESYNC_HEAD.search(line.text)
    if m2 and m2["inline"]:
        ranks = tuple(int(x) for x in re.findall(r"\d+", m2["inline"]))
        return sighting(
            line, "desync", origin=_one(ranks), ranks=ranks, message=line.text.strip(" -")
        )
    if m2:
        return sighting(line, "desync", ranks=(), message=line.text.strip(" -"))
    return None


def _one(ranks: tuple[int, ...]) -> Origin:
    return Origin(rank=ranks[0]) if len(ranks) == 1 else Origin()


def mismatch(line: Line) -> Sighting | None:
    """Detail mode: which rank runs another collective than the one that reports it."""
    m = _MISMATCH.search(line.text)
    return sighting(line, "desync", ranks=(), message=m.group(0)) if m else None


def barrier(line: Line) -> Sighting | None:
    """monitored_barrier names the ranks that did not come."""
    m = _BARRIER.search(line.text)
    if not m:
        return None
    ranks = tuple(int(x) for x in re.findall(r"\d+", m["ranks"] or m["missing"] or m["set"] or ""))
    return (
        sighting(line, "desync", origin=_one(ranks), ranks=ranks, message=line.text.strip()[:400])
        if ranks
        else None
    )


def nccl_warn(line: Line) -> Sighting | None:
    """An NCCL WARN; peer loss and timeouts among them are told apart by their words."""
    m = _WARN.search(line.raw)
    if not m:
        return None
    words = classify(line.raw)
    if words and words[0] != "watchdog-note":
        kind, speaks, fields = words
        return sighting(
            line,
            kind,
            speaks,
            file=m["file"],
            message=m["message"],
            **{k: v for k, v in fields.items() if k != "message"},
        )
    # A refused connection and a failed completion speak of the address they name.
    speaks = SpeaksOf.PEER if _OTHER_END.search(m["message"]) else SpeaksOf.SELF
    return sighting(line, "nccl-warn", speaks, file=m["file"], message=m["message"])


PARSERS = (
    (
        (
            "collective operation timeout", "Timeout at NCCL work", "detected by watchdog", "NCCL operations have failed",
            "data inconsistency", "signal dumping", "dump signal from", "Received a dump signal", "global timeout",
            "watchdog got stuck", "acquire GIL within", "failed collective", "communicator was aborted",
            "ncclCommAbort", "ncclRemoteError", "remote process exited", "Connection closed by", "recvValue",
            "recvBytes", "sendBytes", "got 0 bytes", "RendezvousConnectionError", "RendezvousClosedError",
            "C10d store has failed", "Socket closed", "UNAVAILABLE: ", "lost communication", "PMIX ERROR",
            "notify wait", "EI0002", "SIGTERM, exiting", "SIGINT, exiting", "got signal: ", "Timed out waiting ",
            "onitoredBarrier",
            "Terminating process because",
            "coordination service",
            "eartbeat timeout",
            "missing heartbeats", "Connection reset by peer", "pair closure",
        ),
        watchdog,
    ),
    (("lagging", "mismatched ranks", "join collective", "finish collective", "never joined any"), desync),
    (("mismatch between collectives",), mismatch),
    (("failed to pass monitored", "missing rank", "did not join", "failed to respond", "Missing rank"), barrier),
    (("CCL WARN ", "CCOM WARN "), nccl_warn),
)  # fmt: skip
