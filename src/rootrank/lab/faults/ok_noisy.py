"""A run that ends as planned and warns a lot on the way."""

from __future__ import annotations

import warnings
from typing import Any

from rootrank.lab.fault import HEALTHY, Fault, Truth

FAULT = Fault(
    about="warnings, a retried connection and a handled exception; nothing fails",
    truth=Truth(kind=HEALTHY),
)


def on_step(job: Any, step: int) -> None:
    """Warn of everything."""
    if step == 2:
        warnings.warn("lr_scheduler.step() was called before optimizer.step()", stacklevel=1)
        job.log.warning("Connection reset by peer while uploading metrics, retry 1 of 5")
    if step == 4:
        try:
            raise TimeoutError("tracker did not answer within 2 s")
        except TimeoutError:
            job.log.exception("could not log metrics at step 4, will try again")
    if step == 6:
        job.log.error("failed to read power draw: NVML: Not Supported")
        job.log.warning("gradient norm 113.2 is above 100, clipping")
