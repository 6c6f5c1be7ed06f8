"""Sightings to quoted evidence.

Belongs here: which lines are cited, in which order, with which limits. Must not be here: redaction, layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from rootrank.infer.match import Hypothesis, order_key
from rootrank.infer.select import DERIVED, linked
from rootrank.model import Evidence, Sighting, SpeaksOf

MAX_TEXT = 4096
MAX_EVIDENCE = 8
_ABSENCE = frozenset({"missing", "silent-first", "stalled", "finished-early"})
_TREND = frozenset({"drop", "spike", "falling", "creeping", "nan-first"})


def iso(time_s: float | None) -> str | None:
    """Return "2026-08-20T03:12:44.102Z" or None."""
    if time_s is None:
        return None
    try:
        return (
            datetime.fromtimestamp(time_s, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.")
            + f"{int(time_s * 1000) % 1000:03d}Z"
        )
    except (OverflowError, ValueError, OSError):
        return None


def quote(s: Sighting, role: str, limits: str | None = None) -> Evidence:
    """Return one sighting as evidence; derived ones say their sentence and cite what they rest on."""
    derived = s.kind in DERIVED
    kind = (
        "absence"
        if s.kind in _ABSENCE
        else "trend"
        if s.kind in _TREND
        else "comparison"
        if derived
        else "line"
    )
    lines = s.quotes or tuple(
        str(s.get("message", "")).split("\n")[1:4]
    )  # what a message goes on with
    return Evidence(
        kind=kind, source=s.source, line=s.line, end_line=max(s.end_line, s.line), text=s.text[:MAX_TEXT], count=s.count,
        says=str(s.get("says")) if derived else None, lines=tuple(q[:MAX_TEXT] for q in lines[:8]), rank=s.origin.rank,
        host=s.origin.host, time=iso(s.time_s), role=role, limits=limits or None,
    )  # fmt: skip


def evidence_of(h: Hypothesis, everything: Sequence[Sighting]) -> tuple[Evidence, ...]:
    """Return the decisive line first, then what else the entry matched, then the links of an exception chain."""
    out = [quote(h.anchor, "initiating", h.signal.limits if h.signal else None)]
    seen = {id(h.anchor)}
    if h.entry is not None:
        rank_of_role = {"initiating": 0, "confirming": 1, "downstream": 2, "context": 3}
        for g in sorted(h.entry.signals, key=lambda g: rank_of_role.get(g.role, 4)):
            for s in sorted(h.matched.get(g.name, ()), key=order_key)[
                : 2 if g.role != "context" else 1
            ]:
                if id(s) not in seen and len(out) < MAX_EVIDENCE:
                    seen.add(id(s))
                    out.append(quote(s, g.role, g.limits))
    for s in everything:
        if id(s) not in seen and _inside(s, h.anchor) and len(out) < MAX_EVIDENCE:
            seen.add(id(s))
            out.insert(min(2, len(out)), quote(s, "confirming"))
        elif (
            id(s) not in seen
            and s.kind == "exception"
            and s.source == h.anchor.source
            and s is not h.anchor
            and _chained(s, h.anchor)
        ):
            seen.add(id(s))
            out.insert(min(2, len(out)), quote(s, "confirming"))
            if len(out) >= MAX_EVIDENCE:
                break
    return tuple(out)


def _inside(s: Sighting, anchor: Sighting) -> bool:
    """Return True when a sighting stands on a line of the anchor's own message."""
    if s.source != anchor.source or s.speaks_of is SpeaksOf.TEARDOWN:
        return False
    behind = 1 if s.kind == "orchestrator" else 0  # Ray says the reason one line further on
    return anchor.line < s.line <= anchor.end_line + behind


def _chained(a: Sighting, b: Sighting) -> bool:
    return (
        (bool(a.get("chain")) or bool(b.get("chain")))
        and a.origin.rank == b.origin.rank
        and linked(a, b)
    )
