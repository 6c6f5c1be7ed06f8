"""The diagnosis as one HTML file: nothing is loaded, nothing runs, everything is escaped.

Belongs here: the page, its style and its order. Must not be here: phrases (words.py), the drawing
(picture.py).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence

from rootrank.model import Action, Cause, Diagnosis, Evidence, Missing, Status, Verdict
from rootrank.report import picture, words
from rootrank.report.safe import clip_bytes, escape_html, multiline

_TEXT_BYTES = 4096


class Markup(str):
    """Text that is markup already; everything else is escaped on its way into an element."""

    __slots__ = ()


def el(name: str, *children: str, **attributes: str) -> Markup:
    """Return an element. Plain strings are escaped; `class_` and `aria_label` lose their sign."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape_html(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{said}>{_inner(children)}</{name}>")


def _inner(children: Iterable[str]) -> str:
    return "".join(c if isinstance(c, Markup) else escape_html(c) for c in children)


def _join(parts: Iterable[str]) -> Markup:
    return Markup(_inner(parts))


NOTHING = Markup("")


# --------------------------------------------------------------------------- page


def render_html(d: Diagnosis, audience: str = "engineer") -> str:
    """Return a self-contained page. `audience` decides what stands first; the rest follows."""
    verdict = words.capital(words.VERDICT[d.verdict])
    headline = words.capital(words.headline(d))
    lead = {"executive": _executive, "oncall": _oncall}.get(audience)
    body = _join(
        [
            _header(d, verdict),
            lead(d) if lead else NOTHING,
            _why(d),
            _evidence_section(d),
            _then(d),
            _missing(d.missing),
            _next(d.actions) if audience != "oncall" else NOTHING,
            _lanes(d),
            *_below(d),
        ]
    )
    return _page(f"{verdict}: {headline}", el("main", body))


def _page(title: str, body: Markup) -> str:
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        str(el("title", title)),
        f"<style>{_STYLE}</style>",
    ]
    lines = ["<!doctype html>", '<html lang="en">', "<head>", *head, "</head>"]
    return "\n".join([*lines, f"<body>{body}</body>", "</html>"]) + "\n"


def _header(d: Diagnosis, verdict: str) -> Markup:
    tone = {Verdict.FAILURE: "bad", Verdict.NO_FAILURE: "good"}.get(d.verdict, "warn")
    unknown = words.rank_line(d)
    return el(
        "header",
        el("p", verdict, class_=f"verdict {tone}"),
        el("h1", words.capital(words.answer(d))),
        el("p", words.when(d), class_="dim") if words.when(d) else NOTHING,
        el("p", d.summary, class_="summary") if d.summary else NOTHING,
        el("p", words.capital(unknown), class_="dim") if unknown else NOTHING,
    )


def _section(title: str, *children: str) -> Markup:
    if not any(children):
        return NOTHING
    return el("section", el("h2", title), *children)


# --------------------------------------------------------------------------- the answer


def _why(d: Diagnosis) -> Markup:
    if d.cause is None:
        return NOTHING
    c = d.cause
    return _section(
        "Why",
        el("p", c.title, " ", _status(c.status), class_="cause"),
        _facts(c),
        _reason(c),
        _candidates(c),
    )


def _facts(c: Cause) -> Markup:
    said = (words.sentence(f) for f in (words.STATUS_MEANS[c.status], words.rerun(c)) if f)
    name = el("code", c.entry) if c.entry else words.sentence(words.NO_ENTRY)
    return el("p", name, " ", " ".join(said), class_="dim facts")


def _status(status: Status) -> Markup:
    return el("span", status.value, class_=f"status {status.value}")


def _reason(c: Cause) -> Markup:
    if c.root_cause:
        lead = el("b", "Reason ")
        return el("p", lead, c.root_cause.text, " ", _status(c.root_cause.status))
    if c.root_causes or c.entry:
        return el("p", el("b", "Reason "), words.reason_open(c))
    return NOTHING


def _candidates(c: Cause) -> Markup:
    rest = [r for r in c.root_causes if r != c.root_cause]
    if not rest:
        return NOTHING
    items = [el("li", el("code", r.id), " ", r.text, " ", _status(r.status)) for r in rest]
    if c.root_cause is None:
        return el("ul", *items)
    return el("details", el("summary", "Other candidates"), el("ul", *items))


def _evidence_section(d: Diagnosis) -> Markup:
    evidence = d.cause.evidence if d.cause else d.unexplained
    limits = words.limits(d.cause) if d.cause and d.cause.status is not Status.ESTABLISHED else []
    shown = [_evidence(e) for e in evidence[:3]]
    more = _fold("More evidence", [_evidence(e) for e in evidence[3:]])
    against = _fold("Against it", map(_evidence, d.cause.against if d.cause else ()))
    notes = el("p", el("b", "Limits "), " ".join(map(words.sentence, limits)))
    return _section("Evidence", *shown, more, against, notes if limits else NOTHING)


def _evidence(e: Evidence) -> Markup:
    says = el("p", words.sentence(e.says)) if e.says else NOTHING
    about = [el("span", part) for part in words.about(e)]
    where = el("code", words.place(e.source, e.line)) if e.source else NOTHING
    texts = dict.fromkeys(t for t in (e.text, *e.lines) if t.strip())
    quote = _pre("\n".join(clip_bytes(t, _TEXT_BYTES) for t in texts)) if texts else NOTHING
    return el("figure", says, el("figcaption", where, *about), quote)


def _pre(text: str) -> Markup:
    # Line breaks survive: everything else that is not printable is shown as an escape.
    return Markup("<pre>" + "\n".join(map(escape_html, multiline(text).split("\n"))) + "</pre>")


def _then(d: Diagnosis) -> Markup:
    known = d.initiating is not None
    said = [words.capital(words.collateral(c, known)) for c in d.collateral]
    said += [f"Launcher: {note}" for note in words.launcher_notes(d)]
    return _section("Then", _list(said))


def _missing(missing: Sequence[Missing]) -> Markup:
    parts: list[Markup] = []
    for m in missing:
        decides = words.decides(m)
        parts.append(el("p", m.fact, el("span", f" ({decides})", class_="dim") if decides else ""))
        parts += [_pre(m.command)] if m.command else []
    return _section("Missing", *parts)


def _next(actions: Sequence[Action], title: str = "Next") -> Markup:
    return _section(title, el("ol", *map(_action, actions)) if actions else NOTHING)


def _action(a: Action) -> Markup:
    keys = (("Change", a.edit), ("Risk", a.risk), ("Verify", a.verify))
    rows = [_join([el("dt", k), el("dd", _value(k, v))]) for k, v in keys if v]
    command = _pre(a.command) if a.command else NOTHING
    return el("li", el("p", a.text), command, el("dl", *rows) if rows else NOTHING)


def _value(key: str, text: str) -> Markup:
    return el("code", text) if key == "Change" else _join([text])


# --------------------------------------------------------------------------- picture


def _lanes(d: Diagnosis) -> Markup:
    p = picture.picture(d)
    if p is None:
        return NOTHING
    head = el("tr", *(el("th", h, scope="col") for h in _COLUMNS))
    rows = [
        el("tr", el("th", r[0], scope="row"), *(el("td", c) for c in r[1:]))
        for r in picture.table(p)
    ]
    twin = el("table", el("thead", head), el("tbody", *rows))
    drawing = el(
        "div", Markup(picture.draw(p)), class_="lanes", role="img", aria_label=picture.caption(p)
    )
    return _section(
        "Ranks",
        el("figure", drawing, el("figcaption", picture.caption(p), " ", _legend(p)), class_="wide"),
        el("details", el("summary", "The same as a table"), el("div", twin, class_="scroll")),
    )


_COLUMNS = ("Rank", "State", "Last sign", "Last step", "Last words")


def _legend(p: picture.Picture) -> Markup:
    used = [s for s in picture.SAYS if any(r.state == s for r in p.rows)]
    return _join(el("span", picture.SAYS[s], class_=f"key {s}") for s in used)


# --------------------------------------------------------------------------- below


def _below(d: Diagnosis) -> list[Markup]:
    attempts = d.attempts if len(d.attempts) > 1 else ()
    impact = [] if d.verdict is Verdict.NO_FAILURE else [words.end(d)]
    return [
        _rivals(d),
        _section("Attempts", _list(map(words.attempt, attempts))),
        _section("Also", _list(map(words.also, d.also))),
        _section("Unexplained", *map(_evidence, d.unexplained if d.cause else ())),
        _section("Recovered", _list(map(words.recovered, d.recovered))),
        _section("Prevent", _list(_prevent(d))),
        _section("Impact", _list([*impact, *words.impact(d.impact)])),
        _coverage(d),
    ]


def _rivals(d: Diagnosis) -> Markup:
    parts: list[Markup] = []
    for c in d.alternatives:
        parts.append(el("p", c.title, " ", _status(c.status)))
        parts += [_fold("Against it", map(_evidence, c.against))]
    return _section("Rivals", *parts)


def _prevent(d: Diagnosis) -> list[str]:
    return [p.text + (f" Watch: {p.watch}" if p.watch else "") for p in d.prevent]


def _coverage(d: Diagnosis) -> Markup:
    gaps = [f"Gap: {g.source}: {g.reason}" for g in d.coverage.gaps]
    return _section("Coverage", _list([words.coverage(d), *gaps, *words.other_notes(d)]))


def _list(items: Iterable[str]) -> Markup:
    said = [words.capital(i) for i in items if i]
    return el("ul", *(el("li", i) for i in said)) if said else NOTHING


def _fold(title: str, parts: Iterable[Markup]) -> Markup:
    inner = list(parts)
    return el("details", el("summary", title), *inner) if inner else NOTHING


def _executive(d: Diagnosis) -> Markup:
    said = [el("p", " ".join(paragraph)) for paragraph in words.executive(d)]
    return _section("In short", *said)


def _oncall(d: Diagnosis) -> Markup:
    steps = _next(d.actions, "Do now")
    return _join([steps, _section("Escalate", el("p", words.capital(words.escalate(d))))])


_STYLE = """
:root{--ink:#1b1f24;--dim:#5b6470;--page:#fff;--quiet:#f4f5f7;--rule:#dfe3e8;--bad:#b3261e;--warn:#8a5a00;
--good:#1a6b3c;--sure:#1a6b3c;--fits:#0b6078;--bar:#b9c2cd;--after:#8a6d1f}
@media (prefers-color-scheme:dark){:root{--ink:#e4e7eb;--dim:#9aa4b1;--page:#14171b;--quiet:#1d2127;
--rule:#30363e;--bad:#ff8a80;--warn:#f0b95b;--good:#7fd6a0;--sure:#7fd6a0;--fits:#74cfe6;--bar:#4b5561;
--after:#d9bb6a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:54rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}
header{margin-bottom:2rem}
h1{font-size:1.6rem;line-height:1.25;margin:.2rem 0 .4rem;text-wrap:balance}
h2{font-size:.8rem;font-weight:600;letter-spacing:.06em;text-transform:uppercase;color:var(--dim);
margin:0 0 .5rem}
section{border-top:1px solid var(--rule);padding:1.1rem 0 .9rem}
p{margin:0 0 .5rem}
p,li,dd,h1,figcaption,td,th{overflow-wrap:anywhere}
.verdict{font-weight:700;letter-spacing:.04em;text-transform:uppercase;font-size:.85rem;margin:0}
.bad{color:var(--bad)}.warn{color:var(--warn)}.good{color:var(--good)}
.summary{font-size:1.08rem}
.cause{font-size:1.15rem;font-weight:600}
.dim,figcaption{color:var(--dim)}
figcaption{font-size:.9rem}figcaption span{display:inline-block;margin-left:.8rem}
.facts code{margin-right:.5rem}
.status{font-size:.82rem;font-weight:600;white-space:nowrap}
.established{color:var(--sure)}.supported{color:var(--fits)}.suspected{color:var(--warn)}
.ruled-out{color:var(--dim)}
figure{margin:0 0 .9rem}
pre,code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.86rem}
pre{margin:.35rem 0 .5rem;padding:.6rem .75rem;background:var(--quiet);white-space:pre-wrap;
overflow-wrap:anywhere;border-radius:4px;line-height:1.45}
ul,ol{margin:0 0 .5rem;padding-left:1.25rem}li{margin:.15rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;margin:.3rem 0}
dt{color:var(--dim)}dd{margin:0}
details{margin:.4rem 0}summary{cursor:pointer;color:var(--dim)}
summary:focus-visible{outline:2px solid var(--fits);outline-offset:2px}
.lanes{display:flex;align-items:flex-start}
.lanes svg{display:block;flex:none;overflow:visible}.lanes .plot{flex:1 1 0;width:0;min-width:0}
.lanes text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:var(--dim)}
.lanes .strong{fill:var(--ink);font-weight:700}.lanes .said{fill:var(--ink)}
.lanes .end{text-anchor:end}.lanes .middle{text-anchor:middle}
.lanes .said{paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}
.grid{stroke:var(--rule)}.bar{stroke:var(--bar);stroke-width:3}
.spread{stroke:var(--bar);stroke-width:7}
.silence,.untimed{stroke:var(--bar);stroke-width:1.5;stroke-dasharray:2 4}
circle.initiating{fill:var(--bad)}
circle.silent{fill:var(--page);stroke:var(--bad);stroke-width:2}
line.collateral{stroke:var(--after);stroke-width:3}line.normal{stroke:var(--bar);stroke-width:2}
.key::before{content:"";display:inline-block;width:.6em;height:.6em;margin-right:.35em;background:var(--bar)}
.key.initiating::before{background:var(--bad);border-radius:50%}
.key.silent::before{border:2px solid var(--bad);background:none;border-radius:50%}
.key.collateral::before{background:var(--after);width:.25em;height:.8em}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.88rem;margin:.5rem 0}
th,td{text-align:left;padding:.2rem .9rem .2rem 0;border-bottom:1px solid var(--rule);
vertical-align:top}
@media (max-width:34rem){main{padding:1.25rem 1rem 3rem}h1{font-size:1.3rem}
dl{grid-template-columns:1fr}dd{margin-bottom:.3rem}}
@media print{details{display:block}main{max-width:none}}
"""
