"""Comparing an answer with the truth: what counts as found, honest, or wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rootrank.lab.fault import ALL, CRASH, HANG, HEALTHY, LIVE, NUMBERS, Truth
from rootrank.lab.judge import judge
from rootrank.model import (
    Also,
    Cause,
    Diagnosis,
    Initiating,
    Missing,
    RootCause,
    Status,
    Verdict,
)

HANGING = Truth(kind=HANG, ranks=(1,), entries=("lock",), symptoms=("timeout",), decided_by=LIVE)
CRASHING = Truth(kind=CRASH, ranks=(1,), entries=("raised",))


def cause(entry: str, status: Status = Status.SUPPORTED) -> Cause:
    """A cause as far as the judge looks at it."""
    return Cause(entry=entry, title="", category="", layer="", status=status)


def answer(
    entry: str,
    rank: int | None = 1,
    verdict: Verdict = Verdict.FAILURE,
    *,
    ask: bool = False,
    also: int | None = None,
    ranks: str | None = None,
) -> Diagnosis:
    """A diagnosis as far as the judge looks at it."""
    place = Initiating(kind="rank", extent="one", rank=rank, ranks=ranks)
    other = Initiating(kind="rank", extent="one", rank=also)
    more = (Also(relation="independent", initiating=other, cause=cause("x")),)
    return Diagnosis(
        verdict=verdict,
        summary="",
        initiating=place,
        cause=cause(entry),
        missing=(Missing(fact="stacks", decides=(), command="", answer=""),) if ask else (),
        also=more if also is not None else (),
    )


NONE = Diagnosis(verdict=Verdict.NO_FAILURE, summary="")
OPEN = Verdict.INSUFFICIENT


@pytest.mark.parametrize(
    ("word", "found", "truth", "view"),
    [
        ("found", answer("raised"), CRASHING, "text"),
        ("wrong", answer("raised", 0), CRASHING, "text"),
        ("partly", answer("other"), CRASHING, "text"),
        ("partly", answer("raised", None), CRASHING, "text"),
        ("wrong", answer("other", None), CRASHING, "text"),
        ("wrong", NONE, CRASHING, "text"),
        ("undecided", answer("raised", 1, OPEN, ask=True), CRASHING, "text"),
        ("honest", answer("timeout", 1, OPEN, ask=True), HANGING, "text"),
        ("honest", answer("timeout", None, OPEN, ask=True), HANGING, "text"),
        ("honest", answer("timeout", 1, ask=True), HANGING, "text"),
        ("undecided", answer("timeout", 1, OPEN), HANGING, "text"),
        ("wrong", answer("timeout", 0, OPEN, ask=True), HANGING, "text"),
        ("wrong", answer("timeout", 0, ask=True), HANGING, "text"),
        ("undecided", answer("timeout", 1, OPEN, ask=True), HANGING, "live"),
        ("found", answer("lock"), HANGING, "live"),
        ("partly", answer("timeout", ask=True), HANGING, "live"),
    ],
)
def test_one_culprit(word: str, found: Diagnosis, truth: Truth, view: str) -> None:
    """The right rank and cause; or, without the evidence, the right question and no wrong rank."""
    assert word == judge(found, truth, view, 3).word


def test_two_culprits_are_both_to_be_named() -> None:
    """Together in one place, or as independent failures."""
    truth = Truth(kind=HANG, ranks=(1, 3), entries=("lock",))
    assert "found" == judge(answer("lock", None, ranks="1,3"), truth, "text", 4).word
    assert "found" == judge(answer("lock", 1, also=3), truth, "text", 4).word
    assert "wrong" == judge(answer("lock", 1), truth, "text", 4).word


def test_where_all_fail_alike_nobody_is_singled_out() -> None:
    """All of them, or no rank at all."""
    truth = Truth(kind=CRASH, ranks=ALL, entries=("raised",))
    assert "found" == judge(answer("raised", None, ranks="0-2"), truth, "text", 3).word
    assert "found" == judge(answer("raised", None), truth, "text", 3).word
    assert "wrong" == judge(answer("raised", 2), truth, "text", 3).word


@pytest.mark.parametrize(
    ("word", "reason", "root"),
    [("found", "right", "two"), ("found", "open", None), ("partly", "other", "one")],
)
def test_a_wrong_reason_spoils_a_right_entry(word: str, reason: str, root: str | None) -> None:
    """An open reason does not: rootrank then asks for what decides it."""
    truth = Truth(kind=HANG, ranks=(1,), entries=("lock",), causes=("two", "three"))
    why = RootCause(id=root, text="", status=Status.SUPPORTED) if root else None
    found = answer("lock")
    assert found.cause is not None
    found = replace(found, cause=replace(found.cause, root_cause=why))
    outcome = judge(found, truth, "text", 3)
    assert (word, reason) == (outcome.word, outcome.reason)


def test_a_healthy_run_has_no_failure() -> None:
    """Anything else is a false alarm."""
    truth = Truth(kind=HEALTHY)
    assert "found" == judge(NONE, truth, "text", 3).word
    assert "wrong" == judge(answer("raised", 1, OPEN, ask=True), truth, "text", 3).word


def test_silence_is_honest_where_the_text_is_silent() -> None:
    """Where nothing shows in the text, no failure is right from it, and wrong from more."""
    truth = Truth(kind=NUMBERS, ranks=(1,), entries=("x",), decided_by=LIVE, silent=True)
    assert "honest" == judge(NONE, truth, "text", 3).word
    assert "wrong" == judge(NONE, truth, "live", 3).word
