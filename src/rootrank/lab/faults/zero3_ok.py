"""ZeRO-3 with everything offloaded to the host: a run that ends as planned."""

from __future__ import annotations

from rootrank.lab.fault import HEALTHY, Fault, Truth

FAULT = Fault(
    about="ZeRO-3 with CPU offload; nothing fails",
    truth=Truth(kind=HEALTHY),
    job="deepspeed",
    ranks=2,
)
