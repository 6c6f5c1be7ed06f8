"""Write, try and check entries of the encyclopedia.

An entry is one Markdown file, knowledge/entries/<category>/<id>.md; docs/entry-format.md explains.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rootrank.cli import shared

if TYPE_CHECKING:
    from rootrank.knowledge.check import Problem, Run
    from rootrank.knowledge.trial import Trial
    from rootrank.knowledge.types import Entry, Knowledge

EXAMPLES = """\
examples:
  rootrank kb new nccl-socket-refused --category wont-start
  rootrank kb try failed.log --entry nccl-socket-refused
  rootrank kb check
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `rootrank kb`."""
    verbs = parser.add_subparsers(metavar="VERB", required=True, title="verbs", dest="verb")
    for name, (help_text, example, fill, run) in _VERBS.items():
        sub = verbs.add_parser(name, help=help_text)
        shared.describe(sub, f"{help_text[0].upper()}{help_text[1:]}.", f"example:\n  {example}\n")
        fill(sub)
        sub.add_argument("--folder", type=Path, metavar="DIR", help="entries, if not the shipped")
        sub.set_defaults(run=run)


def _folder(args: argparse.Namespace) -> Path:
    from rootrank.errors import UsageError
    from rootrank.knowledge.load import ENTRIES

    folder: Path = args.folder or ENTRIES
    if not folder.is_dir():
        raise UsageError(str(folder), "no such folder", "name the folder that holds <category>/")
    return folder


# --------------------------------------------------------------------------- new


def _fill_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="lower case with hyphens; names the failure")
    parser.add_argument("--category", default="crash", help="what one sees (default: crash)")


def _new(args: argparse.Namespace) -> int:
    from rootrank.errors import UsageError
    from rootrank.knowledge import new
    from rootrank.knowledge.load import ENTRIES

    if args.folder is None and not (ENTRIES.parents[3] / "pyproject.toml").is_file():
        # Not in a checkout: the next upgrade would throw the entry away.
        raise UsageError(
            str(ENTRIES), "belongs to the installed package", "name a folder of yours with --folder"
        )
    shared.emit(f"{new.create(args.id, args.category, _folder(args))}\n")
    return 0


# --------------------------------------------------------------------------- try


def _fill_try(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="LOG", help="logs to try")
    parser.add_argument("--entry", action="append", metavar="ID", help="only this entry, in full")


def _try(args: argparse.Namespace) -> int:
    """Print what matched and what nearly did. Returns 0 when something matched, else 3."""
    from rootrank.knowledge.load import load_entries

    known = load_entries(_folder(args), _complain)
    chosen = _chosen(known, args.entry)
    trials = _trials(args.paths, known, chosen)
    if not args.entry:
        near = {t.entry for t in trials if t.signal and t.state == "matched"}
        trials = [t for t in trials if t.entry in near and t.state != "absent"]
    shared.emit("".join(_told(trials)) or "no signal matched\n")
    _say_leading(args.paths, known)
    return 0 if any(t.state == "matched" for t in trials) else 3


def _chosen(known: Knowledge, ids: list[str] | None) -> list[Entry]:
    from rootrank.errors import UsageError

    for name in ids or ():
        if name not in known.entries:
            raise UsageError("kb try", f"no entry {name!r}", "see rootrank search")
    return [known.entries[name] for name in ids or known.entries]


def _trials(paths: list[str], known: Knowledge, chosen: list[Entry]) -> list[Trial]:
    """Return the trials of all signals of the chosen entries, and of their matches."""
    from rootrank import pipeline
    from rootrank.knowledge import trial

    found: list[Trial] = []
    for source, lines in _plain_lines(paths):
        found += trial.try_lines(lines, chosen, source)
    timeline = pipeline.timeline(pipeline.digest_sources(paths, known))
    found += trial.try_sightings(timeline, chosen, type(pipeline.tools_for(known)[1]))
    return found + [trial.try_match(entry, found) for entry in chosen]


def _plain_lines(paths: list[str]) -> Iterable[tuple[str, list[str]]]:
    """Yield the lines of every plain file under the paths, as literals are matched on them."""
    for path in map(Path, paths):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                yield str(file), file.read_bytes().decode("utf-8", "replace").splitlines()


def _told(trials: Iterable[Trial]) -> Iterable[str]:
    entry = ""
    order = {"matched": 0, "near": 1, "absent": 2}
    for t in sorted(trials, key=lambda t: (t.entry, bool(t.signal), order[t.state])):
        if t.entry != entry:
            entry = t.entry
            yield f"{entry}\n"
        place = f"{t.source}:{t.line}" if t.line else ""
        yield f"  {t.state:8} {t.signal or '[match]'}: {t.why}\n"
        if t.text:
            yield f"           {place} {t.text[:160]}\n"


def _say_leading(paths: list[str], known: Knowledge) -> None:
    from rootrank import pipeline

    found = pipeline.diagnose(paths, knowledge=known)
    leading = found.cause
    what = f"{leading.entry or leading.title} ({leading.status.value})" if leading else "nothing"
    shared.emit(f"\ndiagnosis: {found.verdict.value}, leading: {what}\n")


# --------------------------------------------------------------------------- check


def _fill_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("entry", nargs="*", metavar="ID", help="only these (default: all)")
    parser.add_argument("--no-run", action="store_true", help="do not diagnose the examples")


def _check(args: argparse.Namespace) -> int:
    """Print one line per problem. Returns 0 when there is none, else 1."""
    from rootrank.knowledge.check import check

    folder = _folder(args)
    found = check(folder, None if args.no_run else _production(folder), args.entry)
    for problem in found:
        shared.emit(f"{_near(problem)} [{problem.rule}]\n")
    count = f"{len(found)} problem{'' if len(found) == 1 else 's'}" if found else "no problems"
    print(f"rootrank kb check: {count}", file=sys.stderr)
    return 1 if found else 0


def _near(problem: Problem) -> str:
    """Return the problem with its path as seen from here, so that an editor can open it."""
    path = Path(problem.path)
    try:
        shown = str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        shown = str(path)
    return str(problem).replace(problem.path, shown, 1)


def _production(folder: Path) -> Run:
    """Return the production path for a log text, with the entries of `folder`."""
    import io

    from rootrank import pipeline
    from rootrank.knowledge.load import load_entries

    known = load_entries(folder, lambda _: None)  # `check` reports the malformed ones itself
    return lambda text: pipeline.diagnose(
        ["-"], knowledge=known, stdin=io.BytesIO(text.encode("utf-8"))
    )


def _complain(error: Exception) -> None:
    print(f"rootrank: {error}", file=sys.stderr)


# --------------------------------------------------------------------------- stats


def _stats(args: argparse.Namespace) -> int:
    from rootrank.knowledge.load import load_documents

    pairs = load_documents(_folder(args), _complain)
    entries = [e for e, _ in pairs]
    lines = [f"entries {len(entries)}\n"]
    for key in ("category", "kind", "layer", "maturity"):
        lines.append(f"\n{key}\n")
        counts = Counter(getattr(e, key) for e in entries)
        lines += [f"  {word:16}{count:5}\n" for word, count in counts.most_common()]
    examples = Counter(x.kind for _, d in pairs for x in d.examples)
    lines.append(f"\nexamples\n  match           {examples['match']:5}\n")
    lines.append(f"  near            {examples['near']:5}\n")
    lines.append(f"\nsignals {_signals(entries)}\n")
    shared.emit("".join(lines))
    return 0


def _signals(entries: list[Entry]) -> int:
    return sum(len(e.signals) for e in entries)


# --------------------------------------------------------------------------- compile, schema


def _compile(args: argparse.Namespace) -> int:
    from rootrank.knowledge import compile as compiled

    target = Path(args.output) if args.output else compiled.COMPILED
    form = compiled.compile_entries(_folder(args))
    compiled.write(form, target)
    shared.emit(f"{target}: {len(form['entries'])} entries\n")
    return 0


def _fill_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write")


def _schema(args: argparse.Namespace) -> int:
    from rootrank.knowledge.schema import entry_schema_text

    shared.emit(entry_schema_text(), args.output, exact=True)
    return 0


_VERBS = {
    "new": (
        "write the template of an entry",
        "rootrank kb new nccl-socket-refused --category wont-start",
        _fill_new,
        _new,
    ),
    "try": (
        "say which signals of which entries a log carries, nearly carries, and why not",
        "rootrank kb try failed.log --entry host-oom-kill",
        _fill_try,
        _try,
    ),
    "check": (
        "check every rule of the entry format, and every example through production",
        "rootrank kb check host-oom-kill",
        _fill_check,
        _check,
    ),
    "stats": (
        "count entries by category, kind, layer and maturity",
        "rootrank kb stats",
        lambda _: None,
        _stats,
    ),
    "compile": (
        "write the compiled form that loads in milliseconds",
        "rootrank kb compile",
        _fill_output,
        _compile,
    ),
    "schema": (
        "print the JSON Schema of an entry's head",
        "rootrank kb schema -o schemas/rootrank.entry-1.schema.json",
        _fill_output,
        _schema,
    ),
}
