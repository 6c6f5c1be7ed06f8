"""The per-rank picture: which lane spoke how long, which fell silent, who was first.

Belongs here: rows, scale and shapes of the picture as SVG. Must not be here: the page around it.
Positions are shares of the width, so that the same drawing fits a phone and a wide screen; labels
keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from rootrank.model import Diagnosis, LaneView, fold_ranks
from rootrank.report.safe import cells, clip, escape_html, plain
from rootrank.report.words import duration, plural

MOST_ROWS = 64
_STATES = ("initiating", "silent", "collateral", "normal")
SAYS = {
    "initiating": "failed first",
    "silent": "fell silent",
    "collateral": "followed",
    "normal": "nothing abnormal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the picture: a lane, or several alike."""

    label: str
    state: str
    count: int
    first: float | None
    end_low: float | None  # the earliest and the latest last sign of the lanes in this row
    end_high: float | None
    step: int | None
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Rows and what their horizontal position means."""

    rows: tuple[Row, ...]
    axis: str  # time | step | order
    low: float
    high: float
    cut: bool  # lanes began before the left edge

    def share(self, value: float) -> float:
        """Return a position as percent of the width, kept inside it."""
        span = self.high - self.low or 1.0
        return min(100.0, max(0.0, 100.0 * (value - self.low) / span))


def picture(d: Diagnosis) -> Picture | None:
    """Return what to draw for the lanes of `d`, None when there are none."""
    if not d.lanes:
        return None
    rows = _rows(d.lanes)
    ends = [r.end_high for r in rows if r.end_high is not None]
    if ends:
        return _in_time(rows)
    steps = [r.step for r in rows if r.step is not None]
    if len(set(steps)) > 1:
        by_step = tuple(_by_step(r) for r in rows)
        return Picture(rows=by_step, axis="step", low=0.0, high=max(steps) * 1.05, cut=False)
    return Picture(rows=rows, axis="order", low=0.0, high=1.0, cut=False)


def _by_step(row: Row) -> Row:
    end = float(row.step) if row.step is not None else None
    return replace(row, first=0.0, end_low=end, end_high=end)


def _in_time(rows: tuple[Row, ...]) -> Picture:
    firsts = [r.first for r in rows if r.first is not None]
    lows = [r.end_low for r in rows if r.end_low is not None]
    highs = [r.end_high for r in rows if r.end_high is not None]
    low, high, tail = min(firsts + lows), max(highs), max(highs) - min(lows)
    # Hours of normal running would press the minutes that matter into one pixel. Less than two
    # seconds are no order that clocks of several hosts could show.
    cut = tail >= 2 and high - low > 4 * tail
    left = min(lows) - tail if cut else low
    pad = (high - left) * 0.04 or 1.0
    return Picture(rows=rows, axis="time", low=left, high=high + pad, cut=cut)


# --------------------------------------------------------------------------- rows


def _rows(lanes: Sequence[LaneView]) -> tuple[Row, ...]:
    if len(lanes) <= MOST_ROWS:
        return tuple(_row([lane]) for lane in lanes)
    return tuple(_row(group) for group in _fold(lanes))


def _fold(lanes: Sequence[LaneView]) -> list[list[LaneView]]:
    """Join neighbours that did the same; the first, silent and otherwise odd ones stay alone."""
    common = max(_STATES, key=lambda s: sum(lane.state == s for lane in lanes))
    groups: list[list[LaneView]] = []
    for lane in lanes:
        alone = lane.state in ("initiating", "silent") and lane.state != common
        last = groups[-1] if groups else []
        if last and not alone and _alike(last[-1], lane) and last[-1].state == lane.state:
            last.append(lane)
        else:
            groups.append([lane])
    return _squeeze(groups)


def _alike(a: LaneView, b: LaneView) -> bool:
    return (a.mark or "")[:24] == (b.mark or "")[:24]


def _squeeze(groups: list[list[LaneView]]) -> list[list[LaneView]]:
    """Keep the rows bounded: what is still too much becomes one row for each state."""
    if len(groups) <= MOST_ROWS:
        return groups
    kept = [g for g in groups if g[0].state in ("initiating", "silent")][: MOST_ROWS // 2]
    kept_ids = {id(lane) for g in kept for lane in g}
    for state in _STATES:
        rest = [lane for g in groups for lane in g if lane.state == state]
        rest = [lane for lane in rest if id(lane) not in kept_ids]
        if rest:
            kept.append(rest)
    return kept


def _row(lanes: Sequence[LaneView]) -> Row:
    lane = lanes[0]
    ends = [x.last_time_s for x in lanes if x.last_time_s is not None]
    firsts = [x.first_time_s for x in lanes if x.first_time_s is not None]
    steps = [x.last_step for x in lanes if x.last_step is not None]
    return Row(
        label=lane.label if len(lanes) == 1 else _group_label(lanes),
        state=lane.state if lane.state in _STATES else "normal",
        count=len(lanes),
        first=min(firsts, default=None),
        end_low=min(ends, default=None),
        end_high=max(ends, default=None),
        step=max(steps, default=None),
        mark=lane.mark or "",
    )


def _group_label(lanes: Sequence[LaneView]) -> str:
    ranks = [lane.rank for lane in lanes if lane.rank is not None]
    if len(ranks) == len(lanes):
        return f"ranks {fold_ranks(ranks)}"
    return plural(len(lanes), "lane")


# --------------------------------------------------------------------------- drawing

_LABEL_PX = 7.2  # width of one character of a label


def draw(p: Picture) -> str:
    """Return the picture as two drawings side by side: labels of fixed, bars of any width."""
    pitch = 18 if len(p.rows) <= 32 else 13
    height = pitch * len(p.rows) + 26
    longest = max(cells(_label(r)) for r in p.rows)
    names = "".join(_name(r, i, pitch) for i, r in enumerate(p.rows))
    bars = _grid(p, height) + "".join(_bar(p, r, i, pitch) for i, r in enumerate(p.rows))
    width = round(longest * _LABEL_PX) + 10
    return (
        f'<svg class="names" width="{width}" height="{height}" aria-hidden="true">{names}</svg>'
        f'<svg class="plot" width="100%" height="{height}" aria-hidden="true">{bars}</svg>'
    )


def _label(row: Row) -> str:
    return clip(plain(row.label), 22)


def _name(row: Row, index: int, pitch: int) -> str:
    y = pitch * index + pitch * 0.72
    strong = " strong" if row.state in ("initiating", "silent") else ""
    return f'<text class="name{strong}" x="0" y="{y:.1f}">{escape_html(_label(row))}</text>'


def _bar(p: Picture, row: Row, index: int, pitch: int) -> str:
    y = pitch * index + pitch / 2
    if p.axis == "order":
        return _line("bar", 0, 96, y) + _mark(row, 97, y)
    if row.end_high is None or row.end_low is None:
        return _line("untimed", 0, 100, y)
    start = p.share(row.first if row.first is not None else p.low)
    low, high = p.share(row.end_low), p.share(row.end_high)
    parts = [_line("bar", start, low, y)]
    if high > low:
        parts.append(_line("spread", low, high, y))
    if row.state == "silent" and high < 100:
        parts.append(_line("silence", high, 100, y))
    return "".join([*parts, _mark(row, high, y), _said(row, high, y)])


def _line(kind: str, x1: float, x2: float, y: float) -> str:
    return f'<line class="{kind}" x1="{x1:.2f}%" x2="{x2:.2f}%" y1="{y:.1f}" y2="{y:.1f}"/>'


def _mark(row: Row, x: float, y: float) -> str:
    """Return the sign at the end of a bar; each state has its own shape, not only its colour."""
    title = f"<title>{escape_html(described(row))}</title>"
    if row.state == "initiating":
        return f'<circle class="initiating" cx="{x:.2f}%" cy="{y:.1f}" r="5.5">{title}</circle>'
    if row.state == "silent":
        return f'<circle class="silent" cx="{x:.2f}%" cy="{y:.1f}" r="4.5">{title}</circle>'
    if row.state == "collateral":
        return _tick("collateral", x, y, 4.5, title)
    return _tick("normal", x, y, 3, title)


def _tick(kind: str, x: float, y: float, half: float, title: str) -> str:
    ends = f'y1="{y - half:.1f}" y2="{y + half:.1f}"'
    return f'<line class="{kind}" x1="{x:.2f}%" x2="{x:.2f}%" {ends}>{title}</line>'


def _said(row: Row, x: float, y: float) -> str:
    """Return the last words of a lane that matters, on the side where there is room."""
    if row.state not in ("initiating", "silent") or not row.mark:
        return ""
    text = escape_html(clip(plain(row.mark), 34))
    if x > 55:
        return f'<text class="said end" x="{x:.2f}%" dx="-9" y="{y + 4:.1f}">{text}</text>'
    return f'<text class="said" x="{x:.2f}%" dx="9" y="{y + 4:.1f}">{text}</text>'


def _grid(p: Picture, height: int) -> str:
    if p.axis == "order":
        return ""
    shares = (0.0, 50.0, 100.0)
    lines = "".join(
        f'<line class="grid" x1="{x}%" x2="{x}%" y1="0" y2="{height - 20}"/>' for x in shares
    )
    anchors = ("", " middle", " end")
    texts = "".join(
        f'<text class="tick{anchor}" x="{x}%" y="{height - 6}">{escape_html(_at(p, x))}</text>'
        for x, anchor in zip(shares, anchors, strict=True)
    )
    return lines + texts


def _at(p: Picture, share: float) -> str:
    value = p.low + (p.high - p.low) * share / 100
    if p.axis == "step":
        return f"step {value:,.0f}"
    fine = p.high - p.low < 5
    return _clock(value, fine) + (" UTC" if share == 100 else "")


def _clock(time_s: float, fine: bool = False) -> str:
    try:
        stamp = datetime.fromtimestamp(time_s, tz=timezone.utc)
        return stamp.strftime("%H:%M:%S.%f")[:-5] if fine else stamp.strftime("%H:%M:%S")
    except (OverflowError, OSError, ValueError):  # a stamp no calendar has
        return f"{time_s:.0f} s"


# --------------------------------------------------------------------------- words


def described(row: Row) -> str:
    """Return one row in words, for a tooltip."""
    parts = [row.label, SAYS[row.state]]
    if row.end_high is not None:
        parts.append(f"last sign {_clock(row.end_high)}")
    if row.mark:
        parts.append(row.mark)
    return ", ".join(parts)


def caption(p: Picture) -> str:
    """Return what the picture shows and what its horizontal axis means."""
    counts = ((s, sum(r.count for r in p.rows if r.state == s)) for s in _STATES)
    said = [f"{count:,} {SAYS[state]}" for state, count in counts if count]
    if all(r.state == "initiating" for r in p.rows):  # none was first: they failed alike
        said = [f"{sum(r.count for r in p.rows):,} failed"]
    axis = {
        "time": f"Left to right is time, {duration(p.high - p.low)} in all.",
        "step": "Left to right is the last training step; the logs carry no times.",
        "order": "The logs carry no times, so the length of a bar means nothing.",
    }[p.axis]
    cut = " The lanes began before the left edge." if p.cut else ""
    return f"{'; '.join(said)}. {axis}{cut}"


def table(p: Picture) -> list[tuple[str, str, str, str, str]]:
    """Return the rows as words: who, state, last sign, last step, last words."""
    return [
        (
            r.label,
            SAYS[r.state],
            _ends(r) if p.axis == "time" else "",
            f"{r.step:,}" if r.step is not None else "",
            r.mark,
        )
        for r in p.rows
    ]


def _ends(row: Row) -> str:
    if row.end_low is None or row.end_high is None:
        return "no time"
    low, high = _clock(row.end_low), _clock(row.end_high)
    return low if low == high else f"{low} to {high}"
