"""The promises of the command line: exit codes, errors in one line, no tracebacks, speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import rootrank
from rootrank import cli, pipeline
from rootrank.cli import main, wants_json

PROGRAM = [sys.executable, "-m", "rootrank"]
FAILED = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nValueError: x\n'
HEALTHY = "".join(f"step {i} loss {3 - i / 100}\n" for i in range(1, 50)) + "Training finished\n"

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log with one failure."""
    path = tmp_path / "run.log"
    path.write_text(FAILED)
    return path


def program(
    *words: str, stdin: bytes | None = b"", **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command as its own process."""
    return subprocess.run(
        [*PROGRAM, *words],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **env},
        timeout=60,
    )


# --------------------------------------------------------------------------- dispatch


def test_a_path_alone_is_diagnosed(log: Path, capsys: Capture) -> None:
    """`rootrank logs/` is short for `rootrank diagnose logs/`."""
    assert 1 == main([str(log), "--format", "json"])
    short = capsys.readouterr().out
    assert 1 == main(["diagnose", str(log), "--format", "json"])
    assert short == capsys.readouterr().out
    assert 1 == main(["--format", "json", str(log)])
    assert short == capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["-"], ["diagnose"], ["diagnose", "-"]])
def test_a_piped_log_is_diagnosed(words: list[str]) -> None:
    """With and without the dash, with and without the command."""
    done = program(*words, stdin=FAILED.encode())
    assert 1 == done.returncode
    assert b"ValueError" in done.stdout


def test_nothing_piped_and_nothing_named_is_help() -> None:
    """On a terminal, or with no input at all, the program says what it can do."""
    done = subprocess.run(PROGRAM, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert 0 == done.returncode
    assert b"commands:" in done.stdout


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_every_command_has_help_with_an_example(command: str, capsys: Capture) -> None:
    """The epilog shows how it is used."""
    assert 0 == main([command, "--help"])
    text = capsys.readouterr().out
    assert f"  rootrank {command}" in text
    assert "examples:" in text


@pytest.mark.parametrize("verb", ["new", "try", "check", "stats", "compile", "schema"])
def test_every_verb_has_help_with_an_example(verb: str, capsys: Capture) -> None:
    """The same below `kb`."""
    assert 0 == main(["kb", verb, "--help"])
    assert f"  rootrank kb {verb}" in capsys.readouterr().out


def test_version(capsys: Capture) -> None:
    """The constant of the package."""
    assert 0 == main(["--version"])
    assert f"rootrank {rootrank.__version__}\n" == capsys.readouterr().out


def test_help_is_fast_and_loads_little() -> None:
    """`--help` imports neither the pipeline nor the entries; the bar is 0.12 s."""
    code = (
        "import sys\nfrom rootrank.cli import main\nmain(['--help'])\n"
        "print(sorted(m for m in sys.modules if m.startswith('rootrank')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ["rootrank", "rootrank._version", "rootrank.cli", "rootrank.cli.shared"]
    assert str(loaded) == done.stderr.strip()
    spent = []
    for _ in range(5):
        start = time.perf_counter()
        program("--help")
        spent.append(time.perf_counter() - start)
    assert 0.5 > min(spent)  # a loaded machine gets four times the bar


# --------------------------------------------------------------------------- exit codes


def test_exit_code_1_for_a_failure(log: Path) -> None:
    """Something failed."""
    assert 1 == main([str(log), "-o", os.devnull])


def test_exit_code_0_for_a_healthy_run(tmp_path: Path) -> None:
    """Nothing failed."""
    path = tmp_path / "run.log"
    path.write_text(HEALTHY)
    assert 0 == main([str(path), "-o", os.devnull])


def test_exit_code_3_for_insufficient_evidence(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Something is abnormal and nothing is more than suspected."""
    from rootrank.model import Diagnosis, Verdict

    found = Diagnosis(verdict=Verdict.INSUFFICIENT, summary="One fact is missing.")
    monkeypatch.setattr(pipeline, "diagnose", lambda *_, **__: found)
    assert 3 == main([str(log)])
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["dagnose"], "rootrank: dagnose: neither a command nor a file; did you mean diagnose?"),
        (["zzz"], "rootrank: zzz: neither a command nor a file; see rootrank --help"),
        (["diagnose", "/no/such/file"], "rootrank: /no/such/file: "),
        (["diagnose", "x", "--format", "xml"], "rootrank: diagnose: argument --format: invalid"),
        (["diagnose", "x", "--jobs", "0"], "rootrank: diagnose: argument --jobs: give a number"),
        (["diagnose", "x", "--width", "5"], "rootrank: diagnose: argument --width: give a number"),
        (["diagnose", "x", "--as-of", "noon"], "rootrank: --as-of: 'noon' is no time; write 2026-"),
        (["diagnose", "x", "--bogus"], "unrecognized arguments: --bogus; see rootrank"),
        (["explain", "no-such-entry"], "rootrank: explain: no entry 'no-such-entry'; "),
        (["demo", "no-such-demo"], "rootrank: demo: no incident 'no-such-demo'; choose one of "),
        (["kb"], "rootrank: kb: the following arguments are required: VERB; see rootrank kb"),
        (["compare", "x"], "rootrank: compare: 'x' names 0 entries; "),
        (["completion", "tcsh"], "rootrank: completion: argument shell: invalid choice"),
    ],
)
def test_exit_code_2_and_one_line(words: list[str], expected: str, capsys: Capture) -> None:
    """Place, fault, remedy, in one line on standard error; nothing on standard output."""
    assert 2 == main(words)
    out, err = capsys.readouterr()
    assert "" == out
    assert 1 == err.count("\n")
    assert expected in err


def test_errors_as_json(capsys: Capture) -> None:
    """With --format json an error is JSON on standard output, also one of usage."""
    for words in (
        ["/no/such/file", "--format", "json"],
        ["diagnose", "--format=json", "--bogus"],
        ["diagnose", "x", "--as-of", "noon", "--format", "json"],
    ):
        assert 2 == main(words)
        out, err = capsys.readouterr()
        form = json.loads(out)
        assert ["schema", "where", "fault", "remedy"] == list(form)
        assert "rootrank.error/1" == form["schema"]
        assert "" == err


def test_wanting_json_is_read_from_words() -> None:
    """Even a command line that cannot be parsed says in which form it wants the error."""
    assert wants_json(["x", "--format", "json"])
    assert wants_json(["--format=json"])
    assert wants_json(["-o", "a.json"])
    assert not wants_json(["json", "--format", "text"])
    assert not wants_json(["--format"])


# --------------------------------------------------------------------------- no tracebacks


def broken(*_: object, **__: object) -> None:
    """Fail as a bug does."""
    raise KeyError("lane")


def test_a_bug_is_one_line_that_asks_for_a_report(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The user meets no traceback; --debug shows it for the report."""
    monkeypatch.setattr(pipeline, "diagnose", broken)
    assert 2 == main([str(log)])
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert "internal error: KeyError: 'lane'; this is a bug: please report" in err
    assert "--debug" in err
    assert 2 == main([str(log), "--debug"])
    assert "Traceback" in capsys.readouterr().err


def test_a_warning_is_one_line(log: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """An unfinished entry in a checkout is named, and the diagnosis goes on."""
    real = pipeline.diagnose

    def warned(*words: Any, **options: Any) -> Any:
        warnings.warn("x.md:1: no kind; add it", stacklevel=1)
        return real(*words, **options)

    monkeypatch.setattr(pipeline, "diagnose", warned)
    assert 1 == main([str(log), "-o", os.devnull])
    assert "rootrank: warning: x.md:1: no kind; add it\n" == capsys.readouterr().err


def test_an_interrupt_is_130(log: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Ctrl-C ends quietly, as shells expect."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "diagnose", interrupted)
    assert 130 == main([str(log)])
    assert "rootrank: interrupted\n" == capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="pipes of a POSIX shell")
def test_a_reader_that_leaves_early(log: Path) -> None:
    """`| head -1` ends the program without a word of complaint."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, "explain", next(iter(rootrank.load_knowledge().entries))],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (141, b"") == (done.returncode, done.stderr)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_that_cannot_show_a_character(tmp_path: Path, encoding: str) -> None:
    """Whatever the locale, output appears; JSON is the same bytes everywhere."""
    path = tmp_path / "run.log"
    path.write_text(FAILED.replace("x\n", "naïve 名前 \U0001f600\n"), encoding="utf-8")
    text = program(str(path), PYTHONIOENCODING=encoding)
    assert (1, b"") == (text.returncode, text.stderr)
    assert b"ValueError" in text.stdout
    first = program(str(path), "--format", "json", PYTHONIOENCODING=encoding)
    assert first.stdout == program(str(path), "--format", "json").stdout
    assert b"ValueError" in first.stdout


def test_no_standard_input_at_all(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service without stdin can still name a file, and gets an error for the dash."""
    monkeypatch.setattr(sys, "stdin", None)
    assert 0 == main([])
    assert 1 == main([str(log), "-o", os.devnull])
    assert 2 == main(["diagnose"])


# --------------------------------------------------------------------------- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: Capture) -> None:
    """The script calls the program."""
    assert 0 == main(["completion", shell])
    assert "rootrank" in capsys.readouterr().out


def complete(line: str) -> list[str]:
    """Return what Tab offers at the end of a line."""
    env = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": os.devnull,
    }
    reader, writer = os.pipe()
    code = f"import os; os.dup2({writer}, 8)\nfrom rootrank.cli import main\nmain()"
    env.pop("_ARGCOMPLETE_STDOUT_FILENAME")
    subprocess.run([sys.executable, "-c", code], env=env, pass_fds=[writer], check=False)
    os.close(writer)
    with os.fdopen(reader) as offered:
        return [w.strip() for w in offered.read().split("\n") if w.strip()]


@pytest.mark.skipif(os.name != "posix", reason="file descriptors of a POSIX shell")
def test_tab_offers_commands_ids_and_demos() -> None:
    """Names come from the program itself."""
    assert "diagnose" in complete("rootrank di")
    known = rootrank.load_knowledge().entries
    name = next(iter(known))
    assert name in complete(f"rootrank explain {name[:-1]}")
    assert "healthy" in complete("rootrank demo hea")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("extra", [[], ["--format", "json"]])
def test_output_that_cannot_be_written(extra: list[str]) -> None:
    """A full disk is told on standard error in one line, with exit code 2, not as a failure of the job."""
    argv = [sys.executable, "-m", "rootrank", "demo", "silent-rank", *extra]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert 2 == done.returncode
    assert done.stderr.splitlines()[-1].startswith("rootrank: standard output: No space left")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="closes a descriptor by a shell")
def test_closed_streams() -> None:
    """Streams closed before the start are as empty as /dev/null."""
    for words in ("diagnose - <&-", "demo silent-rank >&-"):
        line = f"{sys.executable} -m rootrank {words}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert "bug" not in done.stderr
