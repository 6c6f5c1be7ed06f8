"""Diagnose a shipped incident, to see what an answer looks like.

Ends with 0 whatever the incident was: showing it is what was asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rootrank.cli import shared

if TYPE_CHECKING:
    from rootrank.model import Diagnosis

EXAMPLES = """\
examples:
  rootrank demo
  rootrank demo --list
  rootrank demo silent-rank --format json
"""

FOLDER = Path(__file__).parents[1] / "demo"
FIRST = "killed"  # shown when no name is given: a rank that vanished without a word of its own


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank demo`."""
    name = parser.add_argument("name", nargs="?", metavar="NAME", help="which incident")
    name.completer = lambda **_: list(incidents())  # type: ignore[attr-defined]  # argcomplete's
    parser.add_argument("--list", action="store_true", help="list the incidents")
    shared.add_report_arguments(parser)
    parser.set_defaults(run=run)


def incidents() -> dict[str, str]:
    """Return name -> what its about.txt says in its first line, in order of name."""
    found = {}
    for about in sorted(FOLDER.glob("*/about.txt")):
        text = about.read_text(encoding="utf-8").strip()
        found[about.parent.name] = text.split("\n")[0]
    return found


def run(args: argparse.Namespace) -> int:
    """List the incidents, or diagnose one. Returns 0."""
    from rootrank.cli import diagnose
    from rootrank.errors import UsageError

    known = incidents()
    if args.list:
        wide = max(map(len, known), default=0)
        shared.emit("".join(f"{name:{wide}}  {about}\n" for name, about in known.items()))
        return 0
    name = args.name or (FIRST if FIRST in known else next(iter(known), ""))
    if name not in known:
        remedy = f"choose one of {', '.join(known)}" if known else "install the full package"
        raise UsageError("demo", f"no incident {name!r}", remedy)
    print(f"rootrank demo {name}: {known[name]}\n", file=sys.stderr)
    diagnose.report(_examined(name), args)
    return 0


def _examined(name: str) -> Diagnosis:
    """Return the diagnosis of an incident, made inside its folder so that names stay short."""
    from rootrank.cli import diagnose

    here = Path.cwd()
    os.chdir(FOLDER / name)
    try:
        return diagnose.examine(logs(name))
    finally:
        os.chdir(here)


def logs(name: str) -> list[str]:
    """Return the names of an incident's evidence inside its folder: all but about.txt."""
    return sorted(p.name for p in (FOLDER / name).iterdir() if p.name != "about.txt")
