"""Break a small training job on purpose, and see whether rootrank finds out what was done.

Each fault is a real run on CPU with torchrun and gloo, with a deadline; it leaves nothing behind
but what --keep and --report ask for. Needs Linux and torch; some faults need DeepSpeed or others.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rootrank.cli import shared

if TYPE_CHECKING:
    from rootrank.lab.bench import Result
    from rootrank.lab.fault import Found

EXAMPLES = """\
examples:
  rootrank lab list
  rootrank lab run hang-lock
  rootrank lab run kill --ranks 4 --keep lab-runs
  rootrank lab run --all --keep lab-runs --report lab.md
  rootrank lab judge lab-runs

exit codes: 0 every answer was right, 1 one was not, 2 usage, or nothing could run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank lab`."""
    verbs = parser.add_subparsers(metavar="VERB", title="verbs", required=True)
    listed = verbs.add_parser("list", help="list the faults, with their truth")
    shared.describe(listed, "List the faults, with their truth.", EXAMPLES)
    listed.set_defaults(run=show)
    runs = verbs.add_parser("run", help="run faults and judge the diagnosis")
    shared.describe(runs, "Run faults, diagnose them, and compare with the truth.", EXAMPLES)
    name = runs.add_argument("faults", nargs="*", metavar="FAULT", help="which faults to run")
    name.completer = _names  # type: ignore[attr-defined]  # argcomplete's
    runs.add_argument("--all", action="store_true", help="every fault")
    runs.add_argument("--ranks", type=_ranks, metavar="N", help="ranks of the job")
    runs.add_argument("--keep", metavar="DIR", help="keep the evidence of each run below DIR")
    runs.add_argument("--report", metavar="FILE", help="write the table to FILE (.md or .json)")
    runs.set_defaults(run=run)
    again = verbs.add_parser("judge", help="diagnose kept runs again, without running anything")
    shared.describe(
        again, "Diagnose kept runs again: after a change of entries or rules.", EXAMPLES
    )
    again.add_argument("folder", metavar="DIR", help="what --keep was given")
    again.add_argument("--report", metavar="FILE", help="write the table to FILE (.md or .json)")
    again.set_defaults(run=judge)


def _names(**_: object) -> list[str]:
    from rootrank.lab.fault import faults

    return list(faults())


def _ranks(text: str) -> int:
    ranks = int(text)
    if not 2 <= ranks <= 64:
        raise argparse.ArgumentTypeError("give a number of ranks from 2 to 64")
    return ranks


def show(args: argparse.Namespace) -> int:
    """List the faults. Returns 0."""
    from rootrank.lab.bench import listing
    from rootrank.lab.fault import faults

    shared.emit(listing(faults().values()))
    return 0


def run(args: argparse.Namespace) -> int:
    """Run the chosen faults. Returns 0 when every answer was right, else 1; 2 when none could run."""
    from rootrank.lab.bench import run_one

    folder = Path(args.keep).resolve() if args.keep else None
    results = []
    for found in _chosen(args):
        print(f"rootrank lab: {found.name}: {found.fault.about}", file=sys.stderr)
        result = run_one(found, args.ranks, folder)
        print(f"rootrank lab: {_outcome(result)}", file=sys.stderr)
        results.append(result)
    return _concluded(results, args.report)


def judge(args: argparse.Namespace) -> int:
    """Diagnose kept runs again. Returns as `run` does."""
    from rootrank.errors import InputError
    from rootrank.lab.bench import judge_again
    from rootrank.lab.fault import faults

    kept = [p.parent for p in sorted(Path(args.folder).glob("*/result.json"))]
    known = faults()
    results = [judge_again(known[p.name], p.resolve()) for p in kept if p.name in known]
    if not results:
        remedy = "give the folder that --keep was given"
        raise InputError(args.folder, "no kept run in it", remedy)
    return _concluded(results, args.report)


def _concluded(results: list[Result], report: str | None) -> int:
    from rootrank.lab.bench import table

    shared.emit(table(results))
    if report:
        _write(report, results)
    done = [r for r in results if not r.skipped]
    return 2 if not done else int(not all(r.good for r in done))


def _chosen(args: argparse.Namespace) -> list[Found]:
    from rootrank.errors import UsageError
    from rootrank.lab.fault import faults

    known = faults()
    if args.all:
        return list(known.values())
    if not args.faults:
        raise UsageError("lab run", "no fault named", "name some, or give --all")
    for name in args.faults:
        if name not in known:
            raise UsageError("lab run", f"no fault {name!r}", "see rootrank lab list")
    return [known[name] for name in args.faults]


def _outcome(result: Result) -> str:
    if result.skipped:
        return f"skipped: {result.skipped}"
    views = "; ".join(f"from {o.view}: {o.word} ({o.who}, {o.entry})" for o in result.outcomes)
    return f"{result.name}: {views} in {result.seconds:.0f} s"


def _write(name: str, results: list[Result]) -> None:
    import json
    from dataclasses import asdict

    from rootrank.lab.bench import markdown

    if name.endswith(".json"):
        text = json.dumps([asdict(r) for r in results], indent=2) + "\n"
    else:
        text = markdown(results)
    shared.emit(text, name)
