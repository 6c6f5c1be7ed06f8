"""Every example of every entry, through the path that a user's log takes."""

from __future__ import annotations

import io
from functools import lru_cache

import pytest

from rootrank import pipeline
from rootrank.knowledge.check import example_fault
from rootrank.knowledge.load import ENTRIES, Example, load_documents, load_entries
from rootrank.knowledge.types import Knowledge

CASES = [
    pytest.param(entry.id, example, id=f"{entry.id}-{example.kind}-line{example.line}")
    for entry, document in load_documents(ENTRIES)
    for example in document.examples
]


@lru_cache(maxsize=1)
def knowledge() -> Knowledge:
    """Return the entries, parsed once: the matcher is built once for the same ones."""
    return load_entries(ENTRIES)


@pytest.mark.parametrize(("entry", "example"), CASES)
def test_example_holds_through_production(entry: str, example: Example) -> None:
    """A match example leads to its entry; a near example does not name it as cause."""
    log = io.BytesIO(example.text.encode())
    found = pipeline.diagnose(["-"], knowledge=knowledge(), stdin=log)
    assert None is example_fault(entry, example, found)
