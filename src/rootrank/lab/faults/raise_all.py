"""Every rank raises the same exception: nobody is to be singled out."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import ALL, CRASH, Fault, Truth

FAULT = Fault(
    about="every rank raises the same ValueError after the start",
    truth=Truth(kind=CRASH, ranks=ALL, entries=("uncaught-exception", "config-value-invalid")),
)


def ready(job: Any) -> None:
    """Check the settings."""
    schedule = job.options.get("schedule", "cosine_warm")
    if schedule not in ("linear", "cosine"):
        raise ValueError(f"unknown schedule {schedule!r}, choose linear or cosine")
