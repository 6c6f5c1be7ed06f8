"""The compiled form of the knowledge: one JSON file that loads in milliseconds.

Belongs here: writing it, judging its freshness, reading it, and the per-user cache for checkouts.
Must not be here: the entry grammar (see `load`).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rootrank.errors import KnowledgeError
from rootrank.knowledge import load
from rootrank.knowledge.load import Document
from rootrank.knowledge.types import Entry, Knowledge

COMPILED = Path(__file__).parent / "compiled.json"
FORMAT = 1
# What a diagnosis needs. The rest (checks, symptoms, references, prose) stays in the Markdown,
# because reading it would cost every diagnosis what only `explain` uses.
_LEFT_OUT = frozenset({"symptom", "check", "reference", "effort", "min_ranks", "systems"})


def compile_entries(folder: Path, *, sealed: bool = False) -> dict[str, Any]:
    """Return the compiled form of `folder`; KnowledgeError at the first malformed entry.

    `sealed` is for a wheel: its entries cannot change, so no reader compares them again.
    """
    pairs = load.load_documents(folder)
    form = _form(pairs, load.content_digest(folder))
    form["files"] = None if sealed else stamps(folder)
    return form


def _form(pairs: list[tuple[Entry, Document]], digest: str) -> dict[str, Any]:
    rows = [[_head(doc.head), entry.quick, entry.maturity] for entry, doc in pairs]
    return {"format": FORMAT, "digest": digest, "entries": rows}


def _head(head: Any) -> dict[str, Any]:
    return {k: v for k, v in head.items() if k not in _LEFT_OUT}


def write(form: dict[str, Any], path: Path) -> None:
    """Write the form in one step: a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(form, out, ensure_ascii=False, separators=(",", ":"), sort_keys=False)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def stamps(folder: Path) -> dict[str, list[int]]:
    """Return size and modification time of every entry file: cheap to compare, unlike contents."""
    found: dict[str, list[int]] = {}
    for category in sorted(os.scandir(folder), key=lambda e: e.name) if folder.is_dir() else ():
        if not category.is_dir():
            continue
        for item in os.scandir(category.path):
            if item.name.endswith(".md"):
                state = item.stat()
                found[f"{category.name}/{item.name}"] = [state.st_size, state.st_mtime_ns]
    return found


def read(path: Path) -> tuple[Knowledge, dict[str, list[int]] | None] | None:
    """Return the knowledge of a compiled file and its stamps; None when it is absent or foreign."""
    try:
        form = json.loads(path.read_bytes())
        if form["format"] != FORMAT:
            return None
        entries = [load.build_entry(*row) for row in form["entries"]]
        known = Knowledge(entries={e.id: e for e in entries}, digest=form["digest"])
        return known, form.get("files")
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_fresh(folder: Path, path: Path = COMPILED) -> Knowledge | None:
    """Return the compiled knowledge unless it is absent or any entry changed since."""
    found = read(path)
    if found is None:
        return None
    known, files = found
    return known if files is None or files == stamps(folder) else None


# --------------------------------------------------------------------------- cache of a checkout


def cache_folder() -> Path:
    """Return the user's cache folder for this program; it may not exist."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return Path(base or Path.home() / "AppData" / "Local") / "rootrank" / "cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "rootrank"


def read_through_cache(folder: Path, on_error: Callable[[KnowledgeError], None]) -> Knowledge:
    """Return the knowledge of a checkout, from the cache when these very contents are in it.

    No failure of the cache matters: it is only there to save the second it takes to parse.
    """
    digest = load.content_digest(folder)
    try:
        path = cache_folder() / f"knowledge-{_cache_key(digest)}.json"
    except RuntimeError:  # no home folder
        path = None
    found = read(path) if path else None
    if found is not None:
        return found[0]
    errors: list[KnowledgeError] = []
    pairs = load.load_documents(folder, errors.append)
    for error in errors:
        on_error(error)
    if path and not errors:  # a cached copy would hide the warning next time
        _store(_form(pairs, digest), path)
    return Knowledge(entries={e.id: e for e, _ in pairs}, digest=digest)


def _cache_key(digest: str) -> str:
    # The reader's own source is part of the key: a checkout changes it as often as the entries.
    state = hashlib.blake2b(digest.encode(), digest_size=12)
    for path in (Path(load.__file__), Path(__file__)):
        state.update(path.read_bytes())
    return state.hexdigest()


def _store(form: dict[str, Any], path: Path) -> None:
    try:
        write(form, path)
        for old in path.parent.glob("knowledge-*.json"):
            if old != path:
                old.unlink(missing_ok=True)
    except OSError:
        pass
