"""Digests as bytes: what `rootrank digest` writes, `merge` reads, and people share instead of logs.

Belongs here: the format, its version, its limits, and distrust of what is read. Must not be here: files, redaction.

A file is a first line `rootrank-digest 1` and records, each 4 bytes of length (big-endian) and a zlib stream of one
JSON object: one digest. So files can be concatenated record by record, read one digest at a time, and opened with any
language. Rows (sightings, samples, tails) are stored by column, which is small and fast; a column that holds nothing but
the default is left out. Nothing that is read is executed, imported or trusted: unknown names, wrong types and sizes
beyond the limits are an error.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rootrank.model import (
    Digest,
    Gap,
    Identity,
    LaneTail,
    Origin,
    Place,
    Progress,
    Sighting,
    SpeaksOf,
)

VERSION: Final = 1
MAGIC: Final = b"rootrank-digest "
MAX_RECORD_BYTES: Final = 16 << 20  # compressed
MAX_JSON_BYTES: Final = 128 << 20
MAX_ROWS: Final = 200_000  # per table
MAX_DEPTH: Final = 12
_INT: Final = 1 << 63


class CodecError(Exception):
    """These bytes are no digest that this version reads; the text says why."""


# --------------------------------------------------------------------------- columns

_MISSING: Final = object()
# (name, kind, default). Kinds: s text, i integer, f number, b truth value; with ? also None; o origin, S texts, P places,
# m fields, e of whom it speaks. A field of the model that is missing here would be lost: a test compares.
_ORIGIN: Final = (
    ("rank", "i?", None), ("local_rank", "i?", None), ("host", "s?", None), ("pid", "i?", None), ("attempt", "i?", None),
    ("device", "s?", None), ("role", "s?", None), ("actor", "s?", None),
)  # fmt: skip
_TABLES: Final[dict[str, tuple[type, tuple[tuple[str, str, Any], ...]]]] = {
    "sightings": (Sighting, (
        ("kind", "s", _MISSING), ("speaks_of", "e", _MISSING), ("source", "s", _MISSING), ("line", "i", _MISSING), ("end_line", "i", _MISSING),
        ("offset", "i", _MISSING), ("text", "s", _MISSING), ("origin", "o", Origin()), ("time_s", "f?", None), ("order", "i", 0), ("count", "i", 1),
        ("fields", "m", {}), ("places", "P", ()), ("quotes", "S", ()), ("last_line", "i", 0), ("signals", "S", ()),
    )),
    "progress": (Progress, (
        ("line", "i", _MISSING), ("offset", "i", _MISSING), ("step", "i?", _MISSING), ("time_s", "f?", None), ("loss", "f?", None), ("grad_norm", "f?", None),
        ("loss_scale", "f?", None), ("step_s", "f?", None), ("throughput", "f?", None), ("total", "i?", None), ("skipped", "i?", None),
        ("unit", "s", "step"), ("text", "s", ""), ("rank", "i?", None), ("order", "i", 0),
    )),
    "identities": (Identity, (("origin", "o", _MISSING), ("world_size", "i?", None), ("source", "s", ""), ("line", "i", 0), ("owns_source", "b", False))),
    "tails": (LaneTail, (
        ("tag", "s", _MISSING), ("origin", "o", _MISSING), ("lines", "i", _MISSING), ("first_line", "i", _MISSING), ("last_line", "i", _MISSING),
        ("last_text", "s", _MISSING), ("first_time_s", "f?", _MISSING), ("last_time_s", "f?", _MISSING), ("last_order", "i", 0),
    )),
    "gaps": (Gap, (("source", "s", _MISSING), ("reason", "s", _MISSING))),
}  # fmt: skip
_HEAD: Final = (
    ("source", "s", _MISSING), ("kind", "s", _MISSING), ("size_bytes", "i", 0), ("lines", "i", 0), ("first_time_s", "f?", None),
    ("last_time_s", "f?", None), ("job_words", "i", 0), ("end_lines", "S", ()),
)  # fmt: skip


def renamed(d: Digest, source: str) -> Digest:
    """Return the digest with another name of its source, everywhere it stands."""
    old = d.source

    def name(x: str) -> str:
        return source if x == old else x

    return replace(
        d, source=source, gaps=tuple(replace(g, source=name(g.source)) for g in d.gaps),
        identities=tuple(replace(i, source=name(i.source)) for i in d.identities),
        sightings=tuple(
            replace(s, source=name(s.source), places=tuple(replace(p, source=name(p.source)) for p in s.places))
            for s in d.sightings
        ),
    )  # fmt: skip


# --------------------------------------------------------------------------- writing


def dump(digests: Iterable[Digest]) -> Iterator[bytes]:
    """Yield the parts of a digest file."""
    yield MAGIC + b"%d\n" % VERSION
    for digest in digests:
        data = zlib.compress(
            json.dumps(
                _plain(digest), ensure_ascii=True, separators=(",", ":"), allow_nan=False
            ).encode("ascii"),
            6,
        )
        yield len(data).to_bytes(4, "big") + data


def _plain(d: Digest) -> dict[str, Any]:
    origins: dict[Origin, int] = {}
    out: dict[str, Any] = {"v": VERSION}
    for name, kind, default in _HEAD:
        value = getattr(d, name)
        if default is _MISSING or value != default:
            out[name] = _put(value, kind, origins)
    out["origin"] = origins.setdefault(d.origin, len(origins))
    for table, (_, columns) in _TABLES.items():
        rows = getattr(d, table)
        if rows:
            out[table] = {"n": len(rows)}
            for name, kind, default in columns:
                values = [getattr(r, name) for r in rows]
                if default is _MISSING or any(v != default for v in values):
                    out[table][name] = _put_column(values, kind, origins)
    out["origins"] = [[getattr(o, name) for name, _, _ in _ORIGIN] for o in origins]
    return out


def _put_column(values: list[Any], kind: str, origins: dict[Origin, int]) -> list[Any]:
    if kind in ("i", "i?", "s", "s?", "b"):
        return values
    return [_put(v, kind, origins) for v in values]


def _put(value: Any, kind: str, origins: dict[Origin, int]) -> Any:
    if kind == "o":
        return origins.setdefault(value, len(origins))
    if kind == "e":
        return value.value
    if kind == "P":
        return [[p.source, p.line, p.offset] for p in value]
    if kind == "S":
        return list(value)
    if kind == "m":
        return {str(k): _put_any(v) for k, v in value.items()}
    return _put_number(value) if isinstance(value, float) else value


def _put_number(value: float) -> Any:
    return (
        value if math.isfinite(value) else repr(value)
    )  # JSON knows no NaN; a number's column holds no other text


def _put_any(value: Any) -> Any:
    """Fields hold scalars, tuples of them and, in records, more: what JSON lacks is marked by a one-letter key."""
    if isinstance(value, float):
        return value if math.isfinite(value) else {"f": repr(value)}
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, tuple):
        return [_put_any(v) for v in value]
    if isinstance(value, list):
        return {"l": [_put_any(v) for v in value]}
    if isinstance(value, Mapping):
        return {"d": [[_put_any(k), _put_any(v)] for k, v in value.items()]}
    if isinstance(value, (set, frozenset)):
        return {"z": [_put_any(v) for v in sorted(value)]}
    raise TypeError(f"a digest cannot hold {type(value).__name__}")


# --------------------------------------------------------------------------- reading


def load(read: Callable[[int], bytes]) -> Iterator[Digest]:
    """Yield the digests that `read(size)` hands out. Raises CodecError."""
    head = b""
    while not head.endswith(b"\n") and len(head) < 32:
        head += read(1) or b"\n"
    if not head.startswith(MAGIC):
        raise CodecError("is no digest file")
    if head[len(MAGIC) : -1] != b"%d" % VERSION:
        raise CodecError(
            f"is a digest of format {head[len(MAGIC) : -1].decode('ascii', 'replace')[:12]}, not {VERSION}"
        )
    while True:
        prefix = _exactly(read, 4)
        if not prefix:
            return
        size = int.from_bytes(prefix, "big")
        if size > MAX_RECORD_BYTES:
            raise CodecError("holds a record that is too large")
        yield _digest(_inflated(_exactly(read, size)))


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    parts: list[bytes] = []
    left = size
    while left:
        data = read(left)
        if not data:
            break
        parts.append(data)
        left -= len(data)
    if left and (parts or size > 4):
        raise CodecError("ends early")
    return b"".join(parts)


def _inflated(data: bytes) -> Any:
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(data, MAX_JSON_BYTES)
        if not inflate.eof or inflate.unused_data:
            raise CodecError("holds a record that is damaged or too large")
        return json.loads(text, parse_constant=_no_constant)
    except (zlib.error, ValueError, RecursionError, MemoryError) as error:
        raise CodecError(f"holds a damaged record: {type(error).__name__}") from None


def _no_constant(word: str) -> Any:
    raise ValueError(word)


def _digest(form: Any) -> Digest:
    if not isinstance(form, dict) or form.get("v") != VERSION:
        raise CodecError("holds a record of another format")
    unknown = form.keys() - {"v", "origin", "origins", *_TABLES, *(name for name, _, _ in _HEAD)}
    if unknown:
        raise CodecError(f"holds something unknown: {sorted(map(str, unknown))[0][:40]}")
    origins = _origins(form.get("origins", []))
    given: dict[str, Any] = {}
    for name, kind, default in _HEAD:
        if name in form:
            given[name] = _get([form[name]], kind, origins, name)[0]
        elif default is _MISSING:
            raise CodecError(f"lacks {name}")
    given["origin"] = _get([form.get("origin")], "o", origins, "origin")[0]
    for table, (make, columns) in _TABLES.items():
        if table in form:
            given[table] = _rows(form[table], make, columns, origins, table)
    return Digest(**given)


def _origins(rows: Any) -> list[Origin]:
    if not isinstance(rows, list) or len(rows) > MAX_ROWS:
        raise CodecError("holds no list of origins")
    out: list[Origin] = []
    known: dict[tuple[Any, ...], Origin] = {}
    for row in rows:
        if not isinstance(row, list) or len(row) != len(_ORIGIN):
            raise CodecError("holds a malformed origin")
        key = tuple(
            _get([value], kind, [], name)[0]
            for value, (name, kind, _) in zip(row, _ORIGIN, strict=True)
        )
        found = known.get(key)
        if found is None:
            found = known[key] = Origin(
                **{name: value for value, (name, _, _) in zip(key, _ORIGIN, strict=True)}
            )
        out.append(found)
    return out


def _rows(
    form: Any,
    make: type,
    columns: Sequence[tuple[str, str, Any]],
    origins: list[Origin],
    table: str,
) -> tuple[Any, ...]:
    if not isinstance(form, dict) or form.keys() - {"n", *(name for name, _, _ in columns)}:
        raise CodecError(f"holds a malformed table of {table}")
    n = form.get("n")
    if type(n) is not int or not 0 <= n <= MAX_ROWS:
        raise CodecError(f"holds too many {table}")
    names: list[str] = []
    values: list[list[Any]] = []
    for name, kind, default in columns:
        column = form.get(name)
        if column is None and default is not _MISSING:
            continue
        if not isinstance(column, list) or len(column) != n:
            raise CodecError(f"holds a malformed column {table}.{name}")
        names.append(name)
        values.append(_get(column, kind, origins, name))
    return tuple([make(**dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)])


_NONE: Final = type(None)
_TYPES: Final[dict[str, frozenset[type]]] = {
    "s": frozenset({str}), "s?": frozenset({str, _NONE}), "i": frozenset({int}), "i?": frozenset({int, _NONE}), "b": frozenset({bool}),
    "f?": frozenset({int, float, str, _NONE}),
}  # fmt: skip
_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _get(column: list[Any], kind: str, origins: list[Origin], name: str) -> list[Any]:
    """Return the values of one column, each of the right type, or raise CodecError."""
    types = set(map(type, column))
    allowed = _TYPES.get(kind)
    if allowed is not None:
        if not types <= allowed:
            raise CodecError(f"holds a wrong type in {name}")
        if kind == "f?" and str in types:
            return [_number(v, name) for v in column]
        if int in types and any(type(v) is int and not -_INT <= v < _INT for v in column):
            raise CodecError(f"holds an absurd number in {name}")
        return column
    try:
        if kind == "o":
            if (types != {int} and column) or any(v < 0 for v in column):
                raise CodecError(f"holds a wrong reference in {name}")
            return [origins[v] for v in column]
        if kind == "e":
            return [SpeaksOf(v) for v in column]
        if kind == "S":
            return [_texts(v, name) for v in column]
        if kind == "P":
            return [tuple(_place(p) for p in _list(v, name)) for v in column]
        return [{str(k): _any(x, 0) for k, x in _dict(v, name).items()} for v in column]
    except (IndexError, ValueError, TypeError):
        raise CodecError(f"holds a wrong value in {name}") from None


def _number(value: Any, name: str) -> Any:
    if isinstance(value, str):
        if value not in _NOT_FINITE:
            raise CodecError(f"holds a wrong number in {name}")
        return _NOT_FINITE[value]
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise CodecError(f"holds no list in {name}")
    return value


def _dict(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(f"holds no table in {name}")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if not all(type(v) is str for v in _list(value, name)):
        raise CodecError(f"holds a wrong type in {name}")
    return tuple(value)


def _place(value: Any) -> Place:
    source, line, offset = value
    if type(source) is not str or type(line) is not int or type(offset) is not int:
        raise CodecError("holds a wrong place")
    return Place(source=source, line=line, offset=offset)


def _any(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise CodecError("is nested too deeply")
    if isinstance(value, list):
        return tuple([_any(v, depth + 1) for v in value])
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise CodecError("holds a malformed field")
    ((mark, inner),) = value.items()
    if mark == "f":
        return _number(inner if isinstance(inner, str) else "", "fields")
    items = _list(inner, "fields")
    if mark == "l":
        return [_any(v, depth + 1) for v in items]
    if mark == "z":
        return frozenset(_any(v, depth + 1) for v in items)
    if mark == "d":
        return {_any(k, depth + 1): _any(v, depth + 1) for k, v in items}
    raise CodecError("holds a malformed field")
