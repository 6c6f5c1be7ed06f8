"""The answer as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

from rootrank._version import __version__
from rootrank.preflight.finding import RANK, Finding, Severity
from rootrank.preflight.run import Report
from rootrank.report.layout import Sheet
from rootrank.report.redact import redact

_STYLE = {"will-fail": "bad", "may-fail": "warn", "note": "dim"}
_HEAD = {
    Severity.WILL: "something will fail",
    Severity.MAY: "nothing is certain to fail, something may",
    Severity.NOTE: "nothing found that fails",
}


def to_plain(report: Report) -> dict[str, Any]:
    """Return the report as the schema rootrank.check/1 has it, without secrets."""
    return {
        "schema": "rootrank.check/1",
        "rootrank": __version__,
        "verdict": report.verdict.value if report.verdict is not Severity.NOTE else "clear",
        "job": {"world": report.world, "nodes": report.nodes, "per_node": report.per_node},
        "checked": [{"path": redact(p), "kind": k} for p, k in report.checked],
        "host": report.host,
        "findings": [_finding(f) for f in report.findings],
        "estimates": [redact(e) for e in report.estimates],
        "open": [{"what": redact(o.what), "why": o.why, "remedy": o.remedy} for o in report.open],
        "unreadable": [
            {"where": redact(e.where), "fault": redact(e.fault), "remedy": e.remedy}
            for e in report.unreadable
        ],
    }


def _finding(f: Finding) -> dict[str, Any]:
    return {
        "rule": f.rule, "severity": f.severity.value,
        "place": {"name": redact(f.place.name), "line": f.place.line, "key": f.place.key},
        "fault": redact(f.fault), "why": redact(f.why), "remedy": redact(f.remedy),
        "entry": f.entry, "source": f.source,
    }  # fmt: skip


def render_json(report: Report) -> str:
    """Return the report as JSON: the same bytes for the same facts."""
    return json.dumps(to_plain(report), indent=2, ensure_ascii=False) + "\n"


def render_text(report: Report, sheet: Sheet) -> str:
    """Return the report for a terminal."""
    counts = {s: sum(f.severity is s for f in report.findings) for s in RANK}
    sheet.head("check", _STYLE[report.verdict.value], _HEAD[report.verdict])
    listed = ", ".join(f"{n} {s.value}" for s, n in counts.items() if n)
    files = ", ".join(f"{redact(p)} ({k})" for p, k in report.checked) or "no file"
    sheet.row("read", (files + (", this machine" if report.host else ""), ""))
    sheet.row("job", (_size(report), ""))
    if listed:
        sheet.row("found", (listed, ""))
    for finding in report.findings:
        _write(sheet, finding)
    for error in report.unreadable:
        sheet.blank()
        sheet.row("unreadable", (redact(f"{error.where}: {error.fault}; {error.remedy}"), "bad"))
    _tail(sheet, report)
    return "\n".join(sheet.lines) + "\n"


def _write(sheet: Sheet, f: Finding) -> None:
    sheet.blank()
    sheet.row(f.severity.value, (redact(str(f.place)), "strong"))
    sheet.row("", (redact(f.fault), _STYLE[f.severity.value]))
    sheet.row("why", (redact(f.why), ""))
    sheet.row("remedy", (redact(f.remedy), ""))
    entry = f"rootrank explain {f.entry} · " if f.entry else ""
    sheet.row("see", (f"{entry}rule {f.rule}: {f.source}", "dim"))


def _tail(sheet: Sheet, report: Report) -> None:
    if report.estimates:
        sheet.blank()
    for i, line in enumerate(report.estimates):
        sheet.row("" if i else "memory", (redact(line), ""))
    if report.open:
        sheet.blank()
    for i, o in enumerate(report.open):
        sheet.row("" if i else "open", (redact(f"{o.what}: {o.why}; {o.remedy}"), ""))


def _size(report: Report) -> str:
    if report.world is None:
        return "number of processes unknown (give --world N, or the launch command)"
    each = f", {report.per_node} per node" if report.per_node else ""
    nodes = f" on {report.nodes} node{'s' if report.nodes != 1 else ''}" if report.nodes else ""
    return f"{report.world} processes{nodes}{each}"
