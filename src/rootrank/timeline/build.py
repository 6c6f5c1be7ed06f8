"""Digests to one timeline: who, in which order, and what comparing the lanes shows.

Belongs here: resolution of names, folding of copies, order, attempts. Must not be here: entries and causes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rootrank.model import UNKNOWN, Digest, Lane, Place, Progress, Sighting, SpeaksOf, Timeline
from rootrank.timeline.derive import derive
from rootrank.timeline.identity import Names

_LETTERS = re.compile(r"[^A-Za-z0-9]+")
_PREFIXES = re.compile(
    r"^(?:\[[\w.]+\d+\]:\s?|\s*\d{1,5}: |\(\w+ pid=\d+[^)]*\)\s?|\[\d+,\d+\](?:<\w+>)?:)+"
)


def build(digests: Sequence[Digest], as_of_s: float | None = None) -> Timeline:
    """Return the timeline of all digests. Their order does not matter."""
    ordered = tuple(sorted(digests, key=lambda d: d.source))
    names = Names(ordered)
    sightings = [names.resolve_sighting(s) for d in ordered for s in d.sightings]
    sightings = _consequences(sightings)
    sightings = _fold_copies(sightings, ordered)
    sightings.sort(key=_order_key)
    lanes = _lanes(ordered, sightings, names)
    ranks = tuple(sorted(names.ranks | {x.origin.rank for x in lanes if x.origin.rank is not None}))
    stamps = [d.last_time_s for d in ordered if d.last_time_s is not None]
    timeline = Timeline(
        lanes=lanes, sightings=tuple(sightings), derived=(), world_size=_world(names, ranks), ranks=ranks,
        attempts=tuple(sorted({s.origin.attempt for s in sightings if s.origin.attempt is not None})), digests=ordered,
        as_of_s=as_of_s if as_of_s is not None else max(stamps, default=None),
        ordered=_comparable(ordered),
    )  # fmt: skip
    return replace(timeline, derived=derive(timeline))


def _world(names: Names, ranks: tuple[int, ...]) -> int | None:
    stated = names.world_size
    if stated is None:
        return None
    return max(stated, max(ranks) + 1 if ranks else 0)


def _comparable(digests: Sequence[Digest]) -> bool:
    texts = [d for d in digests if d.sightings]
    return len(texts) <= 1 or all(d.first_time_s is not None for d in texts)


def _consequences(sightings: list[Sighting]) -> list[Sighting]:
    """Mark exits that others caused: workers the launcher had to kill, and ranks their own watchdog ended."""
    forced = {s.get("target") for s in sightings if s.kind == "teardown" and s.get("forced")} - {
        None
    }
    watched = [
        s
        for s in sightings
        if s.kind in ("collective-timeout", "watchdog-note") and s.get("library") == "nccl"
    ]
    ranks = {s.origin.rank for s in watched}
    # JAX ends a process whose coordination service reports another task: the abort that follows is that end.
    told = {
        s.source: s.order
        for s in reversed(sightings)
        if s.get("library") == "jax" and s.kind == "peer-loss"
    }
    out = []
    for s in sightings:
        if s.kind == "exit" and s.get("signal") == "SIGKILL" and s.origin.pid in forced:
            s = replace(s, speaks_of=SpeaksOf.TEARDOWN, fields={**s.fields, "forced": True})
        elif (
            s.kind == "exit"
            and s.get("signal") == "SIGABRT"
            and watched
            and (s.origin.rank is None or s.origin.rank in ranks or None in ranks)
        ) or (
            s.kind in ("fatal-signal", "abort")
            and s.get("signal", "SIGABRT") == "SIGABRT"
            and s.order > told.get(s.source, 1 << 62)
        ):
            s = replace(s, speaks_of=SpeaksOf.PEER)
        out.append(s)
    return out


def _order_key(s: Sighting) -> tuple[float, str, int, str]:
    time_s = s.time_s if s.time_s is not None else float("inf")
    return (0.0 if s.time_s is None else time_s, s.source, s.order, s.kind)


def _core(s: Sighting) -> str:
    return _LETTERS.sub(" ", _PREFIXES.sub("", s.text)).strip()[-200:]


def _fold_copies(sightings: list[Sighting], digests: Sequence[Digest]) -> list[Sighting]:
    """Fold the same message of the same process in several sources into one sighting with several places.

    The copy in the source with most writers is kept: there its order against other ranks can be seen.
    """
    width = {d.source: len(d.tails) for d in digests}
    kept: dict[tuple[object, ...], Sighting] = {}
    out: list[Sighting] = []
    for s in sorted(sightings, key=lambda s: (-width.get(s.source, 0), s.source, s.order, s.kind)):
        key = _copy_key(s)
        if key is None:
            out.append(s)
            continue
        old = kept.get(key)
        if old is None or old.source == s.source:
            if old is None:
                kept[key] = s
            else:
                out.append(s)
            continue
        place = Place(source=s.source, line=s.line, offset=s.offset)
        kept[key] = replace(
            old, places=(*old.places, place), time_s=old.time_s if old.time_s is not None else s.time_s,
            origin=old.origin.over(s.origin), fields=_richer(old, s),
            signals=tuple(dict.fromkeys((*old.signals, *s.signals))),
        )  # fmt: skip
    return [*kept.values(), *out]


def _richer(a: Sighting, b: Sighting) -> dict[str, object]:
    return {**b.fields, **{k: v for k, v in a.fields.items() if v not in (None, "", ())}}


def _copy_key(s: Sighting) -> tuple[object, ...] | None:
    if s.origin.rank is not None:
        kind = "exception" if s.kind in ("exception", "log-error") else s.kind
        if s.get("via") == "record":
            return ("exception", s.origin.rank, str(s.get("type")), str(s.get("message"))[:60])
        if kind == "exception":
            return (
                "exception",
                s.origin.rank,
                str(s.get("type")),
                str(s.get("message"))[:60].split("\n")[0],
            )
        return (kind, s.origin.rank, _core(s))
    if s.time_s is not None:
        return (s.kind, s.time_s, _core(s))
    return None


def _lanes(
    digests: Sequence[Digest], sightings: Sequence[Sighting], names: Names
) -> tuple[Lane, ...]:
    """Return one lane per rank, and one per writer whose rank is unknown."""
    found: dict[str, dict[str, list[object]]] = {}

    def slot(key: str) -> dict[str, list[object]]:
        return found.setdefault(key, {"tails": [], "sightings": [], "progress": [], "origin": []})

    for d in digests:
        ranked = {}
        for t in d.tails:
            origin = names.resolve(t.origin, d.source)
            key = lane_key(origin.rank, d.source, t.tag)
            ranked[t.origin.rank] = key
            slot(key)["tails"].append(replace(t, origin=origin))
            slot(key)["origin"].append(origin)
        own = names.by_source.get(d.source)
        by_rank: dict[int | None, list[object]] = {}
        for p in d.progress:
            by_rank.setdefault(p.rank if p.rank is not None else own, []).append(p)
        for rank, samples in by_rank.items():
            slot(lane_key(rank, d.source, ""))["progress"].extend(samples)
    for s in sightings:
        slot(lane_key(s.origin.rank, s.source, ""))["sightings"].append(s)
        slot(lane_key(s.origin.rank, s.source, ""))["origin"].append(s.origin)
    return tuple(
        _lane(key, parts) for key, parts in sorted(found.items(), key=lambda kv: _lane_order(kv[0]))
    )


def lane_key(rank: int | None, source: str, tag: str) -> str:
    """Return the name of a lane: its rank if known, else the writer inside its source."""
    return f"rank {rank}" if rank is not None else f"{source}{' ' + tag if tag else ''}"


def _lane_order(key: str) -> tuple[int, int, str]:
    return (0, int(key[5:]), "") if re.fullmatch(r"rank \d+", key) else (1, 0, key)


def _lane(key: str, parts: dict[str, list[object]]) -> Lane:
    origin = UNKNOWN
    for o in parts["origin"]:
        origin = origin.over(o)  # type: ignore[arg-type]
    tails = tuple(parts["tails"])
    progress = _merge_progress(parts["progress"])  # type: ignore[arg-type]
    times = [t.last_time_s for t in tails if t.last_time_s is not None]  # type: ignore[attr-defined]
    steps = [p.step for p in progress if p.step is not None and p.unit != "bar"]
    return Lane(
        key=key, origin=origin, sightings=tuple(parts["sightings"]), progress=progress, tails=tails,  # type: ignore[arg-type]
        last_time_s=max(times, default=None), last_step=steps[-1] if steps else None,
    )  # fmt: skip


def _merge_progress(samples: list[Progress]) -> tuple[Progress, ...]:
    """Return samples once each: copies in a combined and a rank's own log agree in step, loss and time."""
    seen: dict[tuple[object, ...], Progress] = {}
    for p in samples:
        if p.time_s is not None:
            seen.setdefault((p.time_s, p.step, repr(p.loss), p.unit), p)
        else:
            seen.setdefault((id(p),), p)
    if all(p.time_s is not None for p in seen.values()):
        return tuple(sorted(seen.values(), key=lambda p: (p.time_s or 0.0, p.order)))
    return tuple(seen.values())
