"""The terminal report: the answer first, inside the width, harmless whatever the log says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootrank.model import Coverage, Evidence, Status
from rootrank.report import AUDIENCES, render_terminal
from rootrank.report.layout import wrap, wrap_command
from rootrank.report.safe import cells
from tests.report.examples import ALL
from tests.report.hostile import STRINGS, through

SGR = re.compile(r"\x1b\[[0-9;]*m")


def lines_of(name: str, **options: object) -> list[str]:
    """Return the lines of one example."""
    return render_terminal(ALL[name], **options).splitlines()  # type: ignore[arg-type]


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("width", [60, 80, 132])
@pytest.mark.parametrize("name", ALL)
def test_fits_the_width(name: str, width: int, audience: str) -> None:
    """Every line fits, in colour and without, in ASCII and Unicode, short and verbose."""
    for options in range(8):
        text = render_terminal(
            ALL[name],
            width=width,
            color=bool(options & 1),
            unicode=bool(options & 2),
            audience=audience,
            verbose=bool(options & 4),
        )
        for line in text.splitlines():
            bare = SGR.sub("", line)
            over = [w for w in bare.split() if cells(w) > width - 8]
            assert cells(bare) <= width or over, line


@pytest.mark.parametrize("name", [n for n in ALL if n != "host-oom"])
def test_first_screen_is_the_answer(name: str) -> None:
    """What failed, why and what next stand in the first 24 lines."""
    text = "\n".join(lines_of(name)[:24])
    d = ALL[name]
    for action in d.actions[:1]:
        assert action.text.split(",")[0][:40] in " ".join(text.split())
    for missing in d.missing[:1]:
        assert missing.fact[:30] in " ".join(text.split())


def test_first_lines_of_a_typical_failure() -> None:
    """Who, why, how sure, on what evidence, and what followed."""
    assert [
        "FAILURE    Rank 37 on node-5 (pid 48213) failed first, 2026-08-20 03:12:44 UTC",
        "",
        "Why        The kernel killed a rank: host memory exhausted",
        "           established, host-oom-kill, a rerun will fail the same way",
        "Reason     Each DataLoader worker holds its own copy of the data set index.",
        "           (supported)",
        "Evidence   node-5/dmesg.txt:8812  rank 37  node-5  03:12:44",
        "             [1043771.118] Out of memory: Killed process 48213 (python3)",
        "             total-vm:391224512kB, anon-rss:187345664kB, file-rss:1024kB, sh…",
        "           rank37.log:40211  DataLoader: num_workers=16 exceeds the suggested m…",
        "Then       63 ranks timed out waiting for it (0-36,38-63)",
        "           7 ranks were told to stop (32-36,38-39)",
        "Launcher   Torchelastic names rank 0 (exitcode -6) as the first observed",
        "           failure, 10 min after rank 37.",
    ] == lines_of("host-oom")[:14]


def test_open_reason_and_limits_are_said() -> None:
    """A class that is not established says what its evidence does not prove."""
    text = "\n".join(lines_of("hang"))
    assert "Reason     open, 2 candidates: data-stall or branch" in text
    assert "Limits     Shows who was absent, not what held it." in text
    assert "Limits" not in "\n".join(lines_of("host-oom"))


def test_one_question_first_the_others_below() -> None:
    """The first screen asks for one fact; the rest stand below the answer."""
    text = render_terminal(ALL["hang"])
    assert text.index("stack of rank 5") < text.index("Next") < text.index("flight recorder")


def test_unknown_rank_is_said_with_its_reason() -> None:
    """A rank that is not known is not guessed and not passed over."""
    assert "           rank unknown: no prefix, one file for all ranks" in lines_of(
        "unknown-exception"
    )
    text = " ".join(render_terminal(ALL["insufficient"]).split())
    assert "only complaints about peers were seen, not the peer's own first error" in text


def test_verdict_words() -> None:
    """The verdict is the first word, with or without colour."""
    assert lines_of("insufficient")[0].startswith("INSUFFICIENT EVIDENCE  ")
    assert lines_of("no-failure")[0].startswith("NO FAILURE ")
    assert render_terminal(ALL["hang"], color=True).startswith("\x1b[1;31mFAILURE\x1b[0m")


@pytest.mark.parametrize("name", ALL)
def test_colour_changes_nothing_but_colour(name: str) -> None:
    """Without its colour codes the coloured report is the plain one."""
    assert render_terminal(ALL[name]) == SGR.sub("", render_terminal(ALL[name], color=True))


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("name", ALL)
def test_ascii(name: str, audience: str) -> None:
    """ASCII mode writes ASCII only."""
    assert render_terminal(ALL[name], unicode=False, audience=audience, verbose=True).isascii()


@pytest.mark.parametrize("name", STRINGS)
def test_hostile_text_in_every_field(name: str) -> None:
    """Nothing a log says reaches the terminal as a control character or breaks the layout."""
    for d in ALL.values():
        hostile = through(d, lambda text: STRINGS[name])
        for audience in AUDIENCES:
            text = render_terminal(hostile, width=80, audience=audience, verbose=True)
            assert all(c == "\n" or c.isprintable() for c in text)
            assert "\u202e" not in text
            assert render_terminal(hostile, unicode=False, audience=audience).isascii()
            for line in text.splitlines():
                assert cells(line) <= 80 or max(map(cells, line.split())) > 60 or "$" in line


def test_coloured_hostile_text_has_only_our_codes() -> None:
    """Every escape in a coloured report is one of ours."""
    hostile = through(ALL["host-oom"], lambda text: STRINGS["nested-ansi"])
    left = SGR.sub("", render_terminal(hostile, color=True))
    assert "\x1b" not in left


def test_more_is_counted_and_verbose_shows_it() -> None:
    """What is left out is counted; --verbose shows it."""
    many = tuple(
        Evidence(kind="line", source="a.log", line=i, end_line=i, text=f"line {i}")
        for i in range(1, 8)
    )
    cause = ALL["everywhere"].cause
    assert cause
    d = replace(ALL["everywhere"], cause=replace(cause, evidence=many))
    assert "Evidence   a.log:1  1 of 7" in render_terminal(d)
    assert "a.log:7  line 7" not in render_terminal(d)
    assert "a.log:7  line 7" in render_terminal(d, verbose=True)


def test_executive_is_a_few_plain_sentences() -> None:
    """Five to eight sentences: what, how sure, cost, who, again?, next."""
    text = " ".join(render_terminal(ALL["host-oom"], audience="executive").split())
    assert 5 <= len(re.findall(r"\.(?: |$)", text)) <= 9
    for words in (
        "killed by the kernel",
        "establish",
        "step 18,272",
        "must act",
        "same way",
        "Next step",
    ):
        assert words in text


def test_oncall_is_shortest() -> None:
    """Who, what to do now in order, how to verify, when to hand over."""
    engineer, oncall = (
        render_terminal(ALL["everywhere"], audience=a) for a in ("engineer", "oncall")
    )
    assert oncall.count("\n") < engineer.count("\n")
    for words in ("Do now     1. ", "2. Check", "verify", "Escalate"):
        assert words in oncall


def test_narrow_terminal() -> None:
    """A terminal narrower than any text still gets all of it."""
    assert render_terminal(ALL["hang"], width=3) == render_terminal(ALL["hang"], width=40)


def test_what_speaks_against_the_leader_is_shown() -> None:
    """A hypothesis that leads with evidence against it says so."""
    cause = ALL["hang"].cause
    assert cause
    against = Evidence(
        kind="line", source="rank5.log", line=9, end_line=9, text="step 412 done", rank=5
    )
    d = replace(ALL["hang"], cause=replace(cause, against=(against,)))
    assert "Against    rank5.log:9  rank 5\n             step 412 done" in render_terminal(d)


def test_suspected_is_not_called_established() -> None:
    """The status word of the class is shown as it is."""
    cause = ALL["hang"].cause
    assert cause
    d = replace(ALL["hang"], cause=replace(cause, status=Status.SUSPECTED))
    assert "           suspected, rank-missing-from-collective" in render_terminal(d).splitlines()


def test_notes_and_gaps_stand_in_coverage() -> None:
    """What was not read is part of the answer."""
    d = replace(ALL["hang"], coverage=Coverage(sources=1, notes=("times carry no zone",)))
    assert "           Times carry no zone." in render_terminal(d).splitlines()


# --------------------------------------------------------------------------- setting


@given(
    st.lists(st.tuples(st.text(max_size=40), st.sampled_from(["", "dim", "bad"])), max_size=6),
    st.integers(8, 60),
)
def test_wrap_fits_and_loses_nothing(spans: list[tuple[str, str]], width: int) -> None:
    """Wrapped lines fit and hold every character that is no space."""
    lines = wrap(spans, width)
    assert all(sum(cells(t) for t, _ in line) <= width for line in lines)
    assert "".join(t for t, _ in spans).replace(" ", "") == "".join(
        t for line in lines for t, _ in line
    ).replace(" ", "")


def test_wrap_keeps_touching_styles_together() -> None:
    """A bracket stays with the word inside it."""
    assert [[("aaaa", "")], [("(", "dim"), ("supported", "good"), (")", "dim")]] == wrap(
        [("aaaa", ""), (" (", "dim"), ("supported", "good"), (")", "dim")], 12
    )


@pytest.mark.parametrize(
    "command",
    [
        "grep -H . /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory.events",
        "python3 -c 'import torch; print(torch.cuda.is_available(), torch.version.cuda)' --and more words",
        'ssh node-5 "dmesg -T | grep -i -e oom -e xid" > node-5.dmesg.txt && echo done with it all',
    ],
)
def test_wrapped_command_is_the_same_command(command: str) -> None:
    """Joined at its backslashes, a wrapped command splits into the same words."""
    import shlex

    lines = wrap_command(command, 40)
    assert len(lines) > 1
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert shlex.split(command) == shlex.split("\n".join(lines).replace("\\\n", ""))


@pytest.mark.parametrize("command", ["cat <<EOF " + "x " * 60, "true # " + "comment " * 20])
def test_command_that_cannot_be_wrapped_is_not(command: str) -> None:
    """A here-document or a comment would change its meaning."""
    assert [command] == wrap_command(command, 40)
