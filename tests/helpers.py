"""Shared by tests: diagnose text as a user would have it in files."""

from __future__ import annotations

import pathlib

from rootrank.ingest import open_sources
from rootrank.knowledge.types import Knowledge
from rootrank.model import Diagnosis, Digest, Sighting, Timeline
from rootrank.pipeline import diagnose, digest_sources, timeline

BARE = Knowledge(entries={}, digest="no entries")


def write(folder: pathlib.Path, **files: str) -> str:
    """Write files (`name__ext` becomes `name.ext`) and return the folder."""
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    return str(folder)


def sightings(folder: pathlib.Path, text: str, name: str = "run.log") -> list[Sighting]:
    """Return what the structured parsers alone see in one log, without any entry."""
    return list(digest(folder, text, name).sightings)


def digest(folder: pathlib.Path, text: str, name: str = "run.log") -> Digest:
    """Return the digest of one log, without any entry."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return digest_sources([str(path)], BARE)[0]


def lanes(folder: pathlib.Path, **files: str) -> Timeline:
    """Return the timeline of several logs, without any entry."""
    return timeline(digest_sources([write(folder, **files)], BARE))


def bare(folder: pathlib.Path, **files: str) -> Diagnosis:
    """Return the diagnosis that the engine reaches with an empty encyclopedia."""
    return diagnose([write(folder, **files)], knowledge=BARE)


__all__ = ["BARE", "bare", "digest", "lanes", "open_sources", "sightings", "write"]
