"""Entry signals that name literals, ready for the scanner.

Belongs here: which literal leads to which entry signal, and the check of its regular expression on one line.
Must not be here: matches between signals (that is `infer`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rootrank.knowledge.types import Knowledge, Signal
from rootrank.model import SpeaksOf


@dataclass(slots=True)
class LiteralSignal:
    """One entry signal that is recognised by words on a line."""

    key: str  # "entry-id/signal-name"
    signal: Signal
    pattern: re.Pattern[str] | None = None
    compiled: bool = False

    def matches(self, text: str) -> bool:
        """Return True when the line carries the signal; the literal is known to be somewhere on the raw line."""
        if not self.compiled:
            self.pattern = re.compile(self.signal.regex) if self.signal.regex else None
            self.compiled = True
        if self.pattern is not None:
            return bool(self.pattern.search(text))
        return any(x in text for x in self.signal.literal)

    @property
    def speaks_of(self) -> SpeaksOf:
        """Return of whom the line speaks, as the entry says."""
        return SpeaksOf(self.signal.speaks_of)


@dataclass(slots=True)
class SignalIndex:
    """All literals of all entries, each with the signals it may lead to."""

    literals: dict[str, list[LiteralSignal]] = field(default_factory=dict)

    @staticmethod
    def of(knowledge: Knowledge) -> SignalIndex:
        """Return the index of a knowledge base."""
        index = SignalIndex()
        for entry in knowledge.entries.values():
            for signal in entry.signals:
                if not signal.literal:
                    continue
                one = LiteralSignal(key=f"{entry.id}/{signal.name}", signal=signal)
                for literal in signal.literal:
                    index.literals.setdefault(literal, []).append(one)
        return index


def owners(index: Mapping[str, list[LiteralSignal]], literal: str) -> list[LiteralSignal]:
    """Return the signals that name `literal`."""
    return index.get(literal, [])
