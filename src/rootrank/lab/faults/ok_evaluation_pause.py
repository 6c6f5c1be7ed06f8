"""A long evaluation during which nothing is printed."""

from __future__ import annotations

import time
from typing import Any

from rootrank.lab.fault import HEALTHY, Fault, Truth

FAULT = Fault(
    about="an evaluation of 15 s prints nothing; then training goes on",
    truth=Truth(kind=HEALTHY),
    options={"evaluate_every": 6},
)


def evaluate(job: Any) -> None:
    """Take long."""
    time.sleep(15)
