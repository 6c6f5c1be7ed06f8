"""Was the truth found? One diagnosis against one truth, in one word.

Belongs here: comparing. Must not be here: any leniency that is not written down in a truth.
"""

from __future__ import annotations

from dataclasses import dataclass

from rootrank.lab.fault import ALL, HEALTHY, LIVE, LOGS, NOTHING, Truth
from rootrank.model import Diagnosis, Initiating, Status, Verdict

FOUND = "found"  # the right rank and the right cause
HONEST = "honest"  # this evidence cannot decide; rootrank said so and asks for what would
PARTLY = "partly"  # the right rank with another cause, or the right cause without the rank
UNDECIDED = "undecided"  # this evidence decides, and rootrank would not
WRONG = "wrong"  # another rank, another cause, a failure of a healthy run, or none of a failed one
GOOD = (FOUND, HONEST)
RIGHT, OPEN, OTHER = "right", "open", "other"  # the reason inside the entry, where a truth has one

_ENOUGH = {LOGS: ("text", "live"), LIVE: ("live",), NOTHING: ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What rootrank said of one view of the evidence, and how it stands to the truth."""

    view: str  # text: what the job printed; live: that, and what was taken from the live job
    word: str
    verdict: str
    who: str
    entry: str
    status: str
    root_cause: str
    reason: str  # RIGHT, OPEN or OTHER; "" where the truth names none
    summary: str
    missing: int


def judge(found: Diagnosis, truth: Truth, view: str, world: int) -> Outcome:
    """Return how a diagnosis from `view` stands to the truth of a run of `world` ranks."""
    cause = found.cause
    root = cause.root_cause if cause else None
    return Outcome(
        view=view,
        word=_word(found, truth, decides=view in _ENOUGH[truth.decided_by], world=world),
        verdict=found.verdict.value,
        who=who_text(found),
        entry=(cause.entry or "(no entry)") if cause else "-",
        status=cause.status.value if cause else "-",
        root_cause=root.id if root else "-",
        reason=_reason(root.id if root else "", truth),
        summary=found.summary,
        missing=len(found.missing),
    )


def _reason(root: str, truth: Truth) -> str:
    if not truth.causes:
        return ""
    return (RIGHT if root in truth.causes else OTHER) if root else OPEN


def _word(found: Diagnosis, truth: Truth, *, decides: bool, world: int) -> str:
    if truth.kind == HEALTHY:
        return FOUND if found.verdict == Verdict.NO_FAILURE else WRONG
    if found.verdict == Verdict.NO_FAILURE:
        return HONEST if truth.silent and not decides else WRONG
    accused = accused_ranks(found)
    who_right = _who_right(accused, truth, world)
    entry = found.cause.entry if found.cause else None
    cause_right = entry in truth.entries
    if found.verdict == Verdict.INSUFFICIENT:
        return _insufficient(found, who_right or not accused, decides)
    if who_right and cause_right and _holds(found):
        root = found.cause.root_cause if found.cause else None
        return PARTLY if root and _reason(root.id, truth) == OTHER else FOUND
    if (
        not decides
        and not (accused and not who_right)
        and entry in (*truth.entries, *truth.symptoms)
    ):
        return HONEST if found.missing else PARTLY
    if who_right and accused:
        return PARTLY
    return PARTLY if cause_right and not accused else WRONG


def _insufficient(found: Diagnosis, not_wrong: bool, decides: bool) -> str:
    if not not_wrong:
        return WRONG
    if decides:
        return UNDECIDED
    return HONEST if found.missing else UNDECIDED


def _holds(found: Diagnosis) -> bool:
    return found.cause is not None and found.cause.status in (Status.ESTABLISHED, Status.SUPPORTED)


def _who_right(accused: frozenset[int], truth: Truth, world: int) -> bool:
    everybody = frozenset(range(world))
    if truth.ranks == ALL:
        # Nobody singled out is right too, where all fail alike.
        return accused in (everybody, frozenset())
    return accused == frozenset(truth.ranks)


def accused_ranks(found: Diagnosis) -> frozenset[int]:
    """Return the ranks that the diagnosis calls initiating, those of independent failures too."""
    places = [found.initiating, *(a.initiating for a in found.also if a.relation == "independent")]
    return frozenset(rank for place in places if place for rank in _ranks(place))


def _ranks(place: Initiating) -> list[int]:
    if place.rank is not None:
        return [place.rank]
    ranks: list[int] = []
    for part in (place.ranks or "").split(","):
        first, _, last = part.partition("-")
        if first.strip().isdigit():
            ranks.extend(range(int(first), int(last or first) + 1))
    return ranks


def who_text(found: Diagnosis) -> str:
    """Return who is accused, in a few characters."""
    place = found.initiating
    if place is None:
        return "-"
    ranks = ",".join(map(str, sorted(accused_ranks(found))))
    if ranks:
        return f"rank {ranks}" + (" (all)" if place.extent == "all" else "")
    return place.kind if place.extent != "all" else f"all ({place.kind})"
