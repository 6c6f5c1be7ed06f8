"""Environment variables of NCCL, gloo, CUDA and torch that slow, break or blind a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rootrank.preflight.finding import MAY, NOTE, WILL, Finding, Place, rule
from rootrank.preflight.job import Job

_NCCL = "NCCL user guide, Environment Variables (docs.nvidia.com/deeplearning/nccl)"

INTERFACE = rule(
    "socket-interface", "NCCL_/GLOO_SOCKET_IFNAME names an interface that exists here",
    "wrong-network-interface", f"{_NCCL}: NCCL_SOCKET_IFNAME; torch ProcessGroupGloo.cpp",
)  # fmt: skip
LOOPBACK = rule(
    "socket-loopback", "several nodes do not talk over the loopback interface",
    "wrong-network-interface", f"{_NCCL}: NCCL_SOCKET_IFNAME",
)  # fmt: skip
IB_OFF = rule(
    "nccl-ib-disable", "InfiniBand is used where it is present", "throughput-drop",
    f"{_NCCL}: NCCL_IB_DISABLE",
)  # fmt: skip
HCA = rule(
    "nccl-ib-hca", "NCCL_IB_HCA names a device that exists here", "rdma-setup-failed",
    f"{_NCCL}: NCCL_IB_HCA",
)  # fmt: skip
GID = rule(
    "nccl-gid-index", "NCCL_IB_GID_INDEX is an index that a port has", "rdma-setup-failed",
    f"{_NCCL}: NCCL_IB_GID_INDEX (since 2.21 best left unset)",
)  # fmt: skip
DEBUG = rule(
    "debug-left-on", "no debugging switch in a production launch", "throughput-drop",
    f"{_NCCL}: Debugging; CUDA C++ Programming Guide: CUDA_LAUNCH_BLOCKING; "
    "torch distributed docs: TORCH_DISTRIBUTED_DEBUG",
)  # fmt: skip
DETAIL = rule(
    "debug-detail-gloo", "TORCH_DISTRIBUTED_DEBUG=DETAIL is not used with gloo",
    "ddp-gloo-detail-segfault", "observed: DDP on gloo ends with SIGSEGV in torch 2.13.0 (CPU)",
)  # fmt: skip
WATCHDOG = rule(
    "watchdog-off", "a collective that never ends is ended by its timeout", "collective-timeout",
    "torch ProcessGroupNCCL: TORCH_NCCL_ASYNC_ERROR_HANDLING",
)  # fmt: skip
RENAMED = rule(
    "variable-renamed", "variables carry the name that this torch reads", "config-value-invalid",
    "torch 2.2 release notes: TORCH_NCCL_ prefix",
)  # fmt: skip


def check(job: Job) -> Iterator[Finding]:
    """Yield what the environment of the job will do to it."""
    for name, value, place in job.variables():
        family = _FAMILIES.get(name)
        if family and value is not None:
            yield from family(job, name, value, place)


def _interface(job: Job, name: str, value: str, place: Place) -> Iterator[Finding]:
    words = value.lstrip("^=").split(",")
    if (job.nodes or 1) > 1 and not value.startswith("^") and all(w == "lo" for w in words):
        yield LOOPBACK.found(
            WILL, place, f"{name}={value} with {job.nodes} nodes",
            "the loopback interface reaches no other node.", "name the interface of the network",
        )  # fmt: skip
    known = job.host.interfaces if job.host else None
    if known is None:
        return
    chosen = matching(value, known, exact=name.startswith("GLOO"))
    if not chosen:
        listed = ", ".join(known[:12])
        yield INTERFACE.found(
            WILL, place, f"{name}={value} matches none of {listed}",
            "the library finds no address to listen on (NCCL: \"no socket interface found\"; gloo: "
            "\"Unable to find address for\").",
            "name one of them; check it on every node, names differ between machines",
        )  # fmt: skip


def matching(value: str, known: tuple[str, ...], *, exact: bool = False) -> list[str]:
    """Return the interfaces that a value selects: prefixes, `=` exact, `^` all others."""
    negate = value.startswith("^")
    value = value[1:] if negate else value
    exact = exact or value.startswith("=")
    words = [w for w in value.lstrip("=").split(",") if w]
    hit = [k for k in known if any(k == w if exact else k.startswith(w) for w in words)]
    return [k for k in known if k not in hit and k != "lo"] if negate else hit


def _ib_disable(job: Job, name: str, value: str, place: Place) -> Iterator[Finding]:
    if value != "1" or not job.host or not job.host.rdma:
        return
    yield IB_OFF.found(
        MAY, place, f"{name}=1, but {', '.join(sorted(job.host.rdma)[:8])} is here",
        "NCCL then sends over TCP sockets, a fraction of the bandwidth.",
        "unset it once the reason for it is solved",
    )  # fmt: skip


def _hca(job: Job, name: str, value: str, place: Place) -> Iterator[Finding]:
    host = job.host
    if not host or not host.rdma or value.startswith("^"):
        return
    words = [w.split(":")[0] for w in value.lstrip("=").split(",") if w]
    exact = value.startswith("=")
    if not any(d == w if exact else d.startswith(w) for d in host.rdma for w in words):
        yield HCA.found(
            MAY, place, f"{name}={value} matches none of {', '.join(sorted(host.rdma)[:8])}",
            "NCCL then uses no InfiniBand device and falls back to sockets, or finds no network.",
            "name a device of `ibv_devices`",
        )  # fmt: skip


def _gid(job: Job, name: str, value: str, place: Place) -> Iterator[Finding]:
    host = job.host
    if not host or not host.rdma:
        return
    count = max(host.rdma.values(), default=0)
    if not value.isdigit() or (count and int(value[:9]) >= count):
        yield GID.found(
            MAY, place, f"{name}={value}, the ports have {count} GIDs",
            "the queue pairs are then made with a GID that does not exist: ibv_modify_qp fails.",
            "unset it (NCCL chooses since 2.21), or see `show_gids`",
        )  # fmt: skip


def _debug(job: Job, name: str, value: str, place: Place) -> Iterator[Finding]:
    effect = _DEBUGGING[name](value.upper())
    if effect:
        yield DEBUG.found(
            NOTE, place, f"{name}={value}", effect, f"unset {name} when the search is over",
        )  # fmt: skip
    if name == "TORCH_DISTRIBUTED_DEBUG" and value.upper() == "DETAIL":
        yield DETAIL.found(
            MAY if job.on_gloo else NOTE, place, f"{name}={value}" + (" with gloo" if job.on_gloo else ""),
            "each process group is wrapped and checked before every collective: slow with NCCL, and "
            "DDP on gloo crashed with SIGSEGV without any fault of its own.",
            "use INFO",
        )  # fmt: skip


def _when(*values: str, effect: str) -> Callable[[str], str]:
    return lambda value: effect if value in values else ""


_DEBUGGING: dict[str, Callable[[str], str]] = {
    "CUDA_LAUNCH_BLOCKING": _when(
        "1", effect="each kernel is waited for: no overlap of compute and communication, and steps "
        "several times slower."),
    "NCCL_DEBUG": _when(
        "TRACE", effect="every call is logged: slow, and logs of gigabytes (INFO at start is enough)."),
    "NCCL_DEBUG_SUBSYS": _when("ALL", effect="everything is logged, which slows and fills disks."),
    "TORCH_DISTRIBUTED_DEBUG": lambda _: "",
    "NCCL_P2P_DISABLE": _when("1", effect="GPUs of one node then talk through host memory."),
    "NCCL_SHM_DISABLE": _when("1", effect="GPUs of one node then talk through the network."),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": _when(
        "1", effect="each tensor is a cudaMalloc, which synchronises the device."),
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": _when(
        "1", effect="a GPU exception stops the process for a debugger: the job hangs instead of failing."),
}  # fmt: skip


def _watchdog(job: Job, name: str, value: str, place: Place) -> Iterator[Finding]:
    if value == "0":
        yield WATCHDOG.found(
            MAY, place, f"{name}=0",
            "a collective that one rank never joins is then waited for without end.",
            "unset it (3 is the default: abort and end the process)",
        )  # fmt: skip
    yield from _renamed(job, name, value, place)


def _renamed(job: Job, name: str, value: str, place: Place) -> Iterator[Finding]:
    if name.startswith("NCCL_"):
        yield RENAMED.found(
            NOTE, place, f"{name} is an old name",
            "torch 2.2 renamed it; the old name is read with a warning, and dropped some day.",
            f"export TORCH_{name}",
        )  # fmt: skip


_FAMILIES: dict[str, Callable[[Job, str, str, Place], Iterator[Finding]]] = {
    "NCCL_SOCKET_IFNAME": _interface,
    "GLOO_SOCKET_IFNAME": _interface,
    "NCCL_IB_DISABLE": _ib_disable,
    "NCCL_IB_HCA": _hca,
    "NCCL_IB_GID_INDEX": _gid,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": _watchdog,
    "NCCL_ASYNC_ERROR_HANDLING": _watchdog,
    "NCCL_BLOCKING_WAIT": _renamed,
    **dict.fromkeys(_DEBUGGING, _debug),
}
