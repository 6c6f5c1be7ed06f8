"""A run that ends as planned."""

from __future__ import annotations

from rootrank.lab.fault import HEALTHY, Fault, Truth

FAULT = Fault(
    about="nothing fails",
    truth=Truth(kind=HEALTHY),
    options={"save_every": 5, "evaluate_every": 6},
)
