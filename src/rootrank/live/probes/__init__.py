"""One module per source of evidence. Each probe reads, and keeps what it read as it stood.

Belongs here: what the probes share. Must not be here: conclusions; a probe that judges cannot be
read again by a better judge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rootrank.live.command import Runner
from rootrank.live.procfs import Proc
from rootrank.live.ranks import Job, Rank
from rootrank.live.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every probe is given."""

    proc: Proc
    job: Job
    store: Store
    runner: Runner
    interval_s: float = 5.0
    native: bool = False
    allow_signals: bool = False
    trigger_dump: bool = False
    slurm: str | None = None
    began_s: float | None = None  # when the job started, seconds since the epoch
    moving: dict[str, object] = field(default_factory=dict)  # shared between the two samples

    def alive(self, rank: Rank) -> bool:
        """Return whether the process is still the one that was found, not a new one with its number."""
        stat = self.proc.stat(rank.pid)
        same = stat is not None and stat.start_ticks == rank.process.stat.start_ticks
        return same and stat is not None and stat.state not in "ZX"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question to the machine."""

    name: str
    ask: Callable[[Context], None]
    plan: Callable[[Context], list[str]]  # lines of --preview
    deadline_s: float
