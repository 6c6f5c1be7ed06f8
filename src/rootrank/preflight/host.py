"""Facts of this machine that decide whether a launch can work, each read passively.

Belongs here: asking the machine. Must not be here: what follows from an answer. Nothing here
imports a training library, opens a connection to another host but for a name lookup, or writes.
Every fact may be unknown (None).
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device: its memory, and its compute capability (None on an old driver)."""

    name: str
    memory_bytes: int
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What a path stands on. `exists` is false where the path must still be made."""

    exists: bool
    writable: bool
    free_bytes: int
    total_bytes: int
    kind: str  # ext4, tmpfs, nfs4, overlay; "" unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock file of a JIT build and how long ago it was made."""

    path: str
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """An installed distribution, from its dist-info."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Host:
    """This machine, as far as it could be asked. Tests make one by hand."""

    memory_bytes: int | None = None
    available_bytes: int | None = None
    cgroup_bytes: int | None = None
    gpus: tuple[Gpu, ...] | None = None  # None: could not be asked
    interfaces: tuple[str, ...] | None = None
    rdma: dict[str, int] = field(default_factory=dict)  # device -> number of GIDs
    limits: dict[str, int | None] = field(default_factory=dict)  # None: unlimited
    shm_bytes: int | None = None
    hostname: str = "localhost"
    addresses: tuple[str, ...] | None = None  # of the own name; None: unknown
    environment: dict[str, str] = field(default_factory=dict)
    locks: tuple[Lock, ...] = ()
    compilers: int = 0
    packages: dict[str, Package] = field(default_factory=dict)
    iommu_groups: int = 0

    def resolve(self, name: str) -> tuple[str, ...] | None:
        """Return the addresses of a name; an empty tuple when it has none, None if unknown."""
        return lookup(name)

    def port_free(self, port: int) -> bool | None:
        """Return whether this machine could listen on a port; None if that cannot be told."""
        return _port_free(port)

    def disk(self, path: str) -> Disk:
        """Return what a path stands on, or would."""
        return _disk(path)


def this_host() -> Host:
    """Return the facts of this machine."""
    meminfo = _meminfo()
    name = socket.gethostname()
    return Host(
        memory_bytes=meminfo.get("MemTotal"), available_bytes=meminfo.get("MemAvailable"),
        cgroup_bytes=_cgroup_limit(), gpus=_gpus(), interfaces=_interfaces(), rdma=_rdma(),
        limits=_limits(), shm_bytes=_shm(), hostname=name, addresses=lookup(name),
        environment=dict(os.environ), locks=tuple(_locks(os.environ)), compilers=_compilers(),
        packages=installed(sys.path), iommu_groups=len(_names("/sys/kernel/iommu_groups")),
    )  # fmt: skip


def _text(path: str, limit: int = 1 << 16) -> str:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            return stream.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _meminfo() -> dict[str, int]:
    rows = re.findall(r"^(\w+):\s+(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
    return {name: int(kib) << 10 for name, kib in rows}


def _cgroup_limit() -> int | None:
    """Return the memory limit of this process' cgroup (v2, or v1), the tightest on its way up."""
    groups = _text("/proc/self/cgroup")
    v2 = re.search(r"^0::(\S+)", groups, re.MULTILINE)
    v1 = re.search(r"^\d+:[^:\n]*\bmemory\b[^:\n]*:(\S+)", groups, re.MULTILINE)
    found: list[int] = []
    for match, root, leaf in (
        (v2, "/sys/fs/cgroup", "memory.max"),
        (v1, "/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ):
        path = Path(match.group(1)) if match else Path("/")
        for step in (path, *path.parents):
            text = _text(f"{root}{step}/{leaf}".replace("//", "/")).strip()
            if text.isdigit() and int(text) < 1 << 60:  # v1 writes "no limit" as 2^63
                found.append(int(text))
    return min(found, default=None)


def _gpus() -> tuple[Gpu, ...] | None:
    query = "--query-gpu=name,memory.total,compute_cap"
    try:
        done = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"],
            capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        return () if not Path("/dev/nvidiactl").exists() else None
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return parse_gpus(done.stdout.decode("utf-8", "replace"))


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the devices of nvidia-smi's CSV."""
    found = []
    for line in text.splitlines()[:1024]:
        cells = [c.strip() for c in line.split(",")]
        if len(cells) < 2 or not cells[1].isdigit():
            continue
        cap = re.fullmatch(r"(\d+)\.(\d+)", cells[2]) if len(cells) > 2 else None
        pair = (int(cap.group(1)), int(cap.group(2))) if cap else None
        found.append(Gpu(name=cells[0], memory_bytes=int(cells[1]) << 20, capability=pair))
    return tuple(found)


def _interfaces() -> tuple[str, ...] | None:
    try:
        return tuple(name for _, name in socket.if_nameindex())
    except (OSError, AttributeError):
        return None


def _rdma() -> dict[str, int]:
    base = "/sys/class/infiniband"
    return {
        device: max((len(_names(f"{base}/{device}/ports/{p}/gids"))
                     for p in _names(f"{base}/{device}/ports")), default=0)
        for device in _names(base)
    }  # fmt: skip


def _limits() -> dict[str, int | None]:
    try:
        import resource
    except ImportError:  # Windows
        return {}
    found: dict[str, int | None] = {}
    for name in ("memlock", "nofile", "as", "nproc"):
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is not None:
            soft = resource.getrlimit(number)[0]
            found[name] = None if soft == resource.RLIM_INFINITY else soft
    return found


def _shm() -> int | None:
    try:
        state = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return None
    return state.f_frsize * state.f_blocks


def lookup(name: str, deadline_s: float = 5.0) -> tuple[str, ...] | None:
    """Return the addresses of a name, asked with a deadline: a dead resolver takes minutes."""
    import threading

    answer: list[tuple[str, ...]] = []

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            answer.append(tuple(sorted({str(r[4][0]) for r in rows})))
        except (OSError, UnicodeError):
            answer.append(())

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(deadline_s)
    return answer[0] if answer else None


def _port_free(port: int) -> bool | None:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            if sys.platform != "win32":  # a port in TIME_WAIT is free for torch's store too
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            return True
    except PermissionError:
        return None
    except (OSError, OverflowError):
        return False


def _disk(path: str) -> Disk:
    target = Path(path)
    base = target
    while not base.exists() and base != base.parent:
        base = base.parent
    try:
        state = os.statvfs(base)
        free, total = state.f_frsize * state.f_bavail, state.f_frsize * state.f_blocks
    except (OSError, AttributeError):
        free = total = 0
    exists = target.is_dir()
    writable = os.access(base, os.W_OK | os.X_OK) and base.is_dir()
    kind = _filesystem(str(base.resolve()))
    return Disk(exists=exists, writable=writable, free_bytes=free, total_bytes=total, kind=kind)


def _filesystem(path: str) -> str:
    best, kind = "", ""
    for line in _text("/proc/self/mounts", 1 << 20).splitlines():
        cells = line.split()
        if len(cells) < 3:
            continue
        mount = cells[1].replace("\\040", " ")
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, cells[2]
    return kind


def _locks(environment: os._Environ[str]) -> Iterator[Lock]:
    """Yield the locks of torch's JIT builds (torch/utils/cpp_extension.py: FileBaton)."""
    home = environment.get("TORCH_EXTENSIONS_DIR")
    base = Path(home) if home else Path.home() / ".cache" / "torch_extensions"
    for pattern in ("lock", "*/lock", "*/*/lock"):
        for path in sorted(base.glob(pattern))[:100]:
            try:
                yield Lock(path=str(path), age_s=max(0.0, time.time() - path.stat().st_mtime))
            except OSError:
                continue


_COMPILERS = {"ninja", "cc1plus", "nvcc", "cicc", "ptxas", "c++", "g++", "hipcc"}


def _compilers() -> int:
    pids = [p for p in _names("/proc") if p.isdigit()]
    return sum(_text(f"/proc/{pid}/comm").strip() in _COMPILERS for pid in pids)


_NAMED = ("torch", "deepspeed", "accelerate", "transformers", "pydantic", "numpy", "lightning",
          "pytorch-lightning", "torchvision", "torchaudio", "triton", "peft", "trl", "datasets",
          "safetensors", "tokenizers", "huggingface-hub", "bitsandbytes", "flash-attn", "xformers")  # fmt: skip
_DIST = re.compile(r"([A-Za-z0-9][\w.]*)-([^-]+)\.dist-info\Z")


def installed(folders: list[str]) -> dict[str, Package]:
    """Return the training packages below these folders, from their dist-info, importing nothing."""
    found: dict[str, Package] = {}
    for folder in folders:
        for entry in _names(folder or "."):
            match = _DIST.match(entry)
            name = normal(match.group(1)) if match else ""
            if match and name in _NAMED and name not in found:
                found[name] = _package(name, f"{folder or '.'}/{entry}", match.group(2))
    return found


def _package(name: str, folder: str, version: str) -> Package:
    head = _text(f"{folder}/METADATA", 1 << 18).split("\n\n", 1)[0]
    requires = re.findall(r"^Requires-Dist: (.{1,300})$", head, re.MULTILINE)
    return Package(name=name, version=version, requires=tuple(requires))


def normal(name: str) -> str:
    """Return a distribution's name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()
