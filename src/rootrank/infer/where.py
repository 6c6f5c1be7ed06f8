"""Who failed first, and how far that is known.

Belongs here: extent, rank, basis. Must not be here: guesses; what several writers share has no rank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rootrank.infer.match import Hypothesis
from rootrank.infer.order import before
from rootrank.infer.quote import iso
from rootrank.infer.select import DERIVED
from rootrank.model import Initiating, Sighting, SpeaksOf, Timeline, fold_ranks, words_of

_BASIS = {
    "missing": "absent",
    "silent-first": "absent",
    "stalled": "absent",
    "finished-early": "absent",
    "behind": "behind",
    "divergent": "different",
    "nan-first": "different",
}
_RECORDS = frozenset({"host-state", "oom-kill", "scheduler", "orchestrator", "kernel", "xid"})
_GPU_KINDS = frozenset({"xid", "gpu-health"})


def initiating(h: Hypothesis, t: Timeline, alive: Sequence[Sighting]) -> Initiating | None:
    """Return who failed first, or None when only peers and teardown spoke and nobody is singled out."""
    s = h.anchor
    if s.kind in DERIVED:
        return _derived(s, t)
    who = _singled_out(h)
    if s.speaks_of is SpeaksOf.PEER and s.get("absent") is not None:
        named = sorted({int(x) for x in re.findall(r"\d+", str(s.get("absent")))})
        one = len(named) == 1
        return _at(
            s,
            kind="rank",
            extent="one" if one else "some",
            rank=named[0] if one else None,
            ranks=fold_ranks(named),
            basis="absent",
        )
    if s.speaks_of is SpeaksOf.PEER:
        return _derived(who, t) if who is not None else None
    if s.kind == "scheduler" and s.speaks_of is SpeaksOf.TEARDOWN:
        return _at(s, kind="external", extent="unknown")
    if s.speaks_of is SpeaksOf.TEARDOWN:
        return None
    if s.kind == "desync":
        return _desync(h, t)
    if s.kind in _RECORDS and s.origin.rank is None and (joined := _rank_beside(h)) is not None:
        return _at(s, kind="rank", extent="one", rank=joined, basis="joined")
    if s.speaks_of is SpeaksOf.ENVIRONMENT:
        joined = s.origin.rank
        kind = "gpu" if s.kind in _GPU_KINDS else "link" if s.kind == "sxid" else "host"
        if joined is not None:
            return _at(s, kind="rank", extent="one", rank=joined, basis="joined")
        return _at(s, kind=kind, extent="unknown")
    return _spoken(h, t, alive, who)


def with_absent_rank(
    who: Initiating | None, lead: Hypothesis, explained: Sequence[tuple[Hypothesis, Hypothesis]]
) -> Initiating | None:
    """Return `who` with the rank whose absence a host's or device's record explains, when that is one rank."""
    if who is None or who.rank is not None or lead.anchor.speaks_of is not SpeaksOf.ENVIRONMENT:
        return who
    absent = {
        h.anchor.origin.rank for h, by in explained if by is lead and h.anchor.kind in DERIVED
    } - {None}
    if len(absent) != 1:
        return who
    rank = next(iter(absent))
    return replace(who, kind="rank", extent="one", rank=rank, ranks=str(rank), basis="joined")


def _rank_beside(h: Hypothesis) -> int | None:
    """Return the one rank that the entry's other own sightings name, when the deciding record names none."""
    roles = {g.name: g.role for g in h.entry.signals} if h.entry else {}
    ranks = {
        s.origin.rank
        for name, group in h.matched.items()
        if roles.get(name) in ("initiating", "confirming")
        for s in group
        if s.speaks_of is SpeaksOf.SELF and s.kind not in DERIVED
    } - {None}
    return next(iter(ranks)) if len(ranks) == 1 else None


def _at(
    s: Sighting,
    *,
    kind: str,
    extent: str,
    rank: int | None = None,
    ranks: str | None = None,
    basis: str = "spoke",
) -> Initiating:
    one = extent == "one"
    return Initiating(
        kind=kind, extent=extent, rank=rank, ranks=ranks if ranks else (str(rank) if rank is not None else None),
        local_rank=s.origin.local_rank if one or rank is None else None, pid=s.origin.pid if one or extent == "unknown" else None, host=s.origin.host,
        device=s.origin.device, group=s.get("group"), basis=basis, attempt=s.origin.attempt or 0, time=iso(s.time_s), source=s.source or None,
        line=s.line or None,
    )  # fmt: skip


def _derived(s: Sighting, t: Timeline) -> Initiating:
    ranks = [r for r in s.get("ranks", ()) if isinstance(r, int)]
    basis = _BASIS.get(s.kind, "spoke")
    if s.kind == "identical-on-all":
        return _at(s, kind="job", extent="all", ranks=fold_ranks(ranks))
    if len(ranks) == 1:
        return _at(s, kind="rank", extent="one", rank=ranks[0], basis=basis)
    if ranks:
        host = _common_host(ranks, t)
        return _at(
            s,
            kind="host" if host else "rank",
            extent="all" if len(ranks) == len(t.ranks) else "some",
            ranks=fold_ranks(ranks),
            basis=basis,
        )
    kind = "process" if s.origin.pid is not None else "job"
    return _at(
        s,
        kind=kind,
        extent="one" if s.origin.pid is not None else "unknown",
        rank=s.origin.rank,
        basis=basis,
    )


def _common_host(ranks: Sequence[int], t: Timeline) -> str | None:
    hosts = {x.origin.host for x in t.lanes if x.origin.rank in ranks}
    return next(iter(hosts)) if len(hosts) == 1 and None not in hosts else None


def _desync(h: Hypothesis, t: Timeline) -> Initiating:
    ranks = sorted(
        {
            r
            for group in h.matched.values()
            for s in group
            if s.kind == "desync"
            for r in s.get("ranks", ())
            if isinstance(r, int)
        }
    )
    s = h.anchor
    known = set(t.ranks) | set(ranks)
    one_report = any(
        s.get("seq") for group in h.matched.values() for s in group if s.kind == "desync"
    )
    if ranks and one_report and len(ranks) * 2 >= max(len(known), t.world_size or 0):
        # One against one: the report calls the rank behind the lagging one; the extra call may be the other's.
        return _at(s, kind="job", extent="unknown", basis="different")
    if len(ranks) == 1:
        return _at(s, kind="rank", extent="one", rank=ranks[0], basis="behind")
    return _at(
        s,
        kind="rank" if ranks else "job",
        extent="some" if ranks else "unknown",
        ranks=fold_ranks(ranks) or None,
        basis="behind",
    )


def _singled_out(h: Hypothesis) -> Sighting | None:
    """Return the derived sighting that names ranks, best first: absence, then sequence, then difference."""
    found = [
        s for group in h.matched.values() for s in group if s.kind in _BASIS and s.get("ranks")
    ]
    order = list(_BASIS)
    return min(found, key=lambda s: order.index(s.kind)) if found else None


def _spoken(
    h: Hypothesis, t: Timeline, alive: Sequence[Sighting], who: Sighting | None
) -> Initiating:
    """Return the extent of a failure that its own process told: same words from one, some or all ranks."""
    s = h.anchor
    same = [
        o
        for o in alive
        if o.kind == s.kind and o.speaks_of is s.speaks_of and words_of(o) == words_of(s)
    ]
    ranks = sorted({o.origin.rank for o in same if o.origin.rank is not None})
    unknown = [o for o in same if o.origin.rank is None]
    copies = sum(o.count for o in unknown)
    if len(ranks) == 1 and not (copies > 1):
        return _at(
            s if s.origin.rank is not None else _with_rank(s, same),
            kind="rank",
            extent="one",
            rank=ranks[0],
        )
    if ranks:
        everyone = len(ranks) > 1 and (
            len(ranks) >= len(t.ranks) and len(ranks) >= (t.world_size or 0)
        )
        return _at(
            s,
            kind="job" if everyone else "rank",
            extent="all" if everyone else "some",
            ranks=fold_ranks(ranks),
        )
    implied = _implied(h)
    if implied is not None:
        return _at(s, kind="rank", extent="one", rank=implied, basis="joined")
    named = _rank_beside(h) if not s.get("woven") else None
    if named is None:
        named = _by_launcher(s, t, copies)
    if named is not None:
        return _at(s, kind="rank", extent="one", rank=named, basis="joined")
    return _at(s, kind="process" if copies == 1 else "job", extent="unknown")


def _implied(h: Hypothesis) -> int | None:
    """Return the only rank that can print the anchor, where an entry knows one."""
    for g in h.entry.signals if h.entry else ():
        rank = g.where.get("implies_rank")
        if isinstance(rank, int) and h.anchor in h.matched.get(g.name, ()):
            return rank
    return None


def _with_rank(s: Sighting, same: Sequence[Sighting]) -> Sighting:
    return next((o for o in same if o.origin.rank is not None), s)


def _by_launcher(s: Sighting, t: Timeline, copies: int) -> int | None:
    """Return the rank of the process that the launcher saw die, when that can be the only one that told this failure.

    Either the launcher knows one process only, or one process alone told the failure and the launcher noticed one rank
    first: for crashes that word is nearly always right; for hangs it is not, and there nobody tells anything.
    """
    if s.kind not in ("exception", "abort", "fatal-signal", "cuda-error", "device-assert") or s.get(
        "woven"
    ):
        return None
    ends = [e for e in t.sightings if e.kind in ("exit", "teardown") and e.source == s.source]
    dead = [e for e in ends if e.kind == "exit" and e.speaks_of is SpeaksOf.SELF]
    names = {_rank_of(e) for e in dead}
    others = {e.get("target") for e in ends if e.get("target")} | {
        _rank_of(e) for e in ends if e.kind == "exit"
    }
    if (
        len(names) == 1
        and None not in names
        and len({x for x in others if x not in names and not _is_pid(x)}) == 0
        and len({x for x in others if _is_pid(x)}) <= 1
    ):
        return next(iter(names))
    if copies > 1:
        return None
    first = {e.origin.rank for e in dead if e.get("first_observed")} - {None}
    if len(first) != 1 or any(
        before(e, s) and s.line - e.line > 12 for e in dead if e.origin.rank in first
    ):
        return None
    return next(iter(first))


def _rank_of(e: Sighting) -> int | None:
    """Return the rank a launcher names; of a job with one process its local rank 0 is rank 0."""
    if e.origin.rank is not None:
        return e.origin.rank
    return 0 if e.origin.local_rank == 0 else None


def _is_pid(x: object) -> bool:
    return (isinstance(x, int) and x >= 100_000) or (isinstance(x, int) and x > 2000)
