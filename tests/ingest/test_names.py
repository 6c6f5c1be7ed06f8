"""A file's name says who wrote it and what kind of evidence it is, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootrank.ingest.names import from_path, kind_of
from rootrank.model import UNKNOWN, Origin

UID = "d1d2d3d4-0000-0000-0000-000000000000"
HEX40 = "0123456789abcdef0123456789abcdef01234567"
HEX64 = HEX40 + "0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        ({"attempt": 0, "local_rank": 3}, "attempt_0/3/stderr.log"),
        ({"attempt": 1, "local_rank": 12}, "none_abc/attempt_1/12/stdout.log"),
        ({"attempt": 0, "local_rank": 0, "host": "node-2"}, "node-2/x/attempt_0/0/error.json"),
        ({"rank": 3}, "rank3.log"),
        ({"rank": 7}, "rank_7.log.gz"),
        ({"rank": 12}, "rank-12.err"),
        ({"rank": 3}, "logs/train.rank.3.txt"),
        ({"rank": 3}, "stderr_rank_03.log"),
        ({"rank": 3}, "train-rank-3-2026-12-01.log"),
        ({"rank": 5}, "global_rank_5.log"),
        ({"rank": 1}, "pyspy_rank1.txt"),
        ({"rank": 0}, "io_rank0_t1.txt"),
        ({"rank": 3}, "rank3/stderr.log"),
        ({"rank": 3}, "rank3.log.1"),
        ({"rank": 4}, "60601445_4_log.out"),
        ({"rank": 0}, "60601445_7_0_log.err"),
        ({"local_rank": 1, "host": "node0"}, "node0_local1.stderr.log"),
        ({"local_rank": 0}, "local0.stderr.log"),
        ({"local_rank": 2}, "local_rank_2.txt"),
        ({"host": "node-7"}, "node-7.out"),
        ({"host": "node-7"}, "log.node-7.3"),
        ({"host": "node-7.cluster.example"}, "node-7.cluster.example.log"),
        ({"host": "ip-10-0-1-2"}, "ip-10-0-1-2.log"),
        ({"host": "gpu-node-3"}, "gpu-node-3.txt"),
        ({"host": "node-7", "rank": 3}, "node-7/rank3.log"),
        ({"host": "node-7", "role": "kernel"}, "node-7/dmesg.txt"),
        ({"host": "node-7", "role": "kernel"}, "dmesg-node-7.txt"),
        ({"host": "gpua17", "role": "kernel"}, "gpua17/dmesg.txt"),
        ({"role": "kernel"}, "dmesg.txt"),
        ({"role": "kernel", "attempt": 0}, "attempt_0/dmesg.txt"),
        ({"role": "kernel"}, "case12/dmesg.txt"),
        ({"host": "node-3", "rank": 3}, "bundle.tar.gz!/node-3/rank3.log"),
        ({"host": "node-7", "role": "kernel"}, "node-7.tar.zst!/dmesg.txt"),
        ({"pid": 4242}, f"worker-{HEX40}-01000000-4242.out"),
        ({"pid": 99}, f"python-core-worker-{HEX40}_99.log"),
        ({"pid": 812}, "trace.pid-812.txt"),
        ({"actor": "my-pod-0"}, f"/var/log/pods/ml_my-pod-0_{UID}/trainer/0.log"),
        ({"actor": "job-x-2"}, f"job-x-2_ml_trainer-{HEX64}.log"),
        ({"actor": "worker-3"}, "worker-3.log"),
        ({"actor": "trainer_2"}, "trainer_2.out"),
        ({"role": "scheduler"}, "sacct.txt"),
        ({"role": "orchestrator"}, "kubectl-events.txt"),
        ({}, "slurm-12345.out"),
        ({}, "slurm-12345_3.out"),
        ({}, "node_rank_1.log"),
        ({}, "rank0-7.log"),
        ({}, "rank_0_1.log"),
        ({}, "frank3.log"),
        ({}, "ranking.log"),
        ({}, "train.log"),
        ({}, "3.log"),
        ({}, "../../"),
        ({}, ""),
    ],
)
def test_from_path(expected: dict[str, Any], name: str) -> None:
    """Known layouts give an origin; whatever could mean two things gives nothing."""
    assert Origin(**expected) == from_path(name)


def test_nothing_known_is_the_shared_unknown() -> None:
    """Sources without an origin share one value."""
    assert UNKNOWN is from_path("combined.log")


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        ("training-log", "rank3.log"),
        ("training-log", "combined.log"),
        ("training-log", "slurm-123.out"),
        ("training-log", "slurm_train.err"),
        ("training-log", "error.json"),
        ("training-log", "freeze.log"),
        ("training-log", "stackoverflow_data.log"),
        ("kernel-log", "dmesg.txt"),
        ("kernel-log", "kern.log.1.gz"),
        ("kernel-log", "var/log/messages"),
        ("kernel-log", "journal-node-7.txt"),
        ("scheduler", "sacct_123.txt"),
        ("scheduler", "slurmctld.log"),
        ("scheduler", "slurm.log"),
        ("orchestrator", "kubectl-describe.txt"),
        ("orchestrator", "events.json"),
        ("stacks", "py-spy-rank3.txt"),
        ("stacks", "pyspy_rank0.json"),
        ("stacks", "stacks.txt"),
        ("gpu-telemetry", "nvidia-smi-q.txt"),
        ("gpu-telemetry", "dcgm.csv"),
        ("host-telemetry", "cgroup.txt"),
        ("host-telemetry", "proc_rank0.txt"),
        ("host-telemetry", "meminfo"),
        ("host-telemetry", "df.txt"),
        ("config", "ds_config.json"),
        ("config", "hparams.yaml"),
        ("config", "train.py"),
        ("flight-record", "nccl_trace_rank_0"),
        ("flight-record", "comm_lib_trace_rank_12"),
        ("flight-record", "dump.pickle"),
    ],
)
def test_kind_of(expected: str, name: str) -> None:
    """The kind comes from the file's name alone."""
    assert expected == kind_of(name)


@given(st.text(alphabet="abrnkode0123456789-_./!~ é", max_size=80))
def test_any_name_is_survived(name: str) -> None:
    """No name raises, and ranks are never negative."""
    origin = from_path(name)
    assert (origin.rank or 0) >= 0
    assert kind_of(name)
