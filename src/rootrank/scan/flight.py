"""PyTorch flight-recorder dumps, pickle or JSON, every version's fields.

Belongs here: reading a foreign dump safely, and keeping of it what comparing ranks needs. Must not be here: comparing ranks.
A pickle can run code; the upstream analyzer loads it with `pickle.load`. Here a small machine of its own reads builtin
values only: every opcode that would import, call or build anything is refused.
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any

from rootrank.model import Line, Origin, Sighting, SpeaksOf
from rootrank.scan.words import sighting

MAX_OBJECTS = 4_000_000
KEEP = 64  # last collectives per group that comparing call sites and sizes needs
_RANK = re.compile(r"(\d+)(?:\.(?:json|pickle|pkl))?$")


class BadDump(ValueError):
    """The bytes are no flight record that can be read safely."""


# --------------------------------------------------------------------------- pickle, values only


def load_values(data: bytes) -> Any:
    """Return the value of a pickle made of None, bool, int, float, str, bytes, list, tuple, dict. Raises BadDump."""
    return _Machine(data).run()


_MARK = object()


class _Machine:
    """A pickle machine without GLOBAL, REDUCE, BUILD, persistent ids or extensions."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.made = data, 0, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def take(self, n: int) -> bytes:
        """Return the next n bytes. Raises BadDump at the end of the data."""
        if n < 0 or self.at + n > len(self.data):
            raise BadDump(f"truncated at byte {len(self.data)}")
        out = self.data[self.at : self.at + n]
        self.at += n
        return out

    def line(self) -> bytes:
        """Return the bytes up to the next newline."""
        end = self.data.find(b"\n", self.at)
        if end < 0 or end - self.at > 4096:
            raise BadDump(f"no end of a number after byte {self.at}")
        out = self.data[self.at : end]
        self.at = end + 1
        return out

    def run(self) -> Any:
        """Return the top value."""
        while True:
            op = self.take(1)
            if op == b".":
                if len(self.stack) != 1:
                    raise BadDump("more than one value")
                return self.stack[0]
            step = _STEPS.get(op)
            if step is None:
                raise BadDump(f"opcode {op!r} at byte {self.at - 1} is not allowed in a dump")
            self.made += 1
            if self.made > MAX_OBJECTS:
                raise BadDump(f"more than {MAX_OBJECTS} values")
            try:
                step(self)
            except (
                IndexError,
                KeyError,
                struct.error,
                UnicodeDecodeError,
                TypeError,
                AttributeError,
                OverflowError,
            ) as e:
                raise BadDump(f"damaged at byte {self.at}: {type(e).__name__}") from e
            except ValueError as e:
                raise BadDump(f"damaged at byte {self.at}") from e

    def since_mark(self) -> list[Any]:
        """Pop and return the values above the last mark."""
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                out = self.stack[i + 1 :]
                del self.stack[i:]
                return out
        raise BadDump("no mark")

    def number(self, form: str) -> int:
        """Return an unpacked number of struct format `form`."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])


def _push(value: Any) -> Any:
    return lambda m: m.stack.append(value)


def _fresh(kind: type) -> Any:
    return lambda m: m.stack.append(kind())


def _int(m: _Machine) -> None:
    text = m.line()
    m.stack.append(text == b"01" if text in (b"00", b"01") else int(text))


def _text(width: str) -> Any:
    return lambda m: m.stack.append(m.take(m.number(width)).decode("utf-8", "surrogatepass"))


def _raw(width: str) -> Any:
    return lambda m: m.stack.append(m.take(m.number(width)))


def _long(width: str) -> Any:
    def step(m: _Machine) -> None:
        n = m.number(width)
        if n > 64:
            raise BadDump("an integer of absurd size")
        m.stack.append(int.from_bytes(m.take(n), "little", signed=True))

    return step


def _append(m: _Machine) -> None:
    value = m.stack.pop()
    _list(m.stack[-1]).append(value)


def _appends(m: _Machine) -> None:
    values = m.since_mark()
    _list(m.stack[-1]).extend(values)


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise BadDump("append to something that is no list")
    return value


def _set(m: _Machine, pairs: list[Any]) -> None:
    target = m.stack[-1]
    if type(target) is not dict or len(pairs) % 2:
        raise BadDump("set in something that is no dict")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if not isinstance(key, (str, int, bytes, bool, float, tuple, type(None))):
            raise BadDump("a key that is no plain value")
        target[key] = value


def _setitem(m: _Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    _set(m, [key, value])


def _tuple(n: int) -> Any:
    def step(m: _Machine) -> None:
        values = m.since_mark() if n < 0 else m.stack[len(m.stack) - n :]
        if n >= 0:
            if len(values) != n:
                raise BadDump("short stack")
            del m.stack[len(m.stack) - n :]
        m.stack.append(tuple(values))

    return step


def _put(width: str) -> Any:
    return lambda m: m.memo.__setitem__(m.number(width) if width else len(m.memo), m.stack[-1])


def _get(width: str) -> Any:
    return lambda m: m.stack.append(m.memo[m.number(width)])


_STEPS: dict[bytes, Any] = {
    b"\x80": lambda m: m.take(1),
    b"\x95": lambda m: m.take(8),
    b"(": _push(_MARK),
    b"N": _push(None),
    b"\x88": _push(True),
    b"\x89": _push(False),
    b"I": _int,
    b"L": lambda m: m.stack.append(int(m.line().rstrip(b"L"))),
    b"J": lambda m: m.stack.append(m.number("<i")),
    b"K": lambda m: m.stack.append(m.number("<B")),
    b"M": lambda m: m.stack.append(m.number("<H")),
    b"\x8a": _long("<B"),
    b"\x8b": _long("<I"),
    b"G": lambda m: m.stack.append(struct.unpack(">d", m.take(8))[0]),
    b"F": lambda m: m.stack.append(float(m.line())),
    b"X": _text("<I"),
    b"\x8c": _text("<B"),
    b"\x8d": _text("<Q"),
    b"B": _raw("<I"),
    b"C": _raw("<B"),
    b"U": lambda m: m.stack.append(m.take(m.number("<B")).decode("latin-1")),
    b"T": lambda m: m.stack.append(m.take(m.number("<I")).decode("latin-1")),
    b"]": _fresh(list),
    b"}": _fresh(dict),
    b")": _fresh(tuple),
    b"l": lambda m: m.stack.append(m.since_mark()),
    b"t": _tuple(-1),
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"d": lambda m: _marked_dict(m),
    b"a": _append,
    b"e": _appends,
    b"s": _setitem,
    b"u": lambda m: _set(m, m.since_mark()),
    b"q": _put("<B"),
    b"r": _put("<I"),
    b"p": lambda m: m.memo.__setitem__(int(m.line()), m.stack[-1]),
    b"\x94": _put(""),
    b"h": _get("<B"),
    b"j": _get("<I"),
    b"g": lambda m: m.stack.append(m.memo[int(m.line())]),
    b"0": lambda m: m.stack.pop(),
    b"1": lambda m: m.since_mark(),
    b"2": lambda m: m.stack.append(m.stack[-1]),
}


def _marked_dict(m: _Machine) -> None:
    pairs = m.since_mark()
    m.stack.append({})
    _set(m, pairs)


# --------------------------------------------------------------------------- the record


def record(data: bytes, source: str, origin: Origin) -> Sighting | None:
    """Return one `flight-record` sighting of a dump, None when it is none, raises BadDump when it is a damaged one."""
    head = data.lstrip()[:1]
    if head == b"{":
        if b'"pg_config"' not in data and b'"entries"' not in data:
            return None
        try:
            top = json.loads(data)
        except (ValueError, RecursionError) as e:
            raise BadDump("damaged JSON") from e
    elif data[:1] == b"\x80":
        top = load_values(data)
    else:
        raise BadDump("neither JSON nor a pickle")
    if not isinstance(top, dict) or not {"pg_config", "entries", "version", "pg_status"} & set(top):
        return None
    return _sighting(top, source, origin)


def rank_of(source: str) -> int | None:
    """Return the rank that a dump's file name ends in: the dump itself does not say whose it is."""
    m = _RANK.search(source.rsplit("/", 1)[-1].split("!")[-1])
    return int(m[1]) if m else None


def _sighting(top: dict[str, Any], source: str, origin: Origin) -> Sighting:
    rank = origin.rank if origin.rank is not None else rank_of(source)
    entries = [e for e in top.get("entries") or () if isinstance(e, dict)]
    entries.sort(key=lambda e: _number(e.get("record_id")))
    rows = [_row(e) for e in entries]
    members = {
        str(k): _ranks(v.get("ranks") if isinstance(v, dict) else None)
        for k, v in _dict(top.get("pg_config")).items()
    }
    last: dict[str, int] = {}
    first: dict[str, int] = {}
    for r in rows:
        if not r["p2p"]:
            last[r["group"]] = max(last.get(r["group"], -1), r["seq"])
            first[r["group"]] = min(first.get(r["group"], 1 << 60), r["seq"])
    for e in entries:
        status = _dict(
            _dict(top.get("pg_status")).get(
                e.get("pg_id"), _dict(top.get("pg_status")).get(str(e.get("pg_id")))
            )
        )
        group = str((e.get("process_group") or [""])[0])
        last[group] = max(last.get(group, -1), _number(status.get("last_enqueued_collective"), -1))
    pending = [r for r in rows if not r["done"]]
    line = Line(
        source=source,
        number=1,
        offset=0,
        raw=_words(pending, rows),
        text="",
        origin=Origin(rank=rank).over(origin),
    )
    return sighting(
        line, "flight-record", SpeaksOf.SELF, version=str(top.get("version", "")), pending=tuple(pending[:16]), waiting=len(pending) or None,
        recent=tuple(rows[-KEEP:]), last=last, first=first, members=members, entries=len(rows) or None,
    )  # fmt: skip


def _row(e: dict[str, Any]) -> dict[str, Any]:
    name = str(e.get("profiling_name", ""))
    group = e.get("process_group") or ["", ""]
    frames = [f for f in e.get("frames") or () if isinstance(f, dict)]
    gloo = name.startswith("gloo")
    return {
        "id": _number(e.get("record_id")), "group": str(group[0]), "desc": str(group[-1]), "p2p": bool(e.get("is_p2p")),
        "seq": _number(e.get("p2p_seq_id" if e.get("is_p2p") else "collective_seq_id")), "op": name.partition(":")[2] or name,
        "sizes": json.dumps(e.get("input_sizes")), "dtypes": json.dumps(e.get("input_dtypes")),
        "done": e.get("state") == "completed" or (gloo and bool(e.get("retired"))), "state": str(e.get("state")),
        "site": _site(frames),
    }  # fmt: skip


def _site(frames: list[dict[str, Any]]) -> str:
    """Return the first frame outside torch: where the user's code called the collective."""
    for f in frames:
        name = str(f.get("filename", ""))
        if "/torch/" not in name and not name.startswith("<"):
            return f"{name.rsplit('/', 1)[-1]}:{f.get('line')} in {f.get('name')}"
    return ""


def _words(pending: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    if pending:
        p = pending[0]
        return (
            f"waiting in {p['op']} #{p['seq']} of group {p['desc'] or p['group'] or 'default'}"
            + (f" called at {p['site']}" if p["site"] else "")
        )
    if rows:
        return f"nothing pending; last was {rows[-1]['op']} #{rows[-1]['seq']}"
    return "no collective recorded"


def _ranks(value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        return tuple(int(x) for x in re.findall(r"\d+", value)[:100_000])
    if isinstance(value, (list, tuple)):
        return tuple(x for x in value if isinstance(x, int))
    return ()


def _dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any, default: int = 0) -> int:
    if isinstance(value, bool) or value is None:
        return default
    try:
        return int(value)
    except (TypeError, ValueError):
        return default
