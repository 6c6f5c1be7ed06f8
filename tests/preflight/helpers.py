"""Files and machines made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rootrank.preflight.finding import Finding
from rootrank.preflight.host import Disk, Host
from rootrank.preflight.job import Options
from rootrank.preflight.run import Report, check

GIB = 1 << 30


class FakeHost(Host):
    """A machine whose names, ports and disks are a dictionary."""

    names: dict[str, tuple[str, ...]]
    busy: set[int]
    disks: dict[str, Disk]

    def __init__(self, **facts: Any) -> None:
        self.names = facts.pop("names", {})
        self.busy = facts.pop("busy", set())
        self.disks = facts.pop("disks", {})
        super().__init__(**facts)

    def resolve(self, name: str) -> tuple[str, ...] | None:
        return self.names.get(name, ())

    def port_free(self, port: int) -> bool | None:
        return port not in self.busy

    def disk(self, path: str) -> Disk:
        return self.disks[path]


def disk(**facts: Any) -> Disk:
    """Return a large empty local disk, but for the given facts."""
    plain = {"exists": True, "writable": True, "free_bytes": 4000 * GIB, "total_bytes": 4000 * GIB}
    return Disk(**{**plain, "kind": "ext4", **facts})


def checked(
    folder: Path, files: dict[str, Any], host: Host | None = None, **options: Any
) -> Report:
    """Write the files (values as JSON, text as it stands) and check them all."""
    names = []
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        (folder / name).write_text(text, encoding="utf-8")
        names.append(str(folder / name))
    return check(names, Options(**options), host)


def said(report: Report, severity: str | None = None) -> list[str]:
    """Return the rules that found something, of one severity or of all."""
    return [f.rule for f in report.findings if severity in (None, f.severity.value)]


def only(report: Report, rule: str) -> Finding:
    """Return the one finding of a rule."""
    (found,) = [f for f in report.findings if f.rule == rule]
    return found
