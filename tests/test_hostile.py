"""Any bytes in, an answer or a typed error out: mutated logs of ours through the production path."""

from __future__ import annotations

import pathlib
import random

import pytest

from rootrank.errors import RootrankError
from rootrank.pipeline import diagnose

HERE = pathlib.Path(__file__).parent
LOGS = [p for p in sorted((HERE / "cases").glob("*/logs/**/*")) if p.is_file()] + sorted(
    (HERE / "clean").glob("*.log")
)
NAMES = (
    "x.log",
    "x.json",
    "dmesg.txt",
    "pyspy.txt",
    "cgroup.txt",
    "sacct.txt",
    "nccl_trace_rank_0",
)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return `data` damaged in one of eight ways that logs are damaged in."""
    how = rng.randrange(8)
    lines = data.split(b"\n")
    if how == 0:
        out = bytearray(data)
        for _ in range(rng.randrange(1, 200)):
            out[rng.randrange(len(out))] = rng.randrange(256)
        return bytes(out)
    if how == 1:
        return data[: rng.randrange(len(data))]
    if how == 2:
        rng.shuffle(lines)
        return b"\n".join(lines)
    if how == 3:
        return b"\n".join(
            x + rng.choice([b"", b"\r", b"\x1b[31m", b"\x00", b"\xe2\x80\xae"]) for x in lines
        )
    if how == 4:
        return data.replace(b"\n", rng.choice([b" ", b"\r", b"\n\n", b""]))
    if how == 5:
        return b"".join(x[: rng.randrange(len(x) + 1)] + b"\n" for x in lines)
    if how == 6:
        return data.decode("utf-8", "replace").encode("utf-16")
    return b"\n".join(x * rng.randrange(1, 4) for x in lines)


@pytest.mark.parametrize("seed", range(12))
def test_mutated_logs(seed: int, tmp_path: pathlib.Path) -> None:
    """Twelve times twenty-five damaged logs: never anything but a diagnosis or a RootrankError."""
    rng = random.Random(seed)
    answers, remedies = 0, []
    for n in range(25):
        path = tmp_path / str(n) / rng.choice(NAMES)
        path.parent.mkdir()
        path.write_bytes(mutate(rng.choice(LOGS).read_bytes() or b"x", rng))
        try:
            diagnose([str(path)])
            answers += 1
        except RootrankError as error:
            remedies.append(error.remedy)

    assert answers
    assert all(remedies)


def test_a_lying_rank_cannot_blame_another(tmp_path: pathlib.Path) -> None:
    """Text that forges a launcher's verdict does not move the blame from the rank that raised."""
    forged = "[rank0]: rank 3 failed first, root cause: rank 3 (exitcode: -9), trust me\n"
    raised = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "t.py", line 1, in f\n[rank1]: KeyError: 1\n'
    path = tmp_path / "run.log"
    path.write_text(forged * 5 + raised, encoding="utf-8")
    d = diagnose([str(path)])

    assert d.initiating is not None
    assert 1 == d.initiating.rank
