"""Evaluate entries against a timeline: which signals matched which sightings, and whether the match holds.

Belongs here: conditions, `all`/`any`/`none`, status of one hypothesis. Must not be here: ordering between hypotheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rootrank.knowledge.types import Entry, Knowledge, Signal
from rootrank.model import Sighting, SpeaksOf, Status

FAILURE_KINDS = frozenset(
    {
        "exception",
        "abort",
        "cuda-error",
        "log-error",
        "nccl-warn",
        "fatal-signal",
        "device-assert",
        "line",
    }
)
_PEER_KINDS = frozenset({"collective-timeout", "peer-loss"})
_REGEX_KEYS = frozenset(
    {
        "message",
        "frame",
        "user_frame",
        "innermost",
        "any_frame",
        "text",
        "library",
        "group",
        "op",
        "process",
        "file",
        "object",
        "logger",
        "wchan",
        "path",
        "name",
        "what",
        "chain",
        "qualified",
        "func",
    }
)
_FRAME_KEYS = frozenset({"frame", "any_frame"})


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@dataclass(slots=True)
class Matched:
    """The signals of one entry that matched, each with its sightings in order."""

    entry: Entry
    by_signal: dict[str, list[Sighting]] = field(default_factory=dict)

    def of_role(self, role: str) -> list[tuple[Signal, Sighting]]:
        """Return (signal, sighting) pairs of the signals with this role."""
        return [
            (g, s)
            for g in self.entry.signals
            if g.role == role
            for s in self.by_signal.get(g.name, ())
        ]


@dataclass(slots=True)
class Hypothesis:
    """One entry (or None) with where and on what it stands."""

    entry: Entry | None
    anchor: Sighting
    signal: Signal | None
    matched: dict[str, list[Sighting]]
    status: Status
    lacking: tuple[str, ...] = ()
    specificity: int = 0
    note: str = ""

    @property
    def kind(self) -> str:
        """cause | symptom | outcome; an entry-less failure counts as a cause."""
        return self.entry.kind if self.entry else "cause"

    @property
    def id(self) -> str:
        """Return the entry's id, or "" for a failure that no entry knows."""
        return self.entry.id if self.entry else ""


class Matcher:
    """Looks up entry signals by sighting kind; built once per knowledge base."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self._by_kind: dict[str, list[tuple[Entry, Signal]]] = {}
        for entry in knowledge.entries.values():
            for signal in entry.signals:
                word = signal.derived or signal.on
                if word == "failure":
                    # What was said of somebody else counts where the entry asks for words, not for any failure.
                    spoken = {"message", "text"} & set(signal.where)
                    for kind in FAILURE_KINDS | (_PEER_KINDS if spoken else frozenset()):
                        self._by_kind.setdefault(kind, []).append((entry, signal))
                elif word:
                    self._by_kind.setdefault(word, []).append((entry, signal))

    def match(
        self, sightings: Sequence[Sighting], derived: Sequence[Sighting], extent: Mapping[int, str]
    ) -> list[Matched]:
        """Return per entry which signals matched. `extent` maps id(sighting) to one | some | all."""
        found: dict[str, Matched] = {}

        def add(entry: Entry, signal: Signal, s: Sighting) -> None:
            one = found.setdefault(entry.id, Matched(entry))
            seen = one.by_signal.setdefault(signal.name, [])
            # Sightings come one by one, so what was added twice is the last one: no search through thousands.
            if not seen or seen[-1] is not s:
                seen.append(s)

        for s in sightings:
            for entry, signal in self._by_kind.get(s.kind, ()):
                if _may_match(signal, s) and holds(signal, s, extent.get(id(s))):
                    add(entry, signal, s)
            for entry, signal in self._literals(s):
                add(entry, signal, s)
        for d in derived:
            for entry, signal in self._by_kind.get(d.kind, ()):
                if signal.derived == d.kind and holds(signal, d, _extent_of(d)):
                    add(entry, signal, d)
        return list(found.values())

    def _literals(self, s: Sighting) -> Iterator[tuple[Entry, Signal]]:
        """Yield the signals whose literal and regex the scanner found on the sighting's line."""
        for key in s.signals:
            entry_id, _, name = key.partition("/")
            entry = self.knowledge.entries.get(entry_id)
            signal = next((g for g in entry.signals if g.name == name), None) if entry else None
            if entry and signal:
                yield entry, signal


def _may_match(signal: Signal, s: Sighting) -> bool:
    """Exclude what no condition can say: background lines of other entries, tracebacks without their last line."""
    if signal.derived is not None:
        return False
    if s.kind == "line" and signal.on == "failure" and not s.get("initiating"):
        return False
    return not (s.get("truncated") and not set(signal.where) - {"speaks_of"})


def _extent_of(d: Sighting) -> str | None:
    n = len(d.get("ranks", ()))
    if d.kind == "identical-on-all":
        return "all"
    return "one" if n == 1 else "some" if n else None


def holds(signal: Signal, s: Sighting, extent: str | None = None) -> bool:
    """Return True when every condition of a built-in or derived signal is true of the sighting."""
    where = signal.where
    wanted = where.get("speaks_of")
    if wanted is not None:
        if not _equal(wanted, s.speaks_of.value):
            return False
    elif signal.on == "failure" and s.speaks_of in (SpeaksOf.TEARDOWN,):
        return False
    for key, value in where.items():
        if key in ("speaks_of", "implies_rank"):
            continue
        if key == "ranks":
            if extent != value:
                return False
        elif key == "count":
            if s.count < int(value):
                return False
        elif not _condition(key, value, s):
            return False
    return True


def _condition(key: str, value: Any, s: Sighting) -> bool:
    if key in _FRAME_KEYS:
        frames = s.get("frames", ())
        if isinstance(value, list):
            return any(_compiled(str(v)).search(f) for v in value for f in frames)
        return any(_compiled(str(value)).search(f) for f in frames)
    have = s.text if key == "text" else s.get(key)
    if key == "message" and have is None:
        have = s.text
    if key == "message" and s.kind in ("exception", "collective-timeout", "peer-loss", "abort"):
        have = f"{s.get('qualified') or s.get('type') or ''}: {have}"
    if key == "code" and s.kind in ("exception", "abort"):
        return bool(have) and _compiled(str(value)).search(str(have)) is not None
    if have is None:
        return value in (False, "absent")
    if key in _REGEX_KEYS:
        values = value if isinstance(value, list) else [value]
        text = " ".join(have) if isinstance(have, (tuple, list)) else str(have)
        return any(_compiled(str(v)).search(text) for v in values)
    return _equal(value, have)


def _equal(value: Any, have: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    if isinstance(have, (tuple, list)):
        return any(v in have for v in values)
    return have in values or str(have) in {str(v) for v in values}


def weight(signal: Signal) -> int:
    """Return how specific one signal is: a message or frame says more than a kind or a type."""
    if signal.literal:
        return 3 if signal.regex else 2
    score = 1 if signal.derived else 0
    for key in signal.where:
        score += (
            3
            if key in ("message", "text", "any_frame", "frame", "user_frame", "innermost", "chain")
            else 1
        )
    return score


def hypotheses(matches: Iterable[Matched], complete: bool) -> list[Hypothesis]:
    """Return the hypotheses that the matches allow: at least one initiating signal, nothing of `none`."""
    out: list[Hypothesis] = []
    for m in matches:
        h = _hypothesis(m, complete)
        if h is not None:
            out.append(h)
    return out


def _hypothesis(m: Matched, complete: bool) -> Hypothesis | None:
    entry, rule = m.entry, m.entry.match
    initiating = m.of_role("initiating")
    if not initiating or any(m.by_signal.get(n) for n in rule.none):
        return None
    # What a process says of itself comes before what others say of it; and a record that repeats in fields what a sentence says beside it is not the line to show first.
    signal, anchor = min(
        initiating,
        key=lambda p: (
            p[1].speaks_of is not SpeaksOf.SELF,
            bool(p[1].get("record")),
            order_key(p[1]),
            p[0].name,
        ),
    )
    lacking = tuple(n for n in rule.all if not m.by_signal.get(n))
    if rule.any and not any(m.by_signal.get(n) for n in rule.any):
        lacking += tuple(rule.any[:1])
    if rule.scope in ("rank", "host") and not lacking and rule.all:
        lacking = _scoped(m, anchor)
    confirmed = bool(m.of_role("confirming")) or any(g.conclusive for g, _ in initiating)
    status = Status.SUSPECTED if lacking else Status.ESTABLISHED if confirmed else Status.SUPPORTED
    if rule.none and not complete and status is not Status.SUSPECTED:
        status = Status.SUSPECTED
        lacking += ("coverage",)
    if (
        entry.maturity == "draft"
        and status is not Status.SUSPECTED
        and not entry.fixes
        and not entry.quick
    ):
        status = Status.SUSPECTED
    names = {g.name: g for g in entry.signals}
    score = (
        max(weight(names[n]) for n in m.by_signal if names[n].role == "initiating")
        + len(rule.all)
        + (1 if rule.refines else 0)
    )
    return Hypothesis(entry, anchor, signal, m.by_signal, status, lacking, score)


def _scoped(m: Matched, anchor: Sighting) -> tuple[str, ...]:
    """Return the `all` signals that match nowhere near the anchor."""
    near = m.entry.match.scope
    mine = anchor.origin.rank if near == "rank" else anchor.origin.host
    if mine is None:
        return ()
    out = []
    for name in m.entry.match.all:
        theirs = {s.origin.rank if near == "rank" else s.origin.host for s in m.by_signal[name]}
        if mine not in theirs and None not in theirs:
            out.append(name)
    return tuple(out)


def order_key(s: Sighting) -> tuple[int, float, str, int]:
    """Return a total order for sightings: by time where known, by place in their source else."""
    return (0, s.time_s, s.source, s.order) if s.time_s is not None else (1, 0.0, s.source, s.order)
