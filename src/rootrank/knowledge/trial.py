"""Says which signals a log carries, which it nearly carries, and what is missing: `kb try`.

Belongs here: the trial of literals line by line, and of conditions one by one. Must not be here:
reading logs, or deciding between entries; both come from the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rootrank.knowledge.types import Entry, Knowledge, Match, Signal
from rootrank.model import Sighting, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How one signal of one entry fared on a log. An empty `signal` speaks of the whole match."""

    entry: str
    signal: str
    state: str  # matched | near | absent
    why: str
    source: str = ""
    line: int = 0  # 0: no line
    text: str = ""


class SignalMatcher(Protocol):
    """What a trial needs of the matcher that the pipeline uses."""

    def match(
        self,
        sightings: Sequence[Sighting],
        derived: Sequence[Sighting],
        extent: Mapping[int, str],
    ) -> Sequence[Any]:
        """Return per entry which signals matched, as `.entry` and `.by_signal`."""


# --------------------------------------------------------------------------- literals


def try_lines(lines: Sequence[str], entries: Iterable[Entry], source: str = "") -> list[Trial]:
    """Return the best trial of every literal signal of `entries` on these lines."""
    return [
        _try_literal(entry, signal, lines, source)
        for entry in entries
        for signal in entry.signals
        if signal.literal
    ]


def _try_literal(entry: Entry, signal: Signal, lines: Sequence[str], source: str) -> Trial:
    best: tuple[int, int, str] | None = None
    regex = re.compile(signal.regex) if signal.regex is not None else None
    lower = [x.lower() for x in signal.literal]
    for number, line in enumerate(lines, 1):
        judged = _judge(line, signal.literal, lower, regex)
        if judged and (best is None or judged[0] < best[0]):
            best = (judged[0], number, judged[1])
            if judged[0] == 0:
                break
    if best is None:
        return Trial(entry=entry.id, signal=signal.name, state="absent", why="no literal occurs")
    rank, number, why = best
    return Trial(
        entry=entry.id,
        signal=signal.name,
        state="near" if rank else "matched",
        why=why,
        source=source,
        line=number,
        text=lines[number - 1].strip(),
    )


def _judge(
    line: str, literals: tuple[str, ...], lower: list[str], regex: re.Pattern[str] | None
) -> tuple[int, str] | None:
    """Return (0 matched, 1 or 2 nearly; why), or None when the line has nothing of the signal."""
    anchor = next((x for x in literals if x in line), None)
    if anchor is not None and (regex is None or regex.search(line)):
        return 0, f"literal {anchor!r}" + (" and the regex" if regex else "")
    if anchor is not None:
        return 1, f"literal {anchor!r} stands there, but the regex does not match"
    if regex is not None and regex.search(line):
        return 1, "the regex matches, but no literal stands there"
    if any(x in line.lower() for x in lower):
        return 2, "a literal stands there in another case; literals are case-sensitive"
    return None


# --------------------------------------------------------------------------- sightings


def try_sightings(
    timeline: Timeline, entries: Iterable[Entry], matcher: type[Any] | Any
) -> list[Trial]:
    """Return the best trial of every signal on a sighting or a comparison.

    `matcher` makes a SignalMatcher of a Knowledge. Each condition is tried by itself, so that the
    answer can name the one that failed.
    """
    chosen = list(entries)
    made: SignalMatcher = matcher(_taken_apart(chosen))
    matched = made.match(timeline.sightings, timeline.derived, {})
    seen = {(m.entry.id, name): list(s) for m in matched for name, s in m.by_signal.items()}
    return [
        _try_conditions(entry, signal, seen)
        for entry in chosen
        for signal in entry.signals
        if not signal.literal
    ]


def _taken_apart(entries: Iterable[Entry]) -> Knowledge:
    """Return the entries with every signal split: once bare, once per condition."""
    apart = {}
    for entry in entries:
        signals: list[Signal] = []
        for signal in entry.signals:
            if not signal.literal:
                signals.append(replace(signal, where={}))
                signals += [
                    replace(signal, name=_part(signal.name, key), where={key: value})
                    for key, value in signal.where.items()
                ]
        apart[entry.id] = replace(entry, signals=tuple(signals), match=Match())
    return Knowledge(entries=apart)


def _part(signal: str, condition: str) -> str:
    return f"{signal}\0{condition}"


def _try_conditions(
    entry: Entry, signal: Signal, seen: Mapping[tuple[str, str], list[Sighting]]
) -> Trial:
    what = signal.on or signal.derived
    best: tuple[int, Sighting | None, list[str]] = (1_000, None, [])
    for s in seen.get((entry.id, signal.name), []):
        failed = [
            key
            for key in signal.where
            if not any(s is x for x in seen.get((entry.id, _part(signal.name, key)), []))
        ]
        if len(failed) < best[0]:
            best = (len(failed), s, failed)
    count, s_best, failed = best
    if s_best is None:
        return Trial(
            entry=entry.id, signal=signal.name, state="absent", why=f"no sighting {what!r}"
        )
    return Trial(
        entry=entry.id,
        signal=signal.name,
        state="near" if count else "matched",
        why=f"sighting {what!r}" + _failed(signal, s_best, failed),
        source=s_best.source,
        line=s_best.line,
        text=s_best.text.strip(),
    )


def _failed(signal: Signal, s: Sighting, failed: list[str]) -> str:
    """Return what the failed conditions wanted and what the sighting holds."""
    if not failed:
        return " with all conditions" if signal.where else ""
    said = []
    for key in failed:
        have = s.speaks_of.value if key == "speaks_of" else s.get(key, "nothing")
        said.append(f"{key} is {str(have)[:80]!r}, not {signal.where[key]!r}")
    return "; ".join(["", *said]).replace("; ", " but ", 1)


# --------------------------------------------------------------------------- the match


def try_match(entry: Entry, trials: Iterable[Trial]) -> Trial:
    """Return whether `[match]` holds on these trials, and which part does not.

    Scope, time and recovery are the pipeline's to judge: its diagnosis has the last word.
    """
    matched = {t.signal for t in trials if t.entry == entry.id and t.state == "matched"}
    lacks = list(_lacking(entry, matched))
    state = "matched" if not lacks else "near" if matched else "absent"
    return Trial(entry=entry.id, signal="", state=state, why="; ".join(lacks) or "match holds")


def _lacking(entry: Entry, matched: set[str]) -> Iterator[str]:
    match = entry.match
    initiating = {s.name for s in entry.signals if s.role == "initiating"}
    if not initiating & matched:
        yield f"no initiating signal of {', '.join(sorted(initiating))}"
    missing = [name for name in match.all if name not in matched]
    if missing:
        yield f"all lacks {', '.join(missing)}"
    if match.any and not matched.intersection(match.any):
        yield f"none of any: {', '.join(match.any)}"
    present = [name for name in match.none if name in matched]
    if present:
        yield f"none forbids {', '.join(present)}"
