"""Phrases that every format shares, made from the fields of a diagnosis.

Belongs here: how a field is said. Must not be here: escaping, layout, and anything that weighs
evidence. Phrases hold text from logs (hosts, paths, messages), so a renderer still has to
neutralise them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rootrank.model import (
    Also,
    Attempt,
    Cause,
    Checkpoint,
    Collateral,
    Diagnosis,
    Evidence,
    Impact,
    Initiating,
    Missing,
    Recovered,
    Status,
    Verdict,
)

# --------------------------------------------------------------------------- fixed words

VERDICT = {
    Verdict.FAILURE: "failure",
    Verdict.INSUFFICIENT: "insufficient evidence",
    Verdict.NO_FAILURE: "no failure",
}

STATUS_MEANS = {
    Status.ESTABLISHED: "lines of this run state it and nothing stands against it",
    Status.SUPPORTED: "the evidence fits and nothing stands against it, but no line states it",
    Status.SUSPECTED: "part of the evidence is missing",
    Status.RULED_OUT: "evidence of this run speaks against it",
}

END = {
    "completed": "the job ended as planned",
    "failed": "the job ended with an error",
    "killed": "the job was killed",
    "cancelled": "the job was cancelled on request",
    "time-limit": "the scheduler's time limit ended the job",
    "preempted": "the scheduler preempted the job",
    "running": "the job was still running when the logs were taken",
    "unknown": "how the job ended is not in the logs",
}

RETRY = {
    "will-recur": "a rerun will fail the same way",
    "may-succeed": "a rerun may succeed",
    "unknown": "whether a rerun helps is not known",
}

REPAIR = {
    "code": "needs a code change",
    "config": "needs a configuration change",
    "environment": "needs a change of the environment",
    "resubmit": "resubmit the job",
    "drain-node": "take the node out of service",
}

OWNER = {
    "user-code": "whoever maintains the training code",
    "configuration": "whoever configures this job",
    "framework": "whoever maintains the training framework",
    "infrastructure": "the infrastructure team",
}

RELATION = {
    "independent": "independent of it",
    "earlier-attempt": "in an earlier attempt",
    "masked": "masked by it",
}

# --------------------------------------------------------------------------- small parts


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return "1 rank", "63 ranks", "no ranks"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {nouns or noun + 's'}"


def capital(text: str) -> str:
    """Return `text` with a capital first letter."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Return `text` with a capital first letter and a full stop."""
    text = capital(text.strip())
    return text if not text or text[-1] in ".!?…" else text + "."


def join(parts: Iterable[str], word: str = "and") -> str:
    """Return "a", "a and b", "a, b and c"."""
    items = list(parts)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def duration(seconds: float) -> str:
    """Return a span of time in the two largest units: "20 min 40 s", "10 h 40 min"."""
    whole = round(seconds)
    if whole < 1:
        return f"{seconds:.1f} s"
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, span in units:
        amount, whole = divmod(whole, span)
        if amount:
            parts.append(f"{amount} {name}")
        elif parts:
            break
    return " ".join(parts[:2])


def size(count: int) -> str:
    """Return bytes as people read them: "1.2 GB"."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|\+00:00)?$")


def moment(time: str | None) -> str:
    """Return an ISO time as "2026-08-20 03:12:44 UTC"; other text as it is; "" for none."""
    if not time:
        return ""
    found = _ISO.match(time)
    if not found:
        return time
    return f"{found[1]} {found[2]}" + (" UTC" if found[3] else "")


def clock(time: str | None) -> str:
    """Return the time of day of an ISO time, to the second; "" for none."""
    found = _ISO.match(time or "")
    return found[2] if found else (time or "")


def place(source: str, line: int | None) -> str:
    """Return "file:line", or the file where no line is known."""
    return f"{source}:{line}" if line else source


# --------------------------------------------------------------------------- ranks


def count_ranks(ranks: str | None) -> int:
    """Return how many ranks "0-36,38-63" names; 0 when it cannot be read."""
    total = 0
    for low, high in _spans(ranks):
        total += high - low + 1
    return total


def _spans(ranks: str | None) -> Iterator[tuple[int, int]]:
    for part in (ranks or "").split(","):
        found = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if found:
            low, high = int(found[1]), int(found[2] or found[1])
            if low <= high:
                yield low, high


def name_ranks(ranks: str | None) -> str:
    """Return "rank 5", "ranks 2 and 5", "ranks 0-36,38-63"; "" for none."""
    if not ranks:
        return ""
    if count_ranks(ranks) == 1:
        return f"rank {ranks}"
    items = ranks.split(",")
    if len(items) <= 4 and not any("-" in i for i in items):
        return f"ranks {join(i.strip() for i in items)}"
    return f"ranks {ranks}"


# --------------------------------------------------------------------------- who failed first


def who(first: Initiating | None) -> str:
    """Return the one that failed first as a noun phrase, with host and pid where known."""
    if first is None:
        return "an unknown rank"
    if first.extent == "all":
        count = count_ranks(first.ranks)
        return "both ranks" if count == 2 else f"all {count:,} ranks" if count else "every rank"
    name = _name(first)
    host = f" on {first.host}" if first.host and first.kind != "host" else ""
    pid = f" (pid {first.pid})" if first.pid is not None and first.rank is not None else ""
    return f"{name}{host}{pid}"


def _name(first: Initiating) -> str:
    if first.rank is not None:
        return f"rank {first.rank}"
    if first.ranks and first.kind in ("rank", "process"):
        return name_ranks(first.ranks)
    if first.kind == "host":
        return f"host {first.host}" if first.host else "a host"
    if first.kind == "gpu":
        return f"GPU {first.device}" if first.device else "a GPU"
    if first.kind in ("rank", "process"):
        return _process(first)
    return {
        "link": "a network link",
        "storage": "the storage",
        "external": "something outside the job",
    }.get(first.kind, "the job as a whole") + (f" ({first.device})" if first.device else "")


def _process(first: Initiating) -> str:
    if first.local_rank is not None:
        return f"the process with local rank {first.local_rank}"
    return f"process {first.pid}" if first.pid is not None else "a process of unknown rank"


_BY_BASIS = {"behind": "fell behind first", "different": "did something else than the others"}
_BY_CATEGORY = {
    "hang": "stalled first",
    "slow": "slowed down first",
    "wrong-numbers": "went wrong first",
    "lost-progress": "lost progress first",
    "wont-start": "failed to start first",
}


def did(first: Initiating, category: str) -> str:
    """Return what the first one did, as a verb phrase: "failed first"."""
    if first.kind == "external":
        return "ended the job"
    if first.basis == "absent":
        return "went silent first" if category == "hang" else "went missing first"
    phrase = _BY_BASIS.get(first.basis) or _BY_CATEGORY.get(category, "failed first")
    if category == "hang" and first.extent == "one" and first.basis == "spoke":
        phrase = "failed first"  # it had something to say of itself: it did not just stand still
    if first.extent == "all" or first.kind == "job":
        return phrase.removesuffix(" first")
    return phrase


def headline(d: Diagnosis) -> str:
    """Return the answer in one line: who failed first and when; without the verdict word."""
    return ", ".join(part for part in (answer(d), when(d)) if part)


def answer(d: Diagnosis) -> str:
    """Return who failed first and how: "rank 37 on node-5 (pid 48213) failed first"."""
    if d.verdict is Verdict.NO_FAILURE:
        return "nothing abnormal that lasts was found"
    first = d.initiating
    if first is None:
        return "which rank failed first is not established"
    category = d.cause.category if d.cause else ""
    alike = " in the same way" if first.extent == "all" else ""
    return f"{who(first)} {did(first, category)}{alike}"


def when(d: Diagnosis) -> str:
    """Return the time of the first failure, and its attempt where there were several."""
    first = d.initiating
    if first is None or d.verdict is Verdict.NO_FAILURE:
        return ""
    count = f"attempt {first.attempt}" if len(d.attempts) > 1 else ""
    return ", ".join(part for part in (moment(first.time), count) if part)


def rank_unknown(d: Diagnosis) -> str:
    """Return why no rank is named: "no line names a rank"; "" when one is or none could be."""
    first = d.initiating
    if d.verdict is Verdict.NO_FAILURE:
        return ""
    if first and (first.rank is not None or first.ranks or first.extent == "all"):
        return ""
    return "" if first and first.kind in _RANKLESS else _rank_reason(d)


def rank_line(d: Diagnosis) -> str:
    """Return the line under the headline: "rank unknown: no line names a rank", or "".

    Where the headline already says that nobody is established, only the reason.
    """
    reason = rank_unknown(d)
    return f"rank unknown: {reason}" if reason and d.initiating else reason


_RANKLESS = frozenset({"external", "host", "gpu", "link", "storage"})


def _rank_reason(d: Diagnosis) -> str:
    for note in d.coverage.notes:
        found = re.match(r"(?i)rank unknown\s*[:(]\s*(.*?)\)?\.?$", note)
        if found:
            return found[1]
    if d.initiating is None and d.collateral:
        return "only complaints about peers were seen, not the peer's own first error"
    if d.coverage.ranks_seen == 0:
        return "no line names a rank"
    if d.initiating is None:
        return "no rank's own error was seen"
    return "the deciding line has no rank prefix"


# --------------------------------------------------------------------------- why


def facts(cause: Cause) -> str:
    """Return the entry id and what a rerun would do, in a few words."""
    return ", ".join(part for part in (cause.entry or NO_ENTRY, rerun(cause)) if part)


NO_ENTRY = "no entry knows this failure"


def rerun(cause: Cause) -> str:
    """Return what a rerun would do, "" when that is not known."""
    return RETRY[cause.retry] if cause.retry in ("will-recur", "may-succeed") else ""


def reason_open(cause: Cause) -> str:
    """Return what is said when no root cause leads: "open", with the candidates left."""
    left = [c for c in cause.root_causes if c.status is not Status.RULED_OUT]
    if not left:
        return "open"
    return f"open, {plural(len(left), 'candidate')}: " + join((c.id for c in left), "or")


def limits(cause: Cause) -> list[str]:
    """Return what the evidence of `cause` does not prove, each sentence once."""
    seen: dict[str, None] = {}
    for evidence in cause.evidence:
        if evidence.limits:
            seen.setdefault(evidence.limits.strip())
    return list(seen)


def about(e: Evidence) -> list[str]:
    """Return rank, host and time of day of a piece of evidence, those that are known."""
    parts = [f"rank {e.rank}" if e.rank is not None else "", e.host or "", clock(e.time)]
    parts.append(f"{e.count:,} times" if e.count > 1 else "")
    return [p for p in parts if p]


# --------------------------------------------------------------------------- collateral

# What ranks did, by the kind of sighting (docs/sightings.md) when the diagnosis gives only that.
_DID = {
    "collective-timeout": "timed out waiting for {it}",
    "peer-loss": "lost the connection to {it}",
    "exit": "ended",
    "teardown": "were told to stop",
    "exception": "raised an exception",
    "abort": "aborted",
    "watchdog-note": "had a watchdog complain",
    "nccl-warn": "had NCCL warn",
    "log-error": "logged an error",
    "desync": "were reported out of step",
}
_VERB = re.compile(
    r"(?:\w+ed|lost|were|had|saw|went|gave|got|hung|did|could|ran|fell|stood|kept|began)\b"
)


def collateral(c: Collateral, known: bool = True) -> str:
    """Return one folded line: "63 ranks timed out waiting for it (0-36,38-63)".

    `known` says that the first failure is known, so that "it" means something.
    """
    what = _DID.get(c.what, c.what.strip().rstrip(".") or "followed")
    what = what.replace("{it}", "it" if known else "a peer")
    ranks = count_ranks(c.ranks)
    count = ranks or c.count
    subject = plural(count, "rank") if ranks else plural(count, "process", "processes")
    extent = f" ({c.ranks})" if ranks else ""
    if _VERB.match(what):
        return f"{subject} {_one(what) if count == 1 else what}{extent}"
    return f"{what}: {subject}{extent}" if ranks else f"{what}, {plural(count, 'time')}"


def _one(what: str) -> str:
    return re.sub(r"^were\b", "was", what)


_LAUNCHER = re.compile(
    r"(?i)\b(?:launcher|torchelastic|elastic agent|torchrun|srun|slurm|mpirun|deepspeed launcher)\b"
)
_RANK_NOTE = re.compile(r"(?i)rank unknown\b")


def launcher_notes(d: Diagnosis) -> list[str]:
    """Return the notes in which a launcher names somebody else than the first."""
    return [n for n in d.coverage.notes if _LAUNCHER.search(n) and _disagrees(n, d.initiating)]


def _disagrees(note: str, first: Initiating | None) -> bool:
    named = set(re.findall(r"\brank (\d+)", note))
    return first is None or first.rank is None or not named or named != {str(first.rank)}


def other_notes(d: Diagnosis) -> list[str]:
    """Return the remaining notes, without those that another phrase already says."""
    said = {*launcher_notes(d), *(n for n in d.coverage.notes if _RANK_NOTE.match(n))}
    return [n for n in d.coverage.notes if n not in said]


def also(a: Also) -> str:
    """Return another failure in one line."""
    subject = who(a.initiating)
    return f"{a.cause.title} ({subject}; {RELATION.get(a.relation, a.relation)})"


def recovered(r: Recovered) -> str:
    """Return trouble that passed, with its time: the day once when both are the same."""
    start, end_ = moment(r.from_), moment(r.until)
    if start[:10] == end_[:10] and len(end_) > 11:
        end_ = end_[11:]
    when = f", {start} to {end_}" if start != end_ else f", {start}"
    return r.what + when if start else r.what


# --------------------------------------------------------------------------- what follows


def decides(m: Missing) -> str:
    """Return which candidates a missing fact would separate; "" when that is not said."""
    return f"decides {join(m.decides, 'or')}" if m.decides else ""


def impact(i: Impact) -> list[str]:
    """Return what the failure cost, one phrase for each known figure."""
    parts = []
    if i.last_step is not None:
        when = f", {moment(i.last_time)}" if i.last_time else ""
        parts.append(f"last step {i.last_step:,}{when}")
    elif i.last_time:
        parts.append(f"last sign of progress {moment(i.last_time)}")
    if i.last_checkpoint:
        parts.append(checkpoint(i.last_checkpoint))
    lost = [f"{duration(i.lost_s)} of training lost"] if i.lost_s is not None else []
    if i.idle_rank_s is not None:
        lost.append(f"{duration(i.idle_rank_s)} of rank time idle")
    return [*parts, ", ".join(lost)] if lost else parts


_CHECKPOINT = {True: "last complete checkpoint", False: "last checkpoint (incomplete)"}


def checkpoint(c: Checkpoint) -> str:
    """Return the last checkpoint in words."""
    state = "last checkpoint" if c.complete is None else _CHECKPOINT[c.complete]
    step = f" is of step {c.step:,}" if c.step is not None else ""
    return f"{state}{step}" + (f": {c.path}" if c.path else "")


def attempt(a: Attempt) -> str:
    """Return one attempt in one line."""
    cause = f", {a.entry}" + (f" ({a.status.value})" if a.status else "") if a.entry else ""
    return f"attempt {a.n}: {a.end}{cause}"


def coverage(d: Diagnosis) -> str:
    """Return what was read in one line."""
    c = d.coverage
    parts = [plural(c.sources, "source"), plural(c.lines, "line"), size(c.bytes)]
    if c.world_size:
        parts.append(f"{c.ranks_seen:,} of {c.world_size:,} ranks seen")
    elif c.ranks_seen:
        parts.append(f"{plural(c.ranks_seen, 'rank')} seen, number of ranks unknown")
    else:
        parts.append("no rank named")
    return ", ".join(parts)


def end(d: Diagnosis) -> str:
    """Return how the job stopped, as a clause."""
    return END.get(d.end.how, END["unknown"])


# --------------------------------------------------------------------------- for other readers


_SURE = {
    Status.ESTABLISHED: "The logs of this run establish this.",
    Status.SUPPORTED: "The evidence supports this, but no line of the logs states it outright.",
    Status.SUSPECTED: "This is only suspected: part of the evidence is missing.",
    Status.RULED_OUT: "The evidence of this run speaks against it.",
}


def executive(d: Diagnosis) -> list[list[str]]:
    """Return paragraphs of plain sentences, five to eight in all.

    What happened and how sure that is; what it cost; who acts, whether it recurs, what is next.
    """
    happened = [sentence(d.summary or headline(d))]
    if d.verdict is Verdict.NO_FAILURE:
        read = [sentence(end(d)), sentence(f"read for this: {coverage(d)}"), *_gap_words(d)]
        return [happened, read, ["Nobody needs to act on these logs."]]
    happened.append(_SURE[d.cause.status] if d.cause else "The logs do not show enough to say why.")
    return [happened, _cost(d), _ahead(d)]


def _cost(d: Diagnosis) -> list[str]:
    i = d.impact
    step = f" at step {i.last_step:,}" if i.last_step is not None and d.end.how in _ENDED else ""
    saved = i.last_checkpoint
    kept = f"; the {checkpoint(replace(saved, path=None))}" if saved else ""
    lost = [f"{duration(i.lost_s)} of training is lost"] if i.lost_s is not None else []
    if i.idle_rank_s is not None:
        lost.append(f"the ranks together stood idle for {duration(i.idle_rank_s)}")
    return [sentence(end(d) + step + kept), *([sentence(join(lost))] if lost else [])]


_ENDED = frozenset({"failed", "killed", "cancelled", "time-limit", "preempted"})


def _ahead(d: Diagnosis) -> list[str]:
    said = []
    if d.cause:
        owner = OWNER.get(d.cause.owner)
        said.append(sentence(f"{owner} must act") if owner else "Who must act is not known yet.")
        said.append(sentence(RETRY.get(d.cause.retry, RETRY["unknown"])))
    if d.actions:
        said.append(sentence(f"next step: {d.actions[0].text}"))
    elif d.missing:
        said.append(sentence(f"one more fact would decide: {d.missing[0].fact}"))
    return said


def _gap_words(d: Diagnosis) -> list[str]:
    count = len(d.coverage.gaps)
    return [sentence(f"{plural(count, 'source')} could not be read in full")] if count else []


def escalate(d: Diagnosis) -> str:
    """Return when a person on call hands this over, and to whom."""
    if d.verdict is Verdict.NO_FAILURE:
        return "not needed: nothing abnormal that lasts was found"
    owner = OWNER.get(d.cause.owner) if d.cause else None
    to = f"to {owner or 'the owner of this job'}"
    if not d.actions and not d.missing:
        return f"{to}, now, with the evidence line: no tried remedy is known"
    if d.cause is None or d.cause.status is Status.SUSPECTED:
        return f"{to}, if the missing fact cannot be collected or changes nothing"
    if d.cause.repair == "drain-node":
        return f"{to}, now, with host and evidence line; keep the node out until they agree"
    if d.cause.retry == "may-succeed":
        return f"{to}, if the same failure returns after one rerun"
    return f"{to}, if a step above fails or the same failure returns"
