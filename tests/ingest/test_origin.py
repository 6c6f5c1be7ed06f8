"""A line's prefix says who wrote it and when; the message stays as it was printed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootrank.ingest.origin import Prefix, detect_labels, split_prefix
from rootrank.model import UNKNOWN, Origin

RAY = "(RayTrainWorker pid=123, ip=10.0.0.1)"
C10 = "[E1003 18:37:01.833000000 ProcessGroupNCCL.cpp:1664] [PG ID 0 PG GUID 0 Rank 3] boom"
NCCL = "node-11:486514:486651 [1] include/socket.h:403 NCCL WARN Connect failed"
PY_GLOG = "E1201 01:26:39.995000 6565 torch/distributed/elastic/multiprocessing/api.py:12] failed"

# (tag, origin, rest, line)
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    # PyTorch and its launcher
    ("[rank3]:", {"rank": 3}, "Traceback (most", "[rank3]: Traceback (most"),
    ("[rank3]:", {"rank": 3}, '  File "x.py", line 3', '[rank3]:   File "x.py", line 3'),
    ("[rank3]:", {"rank": 3}, C10, "[rank3]:" + C10),
    ("[default3]:", {"local_rank": 3}, "  what():  x", "[default3]:  what():  x"),
    ("[trainer3]:", {"local_rank": 3}, "hello", "[trainer3]:hello"),
    (
        "[default2]:[rank10]:",
        {"rank": 10, "local_rank": 2},
        "    raise x",
        "[default2]:[rank10]:     raise x",
    ),
    (
        "[default0]:",
        {"rank": 8, "local_rank": 0},
        "INFO step 3",
        "[default0]:2026-12-01 01:29:22,377 [rank8] INFO step 3",
    ),
    ("", {"role": "launcher", "pid": 6565}, PY_GLOG, PY_GLOG),
    # logging libraries
    ("", {"rank": 0}, "INFO step 3", "2026-12-01 01:29:22,377 [rank0] INFO step 3"),
    (
        "",
        {"rank": 5},
        "[INFO] [file.py:1:func] [Rank 5] msg",
        "[2026-12-01 01:29:22,377] [INFO] [file.py:1:func] [Rank 5] msg",
    ),
    (
        "",
        {"rank": 4},
        "INFO     | __main__:log_dist:54 - [Rank 4] Saved",
        "2023-08-02 00:41:18.166 | INFO     | __main__:log_dist:54 - [Rank 4] Saved",
    ),
    ("", {}, "root - INFO - hi", "2023-08-02 00:41:18,166 - root - INFO - hi"),
    ("", {}, "root ERROR: hi", "2023-08-02 00:41:18,166 root ERROR: hi"),
    ("[Rank 5]", {"rank": 5}, "(after 20 iterations) x", "[Rank 5] (after 20 iterations) x"),
    ("[rank: 3]", {"rank": 3}, "Seed set to 42", "[rank: 3] Seed set to 42"),
    ("", {"rank": 3, "local_rank": 1}, "x", "2026-12-01 12:13:14 [Rank:3][LocalRank:1] x"),
    ("", {"rank": 3}, "global_rank=3 ready", "global_rank=3 ready"),
    (
        "",
        {},
        "[INFO|trainer.py:12] 2021-05-25 06:45:27,966 >> msg",
        "[INFO|trainer.py:12] 2021-05-25 06:45:27,966 >> msg",
    ),
    # mpirun
    ("[1,3]", {"rank": 3}, "Traceback", "[1,3]<stderr>:Traceback"),
    ("[1,3]", {"rank": 3}, '  File "x"', '[1,3]<stderr>:  File "x"'),
    ("[1,3]", {"rank": 3}, '  File "x"', '[1,3]<stdout>:   File "x"'),
    ("[1,3]", {"rank": 3, "host": "node-1", "pid": 44}, "hi", "[1,3][node-1:44]<stdout>: hi"),
    ("[prterun-a-1@1,3]", {"rank": 3}, "hi", "[prterun-a-1@1,3]<stdout>: hi"),
    (
        "[1,mpirank:3,algo-1]",
        {"rank": 3, "host": "algo-1"},
        "hi",
        "[1,mpirank:3,algo-1]<stderr>:hi",
    ),
    # Ray
    (
        RAY,
        {"pid": 123, "host": "10.0.0.1", "actor": "RayTrainWorker"},
        '  File "x"',
        RAY + '   File "x"',
    ),
    (
        RAY,
        {"pid": 123, "host": "10.0.0.1", "actor": "RayTrainWorker"},
        "boom",
        RAY + " boom [repeated 3x across cluster] (Ray deduplicates logs by default.)",
    ),
    ("(f pid=9)", {"pid": 9, "actor": "f"}, "x", "(f pid=9) x"),
    ("(pid=9)", {"pid": 9}, "x", "(pid=9) x"),
    ("(raylet)", {"role": "orchestrator", "actor": "raylet"}, "died", "(raylet) died"),
    # Kubernetes and containers
    ("[pod/x-0/trainer]", {"actor": "x-0"}, "  x", "[pod/x-0/trainer]   x"),
    ("[rank1]:", {"rank": 1}, "msg", "2026-01-01T00:00:00.000000000Z stderr F [rank1]: msg"),
    ("", {}, "msg", "2026-01-01T00:00:00.000000000Z stdout P msg"),
    # kernel and syslog
    (
        "node-7 kernel:",
        {"host": "node-7", "role": "kernel"},
        "NVRM: Xid",
        "Dec  1 01:02:03 node-7 kernel: [680111.646286] NVRM: Xid",
    ),
    (
        "node-7 python[812]:",
        {"host": "node-7", "pid": 812},
        "boom",
        "Dec  1 01:02:03 node-7 python[812]: boom",
    ),
    (
        "node-7 slurmd[9]:",
        {"host": "node-7", "pid": 9, "role": "scheduler"},
        "boom",
        "2026-12-01T01:02:03.5+00:00 node-7 slurmd[9]: boom",
    ),
    ("", {"role": "kernel"}, "oom-killer", "[12345.678901] oom-killer"),
    ("", {"role": "kernel"}, " <TASK>", "[ 4655.388528]  <TASK>"),
    ("", {"role": "kernel"}, "x", "[ 4655.388528][ T1234] x"),
    ("", {"role": "kernel"}, "NVRM: x", "[Wed Mar  1 17:43:24 2023] NVRM: x"),
    ("", {"role": "kernel"}, "x", "kern  :warn  : 2025-01-21T04:41:44,285060+00:00 x"),
    ("", {"role": "kernel"}, "x", "kern  :err   : [ 4655.388528] x"),
    ("", {"role": "kernel"}, "nvidia", "6,3964,206764307,-;nvidia"),
    ("", {"role": "kernel"}, "x", "<6>[  12.345678] x"),
    ("", {}, "[INFO] x", "[Feb 27 2025 14:08:27] [INFO] x"),
    # heads that stay
    ("", {"host": "node-11", "pid": 486514, "device": "1"}, NCCL, NCCL),
    (
        "[1,0]",
        {"rank": 0, "host": "node-11", "pid": 486514, "device": "1"},
        NCCL,
        "[1,0]<stdout>:" + NCCL,
    ),
    (
        "",
        {"host": "node-128", "role": "scheduler"},
        "slurmstepd-node-128: error: *** STEP",
        "slurmstepd-node-128: error: *** STEP",
    ),
    ("", {"role": "scheduler"}, "srun: error: x", "srun: error: x"),
]


@pytest.mark.parametrize(("tag", "fields", "rest", "line"), CASES, ids=[c[3][:60] for c in CASES])
def test_prefixes(tag: str, fields: dict[str, Any], rest: str, line: str) -> None:
    """Each launcher's, runtime's and library's prefix gives tag, origin and the bare message."""
    found = split_prefix(line)
    assert (tag, Origin(**fields), rest) == found[:3]


@pytest.mark.parametrize(
    "line",
    [
        "",
        '  File "/x.py", line 3, in f',
        "RuntimeError: CUDA error: [Rank 3] failed",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)",
        "[E ProcessGroupNCCL.cpp:821] [Rank 3] Watchdog caught collective operation timeout",
        "[Gloo] Rank 3 is connected to 7 peer ranks.",
        "lost connection to [Rank 3]",
        "[0]:",
        "[node3]: x",
        "[step12]: x",
        "[3] x",
        "12: foo",
        "node-7: x",
        "ERROR:root:foo",
        "Epoch 3: loss",
        "{'loss': 1.2, 'rank': 3}",
        '{"loss": 1.2, "rank": 3}',
        '{"message": "torn',
        "Mar. 3",
        "(a, b) = f(x)",
        "[[1, 2], [3, 4]]",
        "<module> (x.py:1)",
        "NCCL_DEBUG=INFO rank 3",
        "exit code 1:2:3 [4] x",
        "01:02:03 [0] x",
    ],
)
def test_text_without_a_prefix_stays_whole(line: str) -> None:
    """What only looks like a prefix, or means two things, is part of the message."""
    assert Prefix("", UNKNOWN, line, None) == split_prefix(line)


def test_time_comes_from_any_of_the_stamps() -> None:
    """The first stamp that is complete counts, and needs no year of ours."""
    line = "Dec  1 01:02:03 h app[1]: 2026-12-01 01:02:04,500 [rank1] INFO x"
    assert 1796086924.5 == split_prefix(line).time_s
    assert 1796086923.0 == split_prefix(line, year=2026).time_s
    assert None is split_prefix(PY_GLOG).time_s
    assert 1796088399.995 == split_prefix(PY_GLOG, year=2026).time_s


class TestLabels:
    """`3: ` and `node-7: ` count only where the whole source carries them."""

    @pytest.mark.parametrize(
        ("rank", "rest", "line"),
        [
            (3, "hi", "3: hi"),
            (3, "  File", " 3:   File"),
            (3, "", "03:"),
            (12, "x", "12: x"),
        ],
    )
    def test_srun(self, rank: int, rest: str, line: str) -> None:
        """srun's task label is the rank, padded or not."""
        found = split_prefix(line, srun_labels=True)
        assert (f"{rank}:", Origin(rank=rank), rest) == found[:3]

    def test_srun_that_starts_torchrun_counts_nodes(self) -> None:
        """Under `[default3]:`, and on launcher lines, srun's label is no rank."""
        found = split_prefix("12: [default3]:x", srun_labels=True)
        assert ("12:[default3]:", Origin(local_rank=3)) == found[:2]
        assert None is split_prefix("12: " + PY_GLOG, srun_labels=True).origin.rank
        assert 99 == split_prefix("12: [default3]:[rank99]: x", srun_labels=True).origin.rank

    def test_hosts(self) -> None:
        """pdsh's label is the host."""
        found = split_prefix("node-7: [rank3]: x", host_labels=True)
        assert ("node-7:[rank3]:", Origin(host="node-7", rank=3), "x") == found[:3]

    @pytest.mark.parametrize(
        "line", ["ERROR: x", "ValueError: x", "x2.py: x", "step12: 0.4", "12: x", "rank3: x"]
    )
    def test_other_words_before_a_colon_are_no_host(self, line: str) -> None:
        """Levels, exceptions, files, counters and bare numbers are never taken for a machine."""
        assert UNKNOWN is split_prefix(line, host_labels=True).origin

    @pytest.mark.parametrize(
        ("expected", "lines"),
        [
            ((True, False), ["0: a", "1: b", "0: c", "1: d"]),
            ((True, False), [" 0: a", "13: b", " 2: c", "noise"]),
            ((True, False), ["0: a", "1: b", "2: c", "3: d"]),
            ((False, False), ["1: a", "2: b", "3: c", "7: d"]),
            ((False, False), ["0: a", "x", "y", "1: z"]),
            ((False, True), ["node-1: a", "node-2: b", "node-1: c", "node-2: d"]),
            ((False, False), ["a1: x", "a2: x", "a3: x", "a4: x"]),
            ((False, False), ["INFO: x", "INFO: y", "ERROR: z"]),
            ((False, False), ["", " "]),
            ((False, False), []),
        ],
    )
    def test_detection(self, expected: tuple[bool, bool], lines: list[str]) -> None:
        """Most lines must carry a label; line numbers and metric names are none."""
        assert expected == detect_labels(lines)


class TestJson:
    """A JSON log record becomes the line that it wraps."""

    def test_docker(self) -> None:
        """Docker's wrapper goes, and the prefix inside is read."""
        line = '{"log":"[rank2]:   x\\n","stream":"stderr","time":"2026-01-01T00:00:00.5Z"}'
        assert ("[rank2]:", Origin(rank=2), "  x", 1767225600.5) == split_prefix(line)

    def test_structured(self) -> None:
        """Level and message are kept; rank, host and time come from their fields."""
        record = {"level": "ERROR", "message": "boom", "rank": 4, "host": "n1", "ts": 1767225600}
        found = split_prefix(json.dumps(record))
        assert ("", Origin(rank=4, host="n1"), "ERROR boom", 1767225600.0) == found

    def test_trace(self) -> None:
        """A traceback in a field of its own follows the message, with its newlines."""
        line = json.dumps({"msg": "boom", "exc_info": "Traceback\n  File x\nE: y"})
        assert "boom\nTraceback\n  File x\nE: y" == split_prefix(line).rest

    def test_inside_a_container_log(self) -> None:
        """A JSON line may stand behind a container's stamp, and inside Docker's JSON."""
        inner = json.dumps({"level": "INFO", "msg": "x", "rank": "7"})
        assert "INFO x" == split_prefix("2026-01-01T00:00:00Z stdout F " + inner).rest
        assert 7 == split_prefix(json.dumps({"log": inner + "\n"})).origin.rank

    def test_escapes_inside_json_are_removed(self) -> None:
        """JSON can hide terminal escapes from a cleaning of the raw line."""
        assert "red" == split_prefix('{"msg": "\\u001b[31mred\\u202e"}').rest

    @pytest.mark.parametrize("rank", [-1, True, 1.5, "x", 1 << 40, None, [1]])
    def test_odd_ranks_are_unknown(self, rank: object) -> None:
        """Only a small natural number is a rank."""
        assert None is split_prefix(json.dumps({"msg": "x", "rank": rank})).origin.rank

    def test_deep_nesting_is_text(self) -> None:
        """JSON made to exhaust the stack is no record."""
        line = '{"msg":' * 100_000 + "1" + "}" * 100_000
        assert line == split_prefix(line).rest


PREFIX = st.sampled_from(
    [
        *("[rank3]: ", "[default3]:", "[1,3]<stderr>:", RAY + " ", "[pod/a/b] ", "[Rank 5] "),
        *("2026-12-01 01:29:22,377 ", "[2026-12-01 01:29:22,377] ", "Dec  1 01:02:03 "),
        *("2026-01-01T00:00:00.5Z stderr F ", "[12345.678901] ", "kern  :warn  : "),
    ]
)


@given(st.lists(PREFIX, max_size=5), st.sampled_from(['  File "x", line 1', "RuntimeError: x"]))
def test_stacked_prefixes_leave_the_message(prefixes: list[str], message: str) -> None:
    """Prefixes in any number and order: the message behind them ends the rest, whole."""
    assert split_prefix("".join(prefixes) + message).rest.endswith(message)


@given(st.text(max_size=200), st.booleans(), st.booleans())
def test_any_text_is_survived(text: str, srun: bool, hosts: bool) -> None:
    """No text raises; what is not JSON keeps its end."""
    found = split_prefix(text, srun_labels=srun, host_labels=hosts, year=2026)
    assert text.lstrip().startswith("{") or "[repeated " in text or text.endswith(found.rest)


@given(st.text(alphabet="[]()<>{}:, .-0123456789rankdefultpodip=NCLEIW", max_size=120))
def test_text_that_resembles_prefixes_is_survived(text: str) -> None:
    """Broken prefixes of every kind raise nothing."""
    split_prefix(text, srun_labels=True, host_labels=True, year=2026)


@pytest.mark.parametrize(
    "line",
    [
        "[" * 1_000_000,
        "[rank3]:" * 200_000,
        "(" + "a" * 1_000_000,
        "a" * 1_000_000 + ": x",
        "[1," + "1" * 1_000_000,
        "2026-12-01 " * 100_000,
        "[a] " * 200_000 + "[Rank 5]",
        "(f pid=1) x [repeated 3x across cluster" + "x" * 1_000_000,
        "[repeated 1x across cluster]" * 40_000,
    ],
    ids=lambda line: line[:12],
)
def test_hostile_lines_take_little_time(line: str) -> None:
    """Only the start of a line is looked at, however long it is."""
    start = time.perf_counter()
    split_prefix(line, srun_labels=True, host_labels=True)
    split_prefix("(f pid=1) " + line)
    assert 2 > time.perf_counter() - start


def test_speed() -> None:
    """Lines without a prefix cost a few microseconds; the bound is slack for slow machines."""
    lines = [
        '  File "/x.py", line 3, in f',
        "RuntimeError: CUDA error: x",
        " iteration 5/ 10 | x: 1",
    ]
    best = min(_seconds_for(lines) for _ in range(5))
    assert 40e-6 > best / len(lines)


def _seconds_for(lines: list[str]) -> float:
    start = time.perf_counter()
    for line in lines:
        split_prefix(line)
    return time.perf_counter() - start
