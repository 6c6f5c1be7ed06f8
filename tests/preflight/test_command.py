"""The command: exit codes, forms, secrets, --repro, and that docs and entries keep up."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rootrank.cli import main
from rootrank.preflight import repro
from rootrank.preflight.finding import RULES
from rootrank.preflight.run import FAMILIES

ROOT = Path(__file__).parents[2]
jsonschema = pytest.importorskip("jsonschema")
SCHEMAS = ROOT / "schemas"
ENTRIES = {p.stem for p in (ROOT / "src/rootrank/knowledge/entries").glob("*/*.md")}


def write(folder: Path, **values: object) -> str:
    """Write a DeepSpeed file and return its name."""
    path = folder / "ds.json"
    path.write_text(json.dumps({"zero_optimization": {"stage": 1}, **values}))
    return str(path)


@pytest.mark.parametrize(
    ("values", "code"),
    [({"train_batch_size": 8}, 0), ({"train_batch_size": 7}, 1), ({}, 3)],
)
def test_exit_codes(tmp_path: Path, values: dict[str, object], code: int) -> None:
    """0 clear, 1 will fail, 3 may fail."""
    assert code == main(["check", write(tmp_path, **values), "--world", "4"])


def test_unreadable_is_2_and_the_rest_is_still_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One bad file does not hide what the others say."""
    assert 2 == main(["check", str(tmp_path / "none.json")])
    assert "none.json" in capsys.readouterr().err
    name = write(tmp_path, train_batch_size=7)
    assert 2 == main(["check", name, str(tmp_path / "none.json"), "--world", "4"])
    out = capsys.readouterr().out
    assert "train_batch_size 7" in out
    assert "unreadable" in out


def test_nothing_to_check_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """With the remedy."""
    assert 2 == main(["check"])
    assert "give a configuration" in capsys.readouterr().err


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same facts, as data, twice the same bytes."""
    name = write(tmp_path, train_batch_size=7)
    assert 1 == main(["check", name, "--world", "4", "--format", "json"])
    first = capsys.readouterr().out
    main(["check", name, "--world", "4", "--format", "json"])
    assert first == capsys.readouterr().out
    report = json.loads(first)
    assert ("rootrank.check/1", "will-fail") == (report["schema"], report["verdict"])
    (found,) = report["findings"]
    expected = {"rule", "severity", "place", "fault", "why", "remedy", "entry", "source"}
    assert expected == set(found)
    schema = json.loads((SCHEMAS / "rootrank.check-1.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(report)


def test_secrets_do_not_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A value that is quoted may be a token."""
    token = "hf_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7"
    name = write(tmp_path, train_batch_size=token)
    main(["check", name])
    assert token not in capsys.readouterr().out


def test_this_machine_can_be_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--host works anywhere, and says that it looked."""
    assert main(["check", "--host", "--format", "json"]) in (0, 1, 3)
    assert True is json.loads(capsys.readouterr().out)["host"]


# --------------------------------------------------------------------------- --repro


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        ("python train.py --max_steps 3", ["train.py", "--max_steps", "3"]),
        ("python -u -m pkg.train -x", ["-m", "pkg.train", "-x"]),
        ("torchrun --nnodes 2 --nproc_per_node=8 --tee 3 train.py", ["--tee", "3", "train.py"]),
        ("./train.py a", ["./train.py", "a"]),
    ],
)
def test_what_repro_will_run(text: str, tail: list[str]) -> None:
    """The user's words, through torchrun, on one process and on two: nothing else differs."""
    one, two = repro.commands(text)
    assert tail == list(one[-len(tail) :])
    assert [("--nproc-per-node=1", "--nproc-per-node=2")] == [
        pair for pair in zip(one, two, strict=True) if pair[0] != pair[1]
    ]


@pytest.mark.parametrize("text", ["", "rm -rf x", "python -c 'x'", "python 'x"])
def test_what_repro_refuses(text: str) -> None:
    """Usage errors, before anything runs."""
    from rootrank.errors import UsageError

    with pytest.raises(UsageError):
        repro.commands(text)


def runs(folder: Path, code: str) -> repro.Run:
    """Run a program as one of the two, for four seconds at most."""
    (folder / "p.py").write_text(code)
    return repro.run((sys.executable, str(folder / "p.py")), 1, 4.0, str(folder))


def test_a_run_is_told_by_its_end(tmp_path: Path) -> None:
    """Its code, and the last error it printed."""
    bad = runs(tmp_path, "print('step 1'); raise ValueError('bad lr')")
    assert 1 == bad.code
    assert ("ValueError: bad lr",) == bad.last
    assert 0 == runs(tmp_path, "print('fine')").code


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc")
def test_a_run_without_end_is_ended_with_its_children(tmp_path: Path) -> None:
    """At the deadline; nothing is left behind."""
    code = (
        "import subprocess, sys, time\n"
        "c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " start_new_session=True)\n"
        "print(c.pid, flush=True); time.sleep(60)\n"
    )
    hung = runs(tmp_path, code)
    assert hung.code is None
    assert ended(int(hung.last[0]))


def ended(pid: int, within_s: float = 5.0) -> bool:
    """Return whether a process is gone, or only waits for whoever reaps it."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


def outcome(code: int | None) -> repro.Run:
    """Return a made-up run."""
    return repro.Run(processes=1, command=(), code=code, seconds=1, log="l", last=("E: x",))


@pytest.mark.parametrize(
    ("first", "second", "blamed", "severity"),
    [
        (1, None, "configuration", "will-fail"),
        (None, None, "configuration", "may-fail"),
        (0, 1, "the distribution is to blame", "will-fail"),
        (0, None, "the distribution is to blame", "may-fail"),
    ],
)
def test_who_is_to_blame(first: int | None, second: int | None, blamed: str, severity: str) -> None:
    """One process fails: not the distribution. Only two fail: the distribution."""
    (found,) = repro.judge(outcome(first), outcome(second))
    assert blamed in found.why
    assert severity == found.severity.value
    assert [] == repro.judge(outcome(0), outcome(0))


def test_repro_says_first_what_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both commands stand on standard error before the first starts."""
    seen: list[str] = []

    def fake(command: tuple[str, ...], n: int, deadline_s: float, folder: str) -> repro.Run:
        seen.append(capsys.readouterr().err)
        return outcome(0 if n == 1 else 1)

    monkeypatch.setattr(repro, "run", fake)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert 1 == main(["check", "--repro", "python train.py", "--repro-deadline", "5"])
    assert "--nproc-per-node=1 train.py" in seen[0]
    assert "--nproc-per-node=2 train.py" in seen[0]


# --------------------------------------------------------------------------- upkeep


def test_every_rule_names_an_entry_that_exists() -> None:
    """What a finding would become can be read."""
    assert FAMILIES
    missing = {r.id: r.entry for r in RULES.values() if r.entry and r.entry not in ENTRIES}
    assert {} == missing


def test_the_documentation_lists_every_rule_with_its_source() -> None:
    """docs/check.md is the list."""
    text = (ROOT / "docs/check.md").read_text(encoding="utf-8")
    assert [] == [r.id for r in RULES.values() if f"`{r.id}`" not in text]
    assert [] == [r.id for r in RULES.values() if r.source.replace("|", "\\|") not in text]
