"""The life of a run, with a job that needs no torch: evidence, deadline, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from rootrank.cli import main
from rootrank.lab import launch, processes
from rootrank.lab import run as run_module
from rootrank.lab.bench import run_one
from rootrank.lab.fault import Found, faults, lacking
from rootrank.lab.launch import Place, Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the lab needs Linux (/proc)")
Patch = pytest.MonkeyPatch

FAILS = """
import os, sys
print("2026-01-01 00:00:00,000 [rank1] INFO start world_size=2", flush=True)
print('''[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 3, in <module>
[rank1]:     x["labels"]
[rank1]: KeyError: 'labels\\'''', file=sys.stderr)
sys.exit(1)
"""
HANGS = """
import os, subprocess, sys, time
print("start world_size=2", flush=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open(f"/dev/shm/torch_{os.getpid()}_1_0", "wb").close()
time.sleep(600)
"""


@pytest.fixture
def stub(monkeypatch: Patch) -> Found:
    """A fault whose job is a script of the test's own, put into FAILS or HANGS by name."""
    monkeypatch.setattr("rootrank.lab.bench.lacking", lambda fault: "")
    kill = faults()["kill"]
    return Found("kill", replace(kill.fault, deadline_s=3), kill.module)


def starts(script: str, monkeypatch: Patch) -> None:
    """Make torchrun start the script instead."""

    def way(place: Place) -> list[Process]:
        return [Process(argv=[sys.executable, "-c", script], output="train.log")]

    monkeypatch.setitem(launch.WAYS, "torchrun", way)  # type: ignore[arg-type]


def test_a_run_is_judged_and_kept(stub: Found, monkeypatch: Patch, tmp_path: Path) -> None:
    """The logs and the result stay where they were asked for; the job's folder goes."""
    starts(FAILS, monkeypatch)
    result = run_one(stub, 2, tmp_path)
    assert ["partly"] == [o.word for o in result.outcomes], "the rank, but it was not killed"
    assert "KeyError" in (tmp_path / "kill" / "logs" / "train.log").read_text()
    assert 2 == json.loads((tmp_path / "kill" / "result.json").read_text())["world"]
    assert 1 == main(["lab", "judge", str(tmp_path)])


def test_nothing_is_left_behind(stub: Found, monkeypatch: Patch) -> None:
    """At the deadline every process ends, in whatever session it is; shared memory goes."""
    starts(HANGS, monkeypatch)
    seen: list[str] = []
    environment = run_module.environment

    def noted(place: Place, token: str, extra: dict[str, str]) -> dict[str, str]:
        seen.extend([token, str(place.work)])
        return environment(place, token, extra)

    monkeypatch.setattr(run_module, "environment", noted)
    monkeypatch.setattr(run_module, "_GRACE_S", 1.0)
    before = set(os.listdir("/dev/shm"))
    start = time.monotonic()
    run_one(stub, 2)
    assert time.monotonic() - start < 20
    assert [] == processes.pids_with(seen[0])
    assert not Path(seen[1]).exists()
    assert set() == {n for n in set(os.listdir("/dev/shm")) - before if n.endswith("_1_0")}


def test_processes_are_found_by_their_token() -> None:
    """And ended, stopped ones too."""
    env = {**os.environ, "JOB_TOKEN": "cafe", "RANK": "3"}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=env)
    try:
        until = time.monotonic() + 5
        while not processes.pids_with("cafe") and time.monotonic() < until:
            time.sleep(0.02)  # the environment is there once the program has started
        assert [child.pid] == processes.pids_with("cafe")
        child.send_signal(19)
        assert [] == processes.end("cafe", 0.5)
    finally:
        child.kill()
        child.wait()


# --------------------------------------------------------------------------- real runs

# A few minutes on two cores. The others run with ROOTRANK_LAB=all, half an hour.
FEW = [
    "raise-one",
    "kill",
    "port-in-use",
    "checkpoint-mismatch",
    "hang-sleep",
    "nan-one-rank",
    "ok",
]
CHOSEN = list(faults()) if os.environ.get("ROOTRANK_LAB") == "all" else FEW


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", CHOSEN)
def test_the_truth_is_found(name: str) -> None:
    """A real run: the right rank and cause, or the right question where the evidence is short."""
    found = faults()[name]
    if why := lacking(found.fault):
        pytest.skip(why)
    result = run_one(found)
    assert result.good, result.outcomes
