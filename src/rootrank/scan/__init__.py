"""Bytes to sightings, one pass. `scanner` is the file to read first; each format has a file of its own.

Must not be here: comparisons between processes, causes, prefix formats.
"""

from rootrank.scan.frame import Found
from rootrank.scan.scanner import Engine, Piece, Reader, Source, scan
from rootrank.scan.signals import SignalIndex
from rootrank.scan.spans import ChangedError, Reread, Span, search, spans_of

__all__ = [
    "ChangedError",
    "Engine",
    "Found",
    "Piece",
    "Reader",
    "Reread",
    "SignalIndex",
    "Source",
    "Span",
    "scan",
    "search",
    "spans_of",
]
