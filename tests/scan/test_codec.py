"""Digests survive the way to a file and back exactly; bytes from strangers are an error, never a surprise."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import pathlib
import random
import zlib
from typing import Any

import pytest

from rootrank.model import (
    Digest,
    Gap,
    Identity,
    LaneTail,
    Origin,
    Place,
    Progress,
    Sighting,
    SpeaksOf,
)
from rootrank.scan import codec
from rootrank.scan.codec import CodecError, dump, load, renamed
from tests.helpers import digest

HEAD = b"rootrank-digest 1\n"


def full() -> Digest:
    """Return a digest in which every field of every row differs from its default."""
    origin = Origin(
        rank=3,
        local_rank=1,
        host="n5",
        pid=4711,
        attempt=2,
        device="0000:41:00.0",
        role="worker",
        actor="pod",
    )
    return Digest(
        source="a.log", kind="training-log", size_bytes=10**13, lines=7, origin=origin, first_time_s=1.5, last_time_s=1e9 + 0.123456789,
        sightings=(
            Sighting(
                kind="exception", speaks_of=SpeaksOf.PEER, source="a.log", line=5, end_line=6, offset=99, text="KeyError: 'ü\ud800'", origin=origin,
                time_s=3.25, order=99, count=8, places=(Place(source="b.log", line=2, offset=1),), quotes=("q", "r"), last_line=6, signals=("e/s",),
                fields={"type": "KeyError", "frames": ("f:1 in g",), "code": -6, "ok": True, "none": None, "nan": math.inf, "nested": {"a": [1, (2.5, "x")], 3: frozenset({1})}},
            ),
            Sighting(kind="line", speaks_of=SpeaksOf.SELF, source="a.log", line=1, end_line=1, offset=0, text=""),
        ),
        progress=(
            Progress(
                line=1, offset=2, step=3, time_s=4.0, loss=-math.inf, grad_norm=6.0, loss_scale=65536.0, step_s=0.5, throughput=1e-9, total=10, skipped=0,
                unit="epoch", text="t", rank=0, order=2,
            ),
            Progress(line=2, offset=3, step=None),
        ),
        identities=(Identity(origin=origin, world_size=64, source="a.log", line=3, owns_source=True),),
        tails=(LaneTail(tag="[rank3]:", origin=origin, lines=4, first_line=1, last_line=7, last_text="bye", first_time_s=None, last_time_s=2.0, last_order=5),),
        gaps=(Gap(source="a.log", reason="truncated gzip"),), job_words=12, end_lines=("x", "y"),
    )  # fmt: skip


def packed(*digests: Digest) -> bytes:
    """Return a digest file."""
    return b"".join(dump(digests))


def unpacked(data: bytes) -> list[Digest]:
    """Return the digests of a file."""
    return list(load(io.BytesIO(data).read))


def record(form: Any) -> bytes:
    """Return a file with one record of any JSON."""
    data = zlib.compress(json.dumps(form).encode())
    return HEAD + len(data).to_bytes(4, "big") + data


def test_everything_survives() -> None:
    """Every field, also numbers that are not finite, nested fields and unpaired surrogates."""
    assert [full(), Digest(source="b", kind="kernel-log")] == unpacked(
        packed(full(), Digest(source="b", kind="kernel-log"))
    )


def test_not_a_number_survives() -> None:
    """NaN equals nothing, itself included, so it is looked at apart."""
    sent = Digest(
        source="a", kind="k", progress=(Progress(line=1, offset=0, step=1, loss=math.nan),)
    )

    assert math.isnan(unpacked(packed(sent))[0].progress[0].loss or 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_scanned_logs_survive(tmp_path: pathlib.Path, seed: int) -> None:
    """What the scanner makes of random mixtures of real lines comes back as it was."""
    rng = random.Random(seed)
    lines = [
        "[rank1]: Traceback (most recent call last):", '[rank1]:   File "t.py", line 3, in main', "[rank1]: KeyError: 'x'", "step 5 loss nan lr 0.1",
        "step 6 loss: 2.5 tokens/s 100", "[rank0]:[E1201 01:26:39.995 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600000 milliseconds before timing out.",
        "world_size=2 rank=0 pid=77", "RuntimeError: CUDA error: an illegal memory access was encountered", "Killed", "",
    ]  # fmt: skip
    made = digest(tmp_path, "\n".join(rng.choice(lines) for _ in range(200)))

    assert repr([made]) == repr(unpacked(packed(made)))


def test_the_tables_name_every_field() -> None:
    """A field added to the model is added to the format, or it would be lost on the way."""
    for make, columns in codec._TABLES.values():
        assert {f.name for f in dataclasses.fields(make)} == {name for name, _, _ in columns}, make
    assert {f.name for f in dataclasses.fields(Origin)} == {name for name, _, _ in codec._ORIGIN}
    head = {name for name, _, _ in codec._HEAD} | codec._TABLES.keys() | {"origin"}
    assert {f.name for f in dataclasses.fields(Digest)} == head


def test_defaults_agree_with_the_model() -> None:
    """A column left out means the model's own default."""
    for make, columns in codec._TABLES.values():
        known = {f.name: f for f in dataclasses.fields(make)}
        for name, _, default in columns:
            field = known[name]
            stated = (
                field.default if field.default is not dataclasses.MISSING else dataclasses.MISSING
            )
            if field.default_factory is not dataclasses.MISSING:
                stated = field.default_factory()
            assert default == stated or (
                default is codec._MISSING and stated is dataclasses.MISSING
            ), (make, name)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no digest"),
        (b"2026-01-01 step 1\n", "no digest"),
        (b"rootrank-digest 2\n", "format 2"),
        (HEAD + b"\x00\x00", "ends early"),
        (HEAD + b"\x00\x00\x00\x09abc", "ends early"),
        (HEAD + b"\xff\xff\xff\xff", "too large"),
        (HEAD + b"\x00\x00\x00\x03abc", "damaged"),
        (record([1]), "another format"),
        (record({"v": 1}), "lacks source"),
        (record({"v": 1, "source": 5, "kind": "k"}), "wrong type"),
        (record({"v": 1, "source": "a", "kind": "k", "origin": 4}), "origin"),
        (record({"v": 1, "source": "a", "kind": "k", "origin": 0, "origins": [[None] * 8], "evil": 1}), "unknown: evil"),
        (record({"v": 1, "source": "a", "kind": "k", "origin": 0, "origins": [["x"] + [None] * 7]}), "wrong type in rank"),
        (record({"v": 1, "source": "a", "kind": "k", "origin": -1, "origins": [[None] * 8]}), "wrong reference"),
        (record({"v": 1, "source": "a", "kind": "k", "lines": 1 << 70, "origin": 0, "origins": [[None] * 8]}), "absurd number"),
        (record({"v": 1, "source": "a", "kind": "k", "origin": 0, "origins": [[None] * 8], "gaps": {"n": 2, "source": ["a"], "reason": ["b"]}}), "malformed column"),
        (record({"v": 1, "source": "a", "kind": "k", "origin": 0, "origins": [[None] * 8], "progress": {"n": 10**9}}), "too many"),
        (record({"v": 1, "source": "a", "kind": "k", "origin": 0, "origins": [[None] * 8], "end_lines": [1]}), "wrong type"),
    ],
)  # fmt: skip
def test_strange_bytes_are_an_error(data: bytes, says: str) -> None:
    """Each way to be wrong is said in words."""
    with pytest.raises(CodecError, match=says):
        unpacked(data)


def test_a_bomb_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is inflated up to its limit and no further."""
    monkeypatch.setattr(codec, "MAX_JSON_BYTES", 1 << 20)
    data = zlib.compress(b" " * (64 << 20))
    with pytest.raises(CodecError, match="too large"):
        unpacked(HEAD + len(data).to_bytes(4, "big") + data)


@pytest.mark.parametrize("seed", range(60))
def test_damage_is_an_error_or_nothing(seed: int) -> None:
    """Flipped bytes and cut files raise CodecError, whatever they hit."""
    rng = random.Random(seed)
    data = bytearray(packed(full()))
    if seed % 2:
        del data[rng.randrange(len(data)) :]
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    try:
        assert unpacked(bytes(data)) in ([full()], [])
    except CodecError:
        pass


@pytest.mark.parametrize("seed", range(200))
def test_wrong_values_are_an_error(seed: int) -> None:
    """Any value put in any place of a valid record gives a digest or CodecError."""
    rng = random.Random(seed)
    form = codec._plain(full())
    spot: Any = form
    while True:
        key = rng.choice(list(spot) if isinstance(spot, dict) else range(len(spot)))
        if isinstance(spot[key], (dict, list)) and spot[key] and rng.random() < 0.7:
            spot = spot[key]
            continue
        spot[key] = rng.choice(
            [None, -1, 1 << 65, "nan", "x", [], {}, {"d": [[1]]}, {"l": 3}, [[]], True, 0.5]
        )
        break
    try:
        unpacked(record(form))
    except CodecError:
        pass


def test_renamed_everywhere() -> None:
    """A new name reaches every row that had the old one."""
    made = renamed(full(), "c.log")

    assert "a.log" not in repr(made)
    assert full() == renamed(made, "a.log")


def test_typical_size() -> None:
    """A rank's digest with thousands of samples stays within 64 KB."""
    rng = random.Random(1)
    rows = tuple(
        Progress(
            line=i,
            offset=i * 97,
            step=i,
            time_s=1e9 + i,
            loss=rng.random(),
            text=f"step {i} | loss {rng.random():.4f} | tokens/s {rng.randrange(9999)}",
            order=i * 97,
        )
        for i in range(1000)
    )
    assert len(packed(Digest(source="a", kind="k", progress=rows))) < 64 << 10
