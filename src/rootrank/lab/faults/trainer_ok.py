"""transformers Trainer: a run that ends as planned."""

from __future__ import annotations

from rootrank.lab.fault import HEALTHY, Fault, Truth

FAULT = Fault(
    about="transformers Trainer: nothing fails",
    truth=Truth(kind=HEALTHY),
    job="trainer",
    ranks=2,
)
