"""One error tree. Every message names place, fault and remedy.

RootrankError
├── InputError        a path or stream that cannot be read at all (exit 2)
├── UsageError        the command line makes no sense (exit 2)
├── KnowledgeError    an entry is malformed: file:line: fault; remedy
└── MissingExtraError an optional dependency is needed for this (exit 2)
"""

from __future__ import annotations


class RootrankError(Exception):
    """Base of all errors that a user may see."""

    def __init__(self, where: str, fault: str, remedy: str) -> None:
        self.where, self.fault, self.remedy = where, fault, remedy
        super().__init__(f"{where}: {fault}; {remedy}")


class InputError(RootrankError):
    """A path or stream that cannot be read at all."""


class UsageError(RootrankError):
    """The command line makes no sense."""


class KnowledgeError(RootrankError):
    """An entry is malformed."""


class MissingExtraError(RootrankError):
    """An optional dependency is needed for this."""
