"""One entry as a page for people: Markdown, and that Markdown on a terminal.

Belongs here: which parts a page has, and the questions that every page answers from typed fields.
Must not be here: colour decisions (the command line's), diagnosis, HTML.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rootrank.knowledge import vocabulary as words
from rootrank.knowledge.check import subsections
from rootrank.knowledge.load import Document
from rootrank.knowledge.types import Entry, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a page: the word that `--section` takes, its heading, its Markdown."""

    name: str
    title: str
    text: str


# What each audience is shown, in order. The engineer gets everything but the example logs.
_ALL = (
    *("quick", "glance", "symptoms", "causes", "checks", "fixes", "prevention", "mechanism"),
    *("perspectives", "code", "faq", "signals", "references", "related"),
)
ORDER = {
    "engineer": _ALL,
    "executive": ("quick", "glance", "perspectives", "prevention"),
    "oncall": ("quick", "perspectives", "checks", "fixes", "glance", "related"),
}
SECTIONS = (*_ALL, "examples")


def page(
    entry: Entry, document: Document, audience: str = "engineer", section: str | None = None
) -> str:
    """Return the entry as Markdown for an audience, or only one section of it."""
    parts = {p.name: p for p in _parts(entry, document, audience)}
    wanted = (section,) if section else ORDER[audience]
    shown = [f"## {parts[n].title}\n\n{parts[n].text}" for n in wanted if n in parts]
    head = f"# {entry.title}\n\n{_facets(entry)}\n\n{entry.summary}"
    return "\n\n".join(shown if section else [head, *shown]) + "\n"


def has_section(entry: Entry, document: Document, section: str) -> bool:
    """Return whether the entry has anything to say in that section."""
    return any(p.name == section for p in _parts(entry, document, "engineer"))


def _parts(entry: Entry, document: Document, audience: str) -> Iterator[Part]:
    """Yield the parts that have something to say."""
    sections = document.sections
    made = [
        ("quick", "Quick answer", sections.get("Quick answer", "")),
        ("glance", "At a glance", _glance(entry, document)),
        ("symptoms", "Symptoms and what they speak for", _symptoms(entry, document)),
        ("causes", "Root causes", _causes(entry)),
        ("checks", "Checks", _checks(document)),
        ("fixes", "Fixes", _fixes(entry)),
        ("prevention", "Prevention", _prevention(entry)),
        ("mechanism", "Mechanism", sections.get("Mechanism", "")),
        ("perspectives", "Perspectives", _perspectives(document, audience)),
        ("code", "Code", sections.get("Code", "")),
        ("faq", "Questions", sections.get("FAQ", "")),
        ("signals", "What the log shows", _signals(entry)),
        ("references", "References", _references(document)),
        ("related", "Related", _related(entry)),
        ("examples", "Examples", sections.get("Examples", "")),
    ]
    for name, title, text in made:
        if text.strip():
            yield Part(name=name, title=title, text=text.strip())


# --------------------------------------------------------------------------- parts


def _facets(entry: Entry) -> str:
    facets = [f"`{entry.id}`", entry.kind, entry.category, f"{entry.layer} layer", entry.maturity]
    return " · ".join(facets)


_LAYER = {
    "hardware": "Hardware",
    "driver": "Software, next to the hardware: the driver or firmware",
    "network": "The network between machines",
    "storage": "Storage",
    "scheduler": "The scheduler's decision, not the job's code",
    "environment": "Software: the environment that the job runs in",
    "framework": "Software: the framework or a library",
    "configuration": "Software: how the job is configured",
    "code": "Software: the training code",
    "data": "The data",
}
_RETRY = {
    "will-recur": "No: unchanged, it comes back.",
    "may-succeed": "It may.",
    "unknown": "Not known in advance; the evidence of the run decides.",
}
_REPAIR = {
    "code": "a change of code",
    "config": "a change of configuration",
    "environment": "a change of the environment",
    "resubmit": "submitting the job again",
    "drain-node": "taking the machine out of service",
    "unknown": "depends on the root cause",
}
_TAINTS = {
    "none": "No; what was saved before it can be used.",
    "checkpoints": "Yes: check what was saved around it before training on.",
}


def _glance(entry: Entry, document: Document) -> str:
    head = document.head
    answers = [
        ("Hardware or software?", f"{_LAYER.get(entry.layer, entry.layer)}."),
        ("Who acts?", f"{entry.owner.replace('-', ' ').capitalize()}; {_repair(entry)}."),
        ("Does a restart help?", _RETRY.get(entry.retry, entry.retry)),
        ("How long to fix, once known?", _capital(head.get("effort", ""))),
        ("May saved state be wrong?", _TAINTS.get(entry.taints, entry.taints)),
        ("Inference too?", _inference(entry)),
        ("From how many ranks on?", _ranks(head.get("min_ranks", 0))),
        ("When?", _capital(", ".join(entry.phase))),
        ("Where?", _where(entry, head)),
        ("Cheapest check?", _cheapest(document)),
        ("Can it be seen coming?", _coming(entry)),
    ]
    return "\n".join(f"- **{question}** {answer}" for question, answer in answers if answer)


def _repair(entry: Entry) -> str:
    return f"the repair is {_REPAIR.get(entry.repair, entry.repair)}"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _inference(entry: Entry) -> str:
    if "inference" not in entry.affects:
        return "Seen in training."
    return "Yes." if "training" in entry.affects else "Only there."


def _ranks(least: int) -> str:
    if not least:
        return ""
    return "A single one is enough." if least == 1 else f"It takes at least {least}."


_STACKS = {
    "accelerate": "Accelerate",
    "deepspeed": "DeepSpeed",
    "docker": "Docker",
    "fsdp": "FSDP",
    "jax": "JAX",
    "kubernetes": "Kubernetes",
    "lightning": "Lightning",
    "megatron": "Megatron",
    "mpi": "MPI",
    "nccl": "NCCL",
    "neuron": "Neuron",
    "pytorch": "PyTorch",
    "ray": "Ray",
    "rocm": "ROCm",
    "slurm": "Slurm",
    "tensorflow": "TensorFlow",
    "transformers": "Transformers",
    "vllm": "vLLM",
}


def _where(entry: Entry, head: Mapping[str, Any]) -> str:
    stacks = ", ".join(_STACKS.get(s, s) for s in entry.stacks)
    known = [stacks, head.get("systems", ""), head.get("versions", "")]
    return "; ".join(k for k in known if k)


_COSTS = ("instant", "second", "minute", "hour", "day")


def _cheapest(document: Document) -> str:
    checks = document.head.get("check", ())
    if not checks:
        return ""

    def cost(check: Mapping[str, Any]) -> int:
        said = str(check.get("cost", ""))
        return next((i for i, word in enumerate(_COSTS) if word in said), len(_COSTS))

    best = min(checks, key=cost)
    run = f" `{best['run']}`" if best.get("run") else ""
    said = f" ({best['cost']})" if best.get("cost") else ""
    return f"{best['text']}{run}{said}"


def _coming(entry: Entry) -> str:
    watches = [p.watch for p in entry.prevents if p.watch]
    return _capital("; ".join(watches))


def _symptoms(entry: Entry, document: Document) -> str:
    """Return the table of what one sees against the root causes it speaks for or against."""
    rows: list[tuple[str, Sequence[str], Sequence[str]]] = []
    for s in document.head.get("symptom", ()):
        rows.append((f"{s['sees']} {s['means']}", s.get("for", ()), s.get("against", ())))
    for signal in entry.signals:
        if signal.for_ or signal.against:
            rows.append((f"Log: {describe(signal)}", signal.for_, signal.against))
    for c in document.head.get("check", ()):
        if c.get("for") or c.get("against"):
            shown = f"Check: {c['text']} → {c.get('expect', '')}"
            rows.append((shown, c.get("for", ()), c.get("against", ())))
    if not rows:
        return ""
    ids = [c.id for c in entry.causes]
    if len(ids) < 2:
        return "\n".join(f"- {text}" for text, _, _ in rows)
    head = [*(["What one sees"]), *(str(i) for i in range(1, len(ids) + 1))]
    lines = [_row(head), _row(["---", *(":-:" for _ in ids)])]
    for text, speaks_for, against in rows:
        marks = ["+" if i in speaks_for else "−" if i in against else "" for i in ids]
        lines.append(_row([text.replace("|", "\\|"), *marks]))
    legend = ", ".join(f"{n} {name}" for n, name in enumerate(ids, 1))
    return "\n".join(lines) + f"\n\n\\+ speaks for, − against; root causes: {legend}."


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(" ".join(c.split()) for c in cells) + " |"


def _causes(entry: Entry) -> str:
    found = []
    for number, cause in enumerate(entry.causes, 1):
        lines = [f"{number}. **{cause.id}**: {cause.text}"]
        if cause.entry:
            lines.append(f"   - See `{cause.entry}`.")
        if cause.ask:
            lines.append(f"   - Decided by: {cause.ask}")
        found.append("\n".join(lines) + _block(cause.command, "   "))
    return "\n".join(found)


def _block(command: str, indent: str = "") -> str:
    """Return a command as an indented code block after a blank line; "" for none."""
    if not command.strip():
        return ""
    body = textwrap.indent(command.strip(), indent)
    return f"\n\n{indent}```sh\n{body}\n{indent}```\n"


def _checks(document: Document) -> str:
    found = []
    for check in document.head.get("check", ()):
        cost = f" ({check['cost']})" if check.get("cost") else ""
        text = f"- {check['text']}{cost}"
        if check.get("expect"):
            text += f"\n  - Expect: {check['expect']}"
        found.append(text + _block(check.get("run", ""), "  "))
    return "\n".join(found)


def _fixes(entry: Entry) -> str:
    """Return the fixes, those for the whole class first, then by root cause."""
    order = ["", *(c.id for c in entry.causes)]
    found = []
    for fix in sorted(entry.fixes, key=lambda f: order.index(f.cause) if f.cause in order else 0):
        text = f"- {f'**{fix.cause}**: ' if fix.cause else ''}{fix.text}"
        for word, said in (("Change", fix.edit), ("Costs", fix.risk), ("Verify", fix.verify)):
            if said:
                text += f"\n  - {word}: {f'`{said}`' if word == 'Change' else said}"
        found.append(text + _block(fix.run, "  "))
    return "\n".join(found)


def _prevention(entry: Entry) -> str:
    lines = []
    for p in entry.prevents:
        lines.append(f"- {p.text}" + (f"\n  - Watch for: {p.watch}" if p.watch else ""))
    return "\n".join(lines)


_VOICE = {"executive": "Executive", "engineer": "Engineer", "oncall": "On call"}


def _perspectives(document: Document, audience: str) -> str:
    parts = subsections(document.sections.get("Perspectives", ""))
    if audience != "engineer":
        return parts.get(_VOICE[audience], "")
    return "\n\n".join(f"### {name}\n\n{text}" for name, text in parts.items())


def _signals(entry: Entry) -> str:
    return "\n".join(
        f"- *{s.role}*: {describe(s)}\n  - Limits: {s.limits}" for s in entry.signals if s.limits
    )


def describe(signal: Signal) -> str:
    """Return in words what a signal looks for."""
    if signal.literal:
        literals = " or ".join(f"“{x}”" for x in signal.literal[:3])
        return f"a line with {literals}" + (" …" if len(signal.literal) > 3 else "")
    what = f"lanes compared: {signal.derived}" if signal.derived else f"{signal.on}"
    conditions = [f"{k} {_value(v)}" for k, v in signal.where.items()]
    return what + (f" with {', '.join(conditions)}" if conditions else "")


def _value(value: object) -> str:
    if isinstance(value, list):
        return " or ".join(f"`{v}`" for v in value[:4]) + (" …" if len(value) > 4 else "")
    return f"`{value}`"


def _references(document: Document) -> str:
    return "\n".join(
        f"{n}. {r['says']} {r['url']}" + (f" (read {r['checked']})" if r.get("checked") else "")
        for n, r in enumerate(document.head.get("reference", ()), 1)
    )


def _related(entry: Entry) -> str:
    lines = []
    if entry.related:
        lines.append("- See also " + ", ".join(f"`{x}`" for x in entry.related))
    if entry.match.refines:
        names = ", ".join(f"`{x}`" for x in entry.match.refines)
        lines.append(f"- More specific than {names}")
    explained = [e.what for e in entry.match.explains if e.what not in words.SIGHTINGS]
    if explained:
        lines.append("- Explains " + ", ".join(f"`{x}`" for x in dict.fromkeys(explained)))
    return "\n".join(lines)


# --------------------------------------------------------------------------- comparison


def comparison(entries: Sequence[Entry]) -> str:
    """Return entries side by side as Markdown: facets, what the log shows, and how they relate."""
    ids = [f"`{e.id}`" for e in entries]
    rows = [
        ("kind", [e.kind for e in entries]),
        ("category", [e.category for e in entries]),
        ("layer", [e.layer for e in entries]),
        ("owner", [e.owner for e in entries]),
        ("restart", [e.retry for e in entries]),
        ("repair", [e.repair for e in entries]),
        ("log shows", [_initiating(e) for e in entries]),
        ("root causes", [", ".join(c.id for c in e.causes) for e in entries]),
        ("first fix", [e.fixes[0].text if e.fixes else "" for e in entries]),
    ]
    lines = [_row(["", *ids]), _row(["---"] * (len(ids) + 1))]
    for name, cells in rows:
        same = len(set(cells)) == 1 and len(cells) > 1
        if any(cells):
            shown = [f"{name}{' (same)' if same else ''}", *cells]
            lines.append(_row(c.replace("|", "\\|") for c in shown))
    relations = "\n".join(f"- {r}" for r in _relations(entries))
    told = f"\n\n## How they relate\n\n{relations}" if relations else ""
    return f"# {', '.join(e.id for e in entries)}\n\n" + "\n".join(lines) + told + "\n"


def _initiating(entry: Entry) -> str:
    return "; ".join(describe(s) for s in entry.signals if s.role == "initiating")


def _relations(entries: Sequence[Entry]) -> Iterator[str]:
    ids = {e.id for e in entries}
    for e in entries:
        for other in e.match.refines:
            if other in ids:
                yield f"`{e.id}` is the more specific: where both match, it replaces `{other}`."
        for edge in e.match.explains:
            if edge.what in ids:
                yield f"`{e.id}` explains `{edge.what}`: where both match, it came first."
        for cause in e.causes:
            if cause.entry in ids:
                yield f"`{cause.entry}` can be the reason of `{e.id}`."


# --------------------------------------------------------------------------- terminal


# Marks inside text that is still to be wrapped; each becomes an escape code, or nothing.
_BOLD, _CODE, _END = "\x01", "\x02", "\x03"
_ESCAPES = {_BOLD: "\x1b[1m", _CODE: "\x1b[36m", _END: "\x1b[0m"}


def on_terminal(markdown: str, *, width: int, color: bool, unicode: bool) -> str:
    """Return Markdown set for a terminal of `width` columns.

    Commands keep their lines, however long: one that is broken to fit cannot be copied. That is
    why no Markdown renderer of a library is used here.
    """
    text = plain(markdown, width)
    for mark, escape in _ESCAPES.items():
        text = text.replace(mark, escape if color else "")
    return text if unicode else to_ascii(text)


_ASCII = {
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("–—−", "-"),
    "…": "...",
    "→": "->",
    "←": "<-",
    "·": "|",
    "×": "x",
    "≥": ">=",
    "≤": "<=",
    "µ": "u",
    "─": "-",
    "•": "-",
}


def to_ascii(text: str) -> str:
    """Return the text with typography spelled in ASCII and what is left replaced by '?'."""
    spelled = "".join(_ASCII.get(c, c) for c in text)
    return spelled.encode("ascii", "replace").decode()


def plain(markdown: str, width: int) -> str:
    """Return Markdown as wrapped text: code indented, tables aligned, marks left for `_ESCAPES`."""
    out: list[str] = []
    lines = markdown.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.lstrip().startswith("```"):
            at = _plain_code(lines, at, out)
        elif line.startswith("|"):
            end = next(
                (i for i in range(at, len(lines)) if not lines[i].startswith("|")), len(lines)
            )
            out += _plain_table(lines[at:end], width)
            at = end
        elif heading := re.match(r"(#+) +(.*)", line):
            out += _heading(len(heading.group(1)), heading.group(2), width)
            at += 1
        else:
            at = _plain_paragraph(lines, at, width, out)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip("\n") + "\n"


def _heading(level: int, text: str, width: int) -> list[str]:
    """Return a heading: the title and the parts underlined, what is below them only bold."""
    bare = _inline(text).translate(_UNMARKED)
    line = f"{_BOLD}{bare}{_END}"
    return [line] if level > 2 else [line, "─" * min(len(bare), width)]


_UNMARKED = dict.fromkeys(map(ord, _ESCAPES))


def _inline(text: str) -> str:
    """Return inline Markdown with its marks for bold and code."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"{_CODE}{part[1:-1]}{_END}" if part.startswith("`") else _emphasis(part) for part in parts
    )


def _emphasis(text: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\(([^)]*)\)", r"\1 (\2)", text)
    text = re.sub(r"\*\*([^*]+)\*\*", rf"{_BOLD}\1{_END}", text)
    text = re.sub(r"(?<!\w)\*([^*\s][^*]*)\*(?!\w)", r"\1", text)
    return text.replace("\\|", "|").replace("\\+", "+")


def _plain_code(lines: list[str], at: int, out: list[str]) -> int:
    """Append a fenced block, indented, and return the index behind it."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    at += 1
    while at < len(lines) and not lines[at].lstrip().startswith("```"):
        out.append(f"{' ' * (indent + 4)}{_CODE}{lines[at][indent:]}{_END}")
        at += 1
    return at + 1


_ITEM = re.compile(r"(\s*)([-*]|\d+\.) ")


def _plain_paragraph(lines: list[str], at: int, width: int, out: list[str]) -> int:
    """Append one paragraph or list item, wrapped, and return the index behind it."""
    if not lines[at].strip():
        out.append("")
        return at + 1
    item = _ITEM.match(lines[at])
    indent = " " * (item.end() if item else len(lines[at]) - len(lines[at].lstrip()))
    text = [lines[at]]
    at += 1
    while at < len(lines) and _continues(lines[at]):
        text.append(lines[at].strip())
        at += 1
    head = re.sub(r"[-*] $", "• ", text[0][: len(indent)]) if item else indent
    body = _inline(" ".join([text[0][len(indent) :], *text[1:]]))
    out += textwrap.wrap(
        body,
        width,
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return at


def _continues(line: str) -> bool:
    starts = line.startswith(("|", "#")) or line.lstrip().startswith("```")
    return bool(line.strip()) and not starts and not _ITEM.match(line)


def _plain_table(rows: list[str], width: int) -> list[str]:
    """Return a Markdown table with aligned columns; the widest column takes what is left."""
    cells = [
        [
            _inline(c.strip()).translate(_UNMARKED)
            for c in re.split(r"(?<!\\)\|", row.strip().strip("|"))
        ]
        for row in rows
        if not re.fullmatch(r"[|:\- ]+", row)
    ]
    count = max(map(len, cells))
    for row in cells:
        row += [""] * (count - len(row))
    widths = [max(len(row[i]) for row in cells) for i in range(count)]
    room = max(width - 2 * (count - 1), 8 * count)
    while sum(widths) > room:
        widest = widths.index(max(widths))
        if widths[widest] <= 8:
            break
        widths[widest] -= 1
    out = []
    for number, row in enumerate(cells):
        wrapped = [textwrap.wrap(c, w) or [""] for c, w in zip(row, widths, strict=True)]
        for i in range(max(map(len, wrapped))):
            parts = [
                (w[i] if i < len(w) else "").ljust(n) for w, n in zip(wrapped, widths, strict=True)
            ]
            out.append("  ".join(parts).rstrip())
        if number == 0:
            out.append("  ".join("─" * n for n in widths))
    return out
