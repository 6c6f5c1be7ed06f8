"""First stage: where the evidence is, its bytes, and what a line's surroundings say of it.

Belongs here: finding and opening sources, decoding bytes to text, and what paths, prefixes and
stamps say of a line's origin and time.
Must not be here: what a line means (scan), who is who across sources (timeline), and any failure.

| module | what it holds |
|---|---|
| sources | `open_sources`: paths to `Source` values |
| streams, archives, sniff | layers below it: compression, tar and zip, text or binary |
| names | what a file's name says |
| origin | what a line's prefix says |
| clock | time stamps |
| decode | bytes of a line to clean text |
"""

from rootrank.ingest.clock import detect_year, find_time, to_iso
from rootrank.ingest.decode import clean, segments, unglue
from rootrank.ingest.names import from_path, kind_of
from rootrank.ingest.origin import Prefix, detect_labels, split_prefix
from rootrank.ingest.sources import Limits, Source, open_sources

__all__ = [
    "Limits",
    "Prefix",
    "Source",
    "clean",
    "detect_labels",
    "detect_year",
    "find_time",
    "from_path",
    "kind_of",
    "open_sources",
    "segments",
    "split_prefix",
    "to_iso",
    "unglue",
]
