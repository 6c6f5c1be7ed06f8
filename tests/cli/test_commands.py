"""What each command prints."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from rootrank.cli import demo, main, shared
from rootrank.cli.diagnose import moment
from rootrank.errors import UsageError
from rootrank.knowledge.load import ENTRIES, load_knowledge
from tests.knowledge.samples import GOOD, folder_of

Capture = pytest.CaptureFixture[str]
FAILED = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nValueError: x\n'
SOME = next(iter(load_knowledge().entries))


# --------------------------------------------------------------------------- diagnose


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("r.json", '{\n  "schema": "rootrank.diagnosis/1"'),
        ("r.md", "#"),
        ("r.html", "<!doctype html>"),
        ("r.sarif", "{"),
        ("r.txt", "FAILURE"),
    ],
)
def test_the_format_follows_the_file_name(
    tmp_path: Path, name: str, start: str, capsys: Capture
) -> None:
    """`-o report.html` is HTML; nothing goes to standard output."""
    log = tmp_path / "run.log"
    log.write_text(FAILED)
    assert 1 == main([str(log), "-o", str(tmp_path / name)])
    assert "" == capsys.readouterr().out
    assert (tmp_path / name).read_text(encoding="utf-8").lower().startswith(start.lower())


def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: Capture) -> None:
    """One line, exit code 2."""
    log = tmp_path / "run.log"
    log.write_text(FAILED)
    assert 2 == main([str(log), "-o", str(tmp_path / "absent" / "x.txt")])
    assert "cannot be written: No such file or directory; give -o a writable" in (
        capsys.readouterr().err
    )


def test_secrets_are_redacted_unless_told_not(tmp_path: Path, capsys: Capture) -> None:
    """A token in the decisive line does not leave the machine by a pasted report."""
    token = "hf_" + "abcdefghij" * 3 + "Q1w2"
    log = tmp_path / "run.log"
    log.write_text(FAILED.replace("x\n", f"bad token {token}\n"))
    main([str(log), "--format", "json"])
    assert token not in capsys.readouterr().out
    main([str(log), "--format", "json", "--no-redact"])
    assert token in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("1700000000.5", 1700000000.5),
        ("2023-11-14T22:13:20Z", 1700000000.0),
        ("2023-11-14T23:13:20+01:00", 1700000000.0),
        ("2023-11-14 22:13:20", 1700000000.0),
    ],
)
def test_moments(text: str, seconds: float) -> None:
    """ISO 8601 or seconds; without a zone it is UTC, whatever the machine's zone."""
    assert seconds == moment(text)


def test_no_moment() -> None:
    """The remedy shows the form."""
    with pytest.raises(UsageError, match="write 2026-08-20T03:12:44Z or seconds"):
        moment("yesterday")


# --------------------------------------------------------------------------- look


def looks(**values: object) -> argparse.Namespace:
    """Return parsed look options."""
    return argparse.Namespace(**{"color": "auto", "ascii": False, "output": None, **values})


def test_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only on a terminal, never against NO_COLOR, always when asked for."""
    assert not shared.use_color(looks())
    assert shared.use_color(looks(color="always"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shared.use_color(looks())
    assert not shared.use_color(looks(color="never"))
    assert not shared.use_color(looks(output="x.txt"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shared.use_color(looks())


def test_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """As asked, else the terminal's within what reads well."""
    assert 33 == shared.text_width(looks(width=33))
    for columns, expected in (("20", 60), ("90", 90), ("400", 120)):
        monkeypatch.setenv("COLUMNS", columns)
        assert expected == shared.text_width(looks(width=None))


def test_progress_is_silent_without_a_terminal(capsys: Capture) -> None:
    """A log of a batch job gets no progress line."""
    progress = shared.Progress(after_s=0)
    progress("reading", 1, 2)
    progress.close()
    assert "" == capsys.readouterr().err


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """It appears after the first second and leaves nothing behind."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    early = shared.Progress(after_s=60)
    early("reading", 1, 2)
    early.close()
    assert "" == capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    progress = shared.Progress(after_s=0)
    progress("reading", 1, 2)
    progress.close()
    assert "\r\x1b[Kreading 50 %\r\x1b[K" == capsys.readouterr().err


# --------------------------------------------------------------------------- demo


def test_demo_list(capsys: Capture) -> None:
    """Every shipped incident with its first line."""
    assert 0 == main(["demo", "--list"])
    lines = capsys.readouterr().out.strip().split("\n")
    assert list(demo.incidents()) == [line.split()[0] for line in lines]


@pytest.mark.parametrize("name", [*demo.incidents(), None])
def test_demo_runs(name: str | None, capsys: Capture) -> None:
    """Each is diagnosed from its own folder, ends with 0, and leaves us where we were."""
    here = Path.cwd()
    assert 0 == main(["demo", *([name] if name else []), "--format", "json"])
    out, err = capsys.readouterr()
    form = json.loads(out)
    assert "rootrank.diagnosis/1" == form["schema"]
    assert "about.txt" not in out
    assert str(demo.FOLDER) not in out
    assert err.startswith(f"rootrank demo {name or demo.FIRST}: ")
    assert here == Path.cwd()


# --------------------------------------------------------------------------- explain, search


def test_explain(capsys: Capture) -> None:
    """By id; as text for a terminal, as Markdown for a page, by section."""
    assert 0 == main(["explain", SOME, "--width", "70"])
    text = capsys.readouterr().out
    assert load_knowledge().entries[SOME].title[:30] in text
    assert 0 == main(["explain", SOME, "--format", "markdown", "--section", "quick"])
    assert capsys.readouterr().out.startswith("## Quick answer\n\n")
    assert 0 == main(["explain", SOME, "--ascii"])
    assert capsys.readouterr().out.isascii()


def test_explain_by_alias(capsys: Capture) -> None:
    """An alias leads to its entry, whatever its case."""
    entry = next(e for e in load_knowledge().entries.values() if e.aliases)
    assert 0 == main(["explain", entry.aliases[0].upper(), "--section", "quick"])
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["explain", SOME[:-1]], f"did you mean {SOME}"),
        (["explain", SOME, "--section", "nonsense"], "no section 'nonsense'; use one of quick, "),
    ],
)
def test_explain_refuses(words: list[str], expected: str, capsys: Capture) -> None:
    """A near miss is offered; a section that does not exist is named."""
    assert 2 == main(words)
    assert expected in capsys.readouterr().err


def test_search(capsys: Capture) -> None:
    """Hits with their titles; 1 as grep does when there are none."""
    assert 0 == main(["search", *SOME.split("-")])
    assert capsys.readouterr().out.startswith(f"{SOME}  ")
    assert 1 == main(["search", "!!!! ????"])
    assert "no entry found\n" == capsys.readouterr().out


def test_compare(capsys: Capture) -> None:
    """Two ids, or a tag of several entries."""
    first, second = list(load_knowledge().entries)[:2]
    assert 0 == main(["compare", first, second, "--format", "markdown"])
    assert f"|  | `{first}` | `{second}` |" in capsys.readouterr().out
    assert 0 == main(["compare", "crash"])
    assert "And " in capsys.readouterr().out
    assert 2 == main(["compare", first])
    assert "name another one beside" in capsys.readouterr().err


# --------------------------------------------------------------------------- kb


def test_kb_new_leaves_an_installed_package_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    """Outside a checkout a folder has to be named."""
    shipped = tmp_path / "site-packages" / "rootrank" / "knowledge" / "entries"
    shipped.mkdir(parents=True)
    monkeypatch.setattr("rootrank.knowledge.load.ENTRIES", shipped)
    assert 2 == main(["kb", "new", "my-failure"])
    assert "--folder" in capsys.readouterr().err
    assert [] == list(shipped.iterdir())


def test_kb_new_and_check(tmp_path: Path, capsys: Capture) -> None:
    """A new file is written where it belongs; the check then says what it lacks."""
    folder = ["--folder", str(tmp_path)]
    assert 0 == main(["kb", "new", "my-failure", "--category", "hang", *folder])
    path = tmp_path / "hang" / "my-failure.md"
    assert f"{path}\n" == capsys.readouterr().out
    assert 1 == main(["kb", "check", *folder])
    out, err = capsys.readouterr()
    assert out.endswith("[grammar]\n")
    assert "rootrank kb check: 1 problem\n" == err
    assert 2 == main(["kb", "check", "--folder", str(tmp_path / "absent")])


def test_kb_check_runs_the_examples(tmp_path: Path, capsys: Capture) -> None:
    """Without --no-run each example is diagnosed with the entries of that folder."""
    folder = folder_of(tmp_path, GOOD.replace("the store is gone\n", "store is fine\n"))
    assert 0 == main(["kb", "check", "--no-run", "--folder", str(folder)])
    assert 1 == main(["kb", "check", "--folder", str(folder)])
    assert "a match example leads to no-failure" in capsys.readouterr().out
    assert 0 == main(["kb", "check", "other-id", "--folder", str(folder)])


def test_kb_check_accepts_the_good_entry(tmp_path: Path, capsys: Capture) -> None:
    """The sample of the tests goes through production, too."""
    assert 0 == main(["kb", "check", "--folder", str(folder_of(tmp_path, GOOD))])
    assert "rootrank kb check: no problems\n" == capsys.readouterr().err


def test_kb_check_names_paths_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """An editor can open file:line."""
    monkeypatch.chdir(tmp_path)
    folder_of(tmp_path / "kb", GOOD.replace("[match]", "[[match]]"))
    main(["kb", "check", "--no-run", "--folder", "kb"])
    assert capsys.readouterr().out.startswith(f"kb{os.sep}crash{os.sep}store-lost.md:1: ")


def test_kb_try(tmp_path: Path, capsys: Capture) -> None:
    """What matched, and the diagnosis it leads to."""
    folder = folder_of(tmp_path / "kb", GOOD)
    log = tmp_path / "run.log"
    log.write_text("[rank1]: the store is gone\n")
    words = ["kb", "try", str(log), "--folder", str(folder)]
    assert 0 == main(words)
    out = capsys.readouterr().out
    assert "store-lost\n  matched  [match]: match holds\n  matched  gone: literal" in out
    assert out.endswith("diagnosis: failure, leading: store-lost (supported)\n")
    log.write_text("all quiet\n")
    assert 3 == main(words)
    assert "no signal matched" in capsys.readouterr().out
    assert 3 == main([*words, "--entry", "store-lost"])
    assert "absent   gone: no literal occurs" in capsys.readouterr().out
    assert 2 == main([*words, "--entry", "nobody"])


def test_kb_stats(capsys: Capture) -> None:
    """Counts by facet add up to the number of entries."""
    assert 0 == main(["kb", "stats"])
    out = capsys.readouterr().out
    assert out.startswith(f"entries {len(load_knowledge().entries)}\n")


def test_kb_compile_and_schema(tmp_path: Path, capsys: Capture) -> None:
    """The compiled form and the schema go where they are told."""
    target = tmp_path / "compiled.json"
    assert 0 == main(["kb", "compile", "-o", str(target)])
    assert f"{len(list(ENTRIES.glob('*/*.md')))} entries" in capsys.readouterr().out
    assert 1 == json.loads(target.read_text(encoding="utf-8"))["format"]
    assert 0 == main(["kb", "schema"])
    assert "rootrank.entry/1" == json.loads(capsys.readouterr().out)["$id"]
