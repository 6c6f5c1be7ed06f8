"""Shapes in a run's own numbers: a lasting drop, NaN, a collapsing loss scale, divergence.

Belongs here: arithmetic on progress samples of one lane. Must not be here: comparison between lanes, causes.
Every rule asks for a change that lasts to the end; what comes back is not trouble.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from rootrank.model import Progress


class Shape(NamedTuple):
    """A change that lasts: what, from which to which value, and the samples that show it."""

    kind: str  # drop | nan | falling | diverging
    metric: str
    before: float
    after: float
    first: Progress
    last: Progress
    firm: bool  # enough samples to call it supported


def drop(samples: Sequence[Progress]) -> Shape | None:
    """Return a lasting fall of throughput, or rise of the step time, or None.

    The baseline must be steadier than the change by a factor of four; noisy runs have no shape.
    """
    for metric, sign in (("throughput", -1.0), ("step_s", 1.0)):
        points = [
            (p, v)
            for p in samples
            if (v := getattr(p, metric)) is not None and v > 0 and p.unit != "bar"
        ]
        found = _lasting(points, metric, sign)
        if found:
            return found
    return None


def _lasting(points: list[tuple[Progress, float]], metric: str, sign: float) -> Shape | None:
    if len(points) < 5:
        return None
    skip = 1 if len(points) >= 12 else 0  # the first step compiles and warms up
    values = [v for _, v in points[skip:]]
    head = values[: max(2, len(values) // 3)]
    tail = values[-max(2, min(5, len(values) // 4)) :]
    base, now = median(head), median(tail)
    if base <= 0:
        return None
    spread = (max(head) - min(head)) / base
    change = sign * (now - base) / base
    # A small fall must stand far out of the noise; one by a third or more need only stand out of it.
    if change < 0.04 or spread > (change / 2 if change > 0.33 else change / 4):
        return None
    worst_tail = min(sign * (v - base) / base for v in tail)
    if worst_tail < change * 0.5:
        return None
    firm = len(values) >= 20 and change > 0.1
    return Shape("drop", metric, base, now, points[skip][0], points[-1][0], firm)


def nan(samples: Sequence[Progress]) -> Shape | None:
    """Return the first loss that is NaN or infinite and stays so, or None."""
    losses = [p for p in samples if p.loss is not None]
    first = next((p for p in losses if not math.isfinite(p.loss or 0.0)), None)
    if first is None:
        return None
    after = [p for p in losses if p.order >= first.order]
    if any(math.isfinite(p.loss or 0.0) for p in after[1:]):
        return None
    before = [p for p in losses if p.order < first.order]
    good = before[-1] if before else first
    return Shape("nan", "loss", good.loss or 0.0, first.loss or 0.0, good, first, len(after) >= 1)


def falling(samples: Sequence[Progress]) -> Shape | None:
    """Return a loss scale that fell to its floor (at most 1) and did not come back, or None."""
    scales = [p for p in samples if p.loss_scale is not None and p.loss_scale > 0]
    if len(scales) < 4:
        return None
    top, last = max(p.loss_scale or 0 for p in scales), scales[-1].loss_scale or 0
    if last > 1.0 or top < 16 * max(last, 1e-9):
        return None
    peak = next(p for p in scales if p.loss_scale == top)
    return Shape("falling", "loss_scale", top, last, peak, scales[-1], True)


def diverging(samples: Sequence[Progress]) -> Shape | None:
    """Return a loss that rose far above its best and stays there at the end, or None."""
    losses = [p for p in samples if p.loss is not None and math.isfinite(p.loss)]
    if len(losses) < 12:
        return None
    values = [p.loss or 0.0 for p in losses]
    best = median(sorted(values)[: max(3, len(values) // 4)])
    tail = values[-max(4, len(values) // 6) :]
    if best <= 0 or min(tail) < 2.0 * best or min(tail) < median(values[: len(values) // 3]) * 1.2:
        return None
    low = min(losses, key=lambda p: p.loss or 0.0)
    if low.order > losses[-1].order or losses.index(low) > len(losses) * 0.8:
        return None
    return Shape("diverging", "loss", best, median(tail), low, losses[-1], len(losses) >= 30)
