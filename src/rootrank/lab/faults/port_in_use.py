"""Somebody else listens on the master port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rootrank.lab.fault import START, Fault, Truth

if TYPE_CHECKING:
    from rootrank.lab.run import Run

FAULT = Fault(
    about="the master port is taken by another process",
    truth=Truth(kind=START, entries=("port-in-use",)),
    deadline_s=60,
)


def around(run: Run) -> Iterator[None]:
    """Listen where the job wants to."""
    with socket.create_server(("127.0.0.1", run.place.port)):
        yield
