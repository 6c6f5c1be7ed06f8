"""The diagnosis on a terminal: the first screen is the answer, the rest is below it.

Belongs here: what is shown in which order and how much of it. Must not be here: phrases (words.py),
setting (layout.py). No library is used for colour: the same bytes on every machine, also in a
container that has nothing but Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized

from rootrank.model import Action, Cause, Diagnosis, Evidence, Missing, Status, Verdict
from rootrank.report import words
from rootrank.report.layout import Sheet, Span

_SHOWN = {
    "evidence": 2,
    "collateral": 3,
    "missing": 1,  # one question at a time; the others stand below
    "actions": 2,
    "attempts": 6,
    "rivals": 3,
    "impact": 4,
    "gaps": 4,
    "rest": 3,
}
_KEY = len("change  ")
_ALL = dict.fromkeys(_SHOWN, 10_000)


def render_terminal(
    d: Diagnosis,
    *,
    width: int = 80,
    color: bool = False,
    unicode: bool = True,
    audience: str = "engineer",
    verbose: bool = False,
) -> str:
    """Return the diagnosis as text for a terminal of `width` columns.

    `audience` is engineer (everything), executive (plain sentences) or oncall (what to do now).
    `verbose` shows every item where the default shows the first few and a count.
    """
    sheet = Sheet(width, color, unicode)
    writer = {"executive": _executive, "oncall": _oncall}.get(audience)
    if writer:
        writer(d, sheet)
    else:
        _engineer(d, sheet, _ALL if verbose else _SHOWN)
    return sheet.text()


# --------------------------------------------------------------------------- engineer


def _engineer(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    _headline(d, s)
    s.blank()
    if d.cause:
        _why(d.cause, s)
        _evidence(d.cause.evidence, s, shown["evidence"], "Evidence")
        _evidence(d.cause.against, s, 1, "Against")
        _limits(d.cause, s)
    else:
        s.row("Seen", (d.summary, ""))
        _evidence(d.unexplained, s, shown["evidence"])
    _then(d, s, shown["collateral"])
    s.blank()
    _missing(d.missing[: shown["missing"]], s, verbose=shown is _ALL)
    _next(d.actions, s, shown["actions"])
    s.blank()
    for section in _BELOW:
        section(d, s, shown)
    if any(len(items) > shown[name] for items, name in _counted(d)):
        s.row("", ("all of it: --verbose or --format json", "dim"))


def _headline(d: Diagnosis, s: Sheet) -> None:
    verdict = words.VERDICT[d.verdict].upper()
    style = {Verdict.FAILURE: "bad", Verdict.NO_FAILURE: "good"}.get(d.verdict, "warn")
    s.head(verdict, style, words.capital(words.headline(d)))
    unknown = words.rank_line(d)
    if unknown:
        s.row("", (unknown, "dim"))


def _status(status: Status) -> tuple[Span, Span, Span]:
    return (" (", "dim"), (status.value, status.value), (")", "dim")


def _why(cause: Cause, s: Sheet) -> None:
    s.row("Why", (cause.title, "strong"))
    status = cause.status.value
    s.row("", (status, status), (f", {words.facts(cause)}", "dim"))
    lead = cause.root_cause
    if lead:
        s.row("Reason", (lead.text, ""), *_status(lead.status))
    elif cause.root_causes or cause.entry:
        s.row("Reason", (words.reason_open(cause), ""))


def _evidence(evidence: Sequence[Evidence], s: Sheet, shown: int, label: str = "") -> None:
    more = f"1 of {len(evidence)}" if len(evidence) > shown else ""
    for i, e in enumerate(evidence[:shown]):
        if i == 0:
            _decisive(e, s, label, more, shown)
        else:
            s.quote(e.says or e.text, lead=words.place(e.source, e.line))


def _decisive(e: Evidence, s: Sheet, label: str, more: str, shown: int) -> None:
    """Write where the evidence stands and of whom it speaks, then what it says."""
    if e.says:
        s.row(label, (words.sentence(e.says), ""))
        label = ""
    where = words.place(e.source, e.line)
    if where:
        about = [part for part in (*words.about(e), more) if part]
        s.row(label, (where, "place"), *((f"  {part}", "dim") for part in about))
    texts = [t for t in dict.fromkeys((e.text, *e.lines)) if t.strip()]
    for i, text in enumerate(texts[: shown + 1]):
        # The line that decides may take two lines before it is cut.
        s.quote(text, 2, lines=1 if e.says or i else 2)


def _limits(cause: Cause, s: Sheet) -> None:
    if cause.status is not Status.ESTABLISHED:
        _list("Limits", map(words.sentence, words.limits(cause)), s, 2)


def _then(d: Diagnosis, s: Sheet, shown: int) -> None:
    known = d.initiating is not None
    _list("Then", (words.collateral(c, known) for c in d.collateral), s, shown)
    _list("Launcher", map(words.sentence, words.launcher_notes(d)), s, 2)


def _missing(missing: Sequence[Missing], s: Sheet, verbose: bool = False) -> None:
    for i, m in enumerate(missing):
        s.row("Missing" if i == 0 else "", (m.fact, ""))
        if m.command:
            s.command(m.command)
        if verbose and m.decides:
            s.row("", (words.decides(m), "dim"))


def _next(actions: Sequence[Action], s: Sheet, shown: int) -> None:
    many = min(len(actions), shown) > 1
    for i, a in enumerate(actions[:shown]):
        _action(a, s, "Next" if i == 0 else "", f"{i + 1}. " if many else "")
    _more(len(actions) - shown, "steps", s)


def _action(a: Action, s: Sheet, label: str, number: str) -> None:
    s.item(label, (number, ""), (a.text, ""))
    indent = len(number)
    if a.command:
        s.command(a.command, indent)
    for name, text in (("change", a.edit), ("risk", a.risk), ("verify", a.verify)):
        if text:
            s.item("", (name.ljust(_KEY), "dim"), (text, ""), indent=indent)


# --------------------------------------------------------------------------- below the answer


def _attempts(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    if len(d.attempts) > 1:
        _list("Attempts", map(words.attempt, d.attempts), s, shown["attempts"])


def _rivals(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    for i, c in enumerate(d.alternatives[: shown["rivals"]]):
        s.row("Rivals" if i == 0 else "", (c.title, ""), *_status(c.status))
        for e in c.against[:1]:
            s.quote(e.says or e.text, 2, lead=words.place(e.source, e.line))
    _more(len(d.alternatives) - shown["rivals"], "", s)


def _also(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    _list("Also", map(words.also, d.also), s, shown["rest"])


def _unexplained(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    if d.cause:
        _evidence(d.unexplained, s, shown["rest"], "Open")


def _recovered(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    _list("Recovered", map(words.recovered, d.recovered), s, shown["rest"])


def _asked(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    _missing(d.missing[shown["missing"] : shown["missing"] + shown["rest"]], s, verbose=True)


def _prevent(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    for i, p in enumerate(d.prevent[: shown["rest"]]):
        s.row("Prevent" if i == 0 else "", (p.text, ""))
        if p.watch:
            s.item("", ("watch".ljust(_KEY), "dim"), (p.watch, ""))


def _impact(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    said = words.impact(d.impact)
    if d.verdict is not Verdict.NO_FAILURE:
        said = [words.end(d), *said]
    _list("Impact", map(words.capital, said), s, shown["impact"])


def _coverage(d: Diagnosis, s: Sheet, shown: Mapping[str, int]) -> None:
    s.row("Coverage", (words.coverage(d), ""))
    gaps = d.coverage.gaps
    for gap in gaps[: shown["gaps"]]:
        s.item("", ("gap".ljust(_KEY), "suspected"), (f"{gap.source}: {gap.reason}", ""))
    _more(len(gaps) - shown["gaps"], "gaps", s)
    _list("", map(words.sentence, words.other_notes(d)), s, shown["gaps"], "dim")


_BELOW = (
    _asked,
    _attempts,
    _rivals,
    _also,
    _unexplained,
    _recovered,
    _prevent,
    _impact,
    _coverage,
)


def _list(label: str, items: Iterable[str], s: Sheet, shown: int, style: str = "") -> None:
    said = list(items)
    for i, text in enumerate(said[:shown]):
        s.row(label if i == 0 else "", (text, style))
    _more(len(said) - shown, "", s)


def _more(left: int, noun: str, s: Sheet) -> None:
    if left > 0:
        s.row("", (f"and {left} more {noun}".rstrip(), "dim"))


def _counted(d: Diagnosis) -> tuple[tuple[Sized, str], ...]:
    return (
        (d.cause.evidence if d.cause else d.unexplained, "evidence"),
        (d.collateral, "collateral"),
        (d.actions, "actions"),
        (d.coverage.gaps, "gaps"),
        (d.alternatives, "rivals"),
    )


# --------------------------------------------------------------------------- other audiences


def _executive(d: Diagnosis, s: Sheet) -> None:
    for paragraph in words.executive(d):
        s.full((" ".join(paragraph), ""))
        s.blank()


def _oncall(d: Diagnosis, s: Sheet) -> None:
    _headline(d, s)
    if d.cause:
        s.row("Why", (d.cause.title, ""), *_status(d.cause.status))
        _evidence(d.cause.evidence[:1], s, 1, "Evidence")
    elif d.summary:
        s.row("Seen", (d.summary, ""))
    s.blank()
    for i, a in enumerate(d.actions):
        _action(a, s, "Do now" if i == 0 else "", f"{i + 1}. ")
    _missing(d.missing[:1], s)
    s.row("Escalate", (words.escalate(d), ""))
