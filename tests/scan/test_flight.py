"""Flight-recorder dumps: read safely, compared across ranks."""

from __future__ import annotations

import io
import json
import os
import pathlib
import pickle
import tempfile
from typing import Any

import pytest

from rootrank.model import UNKNOWN, Sighting
from rootrank.scan import flight
from rootrank.timeline.waitgraph import findings


def entry(
    n: int,
    op: str = "all_reduce",
    done: bool = True,
    group: str = "0",
    site: str = "train.py",
    sizes: Any = ((8, 4),),
) -> dict[str, Any]:
    """Return one NCCL entry in the shape of format 2.9."""
    return {
        "record_id": n, "pg_id": 0, "process_group": [group, "default_pg"], "collective_seq_id": n, "p2p_seq_id": 0, "op_id": n,
        "profiling_name": f"nccl:{op}", "input_sizes": sizes, "input_dtypes": ["Float"], "is_p2p": False,
        "state": "completed" if done else "started", "frames": [{"name": "step", "filename": f"/home/user/{site}", "line": 10}],
    }  # fmt: skip


def dump(entries: list[dict[str, Any]], ranks: int = 4) -> dict[str, Any]:
    """Return a whole dump."""
    return {
        "version": "2.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
        "pg_status": {},
        "entries": entries,
    }


def read(rank: int, value: dict[str, Any], as_json: bool = False) -> Sighting:
    """Return the sighting of a dump that was written as pickle or JSON."""
    data = json.dumps(value).encode() if as_json else pickle.dumps(value, protocol=2)
    s = flight.record(data, f"nccl_trace_rank_{rank}", UNKNOWN)
    assert s is not None
    return s


@pytest.mark.parametrize("as_json", [False, True])
def test_absent_rank(as_json: bool) -> None:
    """Three ranks wait in #4; rank 2 never enqueued it."""
    rows = [
        read(
            r,
            dump([entry(n) for n in range(1, 4)] + ([entry(4, done=False)] if r != 2 else [])),
            as_json,
        )
        for r in range(4)
    ]
    (f,) = findings(rows)

    assert ("missing", (2,)) == (f.kind, f.ranks)


def test_wait_is_followed_across_groups() -> None:
    """Rank 1 is absent from group A because it waits in group B for rank 3: rank 3 is the end."""
    config = {"A": {"desc": "dp", "ranks": "[0, 1]"}, "B": {"desc": "tp", "ranks": "[1, 3]"}}
    made = {
        0: [entry(1, group="A"), entry(2, group="A", done=False)],
        1: [entry(1, group="A"), entry(7, group="B", done=False)],
        3: [entry(6, group="B")],
    }
    rows = [read(r, {**dump(e), "pg_config": config}) for r, e in made.items()]
    (f,) = findings(rows)

    assert (3,) == f.ranks


def test_minority_operation() -> None:
    """All stand at #4, one runs something else."""
    rows = [
        read(r, dump([entry(4, "broadcast" if r == 1 else "all_reduce", done=False)]))
        for r in range(4)
    ]
    (f,) = findings(rows)

    assert ("divergent", (1,), "op") == (f.kind, f.ranks, f.fields["metric"])


def test_two_ranks_that_differ_blame_nobody() -> None:
    """With one against one the difference is said, the culprit is not."""
    rows = [
        read(r, dump([entry(4, "broadcast" if r else "all_reduce", done=False)], 2))
        for r in range(2)
    ]
    (f,) = findings(rows)

    assert ("divergent", ()) == (f.kind, f.ranks)


mark = pathlib.Path(tempfile.gettempdir()) / "rootrank_was_here"


class Evil:
    """Runs a command when it is unpickled carelessly."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {mark}",)


HOSTILE = [
    pickle.dumps(Evil(), 2),
    pickle.dumps(Evil(), 4),
    pickle.dumps({"entries": [Evil()]}, 2),
    b"\x80\x02cos\nsystem\n(S'id'\ntR.",
    b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.",
    b"\x80\x02(ios\nsystem\n.",
    b"\x80\x02cbuiltins\neval\n(X\x01\x00\x00\x001tR.",
    b"\x80\x02P123\n.",
    b"\x80\x02\x82\x01.",
    b"\x80\x02}b.",
    b"\x80\x02}K\x01}b.",
    b"\x80\x02\x8b\xff\xff\xff\x7f" + b"\x01" * 8 + b".",
    b"\x80\x02X\xff\xff\xff\x7fabc.",
    b"\x80\x02" + b"]" * 5000 + b".",
    b"\x80\x02" + b"(" * 5000 + b"t.",
    b"\x80\x02a.",
    b"\x80\x02K\x01K\x02a.",
    b"\x80\x02}]K\x01s.",
    b"\x80\x02h\x05.",
    b"\x80\x02",
    b"\x80\x02}" + b"I99999999999999999999999\n" * 3,
    b"\x00\x01garbage",
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_pickles(data: bytes) -> None:
    """Nothing runs, nothing grows, nothing but BadDump comes out."""
    mark.unlink(missing_ok=True)
    with pytest.raises(flight.BadDump):
        flight.record(data, "nccl_trace_rank_0", UNKNOWN)

    assert not mark.exists()


def test_truncation_at_every_byte() -> None:
    """A dump cut anywhere is a damaged dump."""
    data = pickle.dumps(dump([entry(1), entry(2, done=False)]), 2)
    for n in range(1, len(data) - 1, 7):
        with pytest.raises(flight.BadDump):
            flight.record(data[:n], "nccl_trace_rank_0", UNKNOWN)


def test_same_values_as_the_standard_reader() -> None:
    """For plain values, every protocol gives what pickle itself gives."""
    value = {"a": [1, -5, 2**40, None, True, 1.5, "é", b"x", (1, 2, 3), (), {}], 3: [[[]]]}
    for protocol in range(5):
        stream = io.BytesIO()
        pickle.Pickler(stream, protocol).dump(value)
        if protocol < 3:
            continue  # older protocols write bytes through a function call, which is refused
        assert value == flight.load_values(stream.getvalue())
