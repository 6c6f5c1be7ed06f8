"""What a missing fact's command prints, saved beside the logs, is read. Expected first."""

from __future__ import annotations

import pathlib

import pytest

from tests.helpers import sightings

SMI = """\
    ECC Errors
        Volatile
            SRAM Correctable                  : 0
            DRAM Uncorrectable                : 2
    Clocks Event Reasons
        HW Thermal Slowdown               : Active
"""


@pytest.mark.parametrize(
    ("name", "text", "kind", "field", "value"),
    [
        ("sacct.txt", "JobID|State|ExitCode\n4711|TIMEOUT|0:0\n", "scheduler", "event", "time-limit"),
        ("sacct.txt", "JobID           State ExitCode\n4711      CANCELLED by 1001   0:15\n", "scheduler", "uid", "1001"),
        ("sacct.txt", "4711.0|python|OUT_OF_MEMORY|0:125\n", "scheduler", "event", "oom"),
        ("scontrol.txt", "   JobState=NODE_FAIL Reason=NodeDown Dependency=(null)\n", "scheduler", "event", "node-fail"),
        ("df.txt", "Filesystem Size Used Avail Use% Mounted on\n/dev/nvme0n1 3.5T 3.5T 0 100% /scratch\n", "host-state", "disk", "full"),
        ("cgroup.txt", "/sys/fs/cgroup/memory.events:oom_kill 3\n", "host-state", "oom_events", 3),
        ("nvidia-smi.txt", SMI, "gpu-health", "check", "tool"),
        ("events.json", '      "reason": "FailedScheduling",\n', "orchestrator", "reason", "FailedScheduling"),
        ("ps.txt", "  PID STAT ELAPSED WCHAN CMD\n 4001 D   120 rpc_wait_bit_killable python\n", "host-state", "state", "D"),
    ],
)  # fmt: skip
def test_answer_is_recognised(
    tmp_path: pathlib.Path, name: str, text: str, kind: str, field: str, value: object
) -> None:
    """The saved output of a check makes a typed sighting."""
    found = [s for s in sightings(tmp_path, text, name) if s.kind == kind]

    assert found
    assert value in [s.get(field) for s in found]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sacct.txt", "JobID|State|ExitCode\n4711|COMPLETED|0:0\n"),
        ("df.txt", "Filesystem Size Used Avail Use% Mounted on\n/dev/nvme0n1 3.5T 1.5T 2T 43% /scratch\n"),
        ("cgroup.txt", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"),
        ("nvidia-smi.txt", "            DRAM Uncorrectable                : 0\n        HW Thermal Slowdown               : Not Active\n"),
        ("ps.txt", "  PID STAT ELAPSED WCHAN CMD\n 4001 S   120 futex_do_wait python\n"),
        ("env.txt", "NCCL_TIMEOUT=1800\n12 TIMEOUT retries left\n"),
    ],
)  # fmt: skip
def test_good_answers_are_silent(tmp_path: pathlib.Path, name: str, text: str) -> None:
    """A check that finds nothing makes no sighting."""
    assert [] == [s.kind for s in sightings(tmp_path, text, name)]
