"""The JSON Schema of an entry's TOML head, generated from the grammar and the vocabulary.

Belongs here: the generator of schemas/rootrank.entry-1.schema.json, which editors complete from.
Must not be here: rules that JSON Schema cannot say (see `check`).
"""

from __future__ import annotations

import json
from typing import Any

from rootrank.knowledge import load
from rootrank.knowledge import vocabulary as words

Schema = dict[str, Any]

_TYPES: dict[type, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number", "exclusiveMinimum": 0},
    bool: {"type": "boolean"},
    list: {"type": "array", "items": {"type": "string"}},
}
_STRINGS = _TYPES[list]
_ABOUT = {
    "id": "The file name; lower case, hyphens; names the failure, never the fix.",
    "title": "A sentence fragment that a report can print.",
    "summary": "One or two sentences: what happened, who is affected.",
    "search": "What a person would paste into a search box.",
    "related": "Ids of other entries.",
}


def entry_schema() -> Schema:
    """Return the schema of a head, ready for JSON."""
    properties = {key: _facet(key, kind) for key, kind in load.TOP_KEYS.items()}
    properties["id"]["pattern"] = "^[a-z0-9]+(-[a-z0-9]+)*$"
    for table, keys in load.TABLES.items():
        properties[table] = _rows(_table(keys, load.NEEDED.get(table, ())))
    properties["check"]["items"]["properties"]["kind"] = {"enum": list(words.CHECK_KINDS)}
    properties["cause"]["minItems"] = 1
    properties["signal"] = {**_rows(_signal()), "minItems": 1}
    properties["match"] = _match()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "rootrank.entry/1",
        "title": "The TOML head of a rootrank entry",
        "type": "object",
        "properties": properties,
        "required": [*load.REQUIRED, "signal", "match", "cause"],
        "additionalProperties": False,
    }


def entry_schema_text() -> str:
    """Return the schema as the bytes of the published file."""
    return json.dumps(entry_schema(), indent=2, ensure_ascii=False) + "\n"


def _facet(key: str, kind: type) -> Schema:
    found: Schema = dict(_TYPES[kind])
    if key in words.ENUMS:
        choice = {"enum": list(words.ENUMS[key])}
        found = {"type": "array", "items": choice} if kind is list else choice
    if key in _ABOUT:
        found["description"] = _ABOUT[key]
    return found


def _rows(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _table(keys: dict[str, type], needed: tuple[str, ...]) -> Schema:
    return {
        "type": "object",
        "properties": {key: dict(_TYPES[kind]) for key, kind in keys.items()},
        "required": list(needed),
        "additionalProperties": False,
    }


def _signal() -> Schema:
    ways = [{"required": [key]} for key in ("on", "literal", "derived")]
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "role": {"enum": list(words.ROLES)},
            "on": {"enum": list(words.SIGHTINGS)},
            "derived": {"enum": list(words.DERIVED)},
            "literal": {
                "anyOf": [
                    {"type": "string", "minLength": 6},
                    {"type": "array", "items": {"type": "string", "minLength": 6}, "minItems": 1},
                ]
            },
            "regex": {"type": "string"},
            "speaks_of": {"enum": list(words.SPEAKS_OF)},
            "conclusive": {"type": "boolean"},
            "limits": {"type": "string", "minLength": 1},
            "for": _STRINGS,
            "against": _STRINGS,
        },
        "required": list(load.NEEDED["signal"]),
        "oneOf": ways,
        # Conditions on the fields of the sighting: docs/sightings.md.
        "additionalProperties": {"type": ["string", "number", "boolean", "array"]},
    }


def _match() -> Schema:
    edge = _table(load.EXPLAINS_KEYS, ("what",))
    edge["properties"]["on"] = {"enum": list(words.LANES)}
    found = _table(load.MATCH_KEYS, ())
    found["properties"]["explains"] = _rows(edge)
    found["properties"]["scope"] = {"enum": list(words.SCOPES)}
    return found
