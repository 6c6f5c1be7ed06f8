"""What a check says: a rule, how sure it is, where, what, why, and what to do.

Belongs here: the values that every check makes. Must not be here: a rule about a library.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """How sure it is that the launch goes wrong."""

    WILL = "will-fail"
    MAY = "may-fail"
    NOTE = "note"


WILL, MAY, NOTE = Severity.WILL, Severity.MAY, Severity.NOTE
RANK = {WILL: 0, MAY: 1, NOTE: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of a file and the key on it, or a fact of this machine."""

    name: str
    line: int | None = None
    key: str = ""

    def __str__(self) -> str:
        at = f"{self.name}:{self.line}" if self.line else self.name
        return f"{at} {self.key}" if self.key else at


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that will fail, may fail or is worth knowing, before the launch."""

    rule: str
    severity: Severity
    place: Place
    fault: str
    why: str
    remedy: str
    entry: str | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A check that could not be made, and what would make it possible."""

    what: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One check: its name, the entry that its failure would be, and where the rule is written."""

    id: str
    about: str
    entry: str | None
    source: str

    def found(self, severity: Severity, place: Place, fault: str, why: str, remedy: str) -> Finding:
        """Return what this rule found at a place."""
        return Finding(
            rule=self.id, severity=severity, place=place, fault=fault, why=why, remedy=remedy,
            entry=self.entry, source=self.source,
        )  # fmt: skip


RULES: dict[str, Rule] = {}


def rule(id: str, about: str, entry: str | None, source: str) -> Rule:
    """Return a new rule, known to the documentation and its test."""
    assert id not in RULES, id
    RULES[id] = Rule(id=id, about=about, entry=entry, source=source)
    return RULES[id]
