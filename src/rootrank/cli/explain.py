"""Read the encyclopedia's entry on a failure.

What it is, how to tell its root causes apart, how to check, fix and prevent it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rootrank.cli import shared

if TYPE_CHECKING:
    from rootrank.knowledge.load import Document
    from rootrank.knowledge.types import Entry, Knowledge

EXAMPLES = """\
examples:
  rootrank explain host-oom-kill
  rootrank explain host-oom-kill --for oncall
  rootrank explain host-oom-kill --section checks
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank explain`."""
    name = parser.add_argument("id", metavar="ID", help="an entry's id or alias")
    name.completer = entry_ids  # type: ignore[attr-defined]  # argcomplete's
    parser.add_argument("--for", dest="audience", choices=shared.AUDIENCES, default="engineer")
    parser.add_argument("--section", metavar="NAME", help="only this section, such as fixes")
    choices = ("text", "markdown")
    parser.add_argument("--format", choices=choices, default="text", help="form of the page")
    shared.add_look_arguments(parser)
    parser.set_defaults(run=run)


def entry_ids(**_: object) -> list[str]:
    """Return all ids, for the shell's completion."""
    from rootrank.knowledge.load import load_knowledge

    return list(load_knowledge().entries)


def run(args: argparse.Namespace) -> int:
    """Print the entry. Returns 0."""
    from rootrank.knowledge import render
    from rootrank.knowledge.load import load_knowledge

    entry = find(load_knowledge(), args.id)
    page = render.page(entry, *_prose(entry, args), section=args.section)
    if args.format == "markdown":
        shared.emit(page, exact=True)
    else:
        shared.emit(set_text(page, args))
    return 0


def set_text(markdown: str, args: argparse.Namespace) -> str:
    """Return Markdown set for the terminal as the look options say."""
    from rootrank.knowledge import render

    return render.on_terminal(
        markdown,
        width=shared.text_width(args),
        color=shared.use_color(args),
        unicode=shared.use_unicode(args),
    )


def find(known: Knowledge, name: str) -> Entry:
    """Return the entry of an id or alias; UsageError with the nearest ids when there is none."""
    if name in known.entries:
        return known.entries[name]
    for entry in known.entries.values():
        if name.lower() in (a.lower() for a in entry.aliases):
            return entry
    from rootrank.errors import UsageError
    from rootrank.knowledge.search import nearest

    near = nearest(known, name)
    remedy = f"did you mean {' or '.join(near)}?" if near else "try rootrank search WORDS"
    raise UsageError("explain", f"no entry {name!r}", remedy)


def _prose(entry: Entry, args: argparse.Namespace) -> tuple[Document, str]:
    """Return the entry's document and the audience; UsageError when the section is not there."""
    from rootrank.errors import UsageError
    from rootrank.knowledge import load, render

    path = load.ENTRIES / entry.category / f"{entry.id}.md"
    _, document = load.parse_entry(load.read_text(path), str(path))
    section = args.section
    if section and section not in render.SECTIONS:
        remedy = f"use one of {', '.join(render.SECTIONS)}"
        raise UsageError("explain", f"no section {section!r}", remedy)
    if section and not render.has_section(entry, document, section):
        raise UsageError(entry.id, f"has nothing under {section!r}", "leave out --section")
    return document, args.audience
