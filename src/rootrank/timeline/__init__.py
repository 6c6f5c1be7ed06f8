"""Digests to lanes: names joined, copies folded, order and comparison. `build` is the file to read first.

Must not be here: entries, causes, words for reports.
"""

from rootrank.timeline.build import build

__all__ = ["build"]
