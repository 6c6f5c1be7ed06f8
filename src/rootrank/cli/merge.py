"""Diagnose from digests: the same answer as from the logs that they were made of.

Give the files that `rootrank digest` wrote, or folders that hold them (*.rrd), in any order.
"""

from __future__ import annotations

import argparse

from rootrank.cli import shared

EXAMPLES = """\
examples:
  rootrank merge /shared/digests
  rootrank merge node-*.rrd --format json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank merge`."""
    parser.add_argument(
        "paths", nargs="+", metavar="FILE|DIR", help="digests, or folders that hold them"
    )
    parser.add_argument(
        "--as-of", metavar="TIME", help="read silence as of this time, not the last"
    )
    shared.add_report_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Diagnose and report. Returns 0 no failure, 1 failure, 3 insufficient evidence."""
    import gc

    from rootrank import pipeline
    from rootrank.cli import diagnose
    from rootrank.knowledge.load import load_knowledge

    as_of_s = diagnose.moment(args.as_of) if args.as_of else None
    # Millions of values that all stay to the end: looking for garbage among them is a fifth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        found = pipeline.conclude(pipeline.read_digests(args.paths), load_knowledge(), as_of_s)
    finally:
        if collects:
            gc.enable()
    diagnose.report(found, args)
    return found.exit_code
