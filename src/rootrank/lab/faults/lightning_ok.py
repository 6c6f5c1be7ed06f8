"""Lightning: a run that ends as planned."""

from __future__ import annotations

from rootrank.lab.fault import HEALTHY, Fault, Truth

FAULT = Fault(
    about="Lightning: nothing fails",
    truth=Truth(kind=HEALTHY),
    job="lightning",
    launch="self",
    ranks=2,
)
