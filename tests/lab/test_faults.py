"""The fault files: well-formed truths, neutral jobs, and what is said where one cannot run."""

from __future__ import annotations

import ast

import pytest

from rootrank.cli import main
from rootrank.knowledge.load import load_knowledge
from rootrank.lab import fault as faults_module
from rootrank.lab.fault import ALL, DECIDERS, HEALTHY, KINDS, LAB_SIDE, Found, faults, lacking
from rootrank.lab.launch import WAYS

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
NAMES = list(faults())


def test_there_are_enough() -> None:
    """At least 35 faults, and four runs in which nothing fails."""
    healthy = [f for f in faults().values() if f.fault.truth.kind == HEALTHY]
    assert len(NAMES) - len(healthy) >= 35
    assert len(healthy) >= 4


@pytest.fixture(params=NAMES)
def found(request: pytest.FixtureRequest) -> Found:
    """Each fault in turn."""
    return faults()[request.param]


def test_a_truth_is_well_formed(found: Found) -> None:
    """Known words, ranks that exist, entries that exist."""
    truth, entries = found.fault.truth, load_knowledge().entries
    assert truth.kind in KINDS
    assert truth.decided_by in DECIDERS
    assert truth.ranks == ALL or all(0 <= r < found.fault.min_ranks + 1 for r in truth.ranks)
    assert truth.ranks == ALL or all(r < found.fault.ranks for r in truth.ranks)
    assert [] == [e for e in (*truth.entries, *truth.symptoms) if e not in entries]
    assert (truth.kind == HEALTHY) == (not truth.entries)
    known = {c.id for e in truth.entries for c in entries[e].causes}
    assert set() == set(truth.causes) - known


def test_a_fault_can_be_started(found: Found) -> None:
    """A way to launch it that exists, and a deadline that ends it."""
    assert found.fault.launch in WAYS
    assert found.fault.ranks >= found.fault.min_ranks
    assert 10 <= found.fault.deadline_s <= 300
    assert found.fault.snapshot in ("", "quiet", "running")


def test_a_job_does_not_know_its_fault(found: Found) -> None:
    """No rule can match on the fault's name: the job's folder does not hold it."""
    source = found.job_side()
    defined = {n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)}
    assert set() == defined & set(LAB_SIDE)
    words = found.name.split("-")
    for told in ("rootrank", "FAULT", "Truth", found.name, "_".join(words), "inject"):
        assert len(words) == 1 or told not in source


def test_list_shows_every_fault(capsys: Capture) -> None:
    """One line each, whatever is installed."""
    assert 0 == main(["lab", "list"])
    assert NAMES == [line.split()[0] for line in capsys.readouterr().out.splitlines()]


def test_what_is_not_installed_is_named(monkeypatch: Patch, capsys: Capture) -> None:
    """A fault that needs an extra is skipped, with the command that installs it."""
    monkeypatch.setattr(faults_module, "find_spec", lambda name: None)
    assert 2 == main(["lab", "run", "zero3-raise"])
    shown = capsys.readouterr()
    assert "needs torch, deepspeed: pip install torch deepspeed" in shown.out
    assert "skipped" in shown.err


def test_what_is_not_permitted_is_named(monkeypatch: Patch) -> None:
    """A fault that mounts a file system says so where that is not allowed."""
    monkeypatch.setattr(faults_module, "find_spec", lambda name: object())
    monkeypatch.setattr(faults_module, "can_mount", lambda: False)
    assert "permission to mount" in lacking(faults()["disk-full"].fault)
    assert "" == lacking(faults()["kill"].fault)


def test_an_unknown_fault_is_a_usage_error(capsys: Capture) -> None:
    """With the command that lists them."""
    assert 2 == main(["lab", "run", "no-such"])
    assert "see rootrank lab list" in capsys.readouterr().err


def test_nothing_named_is_a_usage_error(capsys: Capture) -> None:
    """Everything takes half an hour: it has to be asked for."""
    assert 2 == main(["lab", "run"])
    assert "--all" in capsys.readouterr().err
