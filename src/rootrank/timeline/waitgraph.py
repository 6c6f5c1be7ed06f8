"""Who is everybody waiting for: flight records compared across ranks.

Belongs here: wait-for edges between ranks, and votes where all stand at the same number. Must not be here: causes.
A rank waits at its earliest pending collective for the members of that group that have not enqueued it. Followed to their
ends, the edges lead to the ranks that wait for nobody: those are late. Where everybody has enqueued the same number, the
minority by operation, size, type or call site is the odd one; of two ranks neither is blamed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rootrank.model import Sighting

_P2P = re.compile(r"(?:send|recv) (\d+)(?:->|<-)(\d+)")


class Wait(NamedTuple):
    """What one rank waits for. `on` is empty when nobody is missing there."""

    row: Mapping[str, Any] | None
    on: tuple[int, ...]


class Finding(NamedTuple):
    """A comparison: its derived word, the ranks, the sentence and more fields."""

    kind: str
    ranks: tuple[int, ...]
    says: str
    fields: dict[str, Any]


def findings(records: Sequence[Sighting]) -> list[Finding]:
    """Return what the flight records of one job show."""
    by_rank = {s.origin.rank: s for s in records if s.origin.rank is not None}
    if len(by_rank) < 2:
        return []
    waits = {r: _wait(r, by_rank) for r in by_rank}
    late = _ends(waits)
    waiting = sorted(r for r, w in waits.items() if w.row is not None and w.on)
    if late and waiting:
        return [_absent(late, waits)]
    return _votes(by_rank)


def _absent(late: list[int], waits: Mapping[int, Wait]) -> Finding:
    rows = [w.row for w in waits.values() if w.row is not None and w.on]
    op = Counter(f"{r['op']} #{r['seq']}" for r in rows).most_common(1)[0][0]
    stuck = [r for r in late if waits[r].row is not None]
    says = (
        f"the waits of {len(rows)} ranks end at rank {', '.join(map(str, late))}: it did not reach {op}"
        + ("; it waits itself, for nobody" if stuck and len(stuck) == len(late) else "")
    )
    return Finding(
        "missing",
        tuple(late),
        says,
        {"op": "flight-record", "waiting": tuple(sorted(r for r, w in waits.items() if w.on))},
    )


def _members(group: str, s: Sighting, by_rank: Mapping[int, Sighting]) -> tuple[int, ...]:
    stated = s.get("members", {}).get(group) or ()
    if stated:
        return tuple(stated)
    # gloo keeps the membership of one group only: whoever uses the name belongs to it.
    users = tuple(sorted(r for r, o in by_rank.items() if group in o.get("last", {})))
    default = tuple(m for m in (s.get("members", {}).get("") or ()))
    return default if group in ("0", "") and default else users


def _wait(rank: int, by_rank: Mapping[int, Sighting]) -> Wait:
    s = by_rank[rank]
    pending = s.get("pending", ())
    if not pending:
        return Wait(None, ())
    row = pending[0]
    if row["p2p"]:
        m = _P2P.search(row["op"])
        members = _members(row["group"], s, by_rank)
        peer = int(m[2]) if m else None
        if peer is None:
            return Wait(row, ())
        return Wait(row, (members[peer] if peer < len(members) else peer,))
    on = []
    for other in _members(row["group"], s, by_rank):
        if other != rank and other in by_rank and not _reached(by_rank[other], row):
            on.append(other)
    return Wait(row, tuple(on))


def _reached(other: Sighting, row: Mapping[str, Any]) -> bool:
    """Return True when the other rank has enqueued this collective, or is past it."""
    return int(other.get("last", {}).get(row["group"], -1)) >= int(row["seq"])


def _ends(waits: Mapping[int, Wait]) -> list[int]:
    """Return the ranks at which wait edges end and that somebody reaches."""
    reached: Counter[int] = Counter()
    for start in waits:
        seen: set[int] = set()
        todo = list(waits[start].on)
        while todo:
            x = todo.pop()
            if x in seen or x == start:
                continue
            seen.add(x)
            if x in waits and waits[x].on:
                todo.extend(waits[x].on)
            else:
                reached[x] += 1
    return sorted(reached)


def _votes(by_rank: Mapping[int, Sighting]) -> list[Finding]:
    """All stand at the same number: compare what they run there, then where they call it, from the oldest shared on."""
    tables: dict[tuple[str, int], dict[int, Mapping[str, Any]]] = {}
    for rank, s in by_rank.items():
        for row in s.get("recent", ()):
            if not row["p2p"]:
                tables.setdefault((row["group"], row["seq"]), {})[rank] = row
    for metric, keys in (
        ("op", ("op",)),
        ("size", ("sizes",)),
        ("dtype", ("dtypes",)),
        ("frame", ("site",)),
    ):
        for (group, seq), rows in sorted(tables.items(), key=lambda kv: kv[0][1]):
            found = _odd(metric, keys, group, seq, rows)
            if found:
                return [found]
    return []


def _odd(
    metric: str, keys: tuple[str, ...], group: str, seq: int, rows: Mapping[int, Mapping[str, Any]]
) -> Finding | None:
    if len(rows) < 2:
        return None
    votes = Counter(tuple(r[k] for k in keys) for r in rows.values())
    if len(votes) < 2 or (metric == "frame" and any(not r["site"] for r in rows.values())):
        return None
    top, n = votes.most_common(1)[0]
    odd = tuple(sorted(r for r, row in rows.items() if tuple(row[k] for k in keys) != top))
    if len(odd) >= n:
        odd = ()
    usual = next(row for row in rows.values() if tuple(row[k] for k in keys) == top)
    other = next(row for row in rows.values() if tuple(row[k] for k in keys) != top)
    words = {"op": "op", "size": "sizes", "dtype": "dtypes", "frame": "site"}[metric]
    who = f"rank {', '.join(map(str, odd))}" if odd else "the ranks differ: one side"
    name = usual["desc"] or group or "default"
    says = (
        f"at collective #{seq} of group {name} {who} has {other[words]}, the others {usual[words]}"
    )
    return Finding(
        "divergent", odd, says, {"metric": metric, "seq": seq, "op": other["op"], "group": name}
    )
