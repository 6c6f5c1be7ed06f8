"""Join the names of one process: rank, local rank, pid, host, source.

Belongs here: tables learned from launcher lines, NCCL lines, prefixes and paths. Must not be here: order and trouble.
A name that could mean two processes means none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rootrank.model import Digest, Identity, Origin, Sighting

_AMBIGUOUS = -1


class Names:
    """What is known of who is who, over all sources of one job."""

    def __init__(self, digests: Iterable[Digest]) -> None:
        self.by_pid: dict[tuple[str, int], int] = {}
        self.by_local: dict[tuple[str, str, int], int] = {}
        self.by_bus: dict[tuple[str, str], int] = {}
        self.by_source: dict[str, int] = {}
        self.pid_of: dict[int, int] = {}
        self.host_of: dict[int, str] = {}
        self.local_of: dict[int, int] = {}
        self.worlds: list[int] = []
        self.ranks: set[int] = set()
        self._locals: set[int] = set()
        self._hosts: set[str] = set()
        for digest in digests:
            self._learn_digest(digest)

    def _learn_digest(self, digest: Digest) -> None:
        for identity in digest.identities:
            self._learn(identity.origin, digest.source, identity)
        for tail in digest.tails:
            self._learn(tail.origin, digest.source, None)
        for s in digest.sightings:
            if s.kind == "exit" and s.origin.rank is not None:
                self._learn(s.origin, digest.source, None)
        ranks = {t.origin.rank for t in digest.tails if t.origin.rank is not None and t.lines > 0}
        ranks |= {
            i.origin.rank
            for i in digest.identities
            if i.origin.rank is not None and i.world_size is None
        }
        owners = {i.origin.rank for i in digest.identities if i.owns_source}
        if len(owners) == 1 and digest.origin.rank is None:
            self.by_source[digest.source] = next(iter(owners)) or 0
            self.ranks |= {r for r in owners if r is not None}
        elif digest.origin.rank is not None:
            self.by_source[digest.source] = digest.origin.rank
            self.ranks.add(digest.origin.rank)
        elif len(ranks) == 1 and (
            digest.origin.local_rank is not None or digest.origin.pid is not None
        ):
            # A per-process file whose lines name one rank throughout belongs to that rank.
            self.by_source[digest.source] = next(iter(ranks))

    def _learn(self, o: Origin, source: str, identity: Identity | None) -> None:
        if identity is not None and identity.world_size is not None:
            self.worlds.append(identity.world_size)
        if o.local_rank is not None:
            self._locals.add(o.local_rank)
        if o.host:
            self._hosts.add(o.host)
        if o.rank is None:
            return
        self.ranks.add(o.rank)
        if o.pid is not None:
            _put(self.by_pid, (o.host or "", o.pid), o.rank)
            if o.host:
                _put(self.by_pid, ("", o.pid), o.rank)
            self.pid_of.setdefault(o.rank, o.pid)
        if o.device and o.device.startswith("bus "):
            _put(self.by_bus, (o.host or "", o.device[4:]), o.rank)
            _put(self.by_bus, ("", o.device[4:]), o.rank)
        if o.local_rank is not None:
            _put(self.by_local, (source, "", o.local_rank), o.rank)
            _put(self.by_local, ("", "", o.local_rank), o.rank)
            if o.host:
                _put(self.by_local, ("", o.host, o.local_rank), o.rank)
            self.local_of.setdefault(o.rank, o.local_rank)
        if o.host:
            self.host_of.setdefault(o.rank, o.host)

    @property
    def world_size(self) -> int | None:
        """Return the largest world size that a line states, or None."""
        return max(self.worlds) if self.worlds else None

    def resolve(self, o: Origin, source: str) -> Origin:
        """Return the origin with every name that the tables add without doubt."""
        rank = o.rank
        if rank is None and o.pid is not None:
            rank = _get(self.by_pid, (o.host or "", o.pid))
            if rank is None:
                rank = _get(self.by_pid, ("", o.pid))
        if rank is None and o.local_rank is not None and o.role != "launcher":
            rank = _get(self.by_local, (source, "", o.local_rank))
            if rank is None and o.host:
                rank = _get(self.by_local, ("", o.host, o.local_rank))
            if rank is None and (source, "", o.local_rank) not in self.by_local:
                # On one machine a local rank means one rank, whichever file it stands in.
                rank = _get(self.by_local, ("", "", o.local_rank))
        if rank is None and o.role in (None, "worker", "orchestrator"):
            rank = self.by_source.get(source)
        if rank is None:
            return o
        return replace(
            o, rank=rank, pid=o.pid if o.pid is not None else self.pid_of.get(rank),
            local_rank=o.local_rank if o.local_rank is not None else self.local_of.get(rank),
            host=o.host or self.host_of.get(rank),
        )  # fmt: skip

    def resolve_sighting(self, s: Sighting) -> Sighting:
        """Return the sighting with its origin resolved; kernel records find their process by pid alone."""
        pid = s.get("pid")
        origin = s.origin
        if isinstance(pid, int) and origin.pid is None:
            origin = replace(origin, pid=pid)
        origin = self.resolve(origin, s.source)
        bus = _bus_of(s.get("pci"))
        if origin.rank is None and bus:
            rank = _get(self.by_bus, (origin.host or "", bus))
            if rank is None:
                rank = _get(self.by_bus, ("", bus))
            origin = (
                self.resolve(replace(origin, rank=rank), s.source) if rank is not None else origin
            )
        return replace(s, origin=origin)


def _bus_of(pci: object) -> str | None:
    """Return "0000:9a:00" the way NCCL writes it: "9a000"."""
    parts = str(pci or "").lower().split(":")
    if len(parts) < 3:
        return None
    return (parts[1] + parts[2].split(".")[0] + "0").lstrip("0") or None


def _put(table: dict[Any, int], key: Any, rank: int) -> None:
    if table.setdefault(key, rank) != rank:
        table[key] = _AMBIGUOUS


def _get(table: dict[Any, int], key: Any) -> int | None:
    rank = table.get(key)
    return None if rank is None or rank == _AMBIGUOUS else rank
