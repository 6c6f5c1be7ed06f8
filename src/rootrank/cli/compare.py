"""Put entries side by side and say what tells them apart.

Takes ids, or one tag, stack or category whose entries are meant.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rootrank.cli import explain, shared

if TYPE_CHECKING:
    from rootrank.knowledge.types import Entry, Knowledge

EXAMPLES = """\
examples:
  rootrank compare host-oom-kill cgroup-oom-kill
  rootrank compare memory
"""

_MOST = 6  # columns that a screen can hold


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank compare`."""
    names = parser.add_argument("names", nargs="+", metavar="ID|TAG", help="ids, or one tag")
    names.completer = explain.entry_ids  # type: ignore[attr-defined]  # argcomplete's
    choices = ("text", "markdown")
    parser.add_argument("--format", choices=choices, default="text", help="form of the table")
    shared.add_look_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the comparison. Returns 0."""
    from rootrank.knowledge.load import load_knowledge
    from rootrank.knowledge.render import comparison

    entries = chosen(load_knowledge(), args.names)
    page = comparison(entries[:_MOST])
    if len(entries) > _MOST:
        page += f"\nAnd {', '.join(f'`{e.id}`' for e in entries[_MOST:])}.\n"
    if args.format == "markdown":
        shared.emit(page, exact=True)
    else:
        shared.emit(explain.set_text(page, args))
    return 0


def chosen(known: Knowledge, names: list[str]) -> list[Entry]:
    """Return the entries of the ids, or of a single tag; UsageError when fewer than two."""
    from rootrank.errors import UsageError

    if len(names) == 1 and names[0] not in known.entries:
        found = tagged(known, names[0])
        if len(found) < 2:
            remedy = "name two ids, or a tag of several entries"
            raise UsageError("compare", f"{names[0]!r} names {len(found)} entries", remedy)
        return found
    if len(names) == 1:
        raise UsageError("compare", "one entry only", f"name another one beside {names[0]}")
    return [explain.find(known, name) for name in dict.fromkeys(names)]


def tagged(known: Knowledge, word: str) -> list[Entry]:
    """Return the entries that have the word as tag, stack, category or phase."""
    return [
        e
        for e in known.entries.values()
        if word in (*e.tags, *e.stacks, *e.phase, e.category, e.layer)
    ]
