"""collect() as a whole, and the command: real processes, a bundle, and a diagnosis of it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from rootrank.cli import main
from rootrank.errors import InputError, UsageError
from rootrank.live import Options, collect, preview
from rootrank.live.collector import _Asked, default_name, prepare
from rootrank.live.probes import Context
from rootrank.live.store import zstd_available
from rootrank.pipeline import diagnose

from .jobs import LOCK, SLEEP, SPIN, fake, job

TOKEN = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"


def test_four_ranks_within_ten_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command with its default interval: a bundle in time, its place on standard output, readable."""
    output = tmp_path / ("b.tar.zst" if zstd_available() else "b.tar.gz")
    with job(tmp_path, [LOCK, SLEEP, SPIN, SLEEP], HF_TOKEN=TOKEN) as running:
        began = time.monotonic()
        assert 0 == main(["collect", "--run-id", running.run_id, "-o", str(output)])
        assert time.monotonic() - began < 10
        assert [None] * 4 == [r.poll() for r in running.ranks]
    said = capsys.readouterr()
    assert f"{output}\n" == said.out
    assert f"rootrank diagnose {output}" in said.err
    found = diagnose([str(output)])
    assert 4 == found.coverage.ranks_seen
    assert {0, 1, 2, 3} == {lane.rank for lane in found.lanes if lane.rank is not None}


def test_manifest(tmp_path: Path) -> None:
    """Who is who, what moved, what it cost; secrets are nowhere."""
    with job(tmp_path, [SLEEP, SPIN], HF_TOKEN=TOKEN) as running:
        result = collect(output=str(tmp_path / "b"), pid=running.pid(0), interval_s=0.4)
        pids = [running.pid(0), running.pid(1)]
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert "rootrank.bundle/1" == manifest["schema"]
    host = manifest["hosts"][0]
    assert [(0, pids[0]), (1, pids[1])] == [(r["rank"], r["pid"]) for r in host["ranks"]]
    still, busy = (r["movement"] for r in host["ranks"])
    assert (0.0, True) == (still["cpu_s"], busy["cpu_s"] > 0)
    assert {"find", "process", "stacks", "disks"} <= {p["name"] for p in host["probes"]}
    assert all((tmp_path / "b" / host["folder"] / c["file"]).exists() for c in host["collected"])
    assert not any(TOKEN.encode() in data for data in result.files.values())


def test_killed_in_the_middle(tmp_path: Path) -> None:
    """A rank that is killed while it is looked at is named; the others are there."""
    with job(tmp_path, [SLEEP] * 3) as running:
        threading.Timer(0.4, running.ranks[1].kill).start()
        result = collect(output="-", run_id=running.run_id, interval_s=1.0)
    host = result.manifest["hosts"][0]
    assert [False, True, False] == ["ended" in r["movement"] for r in host["ranks"]]
    assert any(m["what"] == "state of rank 1" for m in host["missing"])


def test_all_gone_in_the_middle(tmp_path: Path) -> None:
    """Even when nobody is left there is a bundle that says so."""
    with job(tmp_path, [SLEEP] * 2) as running:
        for r in running.ranks:
            threading.Timer(0.3, r.kill).start()
        result = collect(output=str(tmp_path / "b"), run_id=running.run_id, interval_s=0.8)
    assert all("ended" in r["movement"] for r in result.manifest["hosts"][0]["ranks"])


def test_absent_rank(tmp_path: Path) -> None:
    """A rank that the launcher counts and nobody is."""
    with job(tmp_path, [SLEEP] * 3) as running:
        running.ranks[2].kill()
        running.ranks[2].wait()
        result = collect(output="-", run_id=running.run_id, interval_s=0)
    assert [2] == result.manifest["hosts"][0]["absent_local_ranks"]


def test_a_probe_that_hangs_or_breaks(tmp_path: Path) -> None:
    """One is late, one raises: both are named, neither stops anything."""
    with job(tmp_path, [SLEEP]) as running:
        ctx = prepare(Options(run_id=running.run_id))

        def hang(_: Context) -> None:
            time.sleep(3)

        def fail(_: Context) -> None:
            raise ValueError("odd")

        one, two = _Asked(ctx, "hang", hang, 0.2), _Asked(ctx, "fail", fail, 1)
        one.wait()
        two.wait()
        host, _ = ctx.store.seal()
    assert {"fail": "failed", "find": None, "hang": "timeout"} == {
        "find": None, **{p["name"]: p["outcome"] for p in host["probes"]}
    }  # fmt: skip
    assert ["fail", "hang"] == sorted(m["what"] for m in host["missing"])


def test_every_program_fails(tmp_path: Path, fakes: Path) -> None:
    """With every command broken /proc alone makes a bundle."""
    for name in (
        "py-spy",
        "pystack",
        "df",
        "dmesg",
        "journalctl",
        "nvidia-smi",
        "scontrol",
        "sacct",
    ):
        fake(fakes, name, "echo broken >&2; exit 3")
    with job(tmp_path, [SLEEP], SLURM_JOB_ID="7") as running:
        result = collect(output="-", run_id=running.run_id, interval_s=0.1)
    assert any(name.endswith("/proc_rank0.txt") for name in result.files)
    said = {m["what"] for m in result.manifest["hosts"][0]["missing"]}
    assert {"py-spy stack of rank 0", "kernel log", "GPU state", "Slurm: sacct"} <= said


def test_preview_takes_nothing(
    tmp_path: Path, fakes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names what and from where; no program runs and nothing is written."""
    for name in ("py-spy", "dmesg", "df", "nvidia-smi"):
        fake(fakes, name, f"touch {tmp_path}/ran")
    with job(tmp_path, [SLEEP]) as running:
        before = set(tmp_path.iterdir())
        assert 0 == main(["collect", "--run-id", running.run_id, "--preview"])
        assert before == set(tmp_path.iterdir())
        said = capsys.readouterr().out
        assert f"rank 0: pid {running.pid(0)}" in said
        assert f"{fakes}/py-spy dump --nonblocking" in said
        assert "the last 256 KiB of" in said
        assert "because of --allow-signals" in "\n".join(
            preview(run_id=running.run_id, allow_signals=True)
        )


def test_no_job(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and a remedy."""
    assert 2 == main(["collect", "--run-id", "no-such-run", "--preview"])
    assert "no rank of run no-such-run" in capsys.readouterr().err
    with pytest.raises(InputError):
        collect(pid=2**22 + 1, output="-")


def test_stopped_ranks_stay_stopped(tmp_path: Path) -> None:
    """Collecting neither wakes nor ends a stopped process, nor leaves another one stopped."""
    with job(tmp_path, [SLEEP, SLEEP]) as running:
        os.kill(running.pid(1), signal.SIGSTOP)
        collect(output="-", run_id=running.run_id, interval_s=0.3)
        states = [Path(f"/proc/{r.pid}/stat").read_text().split(") ")[1][0] for r in running.ranks]
        assert ["S", "T"] == states


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there when the user loses patience is kept."""
    real = time.sleep

    def sleep(seconds: float) -> None:
        if seconds > 3:
            raise KeyboardInterrupt
        real(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    with job(tmp_path, [SLEEP]) as running:
        result = collect(output="-", run_id=running.run_id, interval_s=5)
    host = result.manifest["hosts"][0]
    assert any("interrupted" in m["reason"] for m in host["missing"])
    assert 0 == host["ranks"][0]["rank"]


def test_an_earlier_bundle_is_not_mixed_into(tmp_path: Path) -> None:
    """A folder that holds something is refused before anything is collected; default names are new."""
    (tmp_path / "old").write_text("x")
    with pytest.raises(UsageError, match="folder with files in it"):
        collect(output=str(tmp_path))
    assert default_name(0).endswith("-19700101T000000Z.tar.zst")


def test_places_that_exclude_each_other() -> None:
    """A process id is of this machine."""
    with pytest.raises(UsageError, match="--host and --pid name different places"):
        collect(pid=1, hosts=("a",), output="-")
