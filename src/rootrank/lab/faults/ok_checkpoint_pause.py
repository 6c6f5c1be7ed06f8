"""A long checkpoint during which nothing is printed."""

from __future__ import annotations

import time
from typing import Any

from rootrank.lab.fault import HEALTHY, Fault, Truth

FAULT = Fault(
    about="a checkpoint takes rank 0 15 s while the others wait; then training goes on",
    truth=Truth(kind=HEALTHY),
    options={"save_every": 6},
)


def save(job: Any, path: Any) -> None:
    """Take long."""
    time.sleep(15)
