"""Judges the regular expressions of entries: none may take long on a line that somebody crafts.

Belongs here: the structure of a pattern, and counted steps of a backtracking match. No clock: the
same pattern is accepted on every machine. Must not be here: what the patterns mean.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as ops
    from re import _parser as parser
else:
    import sre_constants as ops
    import sre_parse as parser

DOT_LIMIT = 80  # `.{0,80}` at most: a gap between two words, not a search through the line
LENGTH = 100  # of the crafted lines
BUDGET = 8 * LENGTH * LENGTH  # steps: twice what a quadratic search needs, half of a cubic one
_MANY = 10  # a repeat worth attacking
_ALPHABET = frozenset(range(128))
_REPEATS = {ops.MAX_REPEAT, ops.MIN_REPEAT, getattr(ops, "POSSESSIVE_REPEAT", ops.MAX_REPEAT)}
_GROUPS = {getattr(ops, "ATOMIC_GROUP", None)}


def faults(pattern: str) -> list[str]:
    """Return what is wrong with a pattern; empty when it is safe to run on any line."""
    try:
        re.compile(pattern)
        tree: Any = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return [f"does not compile: {error}"]
    flags = tree.state.flags
    found = list(dict.fromkeys(_structure(list(tree), flags)))
    return found or list(_growth(list(tree), flags))


# --------------------------------------------------------------------------- structure


def _structure(items: list[Any], flags: int) -> Iterator[str]:
    yield from _adjacent(items, flags)
    for op, av in items:
        if op in _REPEATS:
            low, high, body = av
            if high > DOT_LIMIT and _charset(list(body), flags) >= _ALPHABET - {10}:
                yield f"a dot repeated without bound; at most .{{0,{DOT_LIMIT}}}"
            yield from _nested(low, high, list(body))
        for part in _parts(op, av):
            yield from _structure(part, flags)


def _nested(low: int, high: int, body: list[Any]) -> Iterator[str]:
    """Yield a fault when a repeat that varies stands inside one that does."""
    if high <= 1:
        return
    for inner_low, inner_high in _repeats_in(body):
        unbounded = inner_high >= ops.MAXREPEAT
        varies = inner_high > 1 and inner_low != inner_high
        if unbounded or (varies and (high >= ops.MAXREPEAT or high * inner_high > 1000)):
            yield "nested quantifiers; unroll one, or use one character class"
            return


def _repeats_in(items: list[Any]) -> Iterator[tuple[int, int]]:
    for op, av in items:
        if op in _REPEATS:
            yield int(av[0]), int(av[1])
        for part in _parts(op, av):
            yield from _repeats_in(part)


def _parts(op: Any, av: Any) -> list[list[Any]]:
    """Return the sequences inside one node."""
    if op in _REPEATS:
        return [list(av[2])]
    if op is ops.SUBPATTERN:
        return [list(av[3])]
    if op is ops.BRANCH:
        return [list(b) for b in av[1]]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [list(av[1])]
    if op in _GROUPS:
        return [list(av)]
    if op is ops.GROUPREF_EXISTS:
        return [list(p) for p in av[1:] if p]
    return []


def _adjacent(items: list[Any], flags: int) -> Iterator[str]:
    """Yield a fault when two unbounded repeats can share the same characters between them."""
    reachable: list[frozenset[int]] = []
    for op, av in _inlined(items):
        if op in _REPEATS:
            low, high, body = av
            chars = _charset(list(body), flags)
            if high >= ops.MAXREPEAT:
                if any(chars & other for other in reachable):
                    yield "neighbouring unbounded quantifiers overlap; bound one or separate them"
                    return
                reachable = ([] if low else reachable) + [chars]
            elif low:
                reachable = []
        elif op is not ops.AT:  # a boundary takes no character, all else does
            reachable = []


def _inlined(items: list[Any]) -> Iterator[Any]:
    for op, av in items:
        if op is ops.SUBPATTERN:
            yield from _inlined(list(av[3]))
        else:
            yield op, av


def _charset(items: list[Any], flags: int) -> frozenset[int]:
    """Return the ASCII characters that a sequence can begin with; all of one that is one item."""
    if not items:
        return frozenset()
    op, av = items[0]
    if op is ops.LITERAL:
        found = {av}
    elif op is ops.NOT_LITERAL:
        found = set(_ALPHABET - {av})
    elif op is ops.ANY:
        found = set(_ALPHABET if flags & re.DOTALL else _ALPHABET - {10})
    elif op is ops.IN:
        found = _class(av)
    else:
        found = set().union(*[_charset(p, flags) for p in _parts(op, av)])
    if flags & re.IGNORECASE:
        found |= {ord(chr(c).swapcase()) for c in found if c < 128}
    return frozenset(found) & _ALPHABET


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    ops.CATEGORY_DIGIT: str.isdigit,
    ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
}
_NEGATED = {
    ops.CATEGORY_NOT_DIGIT: ops.CATEGORY_DIGIT,
    ops.CATEGORY_NOT_SPACE: ops.CATEGORY_SPACE,
    ops.CATEGORY_NOT_WORD: ops.CATEGORY_WORD,
}


def _class(members: Iterable[Any]) -> set[int]:
    found: set[int] = set()
    negate = False
    for op, av in members:
        if op is ops.NEGATE:
            negate = True
        elif op is ops.LITERAL:
            found.add(av)
        elif op is ops.RANGE:
            found.update(range(av[0], min(av[1], 127) + 1))
        elif op is ops.CATEGORY:
            test = _CATEGORIES[_NEGATED.get(av, av)]
            found |= {c for c in _ALPHABET if test(chr(c)) != (av in _NEGATED)}
    return set(_ALPHABET - found) if negate else found & _ALPHABET


# --------------------------------------------------------------------------- growth


def _growth(items: list[Any], flags: int) -> Iterator[str]:
    """Yield a fault when a line made to nearly match costs more than a quadratic search."""
    program = _Program(flags=flags)
    program.sequence(items)
    program.code.append(("match",))
    if len(program.code) > 20_000:
        yield "counted repeats multiply to a pattern too large to match quickly"
        return
    for line in sorted(_attacks(items, flags))[:32]:
        if _steps(program.code, line, BUDGET) >= BUDGET:
            yield f"takes too many steps on lines like {line[:30]!r}…; bound or separate repeats"
            return


@dataclass(slots=True)
class _Program:
    """A pattern as instructions for a backtracking machine."""

    flags: int
    code: list[tuple[Any, ...]] = field(default_factory=list)

    def sequence(self, items: list[Any]) -> None:
        for op, av in items:
            self._item(op, av)

    def _item(self, op: Any, av: Any) -> None:
        if op in _REPEATS:
            self._repeat(*av)
        elif op is ops.BRANCH:
            self._branch([list(b) for b in av[1]])
        elif op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
            self.code.append(("char", _charset([(op, av)], self.flags)))
        elif op is ops.AT:
            self.code.append(("at", av))
        elif op is ops.SUBPATTERN or op in _GROUPS:
            self.sequence(_parts(op, av)[0])
        # Look-around and back-references are left out: they only shorten a match.

    def _repeat(self, low: int, high: int, body: Any) -> None:
        for _ in range(low):
            self.sequence(list(body))
        if high >= ops.MAXREPEAT:
            start = len(self.code)
            self.code.append(())
            self.sequence(list(body))
            self.code.append(("jump", start))
            self.code[start] = ("split", len(self.code))
            return
        holes = []
        for _ in range(high - low):
            holes.append(len(self.code))
            self.code.append(())
            self.sequence(list(body))
        for hole in holes:
            self.code[hole] = ("split", len(self.code))

    def _branch(self, branches: list[list[Any]]) -> None:
        ends = []
        for branch in branches[:-1]:
            hole = len(self.code)
            self.code.append(())
            self.sequence(branch)
            ends.append(len(self.code))
            self.code.append(())
            self.code[hole] = ("split", len(self.code))
        self.sequence(branches[-1])
        for end in ends:
            self.code[end] = ("jump", len(self.code))


def _steps(code: list[tuple[Any, ...]], line: str, budget: int) -> int:
    """Return the steps that a search of `line` takes; `budget` when it is at least that."""
    points = [ord(c) for c in line]
    size, steps = len(points), 0
    for start in range(size + 1):
        stack = [(0, start)]
        while stack:
            at, position = stack.pop()
            while True:
                steps += 1
                if steps >= budget:
                    return budget
                step = code[at]
                kind = step[0]
                if kind == "char":
                    if position >= size or points[position] not in step[1]:
                        break
                    at, position = at + 1, position + 1
                elif kind == "split":
                    stack.append((step[1], position))
                    at += 1
                elif kind == "jump":
                    at = step[1]
                elif kind == "at":
                    if not _holds(step[1], line, position):
                        break
                    at += 1
                else:
                    return steps
    return steps


def _holds(what: Any, line: str, position: int) -> bool:
    if what in (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING):
        return position == 0
    if what in (ops.AT_END, ops.AT_END_STRING):
        return position == len(line)
    before = position > 0 and (line[position - 1].isalnum() or line[position - 1] == "_")
    after = position < len(line) and (line[position].isalnum() or line[position] == "_")
    return (before != after) == (what is ops.AT_BOUNDARY)


def _attacks(items: list[Any], flags: int) -> set[str]:
    """Return lines that begin as the pattern does and then repeat what one of its repeats takes."""
    found: set[str] = set()
    whole = _sample(items, flags)
    if whole:
        found.add((whole * LENGTH)[:LENGTH])
    marks = frozenset(_literals(items))
    for before, body in _repeats_with_prefix(items, flags, ""):
        chars = _charset(body, flags)
        plain = _representatives(chars)
        # What separates repeats is worst where the repeats can take it too: "\S+,\S+" on ",,,,".
        shared = [chr(c) for c in sorted(marks & chars)][:3]
        pumps = [_sample(body, flags), *plain, *shared, *(plain[0] + c for c in shared if plain)]
        for pump in pumps:
            if pump:
                found.add(before + (pump * LENGTH)[:LENGTH])
    return found


def _repeats_with_prefix(
    items: list[Any], flags: int, before: str
) -> Iterator[tuple[str, list[Any]]]:
    for op, av in items:
        if op in _REPEATS and av[1] >= _MANY:
            yield before, list(av[2])
        for part in _parts(op, av):
            yield from _repeats_with_prefix(part, flags, before)
        before += _sample([(op, av)], flags)


def _literals(items: list[Any]) -> Iterator[int]:
    for op, av in items:
        if op is ops.LITERAL and not chr(av).isalnum():
            yield av
        for part in _parts(op, av):
            yield from _literals(part)


def _representatives(chars: frozenset[int]) -> list[str]:
    """Return one letter, one digit, one space and one mark out of a set, as far as it has them."""
    pick: dict[str, str] = {}
    for char in map(chr, sorted(chars)):
        kind = "a" if char.isalpha() else "0" if char.isdigit() else " " if char.isspace() else "."
        if char.isprintable() or kind == " ":
            pick.setdefault(kind, char)
    return [pick[k] for k in "a0 ." if k in pick]


def _sample(items: list[Any], flags: int) -> str:
    """Return a short text that the sequence matches."""
    text = ""
    for op, av in items:
        if op in _REPEATS:
            text += _sample(list(av[2]), flags) * min(int(av[0]), _MANY)
        elif op is ops.BRANCH:
            text += _sample(list(av[1][0]), flags)
        elif op is ops.SUBPATTERN or op in _GROUPS:
            text += _sample(_parts(op, av)[0], flags)
        elif op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
            text += next(iter(_representatives(_charset([(op, av)], flags))), "")
    return text
