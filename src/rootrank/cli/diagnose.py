"""Say which rank failed first, why, and what to do; or exactly which fact is missing.

Reads files, folders, globs, archives and bundles in any mix: the logs of all ranks, the launcher's,
a dmesg, the scheduler's word. Everything stays on this machine.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rootrank.cli import shared

if TYPE_CHECKING:
    from rootrank.model import Diagnosis

EXAMPLES = """\
examples:
  rootrank diagnose logs/ dmesg.txt
  rootrank diagnose 'run-7/**/stderr.log' --format json
  ssh node-5 dmesg | rootrank diagnose logs/ -
  rootrank diagnose logs/ -o report.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank diagnose`."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="what to read; - is stdin")
    parser.add_argument(
        "--as-of", metavar="TIME", help="read silence as of this time, not the last"
    )
    parser.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="worker processes")
    shared.add_report_arguments(parser)
    parser.set_defaults(run=run)


def _jobs(text: str) -> int:
    jobs = int(text)
    if not 1 <= jobs <= 1024:
        raise argparse.ArgumentTypeError("give a number of processes from 1 on")
    return jobs


def run(args: argparse.Namespace) -> int:
    """Diagnose and report. Returns 0 no failure, 1 failure, 3 insufficient evidence."""
    paths = args.paths or _piped()
    as_of_s = moment(args.as_of) if args.as_of else None
    found = examine(paths, as_of_s=as_of_s, jobs=args.jobs)
    report(found, args)
    return found.exit_code


def _piped() -> list[str]:
    from rootrank.errors import UsageError

    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("diagnose", "nothing to read", "name a file or folder, or pipe a log in")
    return ["-"]


def examine(paths: list[str], *, as_of_s: float | None = None, jobs: int = 1) -> Diagnosis:
    """Return the diagnosis of `paths`, with a progress line where somebody watches."""
    from rootrank import pipeline

    progress = shared.Progress()
    stdin = sys.stdin.buffer if "-" in paths and sys.stdin is not None else None
    try:
        return pipeline.diagnose(paths, as_of_s=as_of_s, stdin=stdin, jobs=jobs, progress=progress)
    finally:
        progress.close()


def report(found: Diagnosis, args: argparse.Namespace) -> None:
    """Write the diagnosis in the form that was asked for; secrets are redacted unless told not."""
    from rootrank import report as reports
    from rootrank._version import __version__

    if not args.no_redact:
        found = reports.redact_diagnosis(found)
    form = shared.chosen_format(args)
    if form == "text":
        text = reports.render_terminal(
            found,
            width=shared.text_width(args),
            color=shared.use_color(args),
            unicode=shared.use_unicode(args),
            audience=args.audience or "engineer",
            verbose=args.verbose,
        )
    elif form == "json":
        text = reports.render_json(found, __version__)
    elif form == "sarif":
        text = reports.render_sarif(found, __version__)
    elif form == "markdown":
        text = reports.render_markdown(found, audience=args.audience or "engineer")
    else:
        text = reports.render_html(found, audience=args.audience or "engineer")
    shared.emit(text if text.endswith("\n") else text + "\n", args.output, exact=form != "text")


def moment(text: str) -> float:
    """Return seconds since the epoch of an ISO 8601 time or a number; no zone means UTC."""
    from datetime import datetime, timezone

    from rootrank.errors import UsageError

    try:
        return float(text)
    except ValueError:
        pass
    try:
        # Python 3.10 does not read the Z.
        stamp = datetime.fromisoformat(text.strip().replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError as error:
        remedy = "write 2026-08-20T03:12:44Z or seconds since the epoch"
        raise UsageError("--as-of", f"{text!r} is no time", remedy) from error
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=timezone.utc)).timestamp()
