"""What the job runs with: its configuration files, Python, and the packages that matter.

Belongs here: files named on the command line, names of installed distributions. Must not be here:
importing any of them; importing torch to ask its version takes seconds and touches the GPU.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rootrank.live.probes import Context, Probe
from rootrank.live.ranks import Process
from rootrank.live.store import safe_name

_CONFIG_LIMIT = 256 << 10
_MAX_CONFIGS = 24
_MAX_PACKAGES = 2000
_SUFFIX = re.compile(r"\.(?:json|ya?ml|toml|cfg|ini|conf)$", re.I)
_NAMED = re.compile(
    r"config|^ds_|deepspeed|accelerate|hparams|hostfile|fsdp|megatron|zero[0-3_]", re.I
)
_FLAG = re.compile(r"config|deepspeed|hostfile|hparams", re.I)
_SITE = re.compile(r"\s(/\S*?/(?:site|dist)-packages)/")
_DIST = re.compile(r"^(?P<name>[A-Za-z0-9_.]+)-(?P<version>[^-]+)\.(?:dist|egg)-info$")
_PATH_KEYS = re.compile(r"path|dir|folder", re.I)


def configs(ctx: Context) -> None:
    """Keep the configuration files that command lines of the job name."""
    for path, inside in config_files(ctx):
        try:
            with open(inside, "rb") as file:  # noqa: PTH123 - through /proc
                data = file.read(_CONFIG_LIMIT + 1)
        except OSError as error:
            ctx.store.miss(f"configuration {path}", error.strerror or str(error))
            continue
        if len(data) > _CONFIG_LIMIT:
            ctx.store.miss(f"configuration {path}", "larger than 256 KiB: rather data")
            continue
        name = f"config/{safe_name(Path(path).name)}"
        text = data.decode("utf-8", "replace")
        ctx.store.put(name, text, what="configuration", source=path)


def config_files(ctx: Context) -> list[tuple[str, str]]:
    """Return (path as given, path to open) of files on command lines that are configuration."""
    out: dict[str, str] = {}
    for p in [*ctx.job.launchers, *(r.process for r in ctx.job.ranks)]:
        for path in _named_files(p):
            inside = path if path.startswith("/") else ctx.proc.path(p.pid, "cwd", path)
            out.setdefault(path, inside)
    return list(out.items())[:_MAX_CONFIGS]


def _named_files(p: Process) -> Iterator[str]:
    before = ""
    for word in p.words[1:]:
        name, eq, value = word.partition("=")
        flag, path = (name, value) if eq and name.startswith("-") else (before, word)
        file = _SUFFIX.search(path) or Path(path).name.startswith("hostfile")
        if file and len(path) < 1000 and (_FLAG.search(flag) or _NAMED.search(Path(path).name)):
            yield path
        before = word if word.startswith("-") else ""


def configured_paths(ctx: Context, patience_s: float = 1.0) -> list[str]:
    """Return the absolute paths that JSON configuration names: offload, swap, checkpoints.

    In a thread, because the file itself may lie on the storage that does not answer.
    """
    out: list[str] = []

    def read() -> None:
        for _, inside in config_files(ctx):
            try:
                with open(inside, "rb") as file:  # noqa: PTH123 - through /proc
                    out.extend(_paths(json.loads(file.read(_CONFIG_LIMIT))))
            except (OSError, ValueError, RecursionError):
                continue

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(patience_s)
    return list(out)


def _paths(value: Any, key: str = "", depth: int = 0) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("/") and _PATH_KEYS.search(key):
        yield value
    elif isinstance(value, dict) and depth < 20:
        for k, v in list(value.items())[:500]:
            yield from _paths(v, str(k), depth + 1)
    elif isinstance(value, list) and depth < 20:
        for v in value[:100]:
            yield from _paths(v, key, depth + 1)


# --------------------------------------------------------------------------- packages


def packages(ctx: Context) -> None:
    """Keep names and versions of what is installed where the ranks import from."""
    r = ctx.job.ranks[0]
    sites = site_folders(ctx, r.process)
    if not sites:
        ctx.store.miss("package versions", "no site-packages among what the rank has mapped")
        return
    lines = []
    for site in sites:
        lines.append(f"# {site}")
        lines += [f"{name}=={version}" for name, version in installed(ctx, r.process, site)]
    text = "\n".join(lines) + "\n"
    ctx.store.put("packages.cfg", text, what="package versions", source=", ".join(sites))


def site_folders(ctx: Context, p: Process) -> list[str]:
    """Return the site-packages of a process: from what it has mapped, else beside its interpreter."""
    maps = ctx.proc.text(p.pid, "maps", limit=4 << 20) or ""
    out = list(dict.fromkeys(_SITE.findall(maps)))
    home = p.env.get("VIRTUAL_ENV") or p.env.get("CONDA_PREFIX")
    first = p.words[0] if p.words else ""
    roots = [home] if home else []
    roots += [str(Path(first).parent.parent)] if first.startswith("/") else []
    for root in roots:
        out += [str(x) for x in sorted(Path(root).glob("lib/python3*/site-packages"))[:2]]
    return list(dict.fromkeys(out))[:4]


def installed(ctx: Context, p: Process, site: str) -> list[tuple[str, str]]:
    """Return (name, version) of the distributions in a folder, by the names of their metadata."""
    through = ctx.proc.path(p.pid, "root") + site
    for folder in (through, site):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        found = [m for m in map(_DIST.match, names) if m]
        return [(m["name"], m["version"]) for m in found[:_MAX_PACKAGES]]
    return []


def _plan_configs(ctx: Context) -> list[str]:
    return [f"configuration {path}" for path, _ in config_files(ctx)]


def _plan_packages(ctx: Context) -> list[str]:
    return ["names and versions of the installed packages of the ranks (nothing is imported)"]


PROBES = (
    Probe(name="configuration", ask=configs, plan=_plan_configs, deadline_s=3.0),
    Probe(name="packages", ask=packages, plan=_plan_packages, deadline_s=4.0),
)
