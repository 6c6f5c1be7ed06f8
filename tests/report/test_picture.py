"""The per-rank picture keeps what matters in view, however many ranks there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rootrank.model import Diagnosis, LaneView
from rootrank.report.picture import MOST_ROWS, Picture, caption, draw, picture, table
from tests.report.examples import ALL


def of(d: Diagnosis) -> Picture:
    """Return the picture, which is there."""
    found = picture(d)
    assert found
    return found


def lanes(count: int, **odd: str) -> tuple[LaneView, ...]:
    """Return lanes that all followed, but for those given as r5="silent"."""
    return tuple(
        LaneView(
            label=f"rank {r}",
            rank=r,
            host="n",
            first_time_s=0.0,
            last_time_s=100.0 if f"r{r}" in odd else 200.0 + r % 7,
            last_step=9,
            state=odd.get(f"r{r}", "collateral"),
        )
        for r in range(count)
    )


def test_no_lanes_no_picture() -> None:
    """Nothing is drawn from nothing."""
    assert picture(ALL["unknown-exception"]) is None


def test_many_ranks_fold_around_the_odd_ones() -> None:
    """1,024 ranks become a handful of rows; the first and the silent one keep their own."""
    p = of(replace(ALL["hang"], lanes=lanes(1024, r37="initiating", r900="silent")))
    assert ["ranks 0-36", "rank 37", "ranks 38-899", "rank 900", "ranks 901-1023"] == [
        r.label for r in p.rows
    ]
    assert 1024 == sum(r.count for r in p.rows)
    assert (200.0, 206.0) == (p.rows[2].end_low, p.rows[2].end_high)


def test_rows_stay_bounded() -> None:
    """Even when every second rank is odd."""
    odd = {f"r{r}": "silent" for r in range(0, 2000, 2)}
    p = of(replace(ALL["hang"], lanes=lanes(2000, **odd)))
    assert len(p.rows) <= MOST_ROWS
    assert 2000 == sum(r.count for r in p.rows)


def test_hours_of_normal_running_do_not_hide_the_end() -> None:
    """The time axis starts shortly before the first lane ends, and says so."""
    p = of(ALL["host-oom"])
    assert p.cut
    first = next(r for r in p.rows if r.state == "initiating")
    assert first.end_high is not None
    assert 20 < p.share(first.end_high) < 80
    assert "began before the left edge" in caption(p)


def test_axis_without_times() -> None:
    """Without times the step is the axis; without steps the length means nothing, and is said to."""
    timeless = [replace(x, first_time_s=None, last_time_s=None) for x in lanes(4)]
    steps = [replace(x, last_step=100 + x.rank if x.rank else 3) for x in timeless]
    assert "step" == of(replace(ALL["hang"], lanes=tuple(steps))).axis
    assert "the length of a bar means nothing" in caption(
        of(replace(ALL["hang"], lanes=tuple(timeless)))
    )


def test_a_lane_without_time_among_others() -> None:
    """It gets a row and the word "no time"."""
    some = list(lanes(3))
    some[1] = replace(some[1], first_time_s=None, last_time_s=None)
    p = of(replace(ALL["hang"], lanes=tuple(some)))
    assert 'class="untimed"' in draw(p)
    assert "no time" == table(p)[1][2]


@pytest.mark.parametrize("time_s", [0.0, -1e18, 1e18, 1787195564.0])
def test_any_time_can_be_drawn(time_s: float) -> None:
    """A stamp that no calendar has does not break the page."""
    one = replace(lanes(1)[0], first_time_s=time_s, last_time_s=time_s)
    assert "<svg" in draw(of(replace(ALL["hang"], lanes=(one,))))


def test_everybody_failed_alike() -> None:
    """When all failed none was first, and the caption does not say so."""
    assert caption(of(ALL["everywhere"])).startswith("8 failed. ")


def test_marks_differ_in_shape() -> None:
    """Colour is not the only difference between states."""
    text = draw(of(replace(ALL["hang"], lanes=lanes(4, r1="initiating", r2="silent"))))
    assert '<circle class="initiating"' in text
    assert 'class="silence"' in text
    assert '<line class="collateral"' in text


def test_milliseconds_are_no_order() -> None:
    """Ends that differ by less than clocks do are not blown up to the whole width."""
    close = tuple(replace(x, last_time_s=200.0 + (x.rank or 0) / 1000) for x in lanes(3))
    p = of(replace(ALL["hang"], lanes=close))
    assert not p.cut
    assert p.share(200.002) - p.share(200.0) < 1
