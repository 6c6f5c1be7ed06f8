"""What comparing lanes shows: who is missing, behind, different, first to NaN; what drops, falls or stalls.

Belongs here: the closed table of derived words (docs/sightings.md), each a small function. Must not be here: causes.
A derived sighting cites the lines that it rests on (`quotes`) and says its sentence in `fields["says"]`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from rootrank.model import (
    Lane,
    Origin,
    Progress,
    Sighting,
    SpeaksOf,
    Timeline,
    fold_ranks,
    words_of,
)
from rootrank.timeline import series, waitgraph

COMPLAINTS = frozenset({"collective-timeout", "peer-loss", "watchdog-note"})
_SELF_KINDS = frozenset(
    {"exception", "abort", "fatal-signal", "cuda-error", "oom-kill", "device-assert", "desync"}
)


def derive(t: Timeline) -> tuple[Sighting, ...]:
    """Return all derived sightings of a timeline, in a fixed order."""
    out: list[Sighting] = []
    for rule in (
        _flight,
        _identical,
        _missing,
        _finished_early,
        _behind_seq,
        _behind_step,
        _divergent,
        _odd_stack,
        _shapes,
        _stalled,
    ):
        out.extend(rule(t))
    return tuple(out)


def _make(
    kind: str,
    says: str,
    rest: Sequence[Sighting | Progress],
    ranks: Sequence[int] = (),
    t: Timeline | None = None,
    **fields: Any,
) -> Sighting:
    """Return a derived sighting that rests on `rest`; the last of them is its place."""
    last = rest[-1] if rest else None
    source = ""
    if isinstance(last, Sighting):
        source = last.source
    elif last is not None and t is not None:
        source = _source_of(t, last)
    text = "" if last is None else last.text
    origin = Origin(rank=ranks[0]) if len(ranks) == 1 else Origin()
    return Sighting(
        kind=kind, speaks_of=SpeaksOf.SELF, source=source, line=last.line if last else 0, end_line=last.line if last else 0,
        offset=last.offset if last else 0, text=text, origin=origin, time_s=last.time_s if last else None, order=last.order if last else 0,
        fields={"says": says, "ranks": tuple(ranks), **{k: v for k, v in fields.items() if v is not None}},
        quotes=tuple(x.text for x in rest[:8]),
    )  # fmt: skip


def _source_of(t: Timeline, p: Progress) -> str:
    return next(
        (d.source for d in t.digests if p in d.progress), t.digests[0].source if t.digests else ""
    )


def _known(t: Timeline) -> set[int]:
    ranks = set(t.ranks)
    if t.world_size is not None and t.world_size <= 100_000:
        ranks |= set(range(t.world_size)) if len(ranks) >= max(2, t.world_size // 2) else set()
    return ranks


def _identical(t: Timeline) -> list[Sighting]:
    """The same words from every rank: nobody was first, the cause is common."""
    known = _known(t)
    if len(known) < 2:
        return []
    groups: dict[str, dict[int, Sighting]] = {}
    for s in t.sightings:
        if (
            (s.kind in _SELF_KINDS or (s.kind == "exit" and s.get("signal")))
            and s.speaks_of is SpeaksOf.SELF
            and s.origin.rank is not None
        ):
            groups.setdefault(words_of(s), {}).setdefault(s.origin.rank, s)
    out = []
    for group in groups.values():
        if set(group) >= known:
            rest = [group[r] for r in sorted(group)]
            out.append(
                _make(
                    "identical-on-all",
                    f"all {len(group)} ranks failed with the same words",
                    rest,
                    sorted(group),
                    op=rest[0].kind,
                )
            )
    return out


def _flight(t: Timeline) -> list[Sighting]:
    """Flight records compared: whose absence, or difference, everybody waits for."""
    records = [s for s in t.sightings if s.kind == "flight-record"]
    out = []
    for f in waitgraph.findings(records):
        order = {r: n for n, r in enumerate(f.ranks)}
        rest = sorted(
            (s for s in records if s.origin.rank is not None),
            key=lambda s: (s.origin.rank not in order, s.origin.rank or 0),
        )
        shown = [*rest[len(order) : len(order) + 2], *rest[: max(1, len(order))][:4]]
        out.append(_make(f.kind, f.says, shown, f.ranks, t, **f.fields))
    return out


def _missing(t: Timeline) -> list[Sighting]:
    """Of the ranks that are known to exist only these neither complained of a peer nor failed themselves."""
    known = _known(t)
    complainers: dict[int, Sighting] = {}
    spoke: set[int] = set()
    for s in t.sightings:
        r = s.origin.rank
        if r is None:
            continue
        if s.kind in COMPLAINTS:
            complainers.setdefault(r, s)
        elif (
            s.speaks_of is SpeaksOf.SELF and (s.kind in _SELF_KINDS or s.kind == "nccl-warn")
        ) or (s.kind == "exit" and s.speaks_of is SpeaksOf.SELF and s.get("signal")):
            spoke.add(r)
    lost = sorted(known - set(complainers) - spoke)
    if not complainers or not lost or spoke - set(complainers):
        return []
    if len(lost) > max(1, len(complainers)) or (len(complainers) < 2 and len(known) > 2):
        return []
    lines = [_last_words(t, r) for r in lost[:4]]
    sample = [complainers[r] for r in sorted(complainers)[:3]]
    rest: list[Any] = [*sample, *[x for x in lines if x is not None]]
    forced = _forced(t, lost)
    says = f"rank{'s' if len(lost) > 1 else ''} {fold_ranks(lost)} never complained; rank{'s' if len(complainers) > 1 else ''} {fold_ranks(complainers)} waited in vain"
    op = Counter(s.kind for s in complainers.values()).most_common(1)[0][0]
    return [
        _make(
            "missing",
            says,
            rest,
            lost,
            t,
            op=op,
            waiting=tuple(sorted(complainers)),
            forced=forced or None,
        )
    ]


def _last_words(t: Timeline, rank: int) -> Sighting | None:
    lane = next((x for x in t.lanes if x.origin.rank == rank), None)
    if lane is None or not lane.tails:
        return None
    tail = max(lane.tails, key=lambda x: (x.last_time_s or 0.0, x.last_order))
    source = next(
        (
            d.source
            for d in t.digests
            if any(
                x.tag == tail.tag
                and x.last_line == tail.last_line
                and x.last_text == tail.last_text
                for x in d.tails
            )
        ),
        "",
    )
    return Sighting(
        kind="line", speaks_of=SpeaksOf.SELF, source=source, line=tail.last_line, end_line=tail.last_line, offset=tail.last_order,
        text=tail.last_text, origin=tail.origin, time_s=tail.last_time_s, order=tail.last_order,
    )  # fmt: skip


def _forced(t: Timeline, ranks: Sequence[int]) -> bool:
    pids = {x.origin.pid for x in t.lanes if x.origin.rank in ranks and x.origin.pid is not None}
    return any(
        s.kind == "teardown"
        and s.get("forced")
        and (s.get("target") in pids or s.origin.rank in ranks)
        for s in t.sightings
    )


def _finished_early(t: Timeline) -> list[Sighting]:
    """A rank said that it was done (or left without failing) while others still needed it."""
    done = {
        s.origin.rank: s for s in t.sightings if s.kind == "completed" and s.origin.rank is not None
    }
    waiting = {
        s.origin.rank: s for s in t.sightings if s.kind in COMPLAINTS and s.origin.rank is not None
    }
    early = sorted(r for r in done if r not in waiting)
    if not early or not waiting:
        return []
    says = f"rank {fold_ranks(early)} finished while rank {fold_ranks(waiting)} still communicated"
    return [
        _make(
            "finished-early",
            says,
            [*(done[r] for r in early[:4]), *list(waiting.values())[:3]],
            early,
            t,
        )
    ]


def _behind_seq(t: Timeline) -> list[Sighting]:
    """The rank whose last enqueued collective is oldest never launched what the others wait for."""
    groups: dict[str, dict[int, Sighting]] = {}
    for s in t.sightings:
        if (
            s.kind in COMPLAINTS
            and isinstance(s.get("last_enqueued"), int)
            and s.origin.rank is not None
            and s.get("last_enqueued") >= 0
        ):
            groups.setdefault(str(s.get("group", "")), {}).setdefault(s.origin.rank, s)
    out = []
    for name, by_rank in groups.items():
        values = {r: int(s.get("last_enqueued")) for r, s in by_rank.items()}
        if len(values) < 2 or len(set(values.values())) < 2:
            continue
        low, high = min(values.values()), max(values.values())
        late = sorted(r for r, v in values.items() if v == low)
        if len(late) * 2 > len(values) and len(values) > 2:
            continue
        if _runs_another(t, late):
            continue  # it is not late: it waits in another collective, and the numbers count apart
        says = f"rank {fold_ranks(late)} last enqueued collective {low}, the others {high}" + (
            f" (group {name})" if name else ""
        )
        out.append(
            _make(
                "behind",
                says,
                [by_rank[r] for r in (*late[:2], next(r for r, v in values.items() if v == high))],
                late,
                t,
                metric="seq",
                **{"from": low, "to": high},
                group=name or None,
            )
        )
    return out


def _ops(t: Timeline) -> dict[int, str]:
    """Return the operation in which each rank's watchdog timed out; gloo's send and recv tell a ring position only."""
    out: dict[int, str] = {}
    for s in t.sightings:
        if (
            s.kind == "collective-timeout"
            and s.origin.rank is not None
            and s.get("library") != "gloo"
            and s.get("op")
        ):
            out.setdefault(s.origin.rank, str(s.get("op")))
    return out


def _runs_another(t: Timeline, ranks: Sequence[int]) -> bool:
    ops = _ops(t)
    mine = {ops[r] for r in ranks if r in ops}
    return bool(mine) and not mine & {op for r, op in ops.items() if r not in ranks}


def _behind_step(t: Timeline) -> list[Sighting]:
    """Ranks that log their steps ended at different ones, by more than the one step a crash explains."""
    last: dict[int, Progress] = {}
    for lane in t.lanes:
        if lane.origin.rank is not None:
            steps = [
                p for p in lane.progress if p.step is not None and p.unit not in ("bar", "epoch")
            ]
            if steps:
                last[lane.origin.rank] = steps[-1]
    if len(last) < 2:
        return []
    values = Counter(p.step for p in last.values())
    usual, n = values.most_common(1)[0]
    low = sorted(
        r for r, p in last.items() if p.step is not None and usual is not None and p.step < usual
    )
    gap = max((usual or 0) - (last[r].step or 0) for r in low) if low else 0
    if not low or gap < 2 or len(low) > n:
        return []
    says = f"rank {fold_ranks(low)} ended at step {last[low[0]].step}, the others at {usual}"
    other = next(p for p in last.values() if p.step == usual)
    return [
        _make(
            "behind",
            says,
            [other, *[last[r] for r in low[:4]]],
            low,
            t,
            metric="step",
            **{"from": last[low[0]].step, "to": usual},
        )
    ]


def _place(s: Sighting) -> str:
    """Return where a waiting rank stands: its user frame and call."""
    return f"{s.get('user_frame') or s.get('innermost') or ''}|{s.get('innermost') or ''}"


def _divergent(t: Timeline) -> list[Sighting]:
    """All wait, but the minority waits at another call, operation or size than the majority."""
    out: list[Sighting] = []
    waits = [s for s in t.sightings if s.kind in COMPLAINTS and s.origin.rank is not None]
    for metric, value in (("frame", _place), ("op", lambda s: str(s.get("op") or ""))):
        by_rank: dict[int, Sighting] = {}
        for s in waits:
            if metric == "op" and s.get("library") == "gloo":
                continue  # send or recv tells the position in the ring, not the call
            if value(s).strip("|") and s.origin.rank is not None:
                by_rank.setdefault(s.origin.rank, s)
        if len(by_rank) < 3:
            if (
                metric == "op"
                and len(by_rank) == 2
                and len({value(s) for s in by_rank.values()}) == 2
            ):
                a, b = (by_rank[r] for r in sorted(by_rank))
                says = (
                    f"the two ranks waited in different operations: {a.get('op')} and {b.get('op')}"
                )
                out.append(_make("divergent", says, [a, b], (), t, metric="op", op=a.get("op")))
            continue
        votes = Counter(value(s) for s in by_rank.values())
        (top, n), *others = votes.most_common()
        odd = sorted(r for r, s in by_rank.items() if value(s) != top)
        if not others or len(odd) * 2 >= len(by_rank):
            continue
        usual = next(s for s in by_rank.values() if value(s) == top)
        says = f"rank {fold_ranks(odd)} waited at another {'call' if metric == 'frame' else 'operation'} than the other {n}"
        out.append(
            _make(
                "divergent",
                says,
                [usual, *[by_rank[r] for r in odd[:3]]],
                odd,
                t,
                metric=metric,
                frame=by_rank[odd[0]].get("user_frame"),
                op=by_rank[odd[0]].get("op"),
            )
        )
        break
    return out


def _odd_stack(t: Timeline) -> list[Sighting]:
    """Of many stacks the few main threads outside a collective are the ones the others wait for."""
    mains = [
        s
        for s in t.sightings
        if s.kind == "stack"
        and str(s.get("thread", "")) in ("MainThread", "")
        and s.get("wait") != "data-worker"
    ]
    inside = [s for s in mains if s.get("wait") == "collective"]
    odd = [s for s in mains if s.get("wait") != "collective"]
    if not inside or not odd or len(odd) > len(inside):
        return []
    ranks = sorted({s.origin.rank for s in odd if s.origin.rank is not None})
    says = f"{len(odd)} process{'es' if len(odd) > 1 else ''} outside a collective while {len(inside)} wait in one"
    from dataclasses import replace

    made = _make(
        "divergent",
        says,
        [*inside[:1], *odd[:3]],
        ranks,
        t,
        metric="stack",
        op=odd[0].get("wait"),
        frame=odd[0].get("op"),
    )
    return [
        replace(
            made,
            origin=odd[0].origin if len(odd) == 1 else made.origin,
            quotes=(odd[0].text, *odd[0].quotes, inside[0].text, *inside[0].quotes),
        )
    ]


def _shapes(t: Timeline) -> list[Sighting]:
    out: list[Sighting] = []
    nans: list[tuple[int | None, series.Shape]] = []
    for lane in t.lanes:
        rank = lane.origin.rank
        for rule, word in (
            (series.drop, "drop"),
            (series.falling, "falling"),
            (series.diverging, "spike"),
        ):
            shape = rule(lane.progress)
            if shape and (rank in (None, 0) or not out):
                out.append(_shape(t, word, shape, lane))
        found = series.nan(lane.progress)
        if found:
            nans.append((rank, found))
    if nans:
        step = min(x.last.step if x.last.step is not None else 1 << 60 for _, x in nans)
        first = [
            (r, x) for r, x in nans if (x.last.step if x.last.step is not None else 1 << 60) == step
        ]
        ranks = sorted(r for r, _ in first if r is not None)
        shape = first[0][1]
        out.append(
            _make(
                "nan-first",
                f"the loss is not finite from step {shape.last.step} on"
                + (f", first on rank {fold_ranks(ranks)}" if ranks else ""),
                [shape.first, shape.last],
                ranks,
                t,
                metric="loss",
                firm=True,
            )
        )
    return out


def _shape(t: Timeline, word: str, s: series.Shape, lane: Lane) -> Sighting:
    says = f"{s.metric.replace('_s', ' seconds')} went from {s.before:g} to {s.after:g} and stayed there"
    # A job-wide number is printed by one rank; it says nothing of which rank is slow.
    return _make(
        word,
        says,
        [s.first, s.last],
        (),
        t,
        metric=s.metric,
        **{"from": s.before, "to": s.after},
        firm=s.firm or None,
    )


def _stalled(t: Timeline) -> list[Sighting]:
    """Progress stopped long before somebody ended the job (or before --as-of), by this run's own rhythm.

    Later lines alone are no stall: what a job prints between steps is its own affair.
    """
    if any(s.kind == "completed" for s in t.sightings):
        return []
    until = _ended_at(t)
    for lane in t.lanes if until is not None else ():
        timed = [p for p in lane.progress if p.time_s is not None]
        if len(timed) < 4 or until is None:
            continue
        gaps = sorted(
            b.time_s - a.time_s
            for a, b in itertools.pairwise(timed)
            if b.time_s is not None and a.time_s is not None
        )
        usual = max(gaps[len(gaps) // 2], 1.0)
        silent = until - (timed[-1].time_s or 0.0)
        if silent > max(20 * usual, 3 * gaps[-1], 300.0):
            says = f"no progress for {silent:.0f} s where a step took {usual:.1f} s"
            return [_make("stalled", says, [timed[-1]], (), t, metric="step", silent_s=silent)]
    return []


def _ended_at(t: Timeline) -> float | None:
    """Return when somebody ended the job: the scheduler or a launcher; or the --as-of that was given."""
    stamps = [d.last_time_s for d in t.digests if d.last_time_s is not None]
    if t.as_of_s is not None and t.as_of_s > max(stamps, default=t.as_of_s):
        return t.as_of_s
    last = {d.source: d.last_time_s for d in t.digests}
    ends = [
        s.time_s or _stamp_in(s) or last.get(s.source)
        for s in t.sightings
        if s.kind in ("scheduler", "teardown") and s.speaks_of is SpeaksOf.TEARDOWN
    ]
    return min((e for e in ends if e is not None), default=None)


def _stamp_in(s: Sighting) -> float | None:
    """Return the time that slurmstepd writes inside its line: "CANCELLED AT 2026-03-01T05:58:00"."""
    m = re.search(r" AT (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", s.text)
    if not m:
        return None
    return datetime.fromisoformat(m[1]).replace(tzinfo=timezone.utc).timestamp()
