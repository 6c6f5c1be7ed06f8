"""Secrets out of text, before anything is shown, stored or sent.

Belongs here: applying the table of secret_formats.py. Must not be here: the formats themselves,
display safety (safe.py). A secret becomes `<redacted:ID>`; the name, key or URL around it stays, so
that a line still explains itself.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, cast

from rootrank.model import Diagnosis
from rootrank.report.secret_formats import FORMATS, Format


def redact(text: str) -> str:
    """Return `text` with every recognised secret replaced; the same object when there is none.

    Works on one line or on many and keeps the number of lines. Applying it twice changes nothing
    more.
    """
    lowered = text.lower()
    if not _sieve().search(lowered):
        return text
    for rule in FORMATS:
        if any(hint in lowered for hint in rule.hints):
            text = _compiled(rule.pattern).sub(_Replace(rule), text)
    return text


def redact_diagnosis(d: Diagnosis) -> Diagnosis:
    """Return `d` with secrets replaced in every string it holds."""
    return cast(Diagnosis, _walk(d))


def _walk(value: Any) -> Any:
    if isinstance(value, Enum) or value is None:
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, tuple):
        return _walk_tuple(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _walk_fields(value)
    return value


def _walk_fields(value: Any) -> Any:
    changes = {}
    for f in fields(value):
        old = getattr(value, f.name)
        new = _walk(old)
        if new is not old:
            changes[f.name] = new
    return replace(value, **changes) if changes else value


def _walk_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(value) > 1 and all(isinstance(v, str) for v in value):
        # Neighbouring lines together: the body of a private key is only known by the line above it.
        joined = redact("\n".join(value)).split("\n")
        if len(joined) == len(value):
            return value if list(value) == joined else tuple(joined)
    new = tuple(_walk(v) for v in value)
    return new if any(a is not b for a, b in zip(new, value, strict=True)) else value


class _Replace:
    """What stands in for a match: the group that took part, or all of it, replaced by a mark."""

    __slots__ = ("_mark",)

    def __init__(self, rule: Format) -> None:
        self._mark = f"<redacted:{rule.id}>"

    def __call__(self, match: re.Match[str]) -> str:
        group = match.lastindex or 0
        secret = match.group(group)
        if "<redacted:" in secret:
            return match.group()
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        whole = match.group()
        return whole[:start] + self._mark + "\n" * secret.count("\n") + whole[end:]


# Compiled when first needed: most runs meet none or a few of these forms, and the start of a
# command should be quick.
_compiled = cache(re.compile)


@cache
def _sieve() -> re.Pattern[str]:
    """Return one regex that finds any hint, as a tree of letters: faster than a list of words."""
    root: dict[str, Any] = {}
    for hint in (h for f in FORMATS for h in f.hints):
        node = root
        for char in hint:
            node = node.setdefault(char, {})
        node[""] = {}
    return re.compile(_branches(root))


def _branches(node: dict[str, Any]) -> str:
    if "" in node:  # a shorter hint ends here; whatever is longer contains it
        return ""
    parts = [re.escape(char) + _branches(below) for char, below in sorted(node.items())]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"
