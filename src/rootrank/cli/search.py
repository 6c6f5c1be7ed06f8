"""Find entries by words, by misspelt words, or by a pasted error line.

A line without its log suggests what to read; to learn what happened, diagnose the log.
"""

from __future__ import annotations

import argparse

from rootrank.cli import shared

EXAMPLES = """\
examples:
  rootrank search loss is nan
  rootrank search "RuntimeError: DataLoader worker (pid 812) is killed by signal: Killed."
  rootrank search hang --limit 20
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank search`."""
    parser.add_argument("words", nargs="+", metavar="WORDS", help="words or one quoted line")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="hits (default: 10)")
    shared.add_look_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the hits, best first. Returns 0 when there are any, else 1 as grep does."""
    import textwrap

    from rootrank.knowledge.load import load_knowledge
    from rootrank.knowledge.render import to_ascii
    from rootrank.knowledge.search import search

    hits = search(load_knowledge(), " ".join(args.words), max(1, args.limit))
    bold, end = ("\x1b[1m", "\x1b[0m") if shared.use_color(args) else ("", "")
    width = shared.text_width(args)
    lines = []
    for hit in hits:
        entry = hit.entry
        lines.append(f"{bold}{entry.id}{end}  {entry.title}")
        lines += textwrap.wrap(
            f"{entry.category}, {entry.kind}; by {hit.why}",
            width,
            initial_indent="    ",
            subsequent_indent="    ",
        )
    text = "\n".join(lines) + "\n" if lines else "no entry found\n"
    shared.emit(text if shared.use_unicode(args) else to_ascii(text))
    return 0 if hits else 1
