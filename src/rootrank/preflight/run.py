"""All checks over all files: read this first. Each family is one module with `check(job)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rootrank.errors import InputError, MissingExtraError, RootrankError
from rootrank.preflight import (
    batch,
    env,
    frameworks,
    keys,
    launch,
    machine,
    memory,
    parallel,
    versions,
    zero,
)
from rootrank.preflight.finding import NOTE, RANK, Finding, Open, Severity
from rootrank.preflight.host import Host
from rootrank.preflight.job import Job, Options
from rootrank.preflight.readers import Document, read

FAMILIES: tuple[Callable[[Job], Iterator[Finding]], ...] = (
    keys.check, batch.check, zero.check, memory.check, frameworks.check, parallel.check,
    launch.check, env.check, machine.check, versions.check,
)  # fmt: skip
MAX_FINDINGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was read, what was found, what could not be decided."""

    findings: tuple[Finding, ...]
    checked: tuple[tuple[str, str], ...]
    unreadable: tuple[RootrankError, ...]
    open: tuple[Open, ...]
    estimates: tuple[str, ...]
    world: int | None
    nodes: int | None
    per_node: int | None
    host: bool

    @property
    def verdict(self) -> Severity:
        """Return the worst severity; NOTE where nothing fails."""
        return min((f.severity for f in self.findings), key=RANK.__getitem__, default=NOTE)

    @property
    def code(self) -> int:
        """Return the exit code: 2 unreadable, 1 will fail, 3 may fail, 0 else."""
        if self.unreadable:
            return 2
        return {Severity.WILL: 1, Severity.MAY: 3, Severity.NOTE: 0}[self.verdict]


def check(
    names: Sequence[str],
    options: Options | None = None,
    host: Host | None = None,
    extra: Sequence[Finding] = (),
) -> Report:
    """Return what will fail when the job of these files is launched."""
    documents, unreadable = _read_all(names)
    job = Job(documents=documents, options=options or Options(), host=host)
    _follow(job)
    found = list(extra)
    for family in FAMILIES:
        found.extend(family(job))
        if len(found) > MAX_FINDINGS:
            break
    _judgeable(job)
    return Report(
        findings=_sorted(found), checked=tuple((d.name, d.kind) for d in job.documents),
        unreadable=tuple(unreadable), open=tuple(dict.fromkeys(job.open)),
        estimates=tuple(job.estimates), world=job.world, nodes=job.nodes, per_node=job.per_node,
        host=host is not None,
    )  # fmt: skip


def _read_all(names: Sequence[str]) -> tuple[list[Document], list[RootrankError]]:
    documents: list[Document] = []
    unreadable: list[RootrankError] = []
    for name in dict.fromkeys(names):
        try:
            documents.append(read(name))
        except (InputError, MissingExtraError) as error:
            unreadable.append(error)
    return documents, unreadable


def _follow(job: Job) -> None:
    """Read the configurations that a given one names too, once each."""
    have = {d.name for d in job.documents}
    for path in _named(job):
        if path in have:
            continue
        have.add(path)
        try:
            job.documents.append(read(path))
        except (InputError, MissingExtraError) as error:
            job.open.append(Open(what=path, why=error.fault, remedy=error.remedy))


def _named(job: Job) -> list[str]:
    found: list[str | None] = []
    for d in job.documents:
        found.extend(frameworks.beside(d, name) for _, name in frameworks.referenced(d))
        for script in job.scripts:
            if script.name == d.name:
                found.extend(frameworks.beside(d, name) for name in _arguments(script.commands))
    return [path for path in dict.fromkeys(found) if path]


_OPTIONS = ("--deepspeed", "--deepspeed_config", "--deepspeed-config", "--config_file")


def _arguments(commands: Sequence[object]) -> Iterator[str]:
    """Yield the configuration files that a launch command hands over."""
    from rootrank.preflight.shell import Command

    for command in commands:
        assert isinstance(command, Command)
        own = command.value("config-file")
        if own:
            yield own
        for word, after in pairwise((*command.rest, "")):
            name, _, value = word.partition("=")
            if name in _OPTIONS:
                yield value or after


def _judgeable(job: Job) -> None:
    if job.host is None and job.documents:
        job.open.append(
            Open(
                what="this machine", why="not looked at", remedy="give --host on a node of the job"
            )
        )


def _sorted(found: Sequence[Finding]) -> tuple[Finding, ...]:
    unique = dict.fromkeys(found)
    return tuple(sorted(unique, key=lambda f: RANK[f.severity])[:MAX_FINDINGS])
