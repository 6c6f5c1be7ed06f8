"""The diagnosis as JSON: the contract that other programs read
(schemas/rootrank.diagnosis-1.schema.json).

Belongs here: keys, order and bytes of the published format. Must not be here: wording. The output
is ASCII, so that it survives any console encoding and holds nothing that a terminal obeys.
"""

from __future__ import annotations

import json
import math
from typing import Any

from rootrank.errors import RootrankError
from rootrank.model import Diagnosis, to_plain
from rootrank.report.safe import clip_bytes

DIAGNOSIS = "rootrank.diagnosis/1"
ERROR = "rootrank.error/1"
EVIDENCE_BYTES = 4096


def render_json(d: Diagnosis, version: str) -> str:
    """Return the diagnosis as indented JSON with a final newline; equal input gives equal bytes."""
    return _dump({"schema": DIAGNOSIS, "rootrank": version, **_clean(to_plain(d))})


def render_error_json(err: RootrankError) -> str:
    """Return what a program gets instead of a diagnosis when the input could not be used."""
    return _dump(
        _clean({"schema": ERROR, "where": err.where, "fault": err.fault, "remedy": err.remedy})
    )


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _clean(value: Any, key: str = "") -> Any:
    """Clip quoted text and replace what JSON cannot say: lone surrogates, NaN and infinity."""
    if isinstance(value, dict):
        return {k: _clean(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean(v, key) for v in value]
    if isinstance(value, str):
        whole = value.encode("utf-8", "replace").decode() if not value.isascii() else value
        return clip_bytes(whole, EVIDENCE_BYTES) if key in ("text", "lines", "mark") else whole
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
