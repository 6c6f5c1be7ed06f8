"""Finding entries by words, by typing errors, by a pasted line."""

from __future__ import annotations

from rootrank.knowledge.load import ENTRIES, load_entries, parse_entry
from rootrank.knowledge.search import Index, nearest, search, tokens
from rootrank.knowledge.types import Knowledge
from tests.knowledge.samples import GOOD, changed

OTHER = changed(
    ('id = "store-lost"', 'id = "loss-is-nan"'),
    ('title = "The rendezvous store went away"', 'title = "The loss became NaN"'),
    ("The process that hosts the store ended.", "An overflow spread."),
    ('search = "store vanished"', 'search = "nan loss overflow"'),
    ('["lost store"]', '["nan loss"]'),
    ('["the store is gone", "store vanished"]', '["loss is nan", "found inf in gradients"]'),
    ("'store (?:is gone|vanished)'", "'loss is nan|found inf'"),
    ('tags = ["store"]', 'tags = ["numerics"]'),
)
KNOWN = Knowledge(
    entries={e.id: e for e in (parse_entry(GOOD, "x")[0], parse_entry(OTHER, "y")[0])}
)


def ids(query: str) -> list[str]:
    """Return the ids that a query finds, best first."""
    return [hit.entry.id for hit in search(KNOWN, query)]


def test_words() -> None:
    """A word of the title, of a tag or of the search line finds the entry, best first."""
    assert "store-lost" == ids("rendezvous")[0]
    assert "loss-is-nan" == ids("numerics overflow")[0]
    assert [] == ids("zebra")
    assert [] == ids("")
    assert [] == ids("the of and")


def test_an_id_or_alias_comes_first() -> None:
    """However common its words are, and however it is spelt."""
    for query in ("loss-is-nan", "LOSS is nan", "nan_loss", "nan loss"):
        hit = search(KNOWN, query)[0]
        assert "loss-is-nan" == hit.entry.id
        assert "its name" in hit.why


def test_misspelt_words() -> None:
    """A letter too few or swapped still finds it, and the answer says how it was read."""
    hit = search(KNOWN, "rendezvos")[0]
    assert "store-lost" == hit.entry.id
    assert "rendezvous for rendezvos" in hit.why or "rendezvos…" in hit.why
    assert "loss-is-nan" == ids("oveflow")[0]


def test_a_pasted_line() -> None:
    """A line that carries a signal leads to its entry, whatever else stands on it."""
    line = "[rank3]: 2026-01-01 rendezvous: found inf in gradients of layer 7, store ok"
    hit = search(KNOWN, line)[0]
    assert "loss-is-nan" == hit.entry.id
    assert "its signal 'gone' on this line" in hit.why


def test_a_pasted_exception() -> None:
    """Type and message of a sighting are looked for on the line."""
    hits = search(KNOWN, "StoreError: store 4 is gone")
    assert {"store-lost", "loss-is-nan"} == {h.entry.id for h in hits}
    assert all("'raised' on this line" in h.why for h in hits)


def test_names_in_code_are_parted() -> None:
    """ChildFailedError is also child; numbers of two digits count; stop words do not."""
    assert {"childfailederror", "child"} <= set(tokens("the ChildFailedError"))
    assert "137" in tokens("exit 137")
    assert {"hang": "hangs"} == tokens("it hangs")


def test_ties_are_broken_by_id() -> None:
    """The order is the same on every run."""
    assert ids("pytorch") == sorted(ids("pytorch"))


def test_nearest_ids() -> None:
    """A mistyped id is offered the ones it may have meant."""
    assert ["store-lost"] == nearest(KNOWN, "store-lots")
    assert [] == nearest(KNOWN, "zebra")


def test_every_shipped_entry_is_found_by_its_own_words() -> None:
    """By its id first, by its search line and title among the first five."""
    known = load_entries(ENTRIES)
    index = Index.of(known)
    from rootrank.knowledge.search import search_index

    for entry in known.entries.values():
        assert entry.id == search_index(index, entry.id)[0].entry.id
        for query in (entry.title, entry.search):
            if query:
                assert entry.id in [h.entry.id for h in search_index(index, query, 5)], query
