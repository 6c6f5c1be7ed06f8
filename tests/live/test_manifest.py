"""The manifest's reader: names, ends, gaps; and whatever somebody may write into such a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rootrank.live import collect
from rootrank.model import Digest, Sighting, SpeaksOf
from rootrank.scan import manifest

from .jobs import SLEEP, job

HOST = {
    "host": "node-5", "world_size": 8, "absent_local_ranks": [2],
    "ranks": [
        {"rank": 3, "local_rank": 3, "pid": 812, "gpus": [{"pci": "0000:18:00.0"}]},
        {"rank": 4, "pid": 813, "movement": {"ended": "the process had ended"}},
    ],
    "missing": [
        {"what": "py-spy stack of rank 3", "reason": "refused"},
        {"what": "NCCL RAS", "reason": "no answer"},
    ],
}  # fmt: skip
TOP = {
    "schema": "rootrank.bundle/1", "started": "2026-12-01T05:00:00.000Z",
    "ended": "2026-12-01T05:00:06.500Z", "hosts": [HOST],
    "missing": [{"what": "host node-6", "reason": "ssh ended with 255"}],
}  # fmt: skip


def test_what_a_manifest_says() -> None:
    """Identities with device, what had no process, what could not be had."""
    found = manifest.read(json.dumps(TOP).encode(), "b/manifest.json")
    assert found is not None
    first = found.identities[0]
    assert (3, 812, "node-5", "0000:18:00.0", 8) == (
        first.origin.rank, first.origin.pid, first.origin.host, first.origin.device, first.world_size
    )  # fmt: skip
    assert 6.5 == (found.ended_s or 0) - (found.started_s or 0)
    assert [("absent", None, 2), ("ended", 4, None)] == [
        (s.get("state"), s.origin.rank, s.origin.local_rank) for s in found.sightings
    ]
    assert ["host node-6: ssh ended with 255", "py-spy stack of rank 3: refused"] == [
        g.reason for g in found.gaps
    ]


def test_what_collect_writes_is_read(tmp_path: Path) -> None:
    """Writer and reader agree."""
    with job(tmp_path, [SLEEP, SLEEP]) as running:
        result = collect(output="-", run_id=running.run_id, interval_s=0.1)
        found = manifest.read(result.files["manifest.json"], "manifest.json")
        assert found is not None
        pids = [(0, running.pid(0)), (1, running.pid(1))]
    assert pids == [(i.origin.rank, i.origin.pid) for i in found.identities]
    assert found.ended_s is not None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"[" * 100000,
        b'{"schema": "rootrank.bundle/2"}',
        b'{"schema": ["x"]}',
    ],
)
def test_other_files(data: bytes) -> None:
    """Any other JSON is none."""
    assert manifest.read(data, "manifest.json") is None


@pytest.mark.parametrize(
    "hosts",
    [
        None, 3, [3, None, []], [{"ranks": 3, "missing": {"a": 1}}],
        [{"ranks": [3, {"rank": -1, "pid": 1 << 70, "local_rank": True, "gpus": 3, "movement": []}]}],
        [{"absent_local_ranks": ["x", -1], "missing": [3, {"what": 4}]}], [{"host": 3, "world_size": "x"}],
    ],
)  # fmt: skip
def test_odd_values(hosts: object) -> None:
    """A field of the wrong kind is unknown, never an error."""
    data = json.dumps({"schema": "rootrank.bundle/1", "hosts": hosts, "started": 3}).encode()
    found = manifest.read(data, "manifest.json")
    assert found is not None
    assert (None, ()) == (found.started_s, found.gaps)
    assert all(i.origin.rank is None and i.origin.pid is None for i in found.identities)


def test_names() -> None:
    """Only the last part of a source's name counts."""
    assert manifest.is_manifest("b.tar.zst!/manifest.json")
    assert not manifest.is_manifest("manifest.json.bak")


def moved(**movement: object) -> dict[str, object]:
    """Return a rank that was looked at twice, five seconds apart."""
    return {"rank": 0, "movement": {"seconds": 5.0, **movement}}


def moving(*ranks: object, **host: object) -> bool:
    """Return whether the reader takes a job for one that runs."""
    top = {"schema": "rootrank.bundle/1", "hosts": [{"ranks": list(ranks), **host}]}
    found = manifest.read(json.dumps(top).encode(), "manifest.json")
    assert found is not None
    return any(s.get("state") == "moving" for s in found.sightings)


def test_a_job_that_runs() -> None:
    """Every rank has to have moved: by other functions on its stack, or by waiting often and shortly."""
    often = moved(main_stack="same", main_thread={"voluntary_ctxt_switches": 900})
    polls = moved(main_stack="line", main_thread={"voluntary_ctxt_switches": 50})
    other = moved(main_stack="functions")
    assert moving(often, other)
    assert not moving(often, polls)
    assert not moving(other, moved(main_stack="same", cpu_s=5.0))  # an endless loop, or a GPU wait
    assert not moving(other, moved(main_stack="functions", ended="it had ended"))
    assert not moving(other, {"rank": 1})
    assert not moving(other, absent_local_ranks=[1])
    assert not moving()


def digest(source: str, *kinds: str) -> Digest:
    """Return a digest with sightings of some kinds."""
    made = tuple(
        Sighting(
            kind=k, speaks_of=SpeaksOf.SELF, source=source, line=1, end_line=1, offset=0, text="x"
        )
        for k in kinds
    )
    return Digest(source=source, kind="stacks", sightings=made)


def test_stacks_of_a_job_that_runs_are_moments() -> None:
    """They go, with their bundle's other sightings kept; other bundles and logs are untouched."""
    top = {"schema": "rootrank.bundle/1", "hosts": [{"ranks": [moved(main_stack="functions")]}]}
    empty = Digest(source="b.tar!/manifest.json", kind="config")
    says = manifest.with_manifest(empty, json.dumps(top).encode())
    given = [says, digest("b.tar!/h/p.txt", "stack", "exception"), digest("c/p.txt", "stack")]
    left = [[s.kind for s in d.sightings] for d in manifest.without_moments(given)]
    assert [[], ["exception"], ["stack"]] == left
    assert given[1:] == manifest.without_moments(given[1:])


def test_an_ordinary_config_is_left_alone() -> None:
    """A manifest.json of something else stays as it is."""
    one = digest("x/manifest.json", "line")
    assert one is manifest.with_manifest(one, b'{"files": []}')
