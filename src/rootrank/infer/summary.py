"""One sentence for people, how the job ended, what it cost, the rows of the picture.

Belongs here: words that join facts already found. Must not be here: new facts.
"""

from __future__ import annotations

from collections.abc import Sequence

from rootrank.infer.match import Hypothesis, order_key
from rootrank.infer.quote import iso, quote
from rootrank.model import (
    Checkpoint,
    Diagnosis,
    End,
    Impact,
    Initiating,
    LaneView,
    Sighting,
    SpeaksOf,
    Status,
    Timeline,
    Verdict,
)

MAX_LANES = 512
_ENDS = {"time-limit": "time-limit", "preempted": "preempted", "cancelled": "cancelled"}


def place_words(who: Initiating | None) -> str:
    """Return "Rank 37 on node-5", "Ranks 2,5", "All ranks", or what is known instead."""
    if who is None:
        return "Which process failed first is not established"
    at = f" on {who.host}" if who.host else ""
    if who.extent == "one" and who.rank is not None:
        return f"Rank {who.rank}{at}"
    if who.extent == "all":
        return "All ranks"
    if who.ranks:
        return f"Ranks {who.ranks}{at}"
    if who.kind == "external":
        return "The scheduler"
    if who.kind == "gpu" and who.device:
        return f"GPU {who.device}{at}"
    if who.kind in ("host", "link", "storage"):
        return f"The {who.kind}{at}"
    if who.pid is not None:
        return f"Process {who.pid}{at}"
    return (
        f"One process{at} (rank unknown)"
        if who.kind == "process"
        else f"The job{at} (rank unknown)"
    )


def summarise(d: Diagnosis, t: Timeline) -> str:
    """Return the one sentence that a hurried reader gets."""
    if d.verdict is Verdict.NO_FAILURE:
        if d.end.how == "completed":
            return "No failure found: the job says that it completed."
        if not any(x.sightings or x.progress for x in t.digests):
            return "No failure found; no progress or failure words were recognised either."
        return "No failure found in what was read."
    if d.cause is None:
        return "Not established: the evidence at hand shows no failure of its own."
    title = d.cause.title.rstrip(".")
    hedge = {
        Status.ESTABLISHED: "",
        Status.SUPPORTED: "",
        Status.SUSPECTED: " (suspected, not established)",
    }.get(d.cause.status, "")
    first = f"{place_words(d.initiating)}: {title}{hedge}."
    peers = [c for c in d.collateral if c.what in ("peer-loss", "collective-timeout")]
    if peers and d.initiating is not None:
        count = max(c.count for c in peers)
        first += f" {count} other process{'es' if count != 1 else ''} then complained of it."
    return first


def end_of(t: Timeline, alive: Sequence[Sighting]) -> End:
    """Return how the job stopped, never why."""
    schedulers = [s for s in alive if s.kind == "scheduler" and s.get("event") in _ENDS]
    if schedulers:
        s = min(schedulers, key=order_key)
        return End(how=_ENDS[s.get("event")], evidence=(quote(s, "context"),))
    killed = [
        s
        for s in alive
        if s.kind == "oom-kill" or (s.kind == "exit" and s.get("signal") == "SIGKILL")
    ]
    if killed:
        return End(how="killed", evidence=(quote(min(killed, key=order_key), "context"),))
    failed = [
        s
        for s in alive
        if s.kind in ("exit", "exception", "abort", "fatal-signal") and s.speaks_of is SpeaksOf.SELF
    ]
    if failed:
        return End(how="failed", evidence=(quote(max(failed, key=order_key), "context"),))
    done = [s for s in alive if s.kind == "completed"]
    if done:
        return End(how="completed", evidence=(quote(done[-1], "context"),))
    return End()


def impact_of(t: Timeline, lead: Hypothesis | None) -> Impact:
    """Return the last step and checkpoint that the logs mention."""
    steps = [
        (p.time_s, p.step)
        for lane in t.lanes
        for p in lane.progress
        if p.step is not None and p.unit not in ("bar", "epoch")
    ]
    bars = [(p.time_s, p.step) for lane in t.lanes for p in lane.progress if p.step is not None]
    pool = steps or bars
    last_step = max((s for _, s in pool), default=None)
    last_time = max((x for x, _ in pool if x is not None), default=None)
    saved = [
        s for s in t.sightings if s.kind == "checkpoint" and s.get("event") in ("saved", "saving")
    ]
    checkpoint = None
    if saved:
        s = max(saved, key=order_key)
        checkpoint = Checkpoint(
            step=s.get("step"),
            path=s.get("path"),
            complete=True if s.get("event") == "saved" else None,
        )
    lost = None
    if checkpoint is not None and last_time is not None:
        times = [s.time_s for s in saved if s.time_s is not None]
        lost = round(last_time - max(times), 3) if times and last_time > max(times) else None
    return Impact(
        last_step=last_step, last_time=iso(last_time), last_checkpoint=checkpoint, lost_s=lost
    )


def lane_views(
    t: Timeline, who: Initiating | None, alive: Sequence[Sighting]
) -> tuple[LaneView, ...]:
    """Return the rows of the per-rank picture, bounded."""
    guilty: set[int] = set()
    for part in (who.ranks or "").split(",") if who else ():
        low, _, high = part.partition("-")
        if low.isdigit():
            guilty |= set(range(int(low), int(high or low) + 1))
    keep = {id(s) for s in alive}
    rows = []
    for lane in t.lanes:
        if lane.origin.rank is None:
            continue
        own = [s for s in lane.sightings if id(s) in keep]
        if lane.origin.rank in guilty:
            state = "initiating"
        elif any(
            s.speaks_of in (SpeaksOf.PEER, SpeaksOf.TEARDOWN) or s.kind == "exit" for s in own
        ):
            state = "collateral"
        else:
            state = "normal"
        mark = next(
            (str(s.get("type") or s.get("signal") or s.kind) for s in own if s.kind != "stack"),
            None,
        )
        times = [x.first_time_s for x in lane.tails if x.first_time_s is not None]
        rows.append(
            LaneView(
                label=lane.key,
                rank=lane.origin.rank,
                host=lane.origin.host,
                first_time_s=min(times, default=None),
                last_time_s=lane.last_time_s,
                last_step=lane.last_step,
                state=state,
                mark=mark,
            )
        )
    rows.sort(key=lambda r: (r.state != "initiating", r.rank or 0))
    return tuple(sorted(rows[:MAX_LANES], key=lambda r: r.rank or 0))
