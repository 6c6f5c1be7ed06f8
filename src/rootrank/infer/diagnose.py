"""The timeline and the entries to one diagnosis. The file to read first in this stage.

Belongs here: the order of questions. Must not be here: failures by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rootrank.infer import advise
from rootrank.infer.match import Hypothesis, Matcher, hypotheses, order_key
from rootrank.infer.order import Recovery
from rootrank.infer.quote import iso, quote
from rootrank.infer.select import DERIVED, Choice, choose, downgrade
from rootrank.infer.summary import end_of, impact_of, lane_views, summarise
from rootrank.infer.where import initiating, with_absent_rank
from rootrank.knowledge.types import Knowledge
from rootrank.model import (
    Also,
    Attempt,
    Collateral,
    Coverage,
    Diagnosis,
    Evidence,
    Missing,
    Recovered,
    Sighting,
    SpeaksOf,
    Status,
    Timeline,
    Verdict,
    fold_ranks,
    words_of,
)

_QUIET = frozenset({"completed", "checkpoint", "stack", "host-state", "flight-record"})
# Kinds that, unclaimed by any entry, are a failure of their own.
_LOUD = frozenset(
    {"exception", "abort", "fatal-signal", "cuda-error", "device-assert", "oom-kill", "desync"}
)
COMPLAINTS = frozenset({"collective-timeout", "peer-loss", "watchdog-note"})
_FAINT = frozenset(
    {
        "exit",
        "log-error",
        "nccl-warn",
        "orchestrator",
        "scheduler",
        "peer-loss",
        "collective-timeout",
    }
)


def infer(t: Timeline, knowledge: Knowledge, matcher: Matcher | None = None) -> Diagnosis:
    """Return the diagnosis of a timeline."""
    matcher = matcher or Matcher(knowledge)
    recovery = Recovery(t)
    alive, over = _split(t, recovery)
    matches = matcher.match(alive, t.derived, _extents(alive, t))
    complete = not any(d.gaps for d in t.digests)
    found = hypotheses(matches, complete)
    found.extend(_unclaimed(alive, found))
    found = [_cap(h, alive, t) for h in found]
    choice = choose(found)
    return _diagnosis(t, alive, over, choice, found)


def _split(t: Timeline, recovery: Recovery) -> tuple[list[Sighting], list[tuple[Sighting, str]]]:
    """Separate what lasts from what the job outlived."""
    alive: list[Sighting] = []
    over: list[tuple[Sighting, str]] = []
    for s in t.sightings:
        if s.kind in _QUIET:
            alive.append(s)
            continue
        if s.kind == "scheduler" and s.get("event") in ("preempted", "signal") and _requeued(s, t):
            over.append((s, "the requeue"))
            continue
        later = recovery.after(s)
        if later is not None:
            over.append((s, f"step {later.step}"))
        elif recovery.finished(s) and _outlived(s):
            over.append((s, "the end of the job"))
        else:
            alive.append(s)
    return alive, over


def _outlived(s: Sighting) -> bool:
    """What a job that ends as planned has outlived: complaints, warnings, and what no rank is tied to."""
    if s.speaks_of in (SpeaksOf.ENVIRONMENT, SpeaksOf.PEER):
        return True
    return s.kind in ("log-error", "nccl-warn", "line") or (
        s.kind == "exception" and s.origin.rank is None
    )


def _requeued(s: Sighting, t: Timeline) -> bool:
    """A preemption that the job answered by requeueing itself is its design, not a failure."""
    return any(
        o.kind == "scheduler"
        and o.get("event") == "requeue"
        and o.source == s.source
        and o.order > s.order
        for o in t.sightings
    )


def _extents(alive: Sequence[Sighting], t: Timeline) -> dict[int, str]:
    """Return for each self sighting whether one, some or all ranks said the same."""
    groups: dict[str, list[Sighting]] = {}
    for s in alive:
        if s.speaks_of is SpeaksOf.SELF and s.kind in _LOUD:
            groups.setdefault(words_of(s), []).append(s)
    out: dict[int, str] = {}
    for group in groups.values():
        ranks = {s.origin.rank for s in group if s.origin.rank is not None}
        n = len(ranks)
        word = (
            "one" if n == 1 else "all" if n > 1 and n >= len(t.ranks) else "some" if n > 1 else None
        )
        for s in group:
            if word:
                out[id(s)] = word
    return out


def _unclaimed(alive: Sequence[Sighting], found: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return entry-less hypotheses for failures that no entry claims."""
    claimed: set[int] = set()
    for h in found:
        roles = {g.name: g.role for g in h.entry.signals} if h.entry else {}
        for name, group in h.matched.items():
            if roles.get(name) == "initiating":
                claimed.update(id(s) for s in group)
    out = []
    for s in alive:
        if id(s) in claimed:
            continue
        loud = s.kind in _LOUD and s.speaks_of is SpeaksOf.SELF
        faint = s.kind in _FAINT and s.speaks_of is not SpeaksOf.TEARDOWN and s.get("code") != 0
        if loud or faint or s.kind == "scheduler":
            out.append(Hypothesis(None, s, None, {}, Status.SUPPORTED))
    return out


def _bare(s: Sighting) -> bool:
    """An "XError: …" line without any frame may be any program's word."""
    return s.kind == "exception" and not s.get("frames") and not s.get("woven")


def _last_words(s: Sighting, t: Timeline) -> bool:
    d = next((d for d in t.digests if d.source == s.source), None)
    return d is None or max(s.last_line, s.end_line, s.line) >= d.lines - 8


def _cap(h: Hypothesis, alive: Sequence[Sighting], t: Timeline) -> Hypothesis:
    """Lower a status to what its kind of evidence can carry at most."""
    s = h.anchor
    if s.speaks_of is SpeaksOf.ENVIRONMENT and not _job_in_sight(s, alive):
        return downgrade(h, Status.SUSPECTED)
    if s.kind in DERIVED and s.kind in ("drop", "spike") and not s.get("firm"):
        return downgrade(h, Status.SUSPECTED)
    if s.speaks_of is SpeaksOf.PEER and s.kind in COMPLAINTS:
        compared = s.get("absent") is not None or any(
            d.kind in DERIVED for group in h.matched.values() for d in group
        )
        return downgrade(h, Status.SUPPORTED if compared else Status.SUSPECTED)
    if h.entry is None and s.kind in ("log-error", "nccl-warn", "orchestrator"):
        return downgrade(h, Status.SUSPECTED)
    if _bare(s) and h.specificity <= 1 and not _last_words(s, t):
        return downgrade(h, Status.SUSPECTED)
    if s.kind == "exit" and not s.get("signal") and (h.entry is None or h.kind != "cause"):
        return downgrade(h, Status.SUSPECTED)
    return h


def _job_in_sight(s: Sighting, alive: Sequence[Sighting]) -> bool:
    """Return True when a process of a job failed too: a component's record alone is a warning."""
    return any(
        o is not s and o.speaks_of in (SpeaksOf.SELF, SpeaksOf.PEER) and o.kind in _LOUD | {"exit", "peer-loss", "collective-timeout", "nccl-warn"}
        and not (o.kind == "fatal-signal" and o.get("by") == "kernel")
        for o in alive
    )  # fmt: skip


def _verdict(choice: Choice, lead: Hypothesis | None, alive: Sequence[Sighting]) -> Verdict:
    if lead is None:
        return Verdict.NO_FAILURE
    return Verdict.INSUFFICIENT if lead.status is Status.SUSPECTED else Verdict.FAILURE


def _diagnosis(
    t: Timeline,
    alive: list[Sighting],
    over: list[tuple[Sighting, str]],
    choice: Choice,
    found: Sequence[Hypothesis],
) -> Diagnosis:
    lead = choice.lead
    if lead is not None and _harmless(lead, t):
        choice, lead = Choice(None), None
    verdict = _verdict(choice, lead, alive)
    if lead is None:
        asked = _records_in_vain(t)
        verdict = Verdict.INSUFFICIENT if asked else verdict
        base = Diagnosis(
            verdict=verdict,
            summary="",
            missing=asked,
            recovered=_recovered(over),
            coverage=_coverage(t),
            impact=impact_of(t, None),
            end=end_of(t, alive),
            lanes=lane_views(t, None, alive),
        )
        return replace(base, summary=summarise(base, t))
    who = with_absent_rank(initiating(lead, t, alive), lead, choice.explained)
    cause = advise.cause_of(lead, alive)
    missing = advise.missing_of(lead, cause)
    if who is None and lead.anchor.speaks_of is SpeaksOf.PEER:
        first = advise.asks_for_first_error([s for s in alive if s.speaks_of is SpeaksOf.PEER])
        missing = (first, *missing)[:5]
    elif lead.entry is None and not missing:
        missing = (advise.asks_for_more(lead.anchor),)
    missing = _unplaced(
        lead,
        who is not None
        and who.rank is None
        and who.extent == "unknown"
        and who.kind in ("job", "process"),
        t,
        missing,
    )
    rivals = tuple(advise.cause_of(h, alive) for h in choice.rivals[:3])
    base = Diagnosis(
        verdict=verdict, summary="", end=end_of(t, alive), initiating=who, cause=cause, alternatives=rivals,
        also=_also(choice, t, alive), collateral=_collateral(lead, choice, alive), recovered=_recovered(over), missing=missing,
        actions=advise.actions_of(lead, cause), prevent=advise.prevents_of(lead), impact=impact_of(t, lead), attempts=_attempts(t, found, alive),
        unexplained=_unexplained(choice, alive), coverage=_coverage(t), lanes=lane_views(t, who, alive),
    )  # fmt: skip
    return replace(base, summary=summarise(base, t))


def _records_in_vain(t: Timeline) -> tuple[Missing, ...]:
    """Flight records are written when something hangs; when comparing them shows nothing, the stacks must tell."""
    if not any(s.kind == "flight-record" for s in t.sightings) or any(
        s.kind == "completed" for s in t.sightings
    ):
        return ()
    fact = "the stack of every rank: the flight records show no collective that somebody missed (gloo records no send and no recv)"
    return (
        Missing(
            fact=fact,
            decides=("cause", "rank"),
            command="py-spy dump --nonblocking --json --pid PID > pyspy_rankN.json",
        ),
    )


def _harmless(h: Hypothesis, t: Timeline) -> bool:
    """A lone complaint that no entry knows, from a log that is no job's, is nothing abnormal that lasts."""
    s = h.anchor
    if h.entry is not None:
        return False
    if s.speaks_of is SpeaksOf.ENVIRONMENT:
        return True
    return (
        s.kind in ("log-error", "nccl-warn")
        and any(d.source == s.source and d.progress for d in t.digests)
        and not _near_end(s, t)
    )


def _near_end(s: Sighting, t: Timeline) -> bool:
    d = next((d for d in t.digests if d.source == s.source), None)
    return d is not None and max(s.last_line, s.line) >= d.lines - 12


def _unplaced(
    lead: Hypothesis, unplaced: bool, t: Timeline, missing: tuple[Missing, ...]
) -> tuple[Missing, ...]:
    """Ask for the rank where the failure is clear and its process is not."""
    if not unplaced or len(missing) >= 5 or lead.anchor.kind in ("scheduler", "orchestrator"):
        return missing
    several = (
        (t.world_size or 0) > 1
        or len(t.ranks) > 1
        or lead.anchor.count > 1
        or lead.anchor.get("woven")
    )
    if not several:
        return missing
    fact = Missing(
        fact="which rank printed it: this log has no rank prefix; one log file per rank would tell",
        decides=("rank",),
        command="torchrun --log-dir logs --redirects 3 --tee 3 …",
    )
    return (*missing, fact)


def _also(choice: Choice, t: Timeline, alive: Sequence[Sighting]) -> tuple[Also, ...]:
    out = []
    mine = (
        {id(x) for group in choice.lead.matched.values() for x in group} if choice.lead else set()
    )
    for h in choice.independent[:6]:
        if id(h.anchor) in mine:
            continue  # another name for what leads
        if h.anchor.speaks_of in (SpeaksOf.PEER, SpeaksOf.TEARDOWN) or (
            h.entry is None and h.anchor.kind in _FAINT
        ):
            continue
        who = initiating(h, t, alive)
        if who is not None:
            out.append(
                Also(relation="independent", initiating=who, cause=advise.cause_of(h, alive))
            )
    return tuple(out[:4])


def _collateral(
    lead: Hypothesis, choice: Choice, alive: Sequence[Sighting]
) -> tuple[Collateral, ...]:
    """Fold what the lead explains: one row per kind of complaint."""
    mine = {id(s) for group in lead.matched.values() for s in group} | {id(lead.anchor)}
    entry_of: dict[str, str] = {h.anchor.kind: h.id for h, _ in choice.explained if h.id}
    groups: dict[str, list[Sighting]] = {}
    for s in alive:
        if id(s) in mine or s.kind in _QUIET or s.speaks_of is SpeaksOf.ENVIRONMENT:
            continue
        if s.kind == "exit" and (
            s.speaks_of is SpeaksOf.TEARDOWN or s.origin.rank == lead.anchor.origin.rank
        ):
            continue  # ended by the launcher, or the end of the initiating rank itself
        if s.speaks_of in (SpeaksOf.PEER, SpeaksOf.TEARDOWN) or (
            s.kind == "exit" and lead.anchor.speaks_of is SpeaksOf.SELF
        ):
            groups.setdefault(s.kind, []).append(s)
    out = []
    for kind, rows in groups.items():
        ranks = sorted({s.origin.rank for s in rows if s.origin.rank is not None})
        count = len(ranks) or sum(s.count for s in rows)
        out.append(
            Collateral(
                entry=entry_of.get(kind),
                what=kind,
                count=count,
                ranks=fold_ranks(ranks) or None,
                evidence=tuple(quote(s, "downstream") for s in rows[:2]),
            )
        )
    return tuple(sorted(out, key=lambda c: (-c.count, c.what)))


def _recovered(over: Sequence[tuple[Sighting, str]]) -> tuple[Recovered, ...]:
    groups: dict[str, list[tuple[Sighting, str]]] = {}
    for s, until in over:
        if s.speaks_of is SpeaksOf.TEARDOWN and s.kind == "teardown":
            continue
        groups.setdefault(words_of(s), []).append((s, until))
    out = []
    for rows in list(groups.values())[:8]:
        s, until = rows[0]
        what = (
            f"{s.get('type')}: {str(s.get('message', ''))[:120]}"
            if s.get("type")
            else s.text.strip()[:160]
        )
        out.append(
            Recovered(
                what=what,
                from_=iso(s.time_s) or f"{s.source}:{s.line}",
                until=until,
                evidence=(quote(s, "context"),),
            )
        )
    return tuple(out)


def _unexplained(choice: Choice, alive: Sequence[Sighting]) -> tuple[Evidence, ...]:
    rows = [
        h.anchor
        for h in choice.independent
        if h.entry is None and h.anchor.kind in ("log-error", "nccl-warn")
    ]
    return tuple(quote(s, "context") for s in sorted(rows, key=order_key)[:5])


def _attempts(
    t: Timeline, found: Sequence[Hypothesis], alive: Sequence[Sighting]
) -> tuple[Attempt, ...]:
    """Return how each attempt ended and which entry leads in it."""
    out = []
    for n in t.attempts:
        lead = choose([h for h in found if h.anchor.origin.attempt == n]).lead
        own = [s for s in alive if s.origin.attempt == n]
        out.append(
            Attempt(n=n, end=end_of(t, own).how, entry=lead.id or None if lead else None, status=lead.status if lead else None)
        )  # fmt: skip
    return tuple(out)


def _coverage(t: Timeline) -> Coverage:
    notes: list[str] = []
    if not any(d.sightings or d.progress for d in t.digests):
        notes.append("no progress or failure words were recognised")
    first = [s for s in t.sightings if s.kind == "exit" and s.get("first_observed")]
    if first:
        ranks = Counter(s.origin.rank for s in first if s.origin.rank is not None)
        notes.append(
            f"the launcher noticed rank {fold_ranks(ranks)} first; that is when it looked, not who failed"
        )
    return Coverage(
        sources=len(t.digests), bytes=sum(d.size_bytes for d in t.digests), lines=sum(d.lines for d in t.digests), ranks_seen=len(t.ranks),
        world_size=t.world_size, gaps=tuple(g for d in t.digests for g in d.gaps), notes=tuple(notes),
    )  # fmt: skip
