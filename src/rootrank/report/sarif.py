"""The diagnosis as SARIF 2.1.0, for code-scanning views and editors.

Belongs here: the mapping to SARIF. Must not be here: anything another format would also need.
A log file is the artifact, a line of it the location, an encyclopedia entry the rule.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from rootrank.model import Cause, Diagnosis, Evidence, Gap, Status
from rootrank.report import words
from rootrank.report.safe import clip_bytes, plain

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_UNLISTED = "unlisted-failure"  # the rule of a failure that no entry knows
_COLLATERAL = "collateral"
_TEXT_BYTES = 4096
_LEVEL = {
    Status.ESTABLISHED: "error",
    Status.SUPPORTED: "error",
    Status.SUSPECTED: "warning",
    Status.RULED_OUT: "none",
}

_Json = dict[str, Any]
_Found = tuple[str, str, str, Evidence]  # rule, level, message, evidence


def render_sarif(d: Diagnosis, version: str) -> str:
    """Return a SARIF log with one result for each piece of evidence of what failed."""
    found = list(_found(d))
    run = {
        "tool": {"driver": _driver(d, found, version)},
        "invocations": [_invocation(d)],
        "columnKind": "unicodeCodePoints",
        "results": [_result(*f) for f in found],
        "properties": {"verdict": d.verdict.value, "summary": plain(d.summary)},
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=True) + "\n"


def _found(d: Diagnosis) -> Iterator[_Found]:
    for cause in [c for c in (d.cause, *(a.cause for a in d.also)) if c]:
        for e in cause.evidence:
            yield _rule_id(cause), _LEVEL[cause.status], _message(cause, e), e
    for c in d.collateral:
        what = words.capital(words.collateral(c, d.initiating is not None))
        for e in c.evidence:
            yield plain(c.entry) if c.entry else _COLLATERAL, "note", words.sentence(what), e
    if d.cause is None:
        for e in d.unexplained:
            yield _UNLISTED, "warning", "Seen, and explained by nothing else in these logs.", e


def _rule_id(cause: Cause) -> str:
    return plain(cause.entry) if cause.entry else _UNLISTED


def _message(cause: Cause, e: Evidence) -> str:
    said = words.sentence(e.says) if e.says else ""
    limits = f" {words.sentence(e.limits)}" if e.limits else ""
    return f"{words.sentence(f'{cause.title} ({cause.status.value})')} {said}{limits}".strip()


# --------------------------------------------------------------------------- parts of a log


def _driver(d: Diagnosis, found: Iterable[_Found], version: str) -> _Json:
    titles = {_UNLISTED: "A failure that no entry knows", _COLLATERAL: "Explained by the failure"}
    for cause in [c for c in (d.cause, *(a.cause for a in d.also)) if c and c.entry]:
        titles.setdefault(_rule_id(cause), cause.title)
    rules = dict.fromkeys(rule for rule, *_ in found)
    return {
        "name": "rootrank",
        "version": version,
        "rules": [{"id": r, "shortDescription": {"text": plain(titles.get(r, r))}} for r in rules],
    }


def _invocation(d: Diagnosis) -> _Json:
    notes = [_notification(g) for g in d.coverage.gaps]
    return {"executionSuccessful": True, "toolExecutionNotifications": notes}


def _notification(gap: Gap) -> _Json:
    place = {"physicalLocation": {"artifactLocation": {"uri": _uri(gap.source)}}}
    text = plain(f"{gap.source}: {gap.reason}")
    return {"level": "warning", "message": {"text": text}, "locations": [place]}


def _result(rule: str, level: str, message: str, e: Evidence) -> _Json:
    key = f"{rule}\n{e.source}\n{e.text}".encode("utf-8", "replace")
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": plain(message)},
        "locations": [{"physicalLocation": _location(e)}],
        "partialFingerprints": {"evidence/v1": hashlib.sha256(key).hexdigest()[:32]},
    }


def _location(e: Evidence) -> _Json:
    location: _Json = {"artifactLocation": {"uri": _uri(e.source)}}
    if e.line > 0:
        snippet = {"text": plain(clip_bytes(e.text, _TEXT_BYTES))}
        end = max(e.end_line, e.line)
        location["region"] = {"startLine": e.line, "endLine": end, "snippet": snippet}
    return location


def _uri(source: str) -> str:
    """Return a source name as a URI reference; one with a scheme stays a URL."""
    path = (source or "unknown").replace("\\", "/")
    scheme, colon, rest = path.partition("://")
    if colon and scheme.isalnum():
        return f"{scheme}://{quote(rest, safe='/:@!?=&+,;~', errors='replace')}"
    quoted = quote(path, safe="/!+,~", errors="replace")
    return f"file://{quoted}" if quoted.startswith("/") else quoted
