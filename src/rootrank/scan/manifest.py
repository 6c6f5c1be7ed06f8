"""The manifest of an evidence bundle: who is who on each host, when it was, what could not be had.

Belongs here: reading manifest.json (schema rootrank.bundle/1), which may come from anybody. Must not
be here: the evidence beside it, which its own parsers read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rootrank.model import Digest, Gap, Identity, Line, Origin, Sighting, SpeaksOf
from rootrank.scan.words import sighting

SCHEMA = "rootrank.bundle/1"
MAX_RANKS = 100_000
MAX_GAPS = 200
MOVING_PER_S = 20.0  # the polls of a stuck job (a lock file, a store) are ten a second and fewer
# What else is missing (a GPU on a host without one) makes nothing incomplete.
_GAPS = (
    "host ",
    "state of ",
    "py-spy stack of ",
    "Python stacks",
    "kernel log",
    "room of ",
    "ranks",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a manifest says."""

    started_s: float | None = None
    ended_s: float | None = None
    identities: tuple[Identity, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    gaps: tuple[Gap, ...] = ()


def is_manifest(source: str) -> bool:
    """Return whether a source is named like a bundle's manifest."""
    return source.replace("\\", "/").rsplit("/", 1)[-1] == "manifest.json"


def read(data: bytes, source: str) -> Manifest | None:
    """Return what the manifest of a bundle says; None when it is something else."""
    try:
        top = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(top, dict) or top.get("schema") != SCHEMA:
        return None
    hosts = [h for h in _list(top, "hosts") if isinstance(h, dict)]
    identities: list[Identity] = []
    sightings: list[Sighting] = []
    gaps = _gaps(top, source)
    for host in hosts:
        identities += _identities(host, source)
        sightings += _absent(host, source)
        gaps += _gaps(host, source)
    sightings += _moving(hosts, source)
    return Manifest(
        started_s=_time(top.get("started")),
        ended_s=_time(top.get("ended")),
        identities=tuple(identities[:MAX_RANKS]),
        sightings=tuple(sightings[:1000]),
        gaps=tuple(dict.fromkeys(gaps))[:MAX_GAPS],
    )


def with_manifest(digest: Digest, data: bytes) -> Digest:
    """Return the digest of a manifest with what it says, or as it was when the file is none.

    Its end is the latest time of the bundle: silence is measured up to there.
    """
    found = read(data, digest.source) if is_manifest(digest.source) else None
    if found is None:
        return digest
    return replace(
        digest,
        sightings=found.sightings,
        identities=found.identities,
        progress=(),
        tails=(),
        gaps=(*digest.gaps, *found.gaps),
        first_time_s=found.started_s,
        last_time_s=found.ended_s,
    )


def _list(value: dict[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _count(value: Any) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
    return value if fits else None


def _text(value: Any) -> str | None:
    return value[:300] if isinstance(value, str) and value else None


def _time(value: Any) -> float | None:
    try:
        stamp = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return None
    return stamp.timestamp() if stamp.tzinfo else None


def _identities(host: dict[str, Any], source: str) -> list[Identity]:
    name, world = _text(host.get("host")), _count(host.get("world_size"))
    out = []
    for rank in _list(host, "ranks"):
        if not isinstance(rank, dict):
            continue
        gpus = [g for g in _list(rank, "gpus") if isinstance(g, dict)]
        origin = Origin(
            rank=_count(rank.get("rank")),
            local_rank=_count(rank.get("local_rank")),
            pid=_count(rank.get("pid")),
            host=name,
            device=_text(gpus[0].get("pci")) if len(gpus) == 1 else None,
        )
        out.append(Identity(origin=origin, world_size=world, source=source, line=1))
    return out


def _absent(host: dict[str, Any], source: str) -> list[Sighting]:
    """Return a sighting per rank that had no process: never found, or ended while being looked at."""
    name = _text(host.get("host"))
    out = []
    for n in _list(host, "absent_local_ranks"):
        local = _count(n)
        if local is not None:
            says = (
                f"local rank {local} on {name}: no process, while its launcher and other ranks run"
            )
            out.append(_state(source, Origin(local_rank=local, host=name), "absent", says))
    for rank in _list(host, "ranks"):
        moved = rank.get("movement") if isinstance(rank, dict) else None
        ended = _text(moved.get("ended")) if isinstance(moved, dict) else None
        if ended:
            origin = Origin(rank=_count(rank.get("rank")), pid=_count(rank.get("pid")), host=name)
            says = (
                f"rank {origin.rank} (pid {origin.pid}) on {name}: {ended}, during the collection"
            )
            out.append(_state(source, origin, "ended", says))
    return out


def _moving(hosts: list[dict[str, Any]], source: str) -> list[Sighting]:
    """Return one sighting when every rank moved between the two looks, else none.

    Stacks of ranks that run are taken at slightly different moments: they always differ somewhere.
    """
    ranks = [r for host in hosts for r in _list(host, "ranks") if isinstance(r, dict)]
    if not ranks or any(_list(host, "absent_local_ranks") for host in hosts):
        return []
    if not all(_moved(r.get("movement")) for r in ranks):
        return []
    says = f"all {len(ranks)} ranks moved between two looks"
    line = Line(source=source, number=1, offset=0, raw=says, text=says)
    return [sighting(line, "host-state", SpeaksOf.ENVIRONMENT, state="moving", message=says)]


def _moved(movement: Any) -> bool:
    """Return whether a rank's main thread did different things in the time between.

    Other functions on its stack, or a processor given up so often that it is no slow poll. CPU time
    is no sign of it: a wait for a GPU, and an endless loop, use all they get.
    """
    if not isinstance(movement, dict) or "ended" in movement:
        return False
    if movement.get("main_stack") == "functions":
        return True
    seconds, switched = movement.get("seconds"), movement.get("main_thread")
    if not isinstance(seconds, (int, float)) or seconds <= 0 or not isinstance(switched, dict):
        return False
    count = _count(switched.get("voluntary_ctxt_switches"))
    return count is not None and count / seconds > MOVING_PER_S


def without_moments(digests: Sequence[Digest]) -> list[Digest]:
    """Return the digests without the stacks of bundles whose ranks all moved between the looks."""
    bundles = {
        d.source.rpartition("manifest.json")[0]
        for d in digests
        if is_manifest(d.source) and any(s.get("state") == "moving" for s in d.sightings)
    }
    if not bundles:
        return list(digests)
    return [
        replace(d, sightings=tuple(s for s in d.sightings if not _momentary(s)))
        if any(d.source.startswith(b) for b in bundles)
        else d
        for d in digests
    ]


def _momentary(s: Sighting) -> bool:
    return s.kind == "stack" or (s.kind == "host-state" and s.get("state") == "moving")


def _state(source: str, origin: Origin, state: str, says: str) -> Sighting:
    line = Line(source=source, number=1, offset=0, raw=says, text=says, origin=origin)
    return sighting(line, "host-state", state=state, message=says)


def _gaps(part: dict[str, Any], source: str) -> list[Gap]:
    out = []
    for line in _list(part, "missing"):
        what = _text(line.get("what")) if isinstance(line, dict) else None
        if what and what.startswith(_GAPS):
            reason = _text(line.get("reason")) or "no reason given"
            out.append(Gap(source=source, reason=f"{what}: {reason}"))
    return out
