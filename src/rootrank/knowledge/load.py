"""Reads entries: Markdown with a TOML head in, values of `knowledge.types` out.

Belongs here: the grammar of docs/entry-format.md and the path from a folder to a `Knowledge`.
Must not be here: judgement of contents (see `check`), matching, rendering.
"""

from __future__ import annotations

import hashlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from rootrank.errors import KnowledgeError
from rootrank.knowledge.types import (
    Entry,
    Explains,
    Fix,
    Knowledge,
    Match,
    Prevention,
    Reason,
    Signal,
)

ENTRIES = Path(__file__).parent / "entries"

# --------------------------------------------------------------------------- documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One log fence of an entry: a test of what must, or must not, match."""

    kind: str  # match | near
    provenance: str  # first line without "#": captured | reported [n] | reconstructed …
    text: str
    line: int  # line of the Markdown file where `text` begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One entry file as written: the whole head, the prose, and where things stand."""

    path: str
    head: Mapping[str, Any]
    sections: Mapping[str, str]  # `##` heading -> Markdown below it, in order
    examples: tuple[Example, ...]
    lines: Mapping[str, int] = field(default_factory=dict)  # "signal[0]", "title" -> line
    section_lines: Mapping[str, int] = field(default_factory=dict)

    def line_of(self, *names: str) -> int:
        """Return the line of the first name that the head or the headings hold, else 1."""
        for name in names:
            if name in self.lines:
                return self.lines[name]
            if name in self.section_lines:
                return self.section_lines[name]
        return 1


# --------------------------------------------------------------------------- grammar

_TEXT = str
_LIST = list
TOP_KEYS: dict[str, type] = {
    **dict.fromkeys(
        ["id", "title", "summary", "kind", "category", "layer", "owner", "retry", "repair"], _TEXT
    ),
    **dict.fromkeys(["taints", "effort", "systems", "versions", "search"], _TEXT),
    **dict.fromkeys(["phase", "stacks", "affects", "tags", "related", "aliases"], _LIST),
    "min_ranks": int,
}
REQUIRED = ("id", "title", "summary", "kind", "category", "layer", "owner", "retry", "repair")

SIGNAL_KEYS = frozenset(
    ["name", "role", "on", "derived", "literal", "regex"]
    + ["speaks_of", "conclusive", "limits", "for", "against"]
)
TABLES: dict[str, dict[str, type]] = {
    "cause": dict.fromkeys(["id", "text", "ask", "command", "entry"], _TEXT),
    "symptom": {"sees": _TEXT, "means": _TEXT, "for": _LIST, "against": _LIST},
    "check": {
        **dict.fromkeys(["text", "run", "expect", "cost", "kind"], _TEXT),
        "for": _LIST,
        "against": _LIST,
    },
    "fix": dict.fromkeys(["cause", "text", "run", "edit", "risk", "verify"], _TEXT),
    "prevent": {"text": _TEXT, "watch": _TEXT},
    "reference": {"url": _TEXT, "says": _TEXT, "checked": _TEXT},
}
NEEDED = {
    "cause": ("id", "text"),
    "symptom": ("sees", "means"),
    "check": ("text",),
    "fix": ("text",),
    "prevent": ("text",),
    "reference": ("url", "says"),
    "signal": ("name", "role", "limits"),
}
MATCH_KEYS: dict[str, type] = {
    **dict.fromkeys(["all", "any", "none", "refines", "explains"], _LIST),
    "scope": _TEXT,
    "within_s": float,
}
EXPLAINS_KEYS: dict[str, type] = {"what": _TEXT, "on": _TEXT, "after": bool}

_FENCE = re.compile(r"^(`{3,}|~{3,})\s*(.*?)\s*$")
_HEADING = re.compile(r"^## +(.+?)\s*$")
_TABLE = re.compile(r"^\s*(\[\[?)\s*([A-Za-z_][\w.-]*)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z_][\w-]*)\s*=")


def parse_entry(text: str, path: str) -> tuple[Entry, Document]:
    """Return the entry and its document.

    Raises KnowledgeError `path:line: fault; remedy` when the text does not have the shape of an
    entry. Contents (vocabulary, references, examples) are judged by `check`, not here.
    """
    document = parse_document(text, path)
    _validate(document)
    return build_entry(document.head, quick_answer(document), maturity(document)), document


def parse_document(text: str, path: str) -> Document:
    """Return the parts of an entry file without validating the head's keys."""
    lines = text.replace("\r\n", "\n").split("\n")
    first, last = _head_fence(lines, path)
    source = "\n".join(lines[first:last])
    head = _toml(source, path, first)
    sections, section_lines = _sections(lines, last + 1)
    return Document(
        path=path,
        head=head,
        sections=sections,
        examples=tuple(_examples(lines, last + 1, path)),
        lines=_head_lines(lines[first:last], first),
        section_lines=section_lines,
    )


def _fault(path: str, line: int, fault: str, remedy: str) -> KnowledgeError:
    return KnowledgeError(f"{path}:{line}", fault, remedy)


def _head_fence(lines: list[str], path: str) -> tuple[int, int]:
    """Return the half-open range of line indexes inside the leading ```toml fence."""
    start = next((i for i, line in enumerate(lines) if line.strip()), 0)
    opened = _FENCE.match(lines[start]) if lines else None
    if not opened or opened.group(2) != "toml":
        raise _fault(path, start + 1, "no TOML head", "begin the file with a ```toml fence")
    for i in range(start + 1, len(lines)):
        if lines[i].rstrip() == opened.group(1):
            return start + 1, i
    raise _fault(path, start + 1, "the ```toml fence is never closed", "close it with ```")


def _toml(source: str, path: str, first: int) -> dict[str, Any]:
    # Imported here: a compiled knowledge base is read without a TOML parser.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return dict(tomllib.loads(source))
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        line = first + int(at.group(1)) if at else first
        words = str(error).split(" (at")[0]
        raise _fault(path, line, f"invalid TOML: {words}", "correct the head") from error


def _head_lines(lines: list[str], first: int) -> dict[str, int]:
    """Return the line of every table ("signal[0]") and key ("title", "signal[0].regex")."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table, quoted = "", False
    for number, line in enumerate(lines, first + 1):
        inside, quoted = quoted, quoted ^ bool((line.count('"""') + line.count("'''")) % 2)
        if inside:
            continue
        if opened := _TABLE.match(line):
            table = opened.group(2)
            if opened.group(1) == "[[":
                index = counts.get(table, 0)
                counts[table] = index + 1
                table = f"{table}[{index}]"
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault(f"{table}.{key.group(1)}".lstrip("."), number)
    return found


def _body(lines: list[str], start: int) -> Iterable[tuple[int, str, str | None]]:
    """Yield (index, line, info string of the fence it stands in or opens, None outside)."""
    fence, info = "", ""
    for i in range(start, len(lines)):
        line = lines[i]
        found = _FENCE.match(line)
        if fence:
            yield i, line, info
            if found and not found.group(2) and found.group(1).startswith(fence):
                fence = ""
        elif found:
            fence, info = found.group(1), found.group(2)
            yield i, line, info
        else:
            yield i, line, None


def _sections(lines: list[str], start: int) -> tuple[dict[str, str], dict[str, int]]:
    parts: dict[str, list[str]] = {}
    where: dict[str, int] = {}
    current: list[str] = []
    for i, line, info in _body(lines, start):
        heading = _HEADING.match(line) if info is None else None
        if heading:
            current = parts.setdefault(heading.group(1), [])
            where.setdefault(heading.group(1), i + 1)
        else:
            current.append(line)
    return {k: "\n".join(v).strip("\n") for k, v in parts.items()}, where


def _examples(lines: list[str], start: int, path: str) -> Iterable[Example]:
    opened: int | None = None
    kind = ""
    for i, line, info in _body(lines, start):
        if info is None or info.split()[:1] != ["log"]:
            continue
        if opened is None:
            opened, kind = i, info[3:].strip()
            if kind not in ("match", "near"):
                raise _fault(path, i + 1, f"log fence {kind!r}", "write ```log match or near")
        elif _FENCE.match(line) and not _FENCE.sub(r"\2", line):
            yield _example(lines, opened, i, kind, path)
            opened = None
    if opened is not None:
        raise _fault(path, opened + 1, "the log fence is never closed", "close it with ```")


def _example(lines: list[str], opened: int, closed: int, kind: str, path: str) -> Example:
    """Return the example between the two fence lines; its first line is its provenance."""
    first = lines[opened + 1] if opened + 1 < closed else ""
    if not first.startswith("#"):
        remedy = "begin with # captured, # reported [n] or # reconstructed"
        raise _fault(path, opened + 2, "the example does not say where it is from", remedy)
    text = "\n".join(lines[opened + 2 : closed])
    return Example(
        kind=kind,
        provenance=first.lstrip("#").strip(),
        text=text + "\n" if text else "",
        line=opened + 3,
    )


# --------------------------------------------------------------------------- validation


def _validate(document: Document) -> None:
    head, path = document.head, document.path
    for key in REQUIRED:
        if not head.get(key):
            raise _fault(path, document.line_of(key), f"no {key}", f'add {key} = "…"')
    for key, value in head.items():
        if key in TOP_KEYS:
            _typed(document, key, value, TOP_KEYS[key])
        elif key not in TABLES and key not in ("signal", "match"):
            remedy = "remove it, or see docs/entry-format.md"
            raise _fault(path, document.line_of(key), f"unknown key {key!r}", remedy)
    for table, keys in TABLES.items():
        for where, row in _rows(document, table):
            _keys(document, where, row, keys)
    for where, row in _rows(document, "signal"):
        _signal_keys(document, where, row)
    _match_keys(document)
    for table in ("signal", "cause"):
        if not head.get(table):
            raise _fault(path, 1, f"no [[{table}]]", "add at least one")


def _rows(document: Document, table: str) -> Iterable[tuple[str, dict[str, Any]]]:
    rows = document.head.get(table, [])
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        line = document.line_of(table)
        raise _fault(document.path, line, f"[{table}] is not a list", f"write [[{table}]]")
    for i, row in enumerate(rows):
        where = f"{table}[{i}]"
        for key in NEEDED.get(table, ()):
            if row.get(key) in (None, ""):
                line = document.line_of(where)
                name = row.get("name") or row.get("id") or i + 1
                raise _fault(document.path, line, f"{table} {name!r} has no {key}", f"add {key}")
        yield where, row


def _keys(document: Document, where: str, row: dict[str, Any], known: dict[str, type]) -> None:
    for key, value in row.items():
        if key not in known:
            line = document.line_of(f"{where}.{key}", where)
            fault = f"unknown key {key!r} in {where}"
            raise _fault(document.path, line, fault, f"use one of {', '.join(sorted(known))}")
        _typed(document, f"{where}.{key}", value, known[key])


def _typed(document: Document, where: str, value: object, wanted: type) -> None:
    """Raise unless `value` is of the wanted type; a list holds strings or inline tables."""
    good = isinstance(value, (int, float) if wanted is float else wanted)
    good = good and (wanted is bool or not isinstance(value, bool))
    if good and isinstance(value, list):
        good = all(isinstance(v, (str, dict)) for v in value)
    if not good:
        names = {str: "a string", list: "a list of strings", int: "a whole number"}
        remedy = f"write {names.get(wanted, wanted.__name__)}"
        line = document.line_of(where, where.rpartition(".")[0])
        fault = f"{where} is {type(value).__name__}"
        raise _fault(document.path, line, fault, remedy)


def _signal_keys(document: Document, where: str, row: dict[str, Any]) -> None:
    line = document.line_of(where)
    name = row.get("name")
    ways = [k for k in ("on", "literal", "derived") if row.get(k)]
    if not ways and "regex" in row:
        remedy = "add one of 6 bytes or more"
        raise _fault(document.path, line, f"signal {name!r} has no literal", remedy)
    if len(ways) != 1:
        fault = f"signal {name!r} has {' and '.join(ways) or 'none of on, literal, derived'}"
        raise _fault(document.path, line, fault, "give exactly one of on, literal, derived")
    for key in ("name", "role", "on", "derived", "regex", "speaks_of", "limits"):
        if key in row:
            _typed(document, f"{where}.{key}", row[key], str)
    for key in ("for", "against"):
        _typed(document, f"{where}.{key}", row.get(key, []), list)
    _typed(document, f"{where}.conclusive", row.get("conclusive", False), bool)
    literal = row.get("literal", [])
    _typed(document, f"{where}.literal", [literal] if isinstance(literal, str) else literal, list)
    unknown = set(row) - SIGNAL_KEYS - {"implies_rank"}
    if row.get("literal") and unknown:
        fault = f"unknown key {min(unknown)!r} in signal {name!r}"
        remedy = "conditions need on or derived"
        raise _fault(document.path, line, fault, remedy)


def _match_keys(document: Document) -> None:
    match = document.head.get("match")
    if not isinstance(match, dict):
        raise _fault(document.path, document.line_of("match"), "no [match]", "add the table")
    _keys(document, "match", match, MATCH_KEYS)
    for row in match.get("explains", []):
        if not isinstance(row, dict) or not row.get("what"):
            line = document.line_of("match.explains", "match")
            remedy = 'write { what = "…", on = "same", after = true }'
            raise _fault(document.path, line, "explains needs tables with what", remedy)
        _keys(document, "match", row, EXPLAINS_KEYS)


# --------------------------------------------------------------------------- values


def build_entry(head: Mapping[str, Any], quick: str, level: str) -> Entry:
    """Return the entry of a valid head. Shared by the Markdown and the compiled form."""
    text = head.get
    return Entry(
        id=head["id"],
        title=head["title"],
        summary=head["summary"],
        kind=head["kind"],
        category=head["category"],
        layer=head["layer"],
        owner=head["owner"],
        retry=head["retry"],
        repair=head["repair"],
        signals=tuple([_signal(row) for row in head["signal"]]),
        match=_match(head["match"]),
        causes=tuple([Reason(**row) for row in head["cause"]]),
        fixes=tuple([Fix(**row) for row in text("fix", ())]),
        prevents=tuple([Prevention(**row) for row in text("prevent", ())]),
        phase=tuple(text("phase", ())),
        stacks=tuple(text("stacks", ())),
        tags=tuple(text("tags", ())),
        related=tuple(text("related", ())),
        aliases=tuple(text("aliases", ())),
        search=text("search", ""),
        taints=text("taints", "none"),
        affects=tuple(text("affects", ("training",))),
        maturity=level,
        quick=quick,
    )


def _signal(row: Mapping[str, Any]) -> Signal:
    literal = row.get("literal", ())
    return Signal(
        name=row["name"],
        role=row["role"],
        literal=(literal,) if isinstance(literal, str) else tuple(literal),
        regex=row.get("regex"),
        on=row.get("on"),
        derived=row.get("derived"),
        where=_conditions(row),
        speaks_of=row.get("speaks_of", "self"),
        conclusive=row.get("conclusive", False),
        limits=row["limits"],
        for_=tuple(row.get("for", ())),
        against=tuple(row.get("against", ())),
    )


def _conditions(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions of a signal on a sighting.

    `speaks_of` says what a literal's line means; of a built-in sighting it is a condition.
    """
    known = SIGNAL_KEYS - {"speaks_of"} if "on" in row else SIGNAL_KEYS
    return {k: v for k, v in row.items() if k not in known}


def _match(row: Mapping[str, Any]) -> Match:
    return Match(
        all=tuple(row.get("all", ())),
        any=tuple(row.get("any", ())),
        none=tuple(row.get("none", ())),
        scope=row.get("scope", "job"),
        within_s=row.get("within_s"),
        refines=tuple(row.get("refines", ())),
        explains=tuple([Explains(**e) for e in row.get("explains", ())]),
    )


def quick_answer(document: Document) -> str:
    """Return the Quick answer as plain text in one paragraph; "" when there is none."""
    return plain(document.sections.get("Quick answer", ""))


def plain(markdown: str) -> str:
    """Return inline Markdown without its marks, white space collapsed."""
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", markdown)
    text = re.sub(r"\*\*([^*]+)\*\*", r"\1", text)
    return re.sub(r"\s+", " ", text.replace("`", "")).strip()


def maturity(document: Document) -> str:
    """Return draft, tested or proven, as far as the file itself shows.

    Whether the examples hold through production is for `check` to say.
    """
    kinds = [e.kind for e in document.examples]
    if kinds.count("match") < 1 or kinds.count("near") < 2:
        return "draft"
    seen = any(
        e.kind == "match" and e.provenance.startswith(("captured", "reported"))
        for e in document.examples
    )
    if seen and document.head.get("reference") and _separated(document.head):
        return "proven"
    return "tested"


def _separated(head: Mapping[str, Any]) -> bool:
    """Return whether signals tell at least two root causes apart."""
    profiles = {
        tuple(
            (c["id"] in s.get("for", ()), c["id"] in s.get("against", ())) for s in head["signal"]
        )
        for c in head["cause"]
    }
    return len(profiles) >= 2


# --------------------------------------------------------------------------- folders


def entry_files(folder: Path) -> list[Path]:
    """Return the entry files under `folder`, in a stable order."""
    return sorted(folder.glob("*/*.md"), key=lambda p: p.relative_to(folder).as_posix())


def load_documents(
    folder: Path | str, on_error: Callable[[KnowledgeError], None] | None = None
) -> list[tuple[Entry, Document]]:
    """Return every entry under `folder` with its document, ordered by id.

    The first malformed one raises, unless `on_error` is given: then it is told and skipped.
    """
    found: list[tuple[Entry, Document]] = []
    for path in entry_files(Path(folder)):
        try:
            found.append(parse_entry(read_text(path), str(path)))
        except KnowledgeError as error:
            if on_error is None:
                raise
            on_error(error)
    return sorted(found, key=lambda pair: pair[0].id)


def read_text(path: Path) -> str:
    """Return the file as text; KnowledgeError when it cannot be read as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KnowledgeError(str(path), f"cannot be read: {error}", "write UTF-8") from error


def load_entries(
    folder: Path | str, on_error: Callable[[KnowledgeError], None] | None = None
) -> Knowledge:
    """Return the knowledge in `folder` (`<category>/<id>.md`), parsed from Markdown."""
    pairs = load_documents(folder, on_error)
    return Knowledge(entries={e.id: e for e, _ in pairs}, digest=content_digest(Path(folder)))


def content_digest(folder: Path) -> str:
    """Return a hash over names and bytes of all entry files."""
    state = hashlib.blake2b(digest_size=16)
    for path in entry_files(folder):
        data = path.read_bytes()
        state.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode())
        state.update(data)
    return state.hexdigest()


@lru_cache(maxsize=1)
def load_knowledge() -> Knowledge:
    """Return the shipped knowledge: compiled when that is present and fresh, else from Markdown.

    Cached for the process. A malformed entry in a checkout is left out with a warning, because one
    unfinished file must not stop a diagnosis; a wheel cannot be built with one.
    """
    from rootrank.knowledge import compile as compiled

    known = compiled.read_fresh(ENTRIES)
    if known is not None:
        return known
    return compiled.read_through_cache(ENTRIES, lambda e: warnings.warn(str(e), stacklevel=3))
