"""accelerate: a run that ends as planned."""

from __future__ import annotations

from rootrank.lab.fault import HEALTHY, Fault, Truth

FAULT = Fault(
    about="accelerate: nothing fails",
    truth=Truth(kind=HEALTHY),
    job="accelerate",
    ranks=2,
)
