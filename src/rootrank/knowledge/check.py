"""Enforces docs/entry-format.md: what an author must fix before an entry may ship.

Belongs here: one small function per rule, and the table that lists them. Must not be here: the
grammar (see `load`), or an opinion that the format page does not state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootrank.knowledge import commands, load, patterns
from rootrank.knowledge import vocabulary as words
from rootrank.knowledge.load import Document, Example
from rootrank.knowledge.types import Entry, Signal

if TYPE_CHECKING:
    from rootrank.errors import KnowledgeError
    from rootrank.model import Diagnosis

Run = Callable[[str], "Diagnosis"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One thing to fix: place, fault, remedy, and the rule that found it."""

    path: str
    line: int
    fault: str
    remedy: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.fault}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry under check, and the ids that it may refer to."""

    entry: Entry
    document: Document
    ids: frozenset[str] = field(default_factory=frozenset)

    def problem(self, fault: str, remedy: str, *names: str) -> Problem:
        """Return a problem at the first of the named head keys, tables or headings."""
        return self.at(self.document.line_of(*names), fault, remedy)

    def at(self, line: int, fault: str, remedy: str) -> Problem:
        """Return a problem at a line; the table of rules adds the rule's name."""
        return Problem(path=self.document.path, line=line, fault=fault, remedy=remedy, rule="")

    def signals(self) -> Iterator[tuple[str, Signal]]:
        """Yield the place ("signal[0]") and value of every signal."""
        for i, signal in enumerate(self.entry.signals):
            yield f"signal[{i}]", signal

    def rows(self, table: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the place and the raw row of every `[[table]]`."""
        for i, row in enumerate(self.document.head.get(table, ())):
            yield f"{table}[{i}]", row


Problems = Iterable[Problem]


def check(folder: Path | str, run: Run | None = None, only: Collection[str] = ()) -> list[Problem]:
    """Return every problem of the entries in `folder`, in order of place; empty is good.

    With `run` (log text in, diagnosis out) each example also goes through production. With `only`
    these entries are checked, against all the others.
    """
    malformed: list[KnowledgeError] = []
    pairs = load.load_documents(folder, malformed.append)
    found = [_malformed(e) for e in malformed]
    ids = frozenset(e.id for e, _ in pairs)
    items = [Item(entry=e, document=d, ids=ids) for e, d in pairs]
    for item in items:
        if not only or item.entry.id in only:
            found += check_item(item, run)
    for name, rule in WHOLE.items():
        found += [_named(p, name) for p in rule(items)]
    return sorted(p for p in found if not only or Path(p.path).stem in only)


def check_item(item: Item, run: Run | None = None) -> list[Problem]:
    """Return every problem that one entry has by itself."""
    found = [_named(p, name) for name, rule in RULES.items() for p in rule(item)]
    if run is not None:
        found += [_named(p, "production") for p in examples_hold(item, run)]
    return found


def _malformed(error: KnowledgeError) -> Problem:
    path, _, line = error.where.rpartition(":")
    if not path or not line.isdigit():
        path, line = error.where, "1"
    return Problem(
        path=path, line=int(line), fault=error.fault, remedy=error.remedy, rule="grammar"
    )


def _named(problem: Problem, rule: str) -> Problem:
    return Problem(
        path=problem.path,
        line=problem.line,
        fault=problem.fault,
        remedy=problem.remedy,
        rule=rule,
    )


# --------------------------------------------------------------------------- name and shape


def name_and_place(item: Item) -> Problems:
    """The id is the file name in lower case with hyphens; the folder is the category."""
    path, entry = Path(item.document.path), item.entry
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", entry.id):
        yield item.problem(f"id {entry.id!r}", "use lower case, digits and hyphens", "id")
    if path.stem != entry.id:
        yield item.problem(f"id {entry.id!r} in {path.name}", f"name it {entry.id}.md", "id")
    if path.parent.name != entry.category:
        remedy = f"move the file to {entry.category}/"
        fault = f"category {entry.category!r} in folder {path.parent.name!r}"
        yield item.problem(fault, remedy, "category")


def headings(item: Item) -> Problems:
    """The headings are the format's, in its order, with the required ones present and filled."""
    sections = item.document.sections
    for name in words.REQUIRED_HEADINGS:
        if not sections.get(name, "").strip():
            yield item.problem(f"no {name}", f"add ## {name} with text", name)
    known = [name for name in sections if name in words.HEADINGS]
    if known != sorted(known, key=words.HEADINGS.index):
        order = ", ".join(sorted(known, key=words.HEADINGS.index))
        yield item.problem("headings out of order", f"order them {order}", known[0])
    for name in sections:
        if name not in words.HEADINGS:
            remedy = f"use one of {', '.join(words.HEADINGS)}"
            yield item.problem(f"unknown heading {name!r}", remedy, name)


def subheadings(item: Item) -> Problems:
    """Perspectives, Code and FAQ hold `###` parts; those of Perspectives have fixed names."""
    for name in ("Perspectives", "Code", "FAQ"):
        if name not in item.document.sections:
            continue
        parts = subsections(item.document.sections[name])
        if not parts:
            yield item.problem(f"{name} has no ### part", "add one, or drop the heading", name)
        for part, text in parts.items():
            if not text.strip():
                yield item.problem(f"{name}: {part!r} is empty", "fill or drop it", name)
            if name == "Perspectives" and part not in words.PERSPECTIVES:
                remedy = f"use {', '.join(words.PERSPECTIVES)}"
                yield item.problem(f"perspective {part!r}", remedy, name)


def subsections(markdown: str) -> dict[str, str]:
    """Return `###` heading -> Markdown below it; headings inside fences do not count."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    fenced = False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        heading = None if fenced else re.match(r"### +(.+?)\s*$", line)
        if heading:
            current = found.setdefault(heading.group(1), [])
        elif current is not None:
            current.append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


def phrases(item: Item) -> Problems:
    """A title is a fragment, a summary a sentence or two, a Quick answer short."""
    entry = item.entry
    if entry.title.rstrip().endswith("."):
        yield item.problem("the title ends with a period", "drop it", "title")
    if len(entry.title) > 100:
        yield item.problem(f"a title of {len(entry.title)} characters", "at most 100", "title")
    if len(sentences(entry.summary)) > 3:
        yield item.problem("a summary of more than two sentences", "shorten it", "summary")
    if len(sentences(entry.quick)) > 6:
        yield item.problem("a Quick answer that is not quick", "2 to 4 sentences", "Quick answer")


# --------------------------------------------------------------------------- vocabulary


def enums(item: Item) -> Problems:
    """Every closed facet holds only its words."""
    for key, allowed in words.ENUMS.items():
        value = item.document.head.get(key, [])
        for word in value if isinstance(value, list) else [value]:
            if word not in allowed:
                yield item.problem(f"{key} {word!r}", f"use one of {', '.join(allowed)}", key)
    match = item.entry.match
    yield from _word(item, "match.scope", match.scope, words.SCOPES)
    for edge in match.explains:
        yield from _word(item, "match.explains", edge.on, words.LANES)
    for place, row in item.rows("check"):
        yield from _word(item, f"{place}.kind", row.get("kind", "command"), words.CHECK_KINDS)


def _word(item: Item, place: str, word: str, allowed: tuple[str, ...]) -> Problems:
    if word not in allowed:
        name = place.rpartition(".")[2]
        remedy = f"use one of {', '.join(allowed)}"
        yield item.problem(f"{name} {word!r}", remedy, place, place.partition(".")[0])


def signal_words(item: Item) -> Problems:
    """Roles, sighting kinds and derived words exist; each signal has its own name."""
    seen: set[str] = set()
    for place, signal in item.signals():
        if signal.name in seen:
            yield item.problem(f"two signals {signal.name!r}", "rename one", place)
        seen.add(signal.name)
        yield from _word(item, f"{place}.role", signal.role, words.ROLES)
        yield from _word(item, f"{place}.speaks_of", signal.speaks_of, words.SPEAKS_OF)
        if signal.on is not None:
            yield from _word(item, f"{place}.on", signal.on, tuple(words.SIGHTINGS))
        if signal.derived is not None:
            yield from _word(item, f"{place}.derived", signal.derived, words.DERIVED)


def conditions(item: Item) -> Problems:
    """A condition names a field that the sighting carries; `ranks` is one, some or all."""
    for place, signal in item.signals():
        if signal.on is None:
            known: set[str] = {*words.DERIVED_FIELDS, *words.ANY_FIELDS}
        else:
            known = {*words.SIGHTINGS.get(signal.on, ()), *words.ANY_FIELDS}
        for key, value in signal.where.items():
            if key not in known:
                fault = f"signal {signal.name!r}: {signal.on or signal.derived} has no {key!r}"
                remedy = f"use one of {', '.join(sorted(known))}"
                yield item.problem(fault, remedy, f"{place}.{key}", place)
            elif key == "ranks" and isinstance(value, str):
                yield from _word(item, f"{place}.ranks", value, words.EXTENTS)


# --------------------------------------------------------------------------- matching


def literals(item: Item) -> Problems:
    """Each literal is 6 or more bytes of printable ASCII: an anchor that a scan can afford."""
    for place, signal in item.signals():
        for literal in signal.literal:
            if len(literal.encode()) < 6:
                fault = f"signal {signal.name!r}: literal {literal!r} is short"
                yield item.problem(fault, "use 6 bytes or more", f"{place}.literal", place)
            if not (literal.isascii() and literal.isprintable()):
                fault = f"signal {signal.name!r}: literal {literal!r} is not printable ASCII"
                yield item.problem(fault, "anchor on other words", f"{place}.literal", place)


def anchored(item: Item) -> Problems:
    """In every line of a match example that a regex matches stands one of its literals."""
    for place, signal in item.signals():
        if not signal.literal or signal.regex is None:
            continue
        try:
            regex = re.compile(signal.regex)
        except re.error:
            continue  # `regexes` says so
        for example in _of_kind(item, "match"):
            for offset, line in enumerate(example.text.split("\n")):
                if regex.search(line) and not any(x in line for x in signal.literal):
                    fault = f"signal {signal.name!r} matches line {example.line + offset} by regex"
                    remedy = "add a literal that this line holds, or narrow the regex"
                    yield item.problem(f"{fault} but not by literal", remedy, place)


def regexes(item: Item) -> Problems:
    """Every regular expression compiles and stays cheap on a crafted line."""
    for place, signal in item.signals():
        for key, value in _patterns(signal):
            for fault in patterns.faults(value):
                where = (f"{place}.{key}", place)
                yield item.problem(f"signal {signal.name!r}: {key} {fault}", "rewrite it", *where)


def _patterns(signal: Signal) -> Iterator[tuple[str, str]]:
    if signal.regex is not None:
        yield "regex", signal.regex
    for key, value in signal.where.items():
        if key in words.PATTERN_FIELDS:
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, str):
                    yield key, one


_NEVER_CONCLUSIVE = {
    "exit": "an exit code",
    "collective-timeout": "a watchdog timeout",
    "watchdog-note": "a watchdog's word",
    "peer-loss": "the loss of a peer",
}
_MEMORY_WORDS = re.compile(
    r"(?i)out[ _.]{0,2}of[ _.]{0,2}memory(?:error)?|cuda|torch|error|\boom\b"
    r"|cublas_status_alloc_failed"
)


def conclusive(item: Item) -> Problems:
    """`conclusive` needs a message that states the mechanism itself."""
    for place, signal in item.signals():
        if not signal.conclusive:
            continue
        why = _NEVER_CONCLUSIVE.get(signal.on or "")
        if signal.derived is not None:
            why = "a comparison of lanes"
        elif signal.on != "oom-kill" and _only_memory_words(signal):
            why = "an out-of-memory message"
        if why:
            fault = f"signal {signal.name!r} is conclusive on {why}"
            yield item.problem(fault, "drop conclusive", f"{place}.conclusive", place)


def _only_memory_words(signal: Signal) -> bool:
    texts = [value for _, value in _patterns(signal)] or list(signal.literal)
    if signal.on is not None and isinstance(signal.where.get("type"), str):
        texts.append(signal.where["type"])
    if not any(re.search(r"(?i)out.{0,2}of.{0,2}memory|alloc_failed", t) for t in texts):
        return False
    return all(len(re.findall(r"[A-Za-z]", _MEMORY_WORDS.sub("", t))) < 6 for t in texts)


def match_table(item: Item) -> Problems:
    """`[match]` names signals of this entry, asks for something, and can begin."""
    match = item.entry.match
    names = {s.name for s in item.entry.signals}
    for key in ("all", "any", "none"):
        for name in getattr(match, key):
            if name not in names:
                fault = f"match.{key} names no signal {name!r}"
                remedy = f"use one of {', '.join(sorted(names))}"
                yield item.problem(fault, remedy, f"match.{key}", "match")
    if not match.all and not match.any:
        yield item.problem("match asks for nothing", "name signals in all or any", "match")
    wanted = {*match.all, *match.any}
    roles = {s.name: s.role for s in item.entry.signals}
    if "initiating" not in roles.values():
        yield item.problem("no initiating signal", "an entry begins with one", "signal[0]")
    if wanted and all(roles.get(n) == "context" for n in wanted):
        yield item.problem("match rests on context alone", "context anchors nothing", "match")


# --------------------------------------------------------------------------- references


def ids_resolve(item: Item) -> Problems:
    """Every id of another entry or sighting kind that is named exists."""
    entry = item.entry
    for key, named in (("related", entry.related), ("match.refines", entry.match.refines)):
        for other in named:
            if other not in item.ids:
                yield item.problem(f"{key}: no entry {other!r}", "correct or remove it", key)
            if other == entry.id:
                yield item.problem(f"{key} names the entry itself", "remove it", key)
    for edge in entry.match.explains:
        if edge.what not in item.ids | set(words.SIGHTINGS) | set(words.DERIVED):
            fault = f"explains: {edge.what!r} is neither an entry nor a sighting"
            yield item.problem(fault, "correct or remove it", "match.explains", "match")
    for i, reason in enumerate(entry.causes):
        if reason.entry and reason.entry not in item.ids - {entry.id}:
            fault = f"cause {reason.id!r}: no other entry {reason.entry!r}"
            yield item.problem(fault, "correct or remove it", f"cause[{i}].entry", f"cause[{i}]")


def causes_resolve(item: Item) -> Problems:
    """`for`, `against` and a fix's `cause` name root causes of this entry; their ids differ."""
    ids = [c.id for c in item.entry.causes]
    for name in {i for i in ids if ids.count(i) > 1}:
        yield item.problem(f"two causes {name!r}", "rename one", "cause[0]")
    for table in ("signal", "symptom", "check"):
        for place, row in item.rows(table):
            for key in ("for", "against"):
                for name in row.get(key, ()):
                    if name not in ids:
                        remedy = f"use one of {', '.join(ids)}"
                        yield item.problem(
                            f"{key} names no cause {name!r}", remedy, f"{place}.{key}", place
                        )
    for place, row in item.rows("fix"):
        if row.get("cause") and row["cause"] not in ids:
            fault = f"fix for no cause {row['cause']!r}"
            yield item.problem(fault, f"use one of {', '.join(ids)}", f"{place}.cause", place)


def causes_decidable(item: Item) -> Problems:
    """With several root causes, each has a question to ask or a signal that speaks of it."""
    if len(item.entry.causes) < 2:
        return
    for i, reason in enumerate(item.entry.causes):
        signals = (s for s in item.entry.signals if reason.id in s.for_ + s.against)
        if not (reason.ask or reason.entry or any(signals)):
            fault = f"nothing decides cause {reason.id!r}"
            yield item.problem(fault, "add ask, or a signal with for", f"cause[{i}]")


def references(item: Item) -> Problems:
    """A reference has a URL and the day it was read."""
    for place, row in item.rows("reference"):
        if not re.fullmatch(r"https?://[\w.-]+\.[a-z]{2,}(?::\d+)?(?:/\S*)?", row["url"]):
            fault = f"{row['url']!r} is no URL"
            yield item.problem(fault, "write https://…", f"{place}.url", place)
        if not re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", row.get("checked", "")):
            remedy = 'add checked = "YYYY-MM-DD"'
            yield item.problem("a reference without its day", remedy, f"{place}.checked", place)


def read_only(item: Item) -> Problems:
    """Commands of checks and of questions change nothing; only a fix may."""
    for table, key in (("check", "run"), ("cause", "command")):
        for place, row in item.rows(table):
            word = commands.writes(row.get(key, ""))
            if word:
                fault = f"{table} {key} may change something: {word!r}"
                where = (f"{place}.{key}", place)
                yield item.problem(fault, "use a command that only reads", *where)


# --------------------------------------------------------------------------- examples


def example_counts(item: Item) -> Problems:
    """At least one match and two near examples, each not empty."""
    for kind, least in (("match", 1), ("near", 2)):
        count = len(list(_of_kind(item, kind)))
        if count < least:
            fault = f"{count} ```log {kind} example{'' if count == 1 else 's'}"
            yield item.problem(fault, f"add {least - count}", "Examples")
    for example in item.document.examples:
        if not example.text.strip():
            yield item.at(example.line, "an empty example", "add the log")


def provenance(item: Item) -> Problems:
    """Each example says captured, reported [n] with an existing reference, or reconstructed."""
    count = len(item.document.head.get("reference", ()))
    for example in item.document.examples:
        said = re.match(r"(captured|reported|reconstructed)\b(?: \[(\d+)\])?", example.provenance)
        if not said:
            fault = f"example is {example.provenance[:40]!r}"
            remedy = "begin with # captured, # reported [n] or # reconstructed"
            yield item.at(example.line - 1, fault, remedy)
        elif said.group(1) == "reported" and not 1 <= int(said.group(2) or 0) <= count:
            fault = f"reported without a reference ({count} in the head)"
            yield item.at(example.line - 1, fault, "write # reported [n], n from 1")


_MAIL = re.compile(r"\b[\w.+-]+@([\w-]+\.)+(?!example\b|invalid\b|test\b|local\b)[a-z]{2,}\b")
_SECRET = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\bsk-[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bAKIA[A-Z0-9]{16}\b"
)


def neutral(item: Item) -> Problems:
    """Examples hold no mail address of a person and nothing shaped like a live token."""
    for example in item.document.examples:
        for offset, line in enumerate(example.text.split("\n")):
            mail = _MAIL.search(line)
            if mail and "example." not in mail.group():
                fault = f"an address: {mail.group()}"
                yield item.at(example.line + offset, fault, "use user@example.com")
            if _SECRET.search(line):
                yield item.at(example.line + offset, "a token", "replace it")


def _of_kind(item: Item, kind: str) -> Iterator[Example]:
    return (e for e in item.document.examples if e.kind == kind)


def examples_hold(item: Item, run: Run) -> Problems:
    """A match example leads to this entry through production; a near example never names it."""
    for example in item.document.examples:
        try:
            fault = example_fault(item.entry.id, example, run(example.text))
        except Exception as error:
            # The author of an entry is not the one to fix it, but must learn which log it was.
            fault = f"production fails on an example: {type(error).__name__}: {error}"
        if fault:
            yield item.at(example.line, fault, "try it with rootrank kb try")


def example_fault(entry: str, example: Example, found: Diagnosis) -> str | None:
    """Return what is wrong with the diagnosis of an example, or None."""
    leading = found.cause.entry if found.cause else None
    if example.kind == "match":
        if leading == entry:
            return None
        return f"a match example leads to {leading or found.verdict.value}"
    named = {leading, *(a.cause.entry for a in found.also)}
    return "a near example names this entry as cause" if entry in named else None


# --------------------------------------------------------------------------- the whole


def unique(items: list[Item]) -> Problems:
    """No two files have the same id, and no alias is the id of another entry."""
    first: dict[str, Item] = {}
    for item in items:
        if item.entry.id in first:
            other = first[item.entry.id].document.path
            yield item.problem(f"id {item.entry.id!r} is taken by {other}", "rename one", "id")
        first.setdefault(item.entry.id, item)
    for item in items:
        for alias in item.entry.aliases:
            if alias in first and alias != item.entry.id:
                yield item.problem(f"alias {alias!r} is another entry", "remove it", "aliases")


def refinements(items: list[Item]) -> Problems:
    """No entry refines itself by way of others."""
    edges = {i.entry.id: i.entry.match.refines for i in items}
    for item in items:
        seen: set[str] = set()
        todo = list(edges[item.entry.id])
        while todo:
            name = todo.pop()
            if name == item.entry.id:
                remedy = "let only the more specific one refine"
                yield item.problem("refines itself by way of others", remedy, "match.refines")
                break
            if name not in seen:
                seen.add(name)
                todo += edges.get(name, ())


def shared_sentences(items: list[Item]) -> Problems:
    """No sentence of six or more words stands in two entries."""
    first: dict[str, Item] = {}
    for item in items:
        own: set[str] = set()
        for names, sentence in _all_sentences(item):
            key = _normal(sentence)
            if len(key.split()) < 6 or key in own:
                continue
            own.add(key)
            other = first.setdefault(key, item)
            if other is not item:
                fault = f"shares a sentence with {other.entry.id}: {sentence[:60]!r}"
                yield item.problem(fault, "say what is particular here", *names)


_PROSE_KEYS = {
    "signal": ("limits",),
    "cause": ("text", "ask"),
    "symptom": ("sees", "means"),
    "check": ("text", "expect"),
    "fix": ("text", "risk", "verify"),
    "prevent": ("text", "watch"),
    "reference": ("says",),
}


def _all_sentences(item: Item) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (where, sentence) of all that an author wrote for people."""
    for key in ("title", "summary"):
        for sentence in sentences(item.document.head[key]):
            yield (key,), sentence
    for table, keys in _PROSE_KEYS.items():
        for place, row in item.rows(table):
            for key in keys:
                for sentence in sentences(row.get(key, "")):
                    yield (f"{place}.{key}", place), sentence
    for name, markdown in item.document.sections.items():
        for sentence in sentences(_without_fences(markdown)):
            yield (name,), sentence


def _without_fences(markdown: str) -> str:
    return re.sub(r"(?ms)^(`{3,}|~{3,}).*?^\1`*\s*$", "\n\n", markdown)


def sentences(text: str) -> list[str]:
    """Return the sentences of prose; paragraphs, headings and list items end one too."""
    found = []
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*#|]|\d+\.)\s?)", text)
    for block in blocks:
        joined = " ".join(block.split())
        found += [s for s in re.split(r"(?<=[.!?])\s+(?=[A-Z`\"(])", joined) if s]
    return found


def _normal(sentence: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", sentence.lower()))


RULES: dict[str, Callable[[Item], Problems]] = {
    "name": name_and_place,
    "headings": headings,
    "subheadings": subheadings,
    "phrases": phrases,
    "enums": enums,
    "signals": signal_words,
    "conditions": conditions,
    "literals": literals,
    "anchors": anchored,
    "regexes": regexes,
    "conclusive": conclusive,
    "match": match_table,
    "ids": ids_resolve,
    "causes": causes_resolve,
    "decidable": causes_decidable,
    "references": references,
    "read-only": read_only,
    "examples": example_counts,
    "provenance": provenance,
    "neutral": neutral,
}
WHOLE: dict[str, Callable[[list[Item]], Problems]] = {
    "unique": unique,
    "refinements": refinements,
    "shared": shared_sentences,
}
