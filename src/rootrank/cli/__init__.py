"""The command line: which command, and what becomes of its errors. One command, one file.

Belongs here: dispatch, exit codes, the promise that no user meets a traceback.
Must not be here: anything slow to import (`rootrank --help` answers in a tenth of a second), and
anything a command does.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from rootrank.errors import RootrankError

# Name -> one line of help. The module of a command is rootrank.cli.<name>, imported when chosen.
COMMANDS = {
    "diagnose": "say which rank failed first, why, and what to do",
    "demo": "diagnose a shipped incident, to see what an answer looks like",
    "digest": "scan here, diagnose elsewhere: write what was found, not the logs",
    "merge": "diagnose from digests, wherever they were made",
    "collect": "gather evidence from a running job, without disturbing it",
    "explain": "read the encyclopedia's entry on a failure",
    "search": "find entries by words or by a pasted error line",
    "compare": "put entries side by side and say what tells them apart",
    "check": "say before the launch what will fail or hang",
    "lab": "break a small real job on purpose and see whether the cause is found",
    "kb": "write, try and check entries",
    "completion": "print the completion script of a shell",
}

_EXAMPLES = """\
examples:
  rootrank logs/                      the same as: rootrank diagnose logs/
  kubectl logs trainer-0 | rootrank -
  rootrank search "Cannot allocate memory"

exit codes of a diagnosis: 0 no failure, 1 failure, 2 usage or unreadable input,
3 insufficient evidence
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Raises nothing; `--debug` shows tracebacks."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    _forgiving_streams()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("rootrank: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, less) has what it wanted. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        return _failed(error, words)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as a line for a user: without the place in the source that issued it."""
    print(f"rootrank: warning: {message}", file=sys.stderr)


def _run(words: list[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    words = _with_command(words)
    parser = build_parser(words[0] if words else None)
    if not words:
        parser.print_help()
        return 0
    try:
        args = parser.parse_args(words)
    except SystemExit as done:  # --help and --version end this way
        return int(done.code or 0)
    run: Any = args.run
    return int(run(args))


def _with_command(words: list[str]) -> list[str]:
    """Return the words with `diagnose` in front when they begin with a path or with its options."""
    if not words:
        return ["diagnose", "-"] if _has_piped_input() else []
    first = words[0]
    if first in COMMANDS or first in ("-h", "--help", "--version"):
        return words
    if first.startswith("-") or os.path.exists(first) or _looks_like_path(first):  # noqa: PTH110
        return ["diagnose", *words]
    raise _unknown_command(first)


def _looks_like_path(word: str) -> bool:
    return any(c in word for c in "/\\*?[.:")


def _has_piped_input() -> bool:
    """Return whether standard input is a pipe, file or socket; /dev/null and a terminal are not."""
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # no standard input at all
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _unknown_command(word: str) -> Exception:
    import difflib

    from rootrank.errors import UsageError

    near = difflib.get_close_matches(word, COMMANDS, 1)
    remedy = f"did you mean {near[0]}?" if near else "see rootrank --help"
    return UsageError(word, "neither a command nor a file", remedy)


# --------------------------------------------------------------------------- parsers


def build_parser(command: str | None = None, *, every: bool = False) -> argparse.ArgumentParser:
    """Return the parser; only `command` gets its arguments, unless `every` one is wanted."""
    from importlib import import_module

    from rootrank._version import __version__
    from rootrank.cli.shared import Parser, describe

    parser = Parser(
        prog="rootrank",
        description="Which rank of a distributed training job failed first, and why.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"rootrank {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name, help_text in COMMANDS.items():
        sub = commands.add_parser(name, help=help_text)
        if every or name == command:
            module = import_module(f"rootrank.cli.{name}")
            describe(sub, module.__doc__ or "", module.EXAMPLES)
            module.add_arguments(sub)
    return parser


def _complete() -> None:
    """Answer the shell's completion request and exit."""
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(build_parser(every=True))


# --------------------------------------------------------------------------- errors


def _open_streams() -> None:
    """Put /dev/null where a standard stream was closed before the start, as `- <&-` and `>&-` do."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _forgiving_streams() -> None:
    """Make a terminal that cannot show a character show a substitute instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _failed(error: Exception, words: list[str]) -> int:
    """Report an error in the form that was asked for; return the exit code."""
    from rootrank.errors import RootrankError

    if isinstance(error, RootrankError):
        known = error
    else:
        if "--debug" in words:
            import traceback

            traceback.print_exc()
        known = _internal(error)
    heard = known.where != "standard output"
    if not (heard and wants_json(words) and _told_as_json(known)):
        line = f"rootrank: {known.where}: {known.fault}; {known.remedy}"
        print(" ".join(line.split()), file=sys.stderr)
    return 2


def _told_as_json(known: RootrankError) -> bool:
    """Write the error to standard output; return False where that cannot be written to."""
    from rootrank.report import render_error_json

    try:
        sys.stdout.write(render_error_json(known))
        sys.stdout.flush()
    except OSError:
        # Else Python would try once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _internal(error: Exception) -> RootrankError:
    from rootrank.errors import InputError, RootrankError

    if isinstance(error, OSError) and error.filename is not None:
        # A file of the user's, met outside the code that expects one: still no fault of ours.
        fault = error.strerror or type(error).__name__
        return InputError(str(error.filename), fault, "check the path and its permissions")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
        # What is read has a name; what cannot be written to here is where the output goes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return InputError(
            "standard output",
            error.strerror or "cannot be written",
            "free space there, or use -o FILE",
        )
    fault = f"{type(error).__name__}: {error}"
    remedy = "this is a bug: please report what the same command prints with --debug"
    return RootrankError("internal error", fault, remedy)


def wants_json(words: Sequence[str]) -> bool:
    """Return whether the command line asks for JSON, even when it cannot be parsed."""
    pairs = zip(words, [*words[1:], ""], strict=True)
    return any(
        word == "--format=json"
        or (word == "--format" and after == "json")
        or (word in ("-o", "--output") and after.endswith(".json"))
        for word, after in pairs
    )
