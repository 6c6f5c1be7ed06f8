"""Evidence of a job that has not ended: collect it now, read it later.

Belongs here: finding the processes of a job, asking the machine about them, writing a bundle.
Must not be here: what the evidence means. Parsing happens in ingest and scan, so that an old bundle
can be read by a newer version.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rootrank.live.collector import Options, Result, collect, preview

__all__ = ["Options", "Result", "collect", "preview"]


def __getattr__(name: str) -> Any:
    # Importing the package costs nothing; a command that collects nothing need not load all of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("rootrank.live.collector"), name)
