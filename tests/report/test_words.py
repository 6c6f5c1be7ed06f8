"""The shared phrases."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rootrank.report
from rootrank.model import Collateral, Diagnosis, Initiating, Verdict
from rootrank.report import render, words
from tests.report.examples import ALL


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (
            Initiating(kind="rank", extent="one", rank=37, host="node-5", pid=1),
            "rank 37 on node-5 (pid 1)",
        ),
        (Initiating(kind="rank", extent="some", ranks="2,5"), "ranks 2 and 5"),
        (Initiating(kind="rank", extent="some", ranks="8-15", host="n1"), "ranks 8-15 on n1"),
        (Initiating(kind="rank", extent="all"), "every rank"),
        (Initiating(kind="rank", extent="all", ranks="0-7"), "all 8 ranks"),
        (Initiating(kind="rank", extent="all", ranks="0,1"), "both ranks"),
        (Initiating(kind="process", extent="one", pid=771, host="c12"), "process 771 on c12"),
        (Initiating(kind="process", extent="one", local_rank=3), "the process with local rank 3"),
        (Initiating(kind="process"), "a process of unknown rank"),
        (Initiating(kind="host", host="node-5"), "host node-5"),
        (Initiating(kind="gpu", device="0000:b2:00", host="node-5"), "GPU 0000:b2:00 on node-5"),
        (Initiating(kind="link", device="mlx5_0"), "a network link (mlx5_0)"),
        (Initiating(kind="external"), "something outside the job"),
        (Initiating(), "the job as a whole"),
        (None, "an unknown rank"),
    ],
)
def test_who(first: Initiating | None, said: str) -> None:
    """Who failed first, as far as the fields tell."""
    assert said == words.who(first)


@pytest.mark.parametrize(
    ("basis", "category", "said"),
    [
        ("spoke", "crash", "failed first"),
        ("absent", "hang", "went silent first"),
        ("behind", "hang", "fell behind first"),
        ("different", "hang", "did something else than the others"),
        ("spoke", "wrong-numbers", "went wrong first"),
        ("spoke", "slow", "slowed down first"),
    ],
)
def test_did(basis: str, category: str, said: str) -> None:
    """What it did follows from how it was found."""
    assert said == words.did(Initiating(kind="rank", extent="one", rank=1, basis=basis), category)


def test_outside() -> None:
    """A requested end is not called a failure of a rank."""
    assert "ended the job" == words.did(Initiating(kind="external"), "killed")


@pytest.mark.parametrize(
    ("c", "said"),
    [
        (
            Collateral(entry=None, what="timed out waiting for it", count=63, ranks="0-36,38-63"),
            "63 ranks timed out waiting for it (0-36,38-63)",
        ),
        (
            Collateral(entry=None, what="collective-timeout", count=15, ranks="0-14"),
            "15 ranks timed out waiting for it (0-14)",
        ),
        (
            Collateral(entry=None, what="teardown", count=1, ranks="4"),
            "1 rank was told to stop (4)",
        ),
        (
            Collateral(entry=None, what="NCCL watchdog timeouts", count=9, ranks="0-8"),
            "NCCL watchdog timeouts: 9 ranks (0-8)",
        ),
        (Collateral(entry=None, what="SIGTERM", count=3, ranks=None), "SIGTERM, 3 times"),
        (
            Collateral(entry=None, what="teardown", count=2, ranks=None),
            "2 processes were told to stop",
        ),
        (
            Collateral(entry=None, what="peer-loss", count=1, ranks=None),
            "1 process lost the connection to it",
        ),
        (Collateral(entry="x", what="", count=3, ranks="0-2"), "3 ranks followed (0-2)"),
    ],
)
def test_collateral(c: Collateral, said: str) -> None:
    """One folded line, whether the fields hold a phrase or a sighting kind."""
    assert said == words.collateral(c)


def test_collateral_of_nobody_known() -> None:
    """Without a first failure there is no "it"."""
    c = Collateral(entry=None, what="peer-loss", count=2, ranks="0-1")
    assert "2 ranks lost the connection to a peer (0-1)" == words.collateral(c, known=False)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0.2 s"),
        (59, "59 s"),
        (60, "1 min"),
        (1240, "20 min 40 s"),
        (38400, "10 h 40 min"),
        (86400 * 3 + 5, "3 d"),
    ],
)
def test_duration(seconds: float, said: str) -> None:
    """At most two neighbouring units."""
    assert said == words.duration(seconds)


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ("2026-08-20T03:12:44.102Z", "2026-08-20 03:12:44 UTC"),
        ("2026-08-20T03:12:44+00:00", "2026-08-20 03:12:44 UTC"),
        ("2026-08-20T03:12:44", "2026-08-20 03:12:44"),
        ("Aug 20 03:12", "Aug 20 03:12"),
        (None, ""),
    ],
)
def test_moment(time: str | None, said: str) -> None:
    """ISO times read well, anything else stays as it is."""
    assert said == words.moment(time)


@pytest.mark.parametrize(
    ("ranks", "count"), [("0-36,38-63", 63), ("5", 1), ("", 0), (None, 0), ("x,3", 1), ("9-3", 0)]
)
def test_count_ranks(ranks: str | None, count: int) -> None:
    """Folded ranks are counted; what cannot be read counts nothing."""
    assert count == words.count_ranks(ranks)


def test_size() -> None:
    """Bytes as people read them."""
    assert ["0 bytes", "999 bytes", "18.2 kB", "413 MB", "2.5 TB"] == [
        words.size(n) for n in (0, 999, 18_201, 412_882_113, 2_500_000_000_000)
    ]


def test_rank_unknown_gives_the_best_reason() -> None:
    """A note of the pipeline first, then what the fields show."""
    assert "no prefix, one file for all ranks" == words.rank_unknown(ALL["unknown-exception"])
    bare = replace(
        ALL["unknown-exception"], coverage=replace(ALL["unknown-exception"].coverage, notes=())
    )
    assert "no line names a rank" == words.rank_unknown(bare)
    assert "" == words.rank_unknown(ALL["host-oom"])
    assert "" == words.rank_unknown(ALL["everywhere"])


def test_words_for_every_verdict() -> None:
    """No verdict lacks words."""
    assert set(Verdict) == set(words.VERDICT)


@pytest.mark.parametrize("name", ALL)
def test_escalate_and_executive_have_words(name: str) -> None:
    """Each kind of answer has something to say to each reader."""
    assert words.escalate(ALL[name])
    paragraphs = words.executive(ALL[name])
    assert all(s.endswith((".", "?", "!", "…")) for p in paragraphs for s in p)


def test_empty_diagnosis_renders_everywhere() -> None:
    """The least a diagnosis can hold is enough for every format."""
    for verdict in Verdict:
        for format in rootrank.report.FORMATS:
            assert render(Diagnosis(verdict=verdict, summary=""), format)


def test_unknown_format_is_refused() -> None:
    """A format that is none is named in the error."""
    with pytest.raises(ValueError, match="'pdf' is not one of text, json"):
        render(ALL["hang"], "pdf")


def test_launcher_that_agrees_is_no_news() -> None:
    """Only a launcher that names another rank is told on the first screen."""
    d = ALL["host-oom"]
    same = "torchelastic names rank 37 first"
    agreeing = replace(d, coverage=replace(d.coverage, notes=(same,)))
    assert [] == words.launcher_notes(agreeing)
    assert [same] == words.other_notes(agreeing)
    assert 1 == len(words.launcher_notes(d))
