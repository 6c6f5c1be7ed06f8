"""The exception that ends a rank was raised while another one was handled."""

from __future__ import annotations

from typing import Any

from rootrank.lab.fault import CRASH, Fault, Truth

FAULT = Fault(
    about="rank 2 raises RuntimeError from a KeyError",
    truth=Truth(kind=CRASH, ranks=(2,), entries=("uncaught-exception",)),
)


def on_step(job: Any, step: int) -> None:
    """Look up the weight of a domain."""
    if job.rank == 2 and step == 5:
        weights = {"web": 0.7, "code": 0.3}
        try:
            job.log.debug("%s", weights["books"])
        except KeyError as error:
            raise RuntimeError("cannot mix the domains of this batch") from error
