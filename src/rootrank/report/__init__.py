"""One `Diagnosis` in the form a reader wants. Redacts secrets; neutralises what logs say.

Belongs here: words and layout. Must not be here: anything that decides what failed or why.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rootrank.model import Diagnosis
from rootrank.report.redact import redact, redact_diagnosis

if TYPE_CHECKING:
    from rootrank.report.html import render_html
    from rootrank.report.jsonout import render_error_json, render_json
    from rootrank.report.markdown import render_markdown
    from rootrank.report.sarif import render_sarif
    from rootrank.report.terminal import render_terminal

FORMATS = ("text", "json", "markdown", "html", "sarif")
AUDIENCES = ("engineer", "executive", "oncall")

__all__ = [
    "AUDIENCES",
    "FORMATS",
    "redact",
    "redact_diagnosis",
    "render",
    "render_error_json",
    "render_html",
    "render_json",
    "render_markdown",
    "render_sarif",
    "render_terminal",
]

_HOME = {
    "render_error_json": "jsonout",
    "render_html": "html",
    "render_json": "jsonout",
    "render_markdown": "markdown",
    "render_sarif": "sarif",
    "render_terminal": "terminal",
}


def __getattr__(name: str) -> Any:
    # A command writes one format; loading all of them would be most of its start.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # found directly next time
    return value


def render(
    d: Diagnosis,
    format: str,
    *,
    version: str = "",
    audience: str = "engineer",
    width: int = 80,
    color: bool = False,
    unicode: bool = True,
    verbose: bool = False,
    redacted: bool = True,
) -> str:
    """Return `d` in one of `FORMATS`, with secrets redacted unless `redacted` is False.

    `width`, `color`, `unicode` and `verbose` matter to text; `audience` to text, Markdown and HTML;
    `version` to JSON and SARIF. An unknown format raises ValueError.
    """
    from rootrank import report as r  # through __getattr__, so that only one format is loaded

    shown = redact_diagnosis(d) if redacted else d
    if format == "text":
        return r.render_terminal(
            shown, width=width, color=color, unicode=unicode, audience=audience, verbose=verbose
        )
    if format == "json":
        return r.render_json(shown, version)
    if format == "sarif":
        return r.render_sarif(shown, version)
    if format == "markdown":
        return r.render_markdown(shown, audience)
    if format == "html":
        return r.render_html(shown, audience)
    raise ValueError(f"format {format!r} is not one of {', '.join(FORMATS)}")
