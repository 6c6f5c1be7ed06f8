"""Who failed first: rules that hold with an empty encyclopedia. Expected first."""

from __future__ import annotations

import pathlib

from rootrank.model import Verdict
from tests.helpers import bare

SITE = "/opt/venv/lib/python3.11/site-packages"
LOST = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:4096."


def raised(prefix: str, last: str, frame: str = "/home/user/train.py") -> str:
    """Return one traceback with a prefix on every line."""
    lines = [
        "Traceback (most recent call last):",
        f'  File "{frame}", line 9, in main',
        "    step()",
        last,
    ]
    return "".join(f"{prefix}{x}\n" for x in lines)


def steps(rank: int, first: int, last: int, second: int = 0) -> str:
    """Return progress lines of one rank."""
    return "".join(
        f"[rank{rank}]: 2026-03-01 10:00:{second + n % 60:02d},000 INFO step {n} loss 2.{n}\n"
        for n in range(first, last)
    )


def test_the_one_that_raised_leads(tmp_path: pathlib.Path) -> None:
    """Peers that lost it are collateral, also when they speak first in the file."""
    d = bare(
        tmp_path,
        run__log=raised("[rank0]: ", LOST)
        + raised("[rank2]: ", LOST)
        + raised("[rank1]: ", "KeyError: 'labels'"),
    )

    assert Verdict.FAILURE is d.verdict
    assert (1, "one", "spoke") == (d.initiating.rank, d.initiating.extent, d.initiating.basis)
    assert "[rank1]: KeyError: 'labels'" == d.cause.evidence[0].text
    assert [("peer-loss", 2, "0,2")] == [(c.what, c.count, c.ranks) for c in d.collateral]


def test_identical_failure_everywhere_has_no_first(tmp_path: pathlib.Path) -> None:
    """When every rank says the same, no rank is named."""
    text = "".join(
        raised(f"[rank{r}]: ", "ValueError: vocab size 32000 != 32001") for r in range(4)
    )
    d = bare(tmp_path, run__log=text)

    assert ("all", None) == (d.initiating.extent, d.initiating.rank)


def test_some_ranks_fail_alike(tmp_path: pathlib.Path) -> None:
    """Two of four ranks with the same error are named together."""
    text = (
        raised("[rank1]: ", "OSError: x")
        + raised("[rank3]: ", "OSError: x")
        + raised("[rank0]: ", LOST)
        + raised("[rank2]: ", LOST)
    )
    d = bare(tmp_path, run__log=text)

    assert ("some", None, "1,3") == (d.initiating.extent, d.initiating.rank, d.initiating.ranks)


def test_no_prefix_no_rank(tmp_path: pathlib.Path) -> None:
    """Several ranks on one stream without prefixes: the error is exact, the rank unknown."""
    text = "world_size=4\n" + raised("", "AttributeError: 'list' object has no attribute 'sum'") * 3
    d = bare(tmp_path, run__log=text)

    assert Verdict.FAILURE is d.verdict
    assert (None, "unknown") == (d.initiating.rank, d.initiating.extent)
    assert "AttributeError: 'list' object has no attribute 'sum'" == d.cause.evidence[0].text


def test_only_peers_speak(tmp_path: pathlib.Path) -> None:
    """Complaints about one address, and no own error: nobody is named and the missing log is asked for."""
    d = bare(tmp_path, run__log=raised("[rank0]: ", LOST))

    assert Verdict.INSUFFICIENT is d.verdict
    assert d.initiating is None
    assert any("10.0.0.7" in m.fact for m in d.missing)


def test_trouble_that_the_job_outlived(tmp_path: pathlib.Path) -> None:
    """A traceback followed by further steps of the same rank anchors nothing."""
    text = (
        steps(0, 0, 3)
        + raised("[rank0]: ", "TimeoutError: upload timed out, will retry")
        + steps(0, 3, 9, 10)
    )
    d = bare(tmp_path, run__log=text)

    assert Verdict.NO_FAILURE is d.verdict
    assert 1 == len(d.recovered)


def test_steps_of_others_do_not_recover_it(tmp_path: pathlib.Path) -> None:
    """Other ranks may print a step or two after one has died."""
    text = steps(0, 0, 3) + steps(1, 0, 3) + raised("[rank1]: ", "KeyError: 1") + steps(0, 3, 5)
    d = bare(tmp_path, run__log=text)

    assert 1 == d.initiating.rank


def test_same_message_in_two_files_is_one(tmp_path: pathlib.Path) -> None:
    """combined.log and the rank's own file hold one failure, not two."""
    own = raised("[rank1]: ", "KeyError: 'x'")
    tee = "".join(f"[default1]:{line}\n" for line in own.splitlines())
    d = bare(tmp_path, combined__log=steps(0, 0, 3) + tee, **{"attempt_0/1/stderr__log": own})

    assert (1, "one") == (d.initiating.rank, d.initiating.extent)
    assert () == d.also


def test_kernel_kill_joins_by_pid(tmp_path: pathlib.Path) -> None:
    """dmesg names a pid, the log says whose it is."""
    log = "".join(
        f"[rank{r}]: 2026-03-01 10:00:00,000 INFO start world_size=2 pid={4000 + r}\n"
        for r in range(2)
    ) + raised("[rank0]: ", LOST)
    kernel = "[ 4655.388456] Out of memory: Killed process 4001 (python3) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n"
    d = bare(tmp_path, run__log=log, dmesg__txt=kernel)

    assert (1, "one") == (d.initiating.rank, d.initiating.extent)
    assert "Killed process 4001" in d.cause.evidence[0].text


def test_launcher_word_never_leads_over_an_own_error(tmp_path: pathlib.Path) -> None:
    """torchelastic names rank 0 first; rank 1 raised."""
    table = """\
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-03-01_10:00:07
  host      : node-1
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 4001)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:00:06
  host      : node-1
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 4000)
  error_file: <N/A>
============================================================
"""
    d = bare(
        tmp_path, run__log=raised("[rank0]: ", LOST) + raised("[rank1]: ", "KeyError: 'x'") + table
    )

    assert 1 == d.initiating.rank
    assert any("rank 0 first" in n for n in d.coverage.notes)


def test_order_between_hosts_needs_a_gap(tmp_path: pathlib.Path) -> None:
    """Different errors of two hosts within the clock error: the later one is not called later."""
    a = "2026-03-01 10:00:00,000 INFO step 1 loss 2.0\n"
    d = bare(
        tmp_path,
        node__a__log=a + raised("[rank0]: ", "KeyError: 'x'"),
        node__b__log=a + raised("[rank4]: ", "ValueError: y"),
    )  # fmt: skip

    assert Verdict.FAILURE is d.verdict
    assert d.also or d.initiating.extent == "unknown"


def test_readable_text_without_a_known_word(tmp_path: pathlib.Path) -> None:
    """Prose is no failure, and the coverage says that nothing was recognised."""
    d = bare(tmp_path, notes__txt="The quick brown fox.\n" * 50)

    assert (Verdict.NO_FAILURE, 0) == (d.verdict, d.exit_code)
    assert ("no progress or failure words were recognised",) == d.coverage.notes


def test_prose_and_source_code_are_silent(tmp_path: pathlib.Path) -> None:
    """Text that talks about failures is not one."""
    d = bare(tmp_path, readme__md="""\
# Troubleshooting
If you get `RuntimeError: CUDA error: invalid device function`, rebuild the extension.
    raise RuntimeError("CUDA error: out of memory")
    # ConnectionResetError: happens when a peer dies
+ export NCCL_IB_TIMEOUT=22
0 errors, 0 warnings; td_error_abs: 0.22; dead_enemies: 3
""")  # fmt: skip

    assert Verdict.NO_FAILURE is d.verdict
