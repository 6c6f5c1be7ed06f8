"""The grammar of an entry file, and what its faults say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rootrank.errors import KnowledgeError
from rootrank.knowledge.load import (
    content_digest,
    load_entries,
    maturity,
    parse_document,
    parse_entry,
    plain,
)
from tests.knowledge.samples import GOOD, changed, folder_of


def fault_of(text: str) -> str:
    """Return the error of a text that is no entry."""
    with pytest.raises(KnowledgeError) as caught:
        parse_entry(text, "x.md")
    return str(caught.value)


def test_values_of_the_head() -> None:
    """Facets, signals, match, causes, fixes and prevention arrive typed."""
    entry, _ = parse_entry(GOOD, "x.md")
    assert "store-lost" == entry.id
    assert ("rendezvous",) == entry.phase
    gone, raised = entry.signals
    assert ("the store is gone", "store vanished") == gone.literal
    assert ("host-died",) == gone.for_
    assert {"type": "StoreError", "message": "store.{0,40}gone"} == dict(raised.where)
    assert ("gone",) == entry.match.all
    assert "peer-loss" == entry.match.explains[0].what
    assert ["host-died", "closed-early"] == [c.id for c in entry.causes]
    assert "barrier(); store.close()" == entry.fixes[0].edit
    assert "the host's pid" == entry.prevents[0].watch


def test_the_quick_answer_is_plain_text() -> None:
    """Inline marks and line breaks are gone."""
    entry, _ = parse_entry(GOOD, "x.md")
    assert "The store vanished. Look at its host first." == entry.quick
    assert "see the page" == plain("see [the\npage](http://x)")


def test_sections_and_examples() -> None:
    """Headings inside log fences are log, and an example knows its line."""
    _, document = parse_entry(GOOD, "x.md")
    assert [
        *("Quick answer", "Mechanism", "Perspectives", "FAQ", "Examples"),
    ] == list(document.sections)
    match, near, last = document.examples
    assert ("match", "captured", "[rank1]: the store is gone\n") == (
        match.kind,
        match.provenance,
        match.text,
    )
    assert "near" == near.kind
    assert "## Not a heading\n[rank1]: step 5 loss 1.0\n" == last.text
    assert "[rank1]: the store is gone" == GOOD.split("\n")[match.line - 1]


def test_one_literal_may_be_a_string() -> None:
    """`literal = "x"` is the same as a list of one."""
    text = changed(('literal = ["the store is gone", "store vanished"]', 'literal = "store gone"'))
    assert ("store gone",) == parse_entry(text, "x.md")[0].signals[0].literal


def test_speaks_of_is_a_condition_of_a_sighting_only() -> None:
    """On a literal it says what the line means; on a sighting it must hold."""
    text = changed(
        ('type = "StoreError"', 'speaks_of = "peer"'),
        ('role = "initiating"', 'role = "initiating"\nspeaks_of = "peer"'),
    )
    gone, raised = parse_entry(text, "x.md")[0].signals
    assert "peer" == gone.speaks_of
    assert {} == dict(gone.where)
    assert "peer" == raised.where["speaks_of"]


def test_any_signal_may_imply_a_rank() -> None:
    """A message that one rank alone can print says so, also as a literal."""
    text = changed(('role = "initiating"', 'role = "initiating"\nimplies_rank = 0'))
    assert {"implies_rank": 0} == dict(parse_entry(text, "x.md")[0].signals[0].where)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('kind = "cause"', "", "x.md:1: no kind; "),
        ('kind = "cause"', "kind = 3", "x.md:5: kind is int; write a string"),
        ('tags = ["store"]', 'tags = "store"', "x.md:17: tags is str; write a list of strings"),
        ("min_ranks = 2", "min_ranks = true", "x.md:15: min_ranks is bool; write a whole number"),
        ('kind = "cause"', 'kind = "cause"\nsort = "x"', "x.md:6: unknown key 'sort'; "),
        ('risk = "none known"', 'cost = "x"', "x.md:71: unknown key 'cost' in fix[0]; use one of"),
        ('scope = "job"', 'span = "job"', "x.md:41: unknown key 'span' in match; use one of"),
        ('on = "other"', 'of = "other"', "unknown key 'of' in match; use one of after, on, what"),
        ('role = "confirming"', "", "x.md:31: signal 'raised' has no role; add role"),
        ('on = "exception"', "", "x.md:31: signal 'raised' has none of on, literal, derived"),
        (
            'on = "exception"',
            'on = "exit"\nderived = "missing"',
            "has on and derived; give exactly",
        ),
        (
            'literal = ["the store is gone", "store vanished"]',
            "",
            "x.md:23: signal 'gone' has no literal; add one of 6 bytes or more",
        ),
        ('limits = "Says', 'count = 3\nlimits = "Says', "unknown key 'count' in signal 'gone'"),
        ("[match]", "[[match]]", "x.md:1: no [match]; add the table"),
        ('id = "closed-early"', "", "cause 2 has no id; add id"),
        ("kind =", "kind", "x.md:5: invalid TOML: "),
        ("# captured", "captured", "does not say where it is from; begin with # captured"),
        ("```log near", "```log nearly", "log fence 'nearly'; write ```log match or near"),
    ],
)
def test_a_fault_names_place_fault_and_remedy(old: str, new: str, expected: str) -> None:
    """Each names the line of the file, what is wrong, and what to do."""
    assert expected in fault_of(changed((old, new)))


def test_faults_of_the_frame() -> None:
    """A file without a head, or with an open fence, says so."""
    assert "x.md:1: no TOML head; begin the file with a ```toml fence" == fault_of("# Title\n")
    assert "x.md:1: no TOML head; begin the file with a ```toml fence" == fault_of("")
    assert "x.md:1: the ```toml fence is never closed" in fault_of('```toml\nid = "x"\n')
    assert "the log fence is never closed" in fault_of(GOOD.rstrip()[: -len("```")].rstrip())


def test_windows_line_ends() -> None:
    """A checkout with CRLF reads the same."""
    assert parse_entry(GOOD, "x") == parse_entry(GOOD.replace("\n", "\r\n"), "x")


def test_maturity() -> None:
    """draft without enough examples, tested with them, proven with a source and separated causes."""

    def of(*pairs: tuple[str, str]) -> str:
        return maturity(parse_document(changed(*pairs), "x"))

    assert "proven" == of()
    assert "tested" == of(("# captured", "# reconstructed"))
    assert "tested" == of(('for = ["host-died"]\n\n', "\n"))
    assert "draft" == of(("```log match", "```text"))


def test_folder(tmp_path: Path) -> None:
    """Entries come ordered by id; the digest follows contents and names, not times."""
    other = changed(('id = "store-lost"', 'id = "a-store"'))
    folder = folder_of(tmp_path, GOOD, other)
    known = load_entries(folder)
    assert ["a-store", "store-lost"] == list(known.entries)
    assert content_digest(folder) == known.digest
    (folder / "crash" / "a-store.md").touch()
    assert content_digest(folder) == known.digest
    (folder / "crash" / "a-store.md").write_text(other + "\n")
    assert content_digest(folder) != known.digest


def test_a_malformed_entry_raises_or_is_told(tmp_path: Path) -> None:
    """Without a listener it raises; with one the others still load."""
    folder = folder_of(tmp_path, GOOD)
    (folder / "crash" / "broken.md").write_text("nothing")
    with pytest.raises(KnowledgeError):
        load_entries(folder)
    told: list[KnowledgeError] = []
    assert ["store-lost"] == list(load_entries(folder, told.append).entries)
    assert ["no TOML head"] == [e.fault for e in told]
