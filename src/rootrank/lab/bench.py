"""Run faults, diagnose what they leave, and put the results in words.

Belongs here: one result per fault, and the table. Must not be here: starting processes (run.py).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rootrank.lab.fault import ALL, CRASH, HANG, HEALTHY, KILLED, START, Found, lacking
from rootrank.lab.judge import GOOD, Outcome, judge
from rootrank.lab.run import keep, ran

_ENDS_BADLY = (CRASH, KILLED, HANG, START)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one fault."""

    name: str
    world: int
    truth: str
    entries: str
    decided_by: str
    outcomes: tuple[Outcome, ...] = ()
    seconds: float = 0.0
    skipped: str = ""

    @property
    def best(self) -> Outcome | None:
        """The outcome from all the evidence there was."""
        return self.outcomes[-1] if self.outcomes else None

    @property
    def good(self) -> bool:
        """Whether every view of the evidence was answered as the truth asks."""
        return bool(self.outcomes) and all(o.word in GOOD for o in self.outcomes)


def run_one(found: Found, ranks: int | None = None, folder: Path | None = None) -> Result:
    """Run and judge one fault; its evidence and the answers stay in `folder`, if one is given."""
    world = max(ranks or found.fault.ranks, found.fault.min_ranks)
    blank = _blank(found, world)
    if why := lacking(found.fault):
        return replace(blank, skipped=why)
    start = time.monotonic()
    with ran(found, world) as run:
        seconds, evidence = time.monotonic() - start, run.place.evidence
        if folder:
            keep(evidence, folder / found.name / "logs")
        if why := _not_as_meant(found, run.failed):
            return replace(blank, skipped=why)
        outcomes = tuple(_diagnosed(found, evidence, world))
    result = replace(blank, outcomes=outcomes, seconds=round(seconds, 1))
    if folder:
        text = json.dumps(asdict(result), indent=2) + "\n"
        (folder / found.name / "result.json").write_text(text, encoding="utf-8")
    return result


def _not_as_meant(found: Found, failed: bool) -> str:
    """Return why the run does not show what its truth says, or ""."""
    kind = found.fault.truth.kind
    if kind in _ENDS_BADLY and not failed:
        return "had no effect here: every process ended with success"
    return "did not end as planned here" if kind == HEALTHY and failed else ""


def _blank(found: Found, world: int) -> Result:
    truth = found.fault.truth
    return Result(
        name=found.name,
        world=world,
        truth=truth_text(found),
        entries=" ".join(truth.entries) or "-",
        decided_by=truth.decided_by,
    )


def judge_again(found: Found, kept: Path) -> Result:
    """Diagnose and judge what an earlier run left in `kept`, its folder: after a change of rules."""
    before = json.loads((kept / "result.json").read_text(encoding="utf-8"))
    world = int(before.get("world", found.fault.ranks))
    outcomes = tuple(_diagnosed(found, kept / "logs", world))
    return replace(_blank(found, world), outcomes=outcomes, seconds=float(before.get("seconds", 0)))


def _diagnosed(found: Found, evidence: Path, world: int) -> Iterator[Outcome]:
    """Yield the outcome from the text alone, then from everything, where there is more."""
    from rootrank.pipeline import diagnose

    names = sorted(p.name for p in evidence.iterdir())
    views = {"text": [n for n in names if n != "live"], "live": names if "live" in names else []}
    with _inside(evidence):
        for view, paths in views.items():
            if paths:
                yield judge(diagnose(paths), found.fault.truth, view, world)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work inside a folder, so that sources have short names which say nothing of the folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# --------------------------------------------------------------------------- words


def truth_text(found: Found) -> str:
    """Return the truth in a few words: kind and ranks."""
    truth = found.fault.truth
    if truth.ranks == ALL:
        return f"{truth.kind}, all ranks"
    ranks = ",".join(map(str, truth.ranks))
    return f"{truth.kind}, rank {ranks}" if ranks else truth.kind


def listing(found: Iterable[Found]) -> str:
    """Return one line per fault: name, truth, what it is, and why it would be skipped here."""
    rows = []
    for one in found:
        why = lacking(one.fault)
        rows.append((one.name, truth_text(one), one.fault.about + (f"  [{why}]" if why else "")))
    return _columns(rows)


def table(results: Sequence[Result]) -> str:
    """Return the results as text for a terminal."""
    rows = [("fault", "truth", "text", "all evidence", "said", "s")]
    for r in results:
        if r.skipped:
            rows.append((r.name, r.truth, "skipped", "", r.skipped, ""))
        else:
            rows.append((r.name, r.truth, *_words(r), _said(r), f"{r.seconds:.0f}"))
    return _columns(rows) + "\n" + tally(results) + "\n"


def markdown(results: Sequence[Result]) -> str:
    """Return the results as a Markdown table."""
    head = "| fault | truth | right entries | decided by | text | all evidence | said | s |"
    lines = [head, "|" + "---|" * 8]
    for r in results:
        said = f"skipped: {r.skipped}" if r.skipped else _said(r)
        cells = (r.name, r.truth, r.entries, r.decided_by, *_words(r), said, f"{r.seconds:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", tally(results), ""])


def tally(results: Sequence[Result]) -> str:
    """Return how many were answered as their truth asks."""
    done = [r for r in results if not r.skipped]
    good = sum(r.good for r in done)
    left = len(results) - len(done)
    return f"{good} of {len(done)} answered as their truth asks; {left} skipped"


def _words(result: Result) -> tuple[str, str]:
    words = [o.word for o in result.outcomes]
    return (words[0] if words else "", words[1] if len(words) > 1 else "")


def _said(result: Result) -> str:
    best = result.best
    if best is None:
        return ""
    reason = f", reason {best.root_cause} ({best.reason})" if best.reason else ""
    return f"{best.who}: {best.entry}, {best.status}{reason}"


def _columns(rows: Sequence[Sequence[str]]) -> str:
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, wide, strict=True)) for row in rows]
    return "".join(line.rstrip() + "\n" for line in lines)
