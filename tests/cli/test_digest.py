"""`rootrank digest` and `merge`: the same answer as from the logs; what is written is shown, and redacted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rootrank.cli import main

Capture = pytest.CaptureFixture[str]
TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz" + "12345678"


@pytest.fixture
def job(tmp_path: Path) -> list[Path]:
    """Return the logs of two ranks; one holds a token."""
    logs = []
    for rank, error in (
        (0, "RuntimeError: Connection closed by peer [10.0.0.9]:4096"),
        (1, f"KeyError: 'labels of {TOKEN}'"),
    ):
        path = tmp_path / f"rank_{rank}.log"
        path.write_text(
            f'Traceback (most recent call last):\n  File "t.py", line {rank}, in <module>\n{error}\n'
        )
        logs.append(path)
    return logs


def test_merged_is_the_same_as_one_run(job: list[Path], tmp_path: Path, capsys: Capture) -> None:
    """Byte for byte, exit code included; from files or from their folder."""
    code = main([*map(str, job), "--format", "json"])
    want = capsys.readouterr().out
    out = tmp_path / "digests" / "deep"
    out.mkdir(parents=True)
    for n, log in enumerate(job):
        assert 0 == main(["digest", str(log), "-o", str(out / f"{n}.rrd")])
    assert "1 source, " in capsys.readouterr().err

    assert code == main(["merge", str(out / "1.rrd"), str(out / "0.rrd"), "--format", "json"])
    assert want == capsys.readouterr().out
    assert code == main(["merge", str(tmp_path / "digests"), "--format", "json"])
    assert want == capsys.readouterr().out


def test_the_same_digest_twice_counts_once(
    job: list[Path], tmp_path: Path, capsys: Capture
) -> None:
    """A file given twice, or copied, adds nothing."""
    out = tmp_path / "a.rrd"
    main(["digest", *map(str, job), "-o", str(out)])
    main(["merge", str(out), "--format", "json"])
    want = capsys.readouterr().out
    (tmp_path / "b.rrd").write_bytes(out.read_bytes())
    main(["merge", str(out), str(out), str(tmp_path / "b.rrd"), "--format", "json"])

    assert want == capsys.readouterr().out


def test_sources_of_one_name_stay_apart(tmp_path: Path, capsys: Capture) -> None:
    """Two nodes that both call their log out.log are two sources."""
    for node in ("a", "b"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "out.log").write_text(
            f"node {node}: step 1 loss 2.0\nKeyError: '{node}'\n"
        )
        main(["digest", str(tmp_path / node), "-o", str(tmp_path / f"{node}.rrd")])
    capsys.readouterr()
    main(["merge", str(tmp_path), "--format", "json"])

    assert 2 == json.loads(capsys.readouterr().out)["coverage"]["sources"]


def test_show_prints_all_of_it_redacted(job: list[Path], tmp_path: Path, capsys: Capture) -> None:
    """JSON, one object per source; secrets are not even in the file."""
    out = tmp_path / "a.rrd"
    main(["digest", *map(str, job), "-o", str(out)])
    capsys.readouterr()
    assert 0 == main(["digest", "--show", str(out)])
    text = capsys.readouterr().out

    assert TOKEN not in text
    assert "<redacted:" in text
    first = json.JSONDecoder().raw_decode(text)[0]
    assert "KeyError" not in json.dumps(first["sightings"])
    assert 3 == first["lines"]
    main(["digest", *map(str, job), "-o", str(out), "--no-redact"])
    capsys.readouterr()
    main(["digest", "--show", str(out)])
    assert TOKEN not in capsys.readouterr().out
    main(["digest", "--show", str(out), "--no-redact"])
    assert TOKEN in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["digest"], "nothing to read"),
        (["digest", "LOG"], "no file to write to"),
        (["digest", "LOG", "-o", "/nowhere/x.rrd"], "cannot be written"),
        (["digest", "--show", "LOG"], "is no digest file"),
        (["merge", "LOG"], "is no digest file"),
        (["merge", "/nowhere"], "no such file"),
        (["merge", "DIR"], "holds no digest"),
    ],
)
def test_errors_name_place_fault_and_remedy(
    words: list[str], says: str, job: list[Path], tmp_path: Path, capsys: Capture
) -> None:
    """One line, exit code 2."""
    assert 2 == main([{"LOG": str(job[0]), "DIR": str(tmp_path)}.get(w, w) for w in words])
    error = capsys.readouterr().err
    assert says in error
    assert 1 == error.count("\n")


def test_the_recipe_for_many_nodes(tmp_path: Path, capsys: Capture) -> None:
    """docs/scale.md: one process per node, each with its own logs, writes beside the others; then one merge."""
    logs, shared = [], tmp_path / "shared"
    shared.mkdir()
    for node in range(3):
        folder = tmp_path / f"node-{node}"
        folder.mkdir()
        for rank in (2 * node, 2 * node + 1):
            error = (
                "KeyError: 'labels'"
                if rank == 3
                else "RuntimeError: [/gloo/pair.cc:553] Connection closed by peer [10.0.0.9]:4096"
            )
            path = folder / f"rank_{rank}.log"
            path.write_text(
                f'2026-03-01 00:00:0{rank} step 1\nTraceback (most recent call last):\n  File "t.py", line 1, in <module>\n{error}\n'
            )
            logs.append(path)
    recipe = 'exec "$PYTHON" -m rootrank digest "$LOCAL" --output "$SHARED/$SLURM_NODEID.rrd"'
    nodes = [
        subprocess.Popen(
            ["sh", "-c", recipe], stderr=subprocess.PIPE,
            env={**os.environ, "PYTHON": sys.executable, "LOCAL": str(tmp_path / f"node-{n}"), "SHARED": str(shared), "SLURM_NODEID": str(n)},
        )
        for n in range(3)
    ]  # fmt: skip
    for process in nodes:
        assert b"2 sources" in process.communicate()[1]
        assert 0 == process.returncode
    main(["merge", str(shared), "--format", "json"])
    merged = json.loads(capsys.readouterr().out)

    assert 3 == merged["initiating"]["rank"]
    assert 6 == merged["coverage"]["sources"]
    main([*(str(tmp_path / f"node-{n}") for n in range(3)), "--format", "json"])
    assert merged == json.loads(capsys.readouterr().out)
