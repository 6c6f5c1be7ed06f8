"""Choose the leading hypothesis: what is explained by what, what came first, which name fits best.

Belongs here: the ordering rules of the design (cause beats symptom, specific beats general, initiating beats downstream,
earlier beats later, established beats supported). Must not be here: entries by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rootrank.infer.match import Hypothesis, order_key
from rootrank.infer.order import before
from rootrank.model import Sighting, SpeaksOf, Status, words_of

_KIND_ORDER = {"cause": 0, "symptom": 1, "outcome": 2}
# A process that ends says so once more through its launcher; the word adds nothing to what it said itself.
_LAUNCHER_WORDS = frozenset({"exit", "teardown"})
DERIVED = frozenset(
    {
        "stalled",
        "silent-first",
        "missing",
        "finished-early",
        "behind",
        "divergent",
        "identical-on-all",
        "nan-first",
        "drop",
        "spike",
        "falling",
        "creeping",
    }
)


@dataclass(slots=True)
class Choice:
    """The leading hypothesis, its rivals on the same sightings, and what else failed by itself."""

    lead: Hypothesis | None
    rivals: list[Hypothesis] = field(default_factory=list)
    independent: list[Hypothesis] = field(default_factory=list)
    explained: list[tuple[Hypothesis, Hypothesis]] = field(default_factory=list)
    tied: list[Hypothesis] = field(
        default_factory=list
    )  # others whose order against the lead is unknown


def choose(candidates: Sequence[Hypothesis]) -> Choice:
    """Return the choice among all hypotheses."""
    kept = _drop_refined(candidates)
    kept, explained = _explain(kept)
    groups = _by_anchor(kept)
    leads = [_best(g) for g in groups]
    if not leads:
        return Choice(None, explained=explained)
    lead = _before_leftovers(_first(leads), leads)
    group = next(g for g in groups if lead in g)
    rivals = sorted((h for h in group if h is not lead and h.entry is not None), key=_quality)
    others = [h for h in leads if h is not lead]
    tied = [
        h
        for h in others
        if _tier(h) == _tier(lead)
        and before(lead.anchor, h.anchor) is None
        and h.anchor.kind not in DERIVED
    ]
    return Choice(
        lead, rivals, sorted(others, key=lambda h: (_tier(h), order_key(h.anchor))), explained, tied
    )


def _drop_refined(candidates: Sequence[Hypothesis]) -> list[Hypothesis]:
    """A general entry gives way to a specific one that names it and stands on the same sightings."""
    out = []
    for h in candidates:
        gone = any(
            o is not h
            and o.entry is not None
            and h.id in o.entry.match.refines
            and h.id
            and o.status.order <= max(h.status.order, Status.SUPPORTED.order)
            and _same_place(o, h)
            for o in candidates
        )
        if not gone:
            out.append(h)
    return out


def _same_place(a: Hypothesis, b: Hypothesis) -> bool:
    """Two hypotheses speak of one event: same sighting, same chain of exceptions, or same process."""
    mine = [s for group in a.matched.values() for s in group]
    if any(s is b.anchor or linked(s, b.anchor) for s in mine):
        return True
    ra, rb = a.anchor.origin.rank, b.anchor.origin.rank
    if a.anchor.kind in DERIVED or b.anchor.kind in DERIVED:
        return True
    return b.kind != "cause" and (ra is None or rb is None or ra == rb)


def linked(a: Sighting, b: Sighting) -> bool:
    """Return True when one exception was raised from the other, or both are the same words of several processes."""
    if a is b:
        return True
    for x, y in ((a, b), (b, a)):
        chain = x.get("chain", ())
        if chain and x.source == y.source:
            first = str(y.get("message", "")).split("\n")[0][:200]
            if f"{y.get('type')}: {first}" in chain:
                return True
    return words_of(a) == words_of(b) and a.kind == b.kind


def _explain(
    candidates: list[Hypothesis],
) -> tuple[list[Hypothesis], list[tuple[Hypothesis, Hypothesis]]]:
    """Split off hypotheses that another one explains."""
    gone: list[tuple[Hypothesis, Hypothesis]] = []
    kept: list[Hypothesis] = []
    for h in candidates:
        by = next(
            (o for o in candidates if o is not h and explains(o, h) and not explains_back(o, h)),
            None,
        )
        if by is not None:
            gone.append((h, by))
        else:
            kept.append(h)
    return (kept, gone) if kept else (list(candidates), [])


def explains_back(a: Hypothesis, b: Hypothesis) -> bool:
    """Return True when `b` explains `a` too and is at least as good: mutual explanation decides nothing."""
    return explains(b, a) and _quality(b) <= _quality(a)


def explains(a: Hypothesis, b: Hypothesis) -> bool:
    """Return True when hypothesis `a` explains hypothesis `b`."""
    if _too_late(b.anchor, a.anchor) and b.specificity <= 1:
        return True
    if a.status is Status.SUSPECTED and b.status is not Status.SUSPECTED:
        return False
    if a.anchor is b.anchor or _other_machine(a.anchor, b.anchor):
        return False
    if a.entry is not None:
        for edge in a.entry.match.explains:
            if (
                edge.what in (b.id, b.anchor.kind)
                and _edge(edge.on, a.anchor, b.anchor)
                and not (edge.after and before(b.anchor, a.anchor))
            ):
                return True
    return _structural(a, b)


def _other_machine(a: Sighting, b: Sighting) -> bool:
    """A component's record explains nothing on another host."""
    if a.speaks_of is not SpeaksOf.ENVIRONMENT or b.speaks_of is not SpeaksOf.SELF:
        return False
    return bool(a.origin.host and b.origin.host and a.origin.host != b.origin.host)


def _edge(on: str, a: Sighting, b: Sighting) -> bool:
    if on == "any":
        return True
    ra, rb = a.origin.rank, b.origin.rank
    if ra is None or rb is None:
        return on == "same" or (on == "other")
    return (ra == rb) == (on == "same")


def _structural(a: Hypothesis, b: Hypothesis) -> bool:
    """Edges that hold for every failure, whatever its entry."""
    x, y = a.anchor, b.anchor
    if x.kind == "stalled" and y.kind == "scheduler":
        return True  # a hang that a limit or a cancel ended is a hang
    if _too_late(x, y) or (a.kind != "cause" and b.kind == "cause") or (_weak(a) and not _weak(b)):
        return False
    if x.speaks_of is SpeaksOf.SELF and a.kind == "cause" and _own_failure_explains(x, y, b):
        return True
    return _death_explains(a, b) or (linked(x, y) and a.specificity > b.specificity)


def _own_failure_explains(x: Sighting, y: Sighting, b: Hypothesis) -> bool:
    """A process's own failure explains what others say, what comparing shows, and how that process then ended."""
    if y.speaks_of in (SpeaksOf.PEER, SpeaksOf.TEARDOWN):
        return not (y.kind == "scheduler" and before(y, x))
    if (b.kind == "symptom" or y.kind in DERIVED) and x.kind not in DERIVED:
        return y.kind not in ("nan-first", "falling")
    if x.kind not in _LAUNCHER_WORDS and _end_of_process(y):
        return True
    # What no entry knows and the same process prints no earlier is its debris.
    debris = b.entry is None and y.kind in ("abort", "fatal-signal", "log-error", "cuda-error")
    loud = y.kind == "log-error" and x.kind in ("exception", "abort", "fatal-signal")
    return debris and not before(y, x) and (loud or _same_process(x, y))


def _end_of_process(y: Sighting) -> bool:
    """The launcher's or the shell's word that a process ended."""
    return y.kind in _LAUNCHER_WORDS or (y.kind == "fatal-signal" and y.get("by") == "shell")


def _death_explains(a: Hypothesis, b: Hypothesis) -> bool:
    """A death by signal explains other exit codes and what peers say; a known failure explains who is missing."""
    x, y = a.anchor, b.anchor
    if x.speaks_of is not SpeaksOf.SELF:
        return False
    if x.kind == "exit" and y.kind in _LAUNCHER_WORDS and x.get("signal") and not y.get("signal"):
        return True
    if a.kind == "outcome" and y.speaks_of is SpeaksOf.PEER and x.get("signal"):
        return True
    return y.kind == "missing" and a.kind in ("cause", "outcome")


def _too_late(x: Sighting, y: Sighting) -> bool:
    """An error that a process raises after its own collective had timed out is no reason for the timeout."""
    if y.kind != "collective-timeout" or x.kind not in ("exception", "abort", "fatal-signal"):
        return False
    mine = x.origin.rank is None or x.origin.rank == y.origin.rank
    return mine and x.source == y.source and x.order > y.order


def _same_process(a: Sighting, b: Sighting) -> bool:
    if a.origin.rank is not None and b.origin.rank is not None:
        return a.origin.rank == b.origin.rank
    return a.source == b.source


def _by_anchor(candidates: Sequence[Hypothesis]) -> list[list[Hypothesis]]:
    """Group hypotheses that are names for the same event."""
    groups: list[list[Hypothesis]] = []
    for h in candidates:
        for g in groups:
            if any(o.anchor is h.anchor or linked(o.anchor, h.anchor) for o in g):
                g.append(h)
                break
        else:
            groups.append([h])
    return groups


def _quality(h: Hypothesis) -> tuple[int, int, int, int, str]:
    # What a line states outranks a narrower reading of it; that one says so by refining, and the general one is gone.
    return (
        h.status is Status.SUSPECTED,
        _KIND_ORDER[h.kind],
        h.status.order,
        -h.specificity,
        h.id,
    )


def _best(group: list[Hypothesis]) -> Hypothesis:
    """Return the best name for one event, on its earliest sighting."""
    return min(group, key=lambda h: (h.entry is None, *_quality(h)))


def _tier(h: Hypothesis) -> tuple[int, int]:
    """Smaller leads: causes of the job, then symptoms, outcomes, warnings; suspicions behind each."""
    s = h.anchor
    if s.speaks_of is SpeaksOf.ENVIRONMENT:
        rank = 6
    elif s.speaks_of is SpeaksOf.PEER and s.kind not in DERIVED:
        rank = 4 if h.entry is None else {"cause": 1, "symptom": 2}.get(h.kind, 4)
    elif s.kind == "log-error" and h.entry is None:
        rank = 5
    elif _weak(h) or _half_found(h):
        rank = 4
    elif h.kind == "cause" and s.kind not in DERIVED and s.kind != "exit":
        rank = 0
    elif s.kind in DERIVED:
        rank = 1 if h.kind in ("cause", "symptom") else 3
    elif s.speaks_of is SpeaksOf.SELF and (
        s.kind in ("abort", "fatal-signal") or (s.kind == "exit" and s.get("signal"))
    ):
        rank = 1
    elif s.speaks_of is SpeaksOf.TEARDOWN:
        rank = 3
    elif h.kind == "symptom":
        rank = 2
    else:
        rank = 4
    return (rank, 1 if h.status is Status.SUSPECTED and rank < 5 else 0)


def _weak(h: Hypothesis) -> bool:
    """A traceback without its last line says that, not what; a bare "XError:" line may be any program's word."""
    s = h.anchor
    if s.kind in ("log-error", "nccl-warn", "orchestrator") and h.entry is None:
        return True
    return bool(s.get("truncated")) or (
        s.kind == "exception" and not s.get("frames") and h.specificity <= 1
    )


def _half_found(h: Hypothesis) -> bool:
    """A rule that asks for several signals and found only some says what might be, not what ended the job."""
    return h.entry is not None and h.entry.category == "slow" and bool(h.lacking)


def _first(leads: Sequence[Hypothesis]) -> Hypothesis:
    """Return the lead: best tier, then nothing known to be before it, then quality and a stable order."""
    top = min(_tier(h)[0] for h in leads)
    pool = [h for h in leads if _tier(h)[0] == top]
    heads = [
        h
        for h in pool
        if not any(
            o is not h and before(o.anchor, h.anchor) and not _only_suspected(o, h) for o in pool
        )
    ]
    return min(
        heads or pool,
        key=lambda h: (
            _tier(h),
            h.entry is None,
            h.status.order,
            order_key(h.anchor),
            -h.specificity,
            h.id,
        ),
    )


def _before_leftovers(lead: Hypothesis, leads: Sequence[Hypothesis]) -> Hypothesis:
    """A failure that an earlier end of the job leaves behind (a held port, half a checkpoint) gives way to that end."""
    if lead.entry is None or "leftover" not in lead.entry.tags:
        return lead
    earlier = [
        h for h in leads
        if h is not lead and _tier(h)[0] <= 1 and h.status is not Status.SUSPECTED and h.anchor.kind not in DERIVED and before(h.anchor, lead.anchor)
        and "leftover" not in (h.entry.tags if h.entry else ())
    ]  # fmt: skip
    return min(earlier, key=lambda h: (order_key(h.anchor), _tier(h))) if earlier else lead


def _only_suspected(a: Hypothesis, b: Hypothesis) -> bool:
    return a.status is Status.SUSPECTED and b.status is not Status.SUSPECTED


def downgrade(h: Hypothesis, status: Status) -> Hypothesis:
    """Return `h` with a status no stronger than `status`."""
    return h if h.status.order >= status.order else replace(h, status=status)
