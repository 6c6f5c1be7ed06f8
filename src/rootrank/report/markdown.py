"""The diagnosis as Markdown, short enough for an issue or a chat; the details fold away.

Belongs here: structure and escaping of Markdown. Must not be here: phrases (words.py).
Whatever a log said stands in fences or code spans, where it cannot become markup or call anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rootrank.model import Action, Diagnosis, Evidence, Missing, Status, Verdict
from rootrank.report import words
from rootrank.report.safe import clip_bytes, code_span, escape_html, escape_markdown, fence

_PROSE_BYTES = 800  # an exception's message can be a page of numbers
_QUOTE_BYTES = 1200  # one line of evidence in an issue; the JSON has the rest


def render_markdown(d: Diagnosis, audience: str = "engineer") -> str:
    """Return the diagnosis as GitHub-flavoured Markdown that also reads well as plain text.

    `audience` is engineer, executive or oncall, as for the terminal.
    """
    blocks = [f"### {_headline(d)}"]
    if audience == "executive":
        blocks += [_prose(" ".join(p)) for p in words.executive(d)]
    elif audience == "oncall":
        blocks += [*_why(d), *_next(d), *_missing(d.missing[:1])]
        blocks.append(f"**Escalate** {_prose(words.escalate(d))}")
    else:
        blocks += [*_answer(d), *_details(d)]
    return "\n\n".join(b for b in blocks if b) + "\n"


def _prose(text: str) -> str:
    return escape_markdown(clip_bytes(text, _PROSE_BYTES))


def _headline(d: Diagnosis) -> str:
    verdict = words.capital(words.VERDICT[d.verdict])
    return f"{verdict}: {_prose(words.headline(d))}"


# --------------------------------------------------------------------------- the answer


def _answer(d: Diagnosis) -> list[str]:
    evidence = d.cause.evidence if d.cause else d.unexplained
    against = d.cause.against[:1] if d.cause else ()
    blocks = [*_why(d), *(_evidence(e) for e in evidence[:2])]
    blocks += [*(_evidence(e, "Against") for e in against), *_limits(d)]
    then = [words.collateral(c, d.initiating is not None) for c in d.collateral[:3]]
    blocks.append(_items("Then", then))
    blocks.append(_items("Launcher", words.launcher_notes(d)))
    return [*blocks, *_missing(d.missing[:1]), *_next(d)]


def _why(d: Diagnosis) -> list[str]:
    unknown = words.rank_line(d)
    blocks = [_prose(words.capital(unknown))] if unknown else []
    if d.cause is None:
        return [*blocks, _prose(d.summary)]
    c = d.cause
    facts = _prose(words.facts(c))
    blocks.append(f"**Why** {_prose(c.title)} ({c.status.value}, {facts})")
    if c.root_cause:
        reason = f"{_prose(c.root_cause.text)} ({c.root_cause.status.value})"
        blocks.append(f"**Reason** {reason}")
    elif c.root_causes or c.entry:
        blocks.append(f"**Reason** {_prose(words.reason_open(c))}")
    return blocks


def _evidence(e: Evidence, label: str = "Evidence") -> str:
    where = code_span(words.place(e.source, e.line)) if e.source else ""
    about = ", ".join([where, *map(_prose, words.about(e))]).strip(", ")
    said = f"{_prose(words.sentence(e.says))} ({about})" if e.says else about
    texts = dict.fromkeys(t for t in (e.text, *e.lines) if t.strip())
    body = "\n".join(clip_bytes(t, _QUOTE_BYTES) for t in texts)
    return f"**{label}** {said}" + (f"\n\n{fence(body)}" if body else "")


def _limits(d: Diagnosis) -> list[str]:
    if d.cause is None or d.cause.status is Status.ESTABLISHED:
        return []
    return [_items("Limits", map(words.sentence, words.limits(d.cause)[:2]))]


def _missing(missing: Sequence[Missing]) -> list[str]:
    blocks = []
    for m in missing:
        decides = words.decides(m)
        note = f" ({_prose(decides)})" if decides else ""
        blocks.append(f"**Missing** {_prose(m.fact)}{note}")
        blocks += [fence(m.command, "sh")] if m.command else []
    return blocks


def _next(d: Diagnosis) -> list[str]:
    blocks = ["**Next**"] if d.actions else []
    for i, action in enumerate(d.actions, 1):
        blocks += [f"{i}. {_prose(action.text)}", *map(_indented, _action(action))]
    return blocks


def _action(a: Action) -> list[str]:
    said = (("Change", a.edit), ("Risk", a.risk), ("Verify", a.verify))
    parts = [f"{name}: {_code_or_prose(name, text)}" for name, text in said if text]
    return ([fence(a.command, "sh")] if a.command else []) + ["  \n".join(parts)]


def _code_or_prose(name: str, text: str) -> str:
    return code_span(text) if name == "Change" else _prose(text)


def _indented(block: str) -> str:
    return "\n".join(f"   {line}" if line else "" for line in block.splitlines())


# --------------------------------------------------------------------------- below


def _details(d: Diagnosis) -> list[str]:
    rivals = [f"{c.title} ({c.status.value})" for c in d.alternatives]
    impact = [] if d.verdict is Verdict.NO_FAILURE else [words.end(d)]
    blocks = [
        _items("Rivals", rivals),
        _items("Attempts", map(words.attempt, d.attempts if len(d.attempts) > 1 else ())),
        _items("Also", map(words.also, d.also)),
        _items("Recovered", map(words.recovered, d.recovered)),
        *_missing(d.missing[1:]),
        _items("Prevent", (f"{p.text} {p.watch or ''}".strip() for p in d.prevent)),
        _items("Impact", [*impact, *words.impact(d.impact)]),
        _items("Coverage", [words.coverage(d), *_gaps(d), *words.other_notes(d)]),
    ]
    body = "\n\n".join(b for b in blocks if b)
    return [f"<details>\n<summary>{_details_title(d)}</summary>\n\n{body}\n\n</details>"]


def _details_title(d: Diagnosis) -> str:
    gaps = len(d.coverage.gaps)
    note = f", {words.plural(gaps, 'gap')} in what was read" if gaps else ""
    return escape_html(f"Rivals, impact and coverage{note}")


def _gaps(d: Diagnosis) -> list[str]:
    return [f"gap: {g.source}: {g.reason}" for g in d.coverage.gaps]


def _items(label: str, items: Iterable[str]) -> str:
    """Return one bold label and its items: in the same paragraph when there is one, else a list."""
    said = [_prose(words.capital(i)) for i in items if i]
    if len(said) < 2:
        return f"**{label}** {said[0]}" if said else ""
    return f"**{label}**\n\n" + "\n".join(f"- {i}" for i in said)
