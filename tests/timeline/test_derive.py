"""What comparing lanes shows. Expected first."""

from __future__ import annotations

import pathlib

import pytest

from rootrank.model import Progress, Sighting, Timeline
from rootrank.timeline import series
from tests.helpers import lanes

LOST = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 15000ms for recv operation to complete"


def raised(rank: int, last: str, line: int = 93) -> str:
    """Return one rank's traceback."""
    frames = [
        "Traceback (most recent call last):",
        f'  File "/home/user/train.py", line {line}, in main',
        "    step()",
        last,
    ]
    return "".join(f"[rank{rank}]: {x}\n" for x in frames)


def steps(rank: int, last: int) -> str:
    """Return `last` progress lines of one rank."""
    return "".join(
        f"[rank{rank}]: 2026-03-01 10:00:{n % 60:02d},000 INFO step {n} loss 2.{n}\n"
        for n in range(last)
    )


def derived(t: Timeline, kind: str) -> list[Sighting]:
    """Return the derived sightings of one kind."""
    return [d for d in t.derived if d.kind == kind]


def test_missing_rank(tmp_path: pathlib.Path) -> None:
    """Of three ranks two waited in vain; the third is missing, and its last words are cited."""
    text = "".join(steps(r, 5) for r in range(3)) + raised(0, LOST) + raised(2, LOST)
    (d,) = derived(lanes(tmp_path, run__log=text), "missing")

    assert (1,) == d.get("ranks")
    assert any("[rank1]" in q and "step 4" in q for q in d.quotes)


def test_nobody_is_missing_after_a_crash(tmp_path: pathlib.Path) -> None:
    """A rank that failed by itself is not absent."""
    text = (
        "".join(steps(r, 5) for r in range(3))
        + raised(0, LOST)
        + raised(1, "KeyError: 'x'")
        + raised(2, LOST)
    )

    assert [] == derived(lanes(tmp_path, run__log=text), "missing")


def test_one_voice_of_many_singles_nobody_out(tmp_path: pathlib.Path) -> None:
    """When one rank of eight complains, seven are silent: that names nobody."""
    text = "".join(steps(r, 3) for r in range(8)) + raised(0, LOST)

    assert [] == derived(lanes(tmp_path, run__log=text), "missing")


def test_identical_on_all(tmp_path: pathlib.Path) -> None:
    """Numbers may differ, words may not."""
    text = "".join(raised(r, f"ValueError: size {r + 3} is odd") for r in range(4))
    (d,) = derived(lanes(tmp_path, run__log=text), "identical-on-all")

    assert (0, 1, 2, 3) == d.get("ranks")


def test_behind_by_sequence_number(tmp_path: pathlib.Path) -> None:
    """The rank that last enqueued the older collective never launched what the others wait for."""
    line = "[rank{r}]:[E1203 18:37:01.833575187 ProcessGroupNCCL.cpp:1664] [PG 0 (default_pg) Rank {r}] Exception (either an error or timeout) detected by watchdog at work: {n}, last enqueued NCCL work: {n}, last completed NCCL work: 41.\n"
    text = "".join(line.format(r=r, n=42 if r == 3 else 43) for r in range(4))
    (d,) = derived(lanes(tmp_path, run__log=text), "behind")

    assert ((3,), "seq") == (d.get("ranks"), d.get("metric"))


def test_divergent_call(tmp_path: pathlib.Path) -> None:
    """All wait, one at another line of the user's code."""
    text = raised(0, LOST, 93) + raised(1, LOST, 120) + raised(2, LOST, 93)
    (d,) = derived(lanes(tmp_path, run__log=text), "divergent")

    assert (1,) == d.get("ranks")


def test_odd_stack(tmp_path: pathlib.Path) -> None:
    """Three processes in a collective wait for the one that reads data."""
    wait = 'Thread {p} (idle): "MainThread"\n    all_reduce (torch/distributed/distributed_c10d.py:2500)\n    step (train.py:9)\n'
    data = 'Thread {p} (idle): "MainThread"\n    wait (threading.py:306)\n    _try_get_data (torch/utils/data/dataloader.py:1011)\n    main (train.py:7)\n'
    text = "".join((data if p == 12 else wait).format(p=p) for p in range(10, 14))
    (d,) = derived(lanes(tmp_path, pyspy__txt=text), "divergent")

    assert ("stack", "data", 12) == (d.get("metric"), d.get("op"), d.origin.pid)


def test_names_join_across_files(tmp_path: pathlib.Path) -> None:
    """A rank's own file without any prefix takes its rank from the combined log's pairs."""
    tee = "".join(f"[default{r}]:[rank{r + 2}]: hello\n" for r in range(2))
    t = lanes(
        tmp_path,
        combined__log=tee,
        **{
            "attempt_0/1/stderr__log": "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\nKeyError: 'x'\n"
        },
    )

    assert [3] == [s.origin.rank for s in t.sightings if s.kind == "exception"]


def samples(values: list[float], metric: str = "throughput") -> list[Progress]:
    """Return progress samples with one metric set."""
    return [
        Progress(line=n, offset=n, step=n, order=n, **{metric: v}) for n, v in enumerate(values)
    ]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([149.1, 149.0, 149.1, 149.0, 149.1, 141.2, 141.0, 141.1], True),
        ([149.1, 149.0, 141.2, 149.0, 149.1, 149.2, 149.0, 149.1], False),  # it came back
        ([100, 140, 90, 130, 100, 85, 92, 88], False),  # too noisy to have a shape
        ([149.1, 149.0, 149.1, 149.0], False),  # too short
        ([90.0, 149.0, 149.1, 149.0, 149.1, 149.2, 149.0, 149.1], False),  # a rise
    ],
)
def test_drop(values: list[float], found: bool) -> None:
    """Only a fall that lasts and stands out of the noise is a drop."""
    assert found == (series.drop(samples(values)) is not None)


def test_nan_that_stays() -> None:
    """The first of the lasting NaNs counts; one that passes does not."""
    nan = float("nan")

    assert 2 == series.nan(samples([2.0, 1.9, nan, nan], "loss")).last.step  # type: ignore[union-attr]
    assert series.nan(samples([2.0, nan, 1.8, 1.7], "loss")) is None


def test_spike_that_recovers_is_no_divergence() -> None:
    """A loss that comes back has not diverged."""
    good = [2.5 - n * 0.01 for n in range(40)]

    assert series.diverging(samples([*good, 9.0, 8.0, 5.0, *good[-10:]], "loss")) is None
    assert series.diverging(samples([*good, *[9.0] * 12], "loss")) is not None
