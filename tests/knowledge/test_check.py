"""Every rule of the entry format: it accepts the good entry and finds the fault it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rootrank.knowledge import check as checks
from rootrank.knowledge.check import check, sentences, subsections
from rootrank.knowledge.load import ENTRIES
from rootrank.model import Also, Cause, Diagnosis, Initiating, Status, Verdict
from tests.knowledge.samples import GOOD, changed, folder_of

SIGNAL = "regex = 'store (?:is gone|vanished)'"
RAISED = 'on = "exception"\ntype = "StoreError"\nmessage = \'store.{0,40}gone\''
LITERALS = 'literal = ["the store is gone", "store vanished"]'

# rule, what is replaced by what, words of the fault.
FAULTS = [
    ("name", 'id = "store-lost"', 'id = "Store-Lost"', "id 'Store-Lost'"),
    ("headings", "## Mechanism\n\nEvery rank asks one process.", "", "no Mechanism"),
    ("headings", "## FAQ", "## Answers", "unknown heading 'Answers'"),
    ("headings", "## Mechanism", "## Examples \n\n## Mechanism", "headings out of order"),
    ("subheadings", "### Executive", "### Boss", "perspective 'Boss'"),
    ("subheadings", "### Is it the network?\n\nRarely.", "Rarely.", "FAQ has no ### part"),
    ("subheadings", "Rarely.", "", "is empty"),
    ("phrases", 'went away"', 'went away."', "ends with a period"),
    ("phrases", 'went away"', f'went away {"x" * 90}"', "a title of "),
    ("phrases", "ended. Every", "ended. One. Two. Three. Every", "more than two sentences"),
    ("phrases", "The store `vanished`.", "One. Two. Three. Four. Five. Six.", "not quick"),
    ("enums", 'layer = "framework"', 'layer = "magic"', "layer 'magic'"),
    ("enums", 'phase = ["rendezvous"]', 'phase = ["lunch"]', "phase 'lunch'"),
    ("enums", 'scope = "job"', 'scope = "world"', "scope 'world'"),
    ("enums", 'on = "other"', 'on = "moon"', "explains 'moon'"),
    ("enums", 'cost = "seconds"', 'kind = "guess"', "kind 'guess'"),
    ("signals", 'role = "confirming"', 'role = "hero"', "role 'hero'"),
    ("signals", 'on = "exception"', 'on = "vision"', "on 'vision'"),
    ("signals", RAISED, 'derived = "bored"', "derived 'bored'"),
    ("signals", 'name = "raised"', 'name = "gone"', "two signals 'gone'"),
    ("conditions", 'type = "StoreError"', 'tpye = "x"', "exception has no 'tpye'"),
    ("conditions", 'type = "StoreError"', 'ranks = "few"', "ranks 'few'"),
    ("literals", "store vanished", "store", "literal 'store' is short"),
    ("literals", "store vanished", "störe vanished", "is not printable ASCII"),
    ("anchors", 'the store is gone",', 'a shop is closed",', "by regex but not by literal"),
    ("regexes", SIGNAL, "regex = '(a+)+'", "nested quantifiers"),
    ("regexes", "message = 'store.{0,40}gone'", "message = 'store.*gone'", "a dot repeated"),
    ("conclusive", RAISED, 'on = "exit"\nconclusive = true', "conclusive on an exit code"),
    ("conclusive", RAISED, 'derived = "missing"\nconclusive = true', "a comparison of lanes"),
    (
        "conclusive",
        RAISED,
        'on = "exception"\nmessage = "CUDA out of memory"\nconclusive = true',
        "an out-of-memory message",
    ),
    ("match", 'all = ["gone"]', 'all = ["left"]', "match.all names no signal 'left'"),
    ("match", 'all = ["gone"]', "", "match asks for nothing"),
    ("match", 'role = "initiating"', 'role = "context"', "no initiating signal"),
    ("match", 'role = "initiating"', 'role = "context"', "context alone"),
    ("ids", "related = []", 'related = ["nobody"]', "related: no entry 'nobody'"),
    ("ids", "related = []", 'related = ["store-lost"]', "names the entry itself"),
    ("ids", 'scope = "job"', 'refines = ["nobody"]', "match.refines: no entry 'nobody'"),
    ("ids", '"peer-loss"', '"nothing"', "explains: 'nothing' is neither"),
    ("ids", 'command = "pgrep -af train.py"', 'entry = "nobody"', "no other entry 'nobody'"),
    ("causes", 'against = ["closed-early"]', 'against = ["rain"]', "against names no cause 'rain'"),
    ("causes", 'cause = "closed-early"', 'cause = "rain"', "fix for no cause 'rain'"),
    ("causes", 'id = "closed-early"', 'id = "host-died"', "two causes 'host-died'"),
    ("decidable", 'ask = "where the store is closed"', "", "nothing decides cause 'closed-early'"),
    ("references", "https://docs.example.com/store", "docs.example.com", "is no URL"),
    ("references", 'checked = "2026-11-30"', 'checked = "lately"', "without its day"),
    (
        "read-only",
        'command = "pgrep -af train.py"',
        'command = "kill 5"',
        "change something: 'kill'",
    ),
    ("read-only", 'run = "pgrep -af', 'run = "rm x; pgrep -af', "change something: 'rm'"),
    ("examples", "```log match", "```text", "0 ```log match examples"),
    ("examples", "[rank1]: the shop is gone", " ", "an empty example"),
    ("provenance", "# captured", "# borrowed", "example is 'borrowed'"),
    ("provenance", "# captured", "# reported [2]", "reported without a reference (1 in the head)"),
    ("neutral", "the shop is gone", "mail jo@corp.com", "an address: jo@corp.com"),
    ("neutral", "the shop is gone", f"token hf_{'a' * 30}", "a token"),
]


@pytest.mark.parametrize(("rule", "old", "new", "expected"), FAULTS)
def test_a_rule_finds_its_fault(
    tmp_path: Path, rule: str, old: str, new: str, expected: str
) -> None:
    """One change to the good entry, and the rule for it speaks."""
    folder = tmp_path / "crash"
    folder.mkdir()
    (folder / "store-lost.md").write_text(changed((old, new)), encoding="utf-8")
    found = [p for p in check(tmp_path) if p.rule == rule]
    assert [p for p in found if expected in p.fault], [str(p) for p in check(tmp_path)]
    assert all(p.remedy and p.line >= 1 for p in found)


def test_every_rule_has_a_fault_here() -> None:
    """A rule without a failing example may have stopped working long ago."""
    assert set(checks.RULES) == {rule for rule, *_ in FAULTS}


def test_every_rule_says_what_it_wants() -> None:
    """The docstring of a rule is the rule."""
    for rule in (*checks.RULES.values(), *checks.WHOLE.values()):
        assert rule.__doc__


def test_the_good_entry_is_good(tmp_path: Path) -> None:
    """No rule objects to the sample that the others are made from."""
    assert [] == check(folder_of(tmp_path, GOOD))


def test_folder_and_file_name(tmp_path: Path) -> None:
    """An entry stands in its category's folder under its own name."""
    (tmp_path / "hang").mkdir()
    (tmp_path / "hang" / "other.md").write_text(GOOD)
    faults = [p.fault for p in check(tmp_path) if p.rule == "name"]
    assert ["category 'crash' in folder 'hang'", "id 'store-lost' in other.md"] == sorted(faults)


def test_a_malformed_file_is_a_problem(tmp_path: Path) -> None:
    """What cannot be parsed is reported at its line, and the rest is checked."""
    folder = folder_of(tmp_path, GOOD)
    (folder / "crash" / "bad.md").write_text(changed(('kind = "cause"', "kind = 3")))
    (problem,) = check(folder)
    assert ("grammar", 5, "kind is int") == (problem.rule, problem.line, problem.fault)
    assert str(problem).endswith("bad.md:5: kind is int; write a string")


def test_two_entries_with_one_id(tmp_path: Path) -> None:
    """Ids are unique over all folders, and an alias is nobody's id."""
    other = changed(('id = "store-lost"', 'id = "other-one"'), ('"lost store"', '"store-lost"'))
    folder = folder_of(tmp_path, GOOD, other)
    assert ["alias 'store-lost' is another entry"] == [
        p.fault for p in check(folder) if p.rule == "unique"
    ]
    copy = folder_of(tmp_path, changed(('category = "crash"', 'category = "hang"')))
    assert [p for p in check(copy) if p.rule == "unique" and "is taken by" in p.fault]


def test_entries_that_refine_each_other(tmp_path: Path) -> None:
    """More specific than itself, by way of another, is nobody."""
    scope = 'scope = "job"'
    one = changed((scope, 'refines = ["other-one"]'))
    two = changed((scope, 'refines = ["store-lost"]'), ('id = "store-lost"', 'id = "other-one"'))
    found = [p.fault for p in check(folder_of(tmp_path, one, two)) if p.rule == "refinements"]
    assert ["refines itself by way of others"] * 2 == found


def test_a_shared_sentence(tmp_path: Path) -> None:
    """Six or more words that stand in two entries, whatever their case and marks."""
    two = changed(
        ('id = "store-lost"', 'id = "other-one"'),
        ("Every rank asks one process.", "the RANK that hosted the `store` died!"),
    )
    found = [p for p in check(folder_of(tmp_path, GOOD, two)) if p.rule == "shared"]
    assert [p for p in found if "The rank that hosted the store died." in p.fault]
    assert not [p for p in found if "Close it last" in p.fault]


def test_sentences_and_subsections() -> None:
    """Lists, headings and paragraphs end sentences; fences hide headings."""
    assert ["One is e.g. this.", "Two", "- three", "- four"] == sentences(
        "One is e.g. this.\nTwo\n\n- three\n- four"
    )
    text = "### a\nx\n```\n### b\n```\n### c\ny"
    assert {"a": "x\n```\n### b\n```", "c": "y"} == subsections(text)


def diagnosis(entry: str | None, also: str | None = None) -> Diagnosis:
    """Return a diagnosis that names entries as causes."""

    def cause(name: str) -> Cause:
        return Cause(entry=name, title="", category="", layer="", status=Status.SUPPORTED)

    return Diagnosis(
        verdict=Verdict.FAILURE,
        summary="",
        cause=cause(entry) if entry else None,
        also=(Also(relation="independent", initiating=Initiating(), cause=cause(also)),)
        if also
        else (),
    )


def test_examples_go_through_production(tmp_path: Path) -> None:
    """A match must lead here; a near must not be named, neither leading nor beside."""
    folder = folder_of(tmp_path, GOOD)

    def run(text: str) -> Diagnosis:
        if "the store is gone" in text:
            return diagnosis("another")
        return diagnosis("another", also="store-lost") if "shop" in text else diagnosis(None)

    found = [p for p in check(folder, run) if p.rule == "production"]
    assert [
        "a match example leads to another",
        "a near example names this entry as cause",
    ] == [p.fault for p in found]
    good = check(folder, lambda t: diagnosis("store-lost" if "store is gone" in t else None))
    assert [] == good


def test_a_bug_in_production_is_a_problem_of_the_example(tmp_path: Path) -> None:
    """The check goes on, and names the log that broke the diagnosis."""

    def run(text: str) -> Diagnosis:
        raise KeyError("lane")

    found = [p.fault for p in check(folder_of(tmp_path, GOOD), run)]
    assert ["production fails on an example: KeyError: 'lane'"] * 3 == found


def test_only_some_entries(tmp_path: Path) -> None:
    """Only these are diagnosed and reported, but against all: a shared sentence is found."""
    other = changed(('id = "store-lost"', 'id = "other-one"'), ('["lost store"]', "[]"))
    folder = folder_of(tmp_path, GOOD, other)
    ran: list[str] = []

    def run(text: str) -> Diagnosis:
        ran.append(text)
        return diagnosis("store-lost" if "store is gone" in text else None)

    found = check(folder, run, ["store-lost"])
    assert 3 == len(ran)
    assert {"shared"} == {p.rule for p in found}
    assert {"store-lost"} == {Path(p.path).stem for p in found}


def test_the_shipped_entries_are_well_formed() -> None:
    """Every rule holds for every shipped entry; test_examples.py runs their logs."""
    assert [] == [f"{p} [{p.rule}]" for p in check(ENTRIES)]
