"""The author's tools: template, schema, vocabulary, trial."""

from __future__ import annotations

import io
import re
from pathlib import Path

import jsonschema
import pytest

from rootrank import pipeline
from rootrank.errors import UsageError
from rootrank.knowledge import new, schema, trial
from rootrank.knowledge import vocabulary as words
from rootrank.knowledge.check import check
from rootrank.knowledge.load import ENTRIES, load_documents, parse_document, parse_entry
from rootrank.knowledge.types import Knowledge
from tests.conftest import ROOT
from tests.knowledge.samples import GOOD, changed

# --------------------------------------------------------------------------- new


def test_the_template_asks_for_what_is_missing(tmp_path: Path) -> None:
    """It parses as a document, and fails the check until it is filled in."""
    path = new.create("my-failure", "hang", tmp_path)
    assert tmp_path / "hang" / "my-failure.md" == path
    document = parse_document(path.read_text(encoding="utf-8"), str(path))
    assert "my-failure" == document.head["id"]
    assert ["match", "near", "near"] == [e.kind for e in document.examples]
    assert [p.rule for p in check(tmp_path)] == ["grammar"]


def test_the_template_refuses(tmp_path: Path) -> None:
    """A bad id, an unknown category, an id that another category has."""
    new.create("taken", "hang", tmp_path)
    for entry, category, fault in (
        ("Bad_Id", "hang", "id 'Bad_Id'"),
        ("good", "moody", "category 'moody'"),
        ("taken", "crash", "taken.md exists"),
    ):
        with pytest.raises(UsageError) as caught:
            new.create(entry, category, tmp_path)
        assert fault in str(caught.value)


# --------------------------------------------------------------------------- schema


def test_the_published_schema_is_the_generated_one() -> None:
    """`rootrank kb schema -o schemas/rootrank.entry-1.schema.json` writes it."""
    published = (ROOT / "schemas" / "rootrank.entry-1.schema.json").read_text(encoding="utf-8")
    assert schema.entry_schema_text() == published


def test_the_schema_accepts_what_loads() -> None:
    """Every shipped head is valid, and a misspelt key is not."""
    form = schema.entry_schema()
    jsonschema.Draft202012Validator.check_schema(form)
    judge = jsonschema.Draft202012Validator(form)
    heads = [d.head for _, d in load_documents(ENTRIES)]
    assert [] == [e.message for head in heads for e in judge.iter_errors(dict(head))]
    assert not judge.is_valid({**heads[0], "sumary": "x"})
    assert not judge.is_valid({**heads[0], "kind": "guess"})


# --------------------------------------------------------------------------- vocabulary


def documented_sightings() -> dict[str, str]:
    """Return kind -> the field column of the table in docs/sightings.md."""
    text = (ROOT / "docs" / "sightings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| [^|]* \| (.*?) \| ", text, re.M)
    return dict(rows)


def test_sightings_are_the_documented_ones() -> None:
    """The kinds, and every field that the page names first in its list."""
    documented = documented_sightings()
    assert set(documented) == set(words.SIGHTINGS)
    for kind, column in documented.items():
        # What stands in brackets or after "then also" explains values.
        bare = re.sub(r"\([^()]*\)", "", column)
        named = set(re.findall(r"`([a-z_]+)`", bare))
        assert named <= set(words.SIGHTINGS[kind]), kind


def test_derived_words_are_the_documented_ones() -> None:
    """The paragraph below the table lists the same comparisons."""
    text = (ROOT / "docs" / "sightings.md").read_text(encoding="utf-8")
    paragraph = text.split("`derived` sightings")[1]
    assert set(words.DERIVED) <= set(re.findall(r"`([\w-]+)`", paragraph))


def test_the_facets_are_the_documented_ones() -> None:
    """docs/entry-format.md names every word of every closed list."""
    text = (ROOT / "docs" / "entry-format.md").read_text(encoding="utf-8")
    for key, allowed in words.ENUMS.items():
        line = next(x for x in text.split("\n") if x.startswith(f"{key} = "))
        missing = [w for w in allowed if w not in line and w != "unknown"]
        assert [] == missing, key


# --------------------------------------------------------------------------- trial

ENTRY = parse_entry(GOOD, "x.md")[0]


@pytest.mark.parametrize(
    ("line", "state", "why"),
    [
        ("rank 3: the store is gone", "matched", "literal 'the store is gone' and the regex"),
        ("rank 3: the store is gonE", "near", "another case"),
        ("rank 3: a store is gone", "near", "the regex matches, but no literal"),
        ("all quiet", "absent", "no literal occurs"),
    ],
)
def test_a_literal_on_trial(line: str, state: str, why: str) -> None:
    """Matched, nearly matched and why not, or absent."""
    (found,) = trial.try_lines(["before", line], [ENTRY], "x.log")
    assert state == found.state
    assert why in found.why
    if state != "absent":
        assert ("x.log", 2, line) == (found.source, found.line, found.text)


def test_a_literal_whose_regex_fails() -> None:
    """The better line wins, even when it comes later."""
    entry = parse_entry(changed(("'store (?:is gone|vanished)'", "'store is gone now'")), "x")[0]
    (found,) = trial.try_lines(["THE STORE IS GONE", "the store is gone"], [entry])
    assert ("near", 2) == (found.state, found.line)
    assert "stands there, but the regex does not match" in found.why


def tried(log: str) -> dict[str, trial.Trial]:
    """Return the trials of the sample's sighting signals on a log."""
    known = Knowledge(entries={ENTRY.id: ENTRY}, digest="sample of test_tools")
    stdin = io.BytesIO(log.encode())
    timeline = pipeline.timeline(pipeline.digest_sources(["-"], known, stdin=stdin))
    matcher = type(pipeline.tools_for(known)[1])
    return {t.signal: t for t in trial.try_sightings(timeline, [ENTRY], matcher)}


def traceback(error: str) -> str:
    """Return a log with one Python exception."""
    return f'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n{error}\n'


def test_conditions_on_trial() -> None:
    """A sighting of the kind whose conditions fail is near, and the failed ones are named."""
    assert "matched" == tried(traceback("StoreError: store 4 is gone"))["raised"].state
    near = tried(traceback("StoreError: no idea"))["raised"]
    assert "near" == near.state
    assert "but message is 'no idea', not 'store.{0,40}gone'" in near.why
    assert "type" not in near.why.split("but")[1].split("message")[0]
    absent = tried("step 1 loss 2.0\n")["raised"]
    assert ("absent", "no sighting 'exception'") == (absent.state, absent.why)


def test_the_match_on_trial() -> None:
    """What of all, any and none is not fulfilled."""
    lines = trial.try_lines(["the store is gone"], [ENTRY])
    assert "match holds" == trial.try_match(ENTRY, lines).why
    lacks = trial.try_match(ENTRY, trial.try_lines(["quiet"], [ENTRY]))
    assert ("absent", "no initiating signal of gone; all lacks gone") == (lacks.state, lacks.why)
