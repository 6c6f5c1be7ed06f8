"""Finds entries by words, by misspelt words, and by a pasted error line.

Belongs here: the index and the ranking. Must not be here: diagnosis: a pasted line without its log
suggests what to read, and never says what happened.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rootrank.knowledge.types import Entry, Knowledge, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One entry that was found: how well, and by what."""

    entry: Entry
    score: float
    why: str


# How much a word counts by where it stands. A name says more about an entry than its prose does.
_WEIGHTS = {
    "id": 6.0,
    "title": 5.0,
    "alias": 5.0,
    "search": 4.0,
    "signal": 3.0,
    "tag": 3.0,
    "summary": 2.0,
    "cause": 1.0,
    "quick": 1.0,
}
# What people say, and what entries call it.
_SYNONYMS = {
    "oom": ("memory", "out"),
    "stuck": ("hang",),
    "freeze": ("hang",),
    "frozen": ("hang",),
    "deadlock": ("hang",),
    "diverge": ("loss", "nan"),
    "straggler": ("slow",),
    "segfault": ("segmentation", "sigsegv"),
    "preempted": ("preemption",),
    "killed": ("sigkill",),
}
_STOP = frozenset(
    "a an and are as at be by can do for from has have how i if in into is it its me my no not"
    " of on or so that the then there this to was what when why will with you your"
    " error failed".split()
)
_LINE = 40.0  # a signal's own pattern matches: worth more than any number of common words
_NEAR = 0.8  # similarity from which on a misspelt word is taken for a known one


@dataclass(slots=True)
class Index:
    """Words of all entries, weighed; build it once per knowledge base."""

    entries: dict[str, Entry]
    postings: dict[str, dict[str, float]] = field(default_factory=dict)

    @staticmethod
    def of(knowledge: Knowledge) -> Index:
        """Return the index of a knowledge base."""
        index = Index(entries=dict(knowledge.entries))
        postings: dict[str, dict[str, float]] = defaultdict(dict)
        for entry in knowledge.entries.values():
            for word, weight in _words_of(entry).items():
                postings[word][entry.id] = weight
        index.postings = dict(postings)
        return index

    def rarity(self, word: str) -> float:
        """Return how much it tells that an entry has the word: much when few have it."""
        return math.log(1 + len(self.entries) / (1 + len(self.postings.get(word, ()))))


def _words_of(entry: Entry) -> dict[str, float]:
    """Return the words of one entry, each weighed by its best place and a little by repetition."""
    found: dict[str, float] = {}
    repeated: Counter[str] = Counter()
    for place, text in _places(entry):
        for word in tokens(text):
            repeated[word] += 1
            found[word] = max(found.get(word, 0.0), _WEIGHTS[place])
    return {word: weight + 0.3 * min(repeated[word] - 1, 4) for word, weight in found.items()}


def _places(entry: Entry) -> Iterator[tuple[str, str]]:
    yield "id", entry.id
    yield "title", entry.title
    yield "alias", " ".join(entry.aliases)
    yield "search", entry.search
    yield "tag", " ".join((*entry.tags, *entry.stacks, entry.category))
    yield "summary", entry.summary
    yield "quick", entry.quick
    for cause in entry.causes:
        yield "cause", f"{cause.id} {cause.text}"
    for signal in entry.signals:
        yield "signal", " ".join(signal.literal)
        for value in signal.where.values():
            if isinstance(value, str) and value.isalnum():
                yield "signal", value


def tokens(text: str) -> dict[str, str]:
    """Return the words of a text as they are compared -> as they were written.

    Compared are lower case, the parts of joined names, and stems without plural s.
    """
    found: dict[str, str] = {}
    for word in re.findall(r"[A-Za-z][A-Za-z0-9]*|\d{2,}", text):
        # ChildFailedError is also child, failed, error; SIGKILL and cudaMalloc stay findable whole.
        parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", word)
        for part in (word, *(p for p in parts if len(p) > 2)):
            lower = part.lower()
            if lower not in _STOP:
                found.setdefault(_stem(lower), lower)
    return found


def _stem(word: str) -> str:
    for ending in ("ings", "ing", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


# --------------------------------------------------------------------------- ranking


def search(knowledge: Knowledge, query: str, limit: int = 10) -> list[Hit]:
    """Return the best entries for words or for a pasted line, best first; ties by id."""
    return search_index(Index.of(knowledge), query, limit)


def search_index(index: Index, query: str, limit: int = 10) -> list[Hit]:
    """Return the same as `search` from an index that is built already."""
    scores: dict[str, float] = defaultdict(float)
    reasons: dict[str, list[str]] = defaultdict(list)
    for name in _exact(index, query):
        scores[name] += 1000.0
        reasons[name].append("its name")
    for word, factor, shown in _query_words(index, query):
        for name, weight in index.postings.get(word, {}).items():
            scores[name] += weight * index.rarity(word) * factor
            if shown not in reasons[name]:
                reasons[name].append(shown)
    for entry in index.entries.values():
        signal = _signal_on(entry, query)
        if signal is not None:
            scores[entry.id] += _LINE if signal.role == "initiating" else _LINE / 4
            reasons[entry.id].insert(0, f"its signal {signal.name!r} on this line")
    ranked = sorted(scores, key=lambda name: (-scores[name], name))[:limit]
    floor = 0.15 * scores[ranked[0]] if ranked else 0.0
    return [
        Hit(entry=index.entries[n], score=round(scores[n], 2), why=", ".join(reasons[n][:4]))
        for n in ranked
        if scores[n] >= floor
    ]


def _exact(index: Index, query: str) -> Iterator[str]:
    wanted = re.sub(r"[\s_]+", "-", query.strip().lower())
    for entry in index.entries.values():
        names = (entry.id, *(re.sub(r"[\s_]+", "-", a.lower()) for a in entry.aliases))
        if wanted in names:
            yield entry.id


def _query_words(index: Index, query: str) -> Iterator[tuple[str, float, str]]:
    """Yield (known word, how far it counts, the word as typed)."""
    for word, typed in tokens(query).items():
        if word in index.postings:
            yield word, 1.0, typed
        else:
            yield from _near_words(index, word, typed)
        for other in _SYNONYMS.get(typed, ()):
            yield _stem(other), 0.5, typed


def _near_words(index: Index, word: str, typed: str) -> Iterator[tuple[str, float, str]]:
    if len(word) < 4:
        return
    longer = [w for w in index.postings if w.startswith(word)]
    for known in longer[:5]:
        yield known, 0.7, f"{typed}…"
    if not longer:
        for known in difflib.get_close_matches(word, index.postings, 2, _NEAR):
            yield known, 0.6, f"{known} for {typed}"


def _signal_on(entry: Entry, line: str) -> Signal | None:
    """Return the first signal of the entry whose own words stand on the pasted line."""
    return next((s for s in entry.signals if _stands(s, line)), None)


def _stands(signal: Signal, line: str) -> bool:
    if signal.literal:
        found = any(x in line for x in signal.literal)
        return found and (signal.regex is None or re.search(signal.regex, line) is not None)
    # The kind of a sighting cannot be told from a bare line; its message and type can.
    message = signal.where.get("message")
    kind = signal.where.get("type")
    if message is None and kind is None:
        return False
    # A pattern that only excludes something stands on any line and tells nothing.
    told = all(
        any(re.search(str(m), line) and not re.search(str(m), "") for m in _many(pattern))
        for pattern in (message,)
        if pattern is not None
    )
    typed = kind is None or any(re.search(rf"\b{re.escape(str(k))}\b", line) for k in _many(kind))
    return told and typed


def _many(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else [value]


def nearest(knowledge: Knowledge, name: str) -> list[str]:
    """Return up to three ids or aliases that a mistyped one may have meant."""
    names = {e.id: e.id for e in knowledge.entries.values()}
    for entry in knowledge.entries.values():
        names.update(dict.fromkeys(entry.aliases, entry.id))
    close = difflib.get_close_matches(name, names, 3, 0.6)
    return list(dict.fromkeys(names[c] for c in close))
