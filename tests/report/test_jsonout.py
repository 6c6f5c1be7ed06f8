"""JSON is the contract: its keys, its bytes, its schema."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from rootrank.errors import InputError
from rootrank.model import Diagnosis, Impact, to_plain
from rootrank.report import render_error_json, render_json
from tests.report.examples import ALL
from tests.report.hostile import STRINGS, through

jsonschema = pytest.importorskip("jsonschema")
SCHEMAS = Path(__file__).parents[2] / "schemas"


def validator(name: str) -> Any:
    """Return a validator of one published schema, itself checked."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", ALL)
def test_fits_its_schema(name: str) -> None:
    """Every kind of answer validates, and says nothing that the schema does not know."""
    value = json.loads(render_json(ALL[name], "0.1.0"))
    validator("rootrank.diagnosis-1").validate(value)


def test_schema_describes_every_key() -> None:
    """A key that is added to the model is described before it is published."""
    schema = validator("rootrank.diagnosis-1").schema

    def check(value: Any, node: dict[str, Any], at: str) -> None:
        node = _resolve(node, schema)
        if isinstance(value, dict):
            for key, below in value.items():
                assert key in node["properties"], f"{at}.{key}"
                check(below, node["properties"][key], f"{at}.{key}")
        for item in value if isinstance(value, list) else ():
            check(item, node["items"], f"{at}[]")

    for d in ALL.values():
        check(json.loads(render_json(d, "1")), schema, "$")


def _resolve(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    for choice in node.get("oneOf", ()):
        if choice != {"type": "null"}:
            node = choice
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return node


def test_keys_in_the_order_of_the_contract() -> None:
    """schema and rootrank first, then the fields of the diagnosis, lanes last."""
    keys = list(json.loads(render_json(ALL["hang"], "0.1.0")))
    assert ["schema", "rootrank", *(f.name for f in fields(Diagnosis))] == keys
    assert "rootrank.diagnosis/1" == json.loads(render_json(ALL["hang"], "0.1.0"))["schema"]


def test_from_is_a_key() -> None:
    """`from_` is Python's name for the contract's `from`."""
    recovered = json.loads(render_json(ALL["host-oom"], "1"))["recovered"][0]
    assert ["what", "from", "until", "evidence"] == list(recovered)


def test_same_bytes_every_time() -> None:
    """Equal diagnoses give equal bytes, in ASCII, with one newline at the end."""
    for d in ALL.values():
        text = render_json(d, "1")
        assert text == render_json(d, "1")
        assert text.isascii()
        assert text.endswith("}\n")


@pytest.mark.parametrize("name", STRINGS)
def test_any_text_survives(name: str) -> None:
    """Whatever a log says comes back from the JSON, except lone surrogates and clipped quotes."""
    hostile = STRINGS[name]
    value = json.loads(render_json(through(ALL["host-oom"], lambda _: hostile), "1"))
    assert hostile.encode("utf-8", "replace").decode() == value["summary"]
    text = value["cause"]["evidence"][0]["text"]
    assert len(text.encode()) <= 4096
    assert all(len(line.encode()) <= 4096 for line in value["cause"]["evidence"][0]["lines"])


def test_clipped_around_the_match() -> None:
    """A long line keeps the part that decides."""
    line = "x" * 9000 + " RuntimeError: boom " + "y" * 9000
    d = through(ALL["everywhere"], lambda _: line)
    assert d.cause
    text = json.loads(render_json(d, "1"))["cause"]["evidence"][0]["text"]
    assert "RuntimeError: boom" in text
    assert text.startswith("…")
    assert text.endswith("…")


def test_numbers_that_json_cannot_say() -> None:
    """NaN and infinity are null, so that every parser reads the file."""
    d = replace(ALL["hang"], impact=Impact(lost_s=float("nan"), idle_rank_s=float("inf")))
    impact = json.loads(render_json(d, "1"))["impact"]
    assert (None, None) == (impact["lost_s"], impact["idle_rank_s"])


def test_matches_the_model() -> None:
    """Beyond the two leading keys it is the model, nothing else."""
    value = json.loads(render_json(ALL["no-failure"], "1"))
    assert to_plain(ALL["no-failure"]) == {
        k: v for k, v in value.items() if k not in ("schema", "rootrank")
    }


def test_error() -> None:
    """An error names place, fault and remedy, and fits its schema."""
    text = render_error_json(InputError("logs/\x1b[31m", "cannot be read", "check the path"))
    validator("rootrank.error-1").validate(json.loads(text))
    assert "\x1b" not in text
    assert ["schema", "where", "fault", "remedy"] == list(json.loads(text))
