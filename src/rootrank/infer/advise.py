"""From a hypothesis to root causes, missing facts, actions and prevention.

Belongs here: reading the entry's data. Must not be here: advice that no entry gives, except for failures no entry knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from rootrank.infer.match import Hypothesis
from rootrank.infer.quote import evidence_of, quote
from rootrank.knowledge.types import Fix
from rootrank.model import (
    Action,
    Cause,
    Evidence,
    Missing,
    Prevent,
    RootCause,
    Sighting,
    SpeaksOf,
    Status,
)

_SPECIFIC = {
    "exception": "crash",
    "abort": "crash",
    "fatal-signal": "crash",
    "exit": "crash",
    "peer-loss": "hang",
    "collective-timeout": "hang",
}


def cause_of(h: Hypothesis, everything: Sequence[Sighting]) -> Cause:
    """Return the hypothesis as a cause with its evidence and root causes."""
    if h.entry is None:
        return _unknown(h, everything)
    reasons = root_causes(h)
    supported = [r for r in reasons if r.status in (Status.SUPPORTED, Status.ESTABLISHED)]
    e = h.entry
    return Cause(
        entry=e.id, title=_title(h), category=e.category, layer=e.layer, status=h.status,
        root_cause=supported[0] if len(supported) == 1 else None, root_causes=tuple(reasons), owner=e.owner, retry=e.retry, repair=e.repair,
        evidence=evidence_of(h, everything), against=_against(h),
    )  # fmt: skip


def _title(h: Hypothesis) -> str:
    """Return the entry's title; the one that fits any exception says which one it was."""
    assert h.entry is not None
    s = h.anchor
    if s.kind != "exception" or h.specificity > 1 or not s.get("type"):
        return h.entry.title
    first = str(s.get("message", "")).split("\n")[0][:120]
    return f"{h.entry.title}: {s.get('type')}" + (f": {first}" if first else "")


def _unknown(h: Hypothesis, everything: Sequence[Sighting]) -> Cause:
    s = h.anchor
    kind, message = s.get("type"), str(s.get("message") or s.text).split("\n")[0][:160]
    title = f"{kind}: {message}" if kind else message
    user = bool(s.get("user_frame")) and s.get("user_frame") == s.get("innermost")
    return Cause(
        entry=None, title=title or s.text[:160], category=_SPECIFIC.get(s.kind, "crash"), layer="code" if user else "unknown", status=h.status,
        owner="user-code" if user else "unknown", evidence=evidence_of(h, everything),
    )  # fmt: skip


def root_causes(h: Hypothesis) -> list[RootCause]:
    """Return the entry's root causes with what speaks for and against each, supported ones first."""
    assert h.entry is not None
    out = []
    for c in h.entry.causes:
        plus: list[Evidence] = []
        minus: list[Evidence] = []
        for g in h.entry.signals:
            for s in h.matched.get(g.name, ())[:2]:
                if c.id in g.for_:
                    plus.append(quote(s, g.role, g.limits))
                if c.id in g.against:
                    minus.append(quote(s, g.role, g.limits))
        status = (
            Status.SUPPORTED
            if plus and not minus
            else Status.RULED_OUT
            if minus and not plus
            else Status.SUSPECTED
        )
        out.append(
            RootCause(
                id=c.id, text=c.text, status=status, evidence=tuple(plus), against=tuple(minus)
            )
        )
    return sorted(out, key=lambda r: r.status.order)


def _against(h: Hypothesis) -> tuple[Evidence, ...]:
    return ()


def missing_of(h: Hypothesis, cause: Cause) -> tuple[Missing, ...]:
    """Return the facts that would decide what is open: the class first, then the root cause."""
    if h.entry is None:
        return ()
    out: list[Missing] = []
    names = {g.name: g for g in h.entry.signals}
    if h.status is Status.SUSPECTED:
        for name in h.lacking:
            g = names.get(name)
            check = next((c for c in h.entry.causes if c.ask), None)
            out.append(
                Missing(
                    fact=_fact(name, g),
                    decides=(h.entry.id,),
                    command=check.command if check and check.command else None,
                )
            )
    if cause.root_cause is None or h.entry.kind == "symptom":
        # Several reasons may be told apart by one fact: it is asked for once.
        asked: dict[tuple[str, str], list[str]] = {}
        for c in h.entry.causes:
            state = next((r.status for r in cause.root_causes if r.id == c.id), Status.SUSPECTED)
            if c.ask and state is not Status.RULED_OUT:
                asked.setdefault((c.ask, c.command), []).append(c.id)
        for (ask, command), ids in list(asked.items())[:4]:
            out.append(Missing(fact=ask, decides=tuple(ids), command=command or None))
    unique: dict[tuple[str, str | None], Missing] = {}
    for m in out:
        unique.setdefault((m.fact, m.command), m)
    return tuple(unique.values())[:5]


def _fact(name: str, g: object) -> str:
    words = name.replace("-", " ")
    on = getattr(g, "on", None) or getattr(g, "derived", None)
    return f"a sighting of “{words}”" + (f" ({on})" if on else "")


def actions_of(h: Hypothesis, cause: Cause) -> tuple[Action, ...]:
    """Return the fixes: those of the established root cause first, general ones next, of open reasons last."""
    if h.entry is None:
        return _unknown_actions(h)
    root = cause.root_cause.id if cause.root_cause else None
    ruled_out = {r.id for r in cause.root_causes if r.status is Status.RULED_OUT}
    fixes = [f for f in h.entry.fixes if f.cause not in ruled_out]
    if root:
        chosen = [f for f in fixes if f.cause == root] + [f for f in fixes if not f.cause]
        return tuple(_action(f, "") for f in (chosen or fixes)[:5])
    # While the reason is open, what helps in any case comes first; the rest says for which reason it is.
    open_ids = [r.id for r in cause.root_causes if r.status is not Status.RULED_OUT]
    general = [_action(f, "") for f in fixes if not f.cause or len(open_ids) == 1]
    special = [_action(f, f.cause) for f in fixes if f.cause and len(open_ids) > 1]
    return tuple([*general, *special][:5])


def _action(f: Fix, cause: str) -> Action:
    text = f"If it is {cause}: {f.text}" if cause else f.text
    return Action(
        text=text,
        command=f.run or None,
        edit=f.edit or None,
        risk=f.risk or None,
        verify=f.verify or None,
    )


def _unknown_actions(h: Hypothesis) -> tuple[Action, ...]:
    frame = h.anchor.get("user_frame") or h.anchor.get("innermost")
    if not frame:
        return ()
    return (
        Action(
            text=f"Look at {frame}: the last frame outside the libraries.",
            verify="the same step passes on one process",
        ),
    )


def prevents_of(h: Hypothesis) -> tuple[Prevent, ...]:
    """Return the entry's prevention."""
    return tuple(
        Prevent(text=p.text, watch=p.watch or None) for p in (h.entry.prevents if h.entry else ())
    )


def asks_for_more(s: Sighting) -> Missing:
    """Return the request for what stands before and beside a line that alone decides nothing."""
    whose = f"rank {s.origin.rank}" if s.origin.rank is not None else "the process that printed it"
    fact = f"the whole log of {whose} and the logs of the other ranks: {s.source}:{s.line} alone does not say what failed"
    return Missing(fact=fact, decides=("cause",))


def asks_for_first_error(peers: Sequence[Sighting]) -> Missing:
    """Return the fact that is missing when only victims spoke: the first error of the one they name."""
    named = sorted({str(s.get("peer")) for s in peers if s.get("peer")})
    who = (
        f"the process behind {', '.join(named[:3])}"
        if named
        else "the process that the others wait for"
    )
    return Missing(
        fact=f"the log (or, while it hangs, the stack) of {who}: its first own error", decides=("cause",),
        command="py-spy dump --nonblocking --pid PID" if any(s.kind == "collective-timeout" for s in peers) else None,
    )  # fmt: skip


def is_self(s: Sighting) -> bool:
    """Return True when the sighting speaks of its own process."""
    return s.speaks_of is SpeaksOf.SELF
