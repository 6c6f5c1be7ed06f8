"""What an entry is, once read: frozen values for program use. The text format is docs/entry-format.md.

Belongs here: the shape of knowledge. Must not be here: reading files, matching, rendering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One `[[signal]]`: how an observation that matters to the entry is recognised."""

    name: str
    role: str  # initiating | downstream | confirming | context
    literal: tuple[str, ...] = ()
    regex: str | None = None
    on: str | None = None  # built-in sighting kind, or "failure"
    derived: str | None = None
    where: Mapping[str, Any] = field(default_factory=dict)  # conditions on sighting fields
    speaks_of: str = "self"
    conclusive: bool = False
    limits: str = ""
    for_: tuple[str, ...] = ()
    against: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explains:
    """An edge: this failure explains those sightings or entries."""

    what: str
    on: str = "any"  # same | other | any lane
    after: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """When the entry holds."""

    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    scope: str = "job"  # rank | host | job
    within_s: float | None = None
    refines: tuple[str, ...] = ()
    explains: tuple[Explains, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One `[[cause]]`: a root cause inside the class."""

    id: str
    text: str
    ask: str = ""
    command: str = ""
    entry: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One `[[fix]]`. Commands are shown, never run."""

    text: str
    cause: str = ""
    run: str = ""
    edit: str = ""
    risk: str = ""
    verify: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prevention:
    """One `[[prevent]]`."""

    text: str
    watch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One failure class, as far as a diagnosis needs it. Prose stays in the Markdown (see `render`)."""

    id: str
    title: str
    summary: str
    kind: str
    category: str
    layer: str
    owner: str
    retry: str
    repair: str
    signals: tuple[Signal, ...]
    match: Match
    causes: tuple[Reason, ...]
    fixes: tuple[Fix, ...] = ()
    prevents: tuple[Prevention, ...] = ()
    phase: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    search: str = ""
    taints: str = "none"
    affects: tuple[str, ...] = ("training",)
    maturity: str = "draft"
    quick: str = ""  # the Quick answer, plain text


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """All entries, by id, in a stable order."""

    entries: Mapping[str, Entry]
    digest: str = ""  # hash of the contents; keys caches
