"""What came first, what explains what, what the job outlived.

Belongs here: relations between sightings. Must not be here: entries by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from rootrank.model import Progress, Sighting, SpeaksOf, Timeline

CLOCK_ERROR_S = 2.0  # launcher stamps are whole seconds; hosts drift
STEPS_THAT_RECOVER = 3  # so many further steps show that the job went on


def before(a: Sighting, b: Sighting) -> bool | None:
    """Return True or False when the order of two sightings is known, None when it is not.

    Inside one source the place decides; between sources only stamps further apart than the clock error.
    """
    if a.source == b.source:
        return a.order < b.order
    for place in a.places:
        if place.source == b.source:
            return place.offset < b.order
    for place in b.places:
        if place.source == a.source:
            return a.order < place.offset
    if a.time_s is not None and b.time_s is not None and abs(a.time_s - b.time_s) > CLOCK_ERROR_S:
        return a.time_s < b.time_s
    return None


def earliest(sightings: Sequence[Sighting]) -> list[Sighting]:
    """Return the sightings that no other is known to precede."""
    out = []
    for s in sightings:
        if not any(o is not s and before(o, s) for o in sightings):
            out.append(s)
    return out


class Recovery:
    """Tells trouble that normal progress followed from trouble that lasts."""

    def __init__(self, t: Timeline) -> None:
        self._by_source: dict[str, list[Progress]] = {
            d.source: [p for p in d.progress if p.step is not None] for d in t.digests
        }
        self._by_rank: dict[int, list[tuple[str, Progress]]] = {}
        self._timed: list[Progress] = []
        for d in t.digests:
            own = d.origin.rank
            for p in d.progress:
                rank = p.rank if p.rank is not None else own
                if rank is not None and p.step is not None:
                    self._by_rank.setdefault(rank, []).append((d.source, p))
                if p.time_s is not None and p.step is not None:
                    self._timed.append(p)
        self._done = [s for s in t.sightings if s.kind == "completed"]

    def after(self, s: Sighting) -> Progress | None:
        """Return the last progress sample that shows the job went on after `s`, or None."""
        later = self._later(s)
        if len({p.step for p in later}) >= STEPS_THAT_RECOVER:
            return later[-1]
        return None

    def _later(self, s: Sighting) -> list[Progress]:
        line = max(s.last_line, s.end_line, s.line)
        if (
            s.origin.rank is not None
            and s.origin.rank in self._by_rank
            and s.speaks_of is SpeaksOf.SELF
        ):
            mine = [
                p
                for source, p in self._by_rank[s.origin.rank]
                if source == s.source and p.line > line
            ]
            others = [
                p
                for source, p in self._by_rank[s.origin.rank]
                if source != s.source and self._timed_after(p, s)
            ]
            return mine or others
        own = [p for p in self._by_source.get(s.source, ()) if p.line > line and p.order >= s.order]
        if own or self._by_source.get(s.source):
            return own
        return [p for p in self._timed if self._timed_after(p, s)]

    @staticmethod
    def _timed_after(p: Progress, s: Sighting) -> bool:
        return p.time_s is not None and s.time_s is not None and p.time_s > s.time_s + CLOCK_ERROR_S

    def finished(self, s: Sighting) -> bool:
        """Return True when the job says that it ended as planned after `s` in the same source."""
        return any(d.source == s.source and d.order > s.order for d in self._done)
