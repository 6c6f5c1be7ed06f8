"""What several commands share: the parser's manners, output options, writing, progress.

Belongs here: argparse and stream handling. Must not be here: anything that `--help` need not load.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

AUDIENCES = ("executive", "engineer", "oncall")
FORMATS = ("text", "json", "markdown", "html", "sarif")
_SUFFIXES = {".json": "json", ".md": "markdown", ".html": "html", ".sarif": "sarif"}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours: place, fault, remedy."""

    def __init__(self, **options: object) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        # An abbreviation that works today is ambiguous tomorrow, in somebody's script.
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)  # type: ignore[arg-type]  # passed through untouched

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing and exiting."""
        from rootrank.errors import UsageError

        name = self.prog.partition(" ")[2] or "arguments"
        raise UsageError(name, message, f"see {self.prog} --help")


def describe(parser: argparse.ArgumentParser, doc: str, examples: str) -> None:
    """Give a command its description, its examples and the options that all commands have."""
    parser.description = doc.split("\n\n")[0]
    parser.epilog = examples
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--debug", action="store_true", help="show a traceback if this fails")


# --------------------------------------------------------------------------- output options


def add_look_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide how text looks on a terminal."""
    group = parser.add_argument_group("look")
    group.add_argument("--width", type=_width, metavar="N", help="columns of text output")
    choices = ("auto", "always", "never")
    group.add_argument("--color", choices=choices, default="auto", help="colour (default: auto)")
    group.add_argument("--ascii", action="store_true", help="no characters beyond ASCII")


def _width(text: str) -> int:
    width = int(text)
    if not 20 <= width <= 1000:
        raise argparse.ArgumentTypeError("give a number of columns from 20 to 1000")
    return width


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that reports a diagnosis."""
    group = parser.add_argument_group("report")
    formats = "default: from the suffix of -o, else text"
    group.add_argument("--format", choices=FORMATS, help=f"form of the report ({formats})")
    group.add_argument("--for", dest="audience", choices=AUDIENCES, help="whom the text speaks to")
    group.add_argument("-v", "--verbose", action="store_true", help="every item, not the first few")
    group.add_argument("-o", "--output", metavar="FILE", help="write the report to FILE")
    group.add_argument("--no-redact", action="store_true", help="keep secrets as they stand")
    add_look_arguments(parser)


def chosen_format(args: argparse.Namespace) -> str:
    """Return the report format: as asked, else by the suffix of the output file, else text."""
    if args.format:
        return str(args.format)
    return _SUFFIXES.get(Path(args.output or "").suffix.lower(), "text")


def use_color(args: argparse.Namespace) -> bool:
    """Return whether text output may use colour; a file gets none unless `always` is asked for."""
    if args.color != "auto":
        return bool(args.color == "always")
    if getattr(args, "output", None) or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def use_unicode(args: argparse.Namespace) -> bool:
    """Return whether output may go beyond ASCII: not when asked, nor when it cannot be encoded."""
    if args.ascii:
        return False
    if getattr(args, "output", None):
        return True
    try:
        "─│●→…".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def text_width(args: argparse.Namespace) -> int:
    """Return the columns to fill: as asked, else the terminal's within what reads well."""
    if args.width:
        return int(args.width)
    import shutil

    return max(60, min(120, shutil.get_terminal_size((100, 24)).columns))


def emit(text: str, output: str | None = None, *, exact: bool = False) -> None:
    """Write the result to a file or to standard output.

    `exact` forms (JSON, HTML …) are UTF-8 with plain newlines whatever the locale, so that the
    same input gives the same bytes everywhere.
    """
    if output and output != "-":
        _write_file(Path(output), text)
    elif exact and hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(text)


def _write_file(path: Path, text: str) -> None:
    from rootrank.errors import UsageError

    try:
        path.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        fault = f"cannot be written: {error.strerror}"
        raise UsageError(str(path), fault, "give -o a writable path") from error


# --------------------------------------------------------------------------- progress


class Progress:
    """A line on standard error that says how far the reading is; silent for the first second.

    Shown only on a terminal, redrawn at most ten times a second, and removed at the end.
    """

    def __init__(self, after_s: float = 1.0) -> None:
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._next = time.monotonic() + after_s
        self._drawn = False

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Note that `done` of `total` units (None: unknown) of a stage are behind us."""
        now = time.monotonic()
        if not self._live or now < self._next:
            return
        self._next = now + 0.1
        self._drawn = True
        share = f" {min(100, 100 * done // total)} %" if total else ""
        sys.stderr.write(f"\r\x1b[K{stage}{share}")
        sys.stderr.flush()

    def close(self) -> None:
        """Remove the line."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False
