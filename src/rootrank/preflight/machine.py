"""What this machine lacks: devices, limits, shared memory, disks, names, ports, free build locks."""

from __future__ import annotations

from collections.abc import Iterator

from rootrank.preflight.finding import MAY, NOTE, WILL, Finding, Place, rule
from rootrank.preflight.host import Host
from rootrank.preflight.job import Job, trainer_of
from rootrank.preflight.readers import Document, whole
from rootrank.preflight.zero import ZERO, device_of

DEVICES = rule(
    "devices", "there is a device for each process of a node", "invalid-device-ordinal",
    "torch.cuda.set_device(LOCAL_RANK); CUDA Programming Guide: CUDA_VISIBLE_DEVICES",
)  # fmt: skip
HARDWARE = rule(
    "precision-hardware", "the devices have the precision that is asked for", "config-value-invalid",
    "torch.cuda.is_bf16_supported; deepspeed 0.19.8 runtime/engine.py _do_sanity_check; "
    "transformers 5.24.0 training_args.py (tf32: Ampere; fp8: compute capability 8.9)",
)  # fmt: skip
SHM = rule(
    "shared-memory", "/dev/shm is large enough for data workers", "shm-full",
    "torch docs, multiprocessing and Docker --ipc/--shm-size; Docker's default is 64 MiB",
)  # fmt: skip
MEMLOCK = rule(
    "memlock", "locked memory is unlimited where RDMA or pinned offload is used", "rdma-setup-failed",
    "NCCL user guide, Troubleshooting (memlock); deepspeed 0.19.8 runtime/zero/offload_config.py "
    "pin_memory",
)  # fmt: skip
NOFILE = rule(
    "open-files", "enough open files for ranks, workers and shards", "too-many-open-files",
    "torch.multiprocessing docs: file_descriptor sharing strategy",
)  # fmt: skip
ADDRESS = rule(
    "address-space", "address space is not limited", "host-memory-alloc-failed",
    "getrlimit(2) RLIMIT_AS; CUDA reserves a virtual range as large as all memory",
)  # fmt: skip
NVME = rule(
    "nvme-target", "nvme_path is a local disk that can be written", "nvme-offload-slow",
    "deepspeed 0.19.8 runtime/swap_tensor/partitioned_param_swapper.py (os.makedirs, libaio O_DIRECT)",
)  # fmt: skip
LOCK = rule(
    "jit-lock", "no lock of a dead extension build", "stale-jit-lock",
    "torch 2.13.0 utils/file_baton.py FileBaton.wait; pytorch issue 189245",
)  # fmt: skip
NAME = rule(
    "hostname-loopback", "this machine's name is not a loopback address", "wrong-network-interface",
    "torch ProcessGroupGloo: the address of the host's own name is published to the peers",
)  # fmt: skip
MASTER = rule(
    "master-address", "MASTER_ADDR can be resolved and reached from other nodes",
    "hostname-resolution-failed", "torch.distributed env:// initialisation",
)  # fmt: skip
PORT = rule(
    "master-port", "the rendezvous port is valid and free", "port-in-use",
    "torch TCPStore (EADDRINUSE); accelerate 1.15.0 commands/launch.py",
)  # fmt: skip
TIMEOUT = rule(
    "timeout-checkpoint", "the collective timeout is longer than a checkpoint", "collective-timeout",
    "torch 2.13.0 distributed/constants.py (NCCL 600 s, others 1800 s); transformers ddp_timeout; "
    "deepspeed 0.19.8 constants.py DEEPSPEED_TIMEOUT",
)  # fmt: skip

_GIB = 1 << 30


def check(job: Job) -> Iterator[Finding]:
    """Yield what stands against this job on this machine, and what needs no machine to see."""
    yield from _master(job)
    yield from _timeout(job)
    yield from _visible(job)
    host = job.host
    if host is None:
        return
    for family in (_devices, _hardware, _shm, _limits, _nvme, _locks, _names):
        yield from family(job, host)


# --------------------------------------------------------------------------- devices


def _visible(job: Job) -> Iterator[Finding]:
    found, each = job.variable("CUDA_VISIBLE_DEVICES"), job.per_node
    if not found or not each or job.on_cpu:
        return
    value, place = found
    listed = [w for w in value.split(",") if w.strip()]
    if len(listed) < each:
        yield DEVICES.found(
            WILL, place, f"{each} processes on a node, {len(listed)} visible devices ({value or 'none'})",
            "each process takes the device of its local rank; the next one does not exist: "
            "\"invalid device ordinal\".",
            f"show {each} devices, or start {max(1, len(listed))} processes",
        )  # fmt: skip


def _devices(job: Job, host: Host) -> Iterator[Finding]:
    each = job.per_node
    if not each or host.gpus is None or job.on_cpu or job.variable("CUDA_VISIBLE_DEVICES"):
        return
    if not host.gpus:
        yield DEVICES.found(
            NOTE, Place(name=host.hostname), "no GPU here",
            "either the job runs elsewhere, or on CPU with gloo.",
            "run the check on a node of the job",
        )  # fmt: skip
    elif each > len(host.gpus):
        yield DEVICES.found(
            WILL, Place(name=host.hostname), f"{each} processes on a node, {len(host.gpus)} GPUs here",
            "each process takes the device of its local rank; the next one does not exist.",
            f"start {len(host.gpus)} processes per node",
        )  # fmt: skip


def _hardware(job: Job, host: Host) -> Iterator[Finding]:
    known = [g.capability for g in host.gpus or () if g.capability]
    if not known:
        return
    worst = min(known)
    for d, keys, name in _precisions(job):
        least = {"bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9)}.get(name)
        if least and worst < least:
            yield HARDWARE.found(
                WILL if name != "bf16" else MAY, d.place(*keys),
                f"{name} on compute capability {worst[0]}.{worst[1]}",
                f"{name} needs {least[0]}.{least[1]}; frameworks raise, or emulate it slowly.",
                "use fp16, or other GPUs",
            )  # fmt: skip


def _precisions(job: Job) -> Iterator[tuple[Document, tuple[str, ...], str]]:
    for d in job.of("deepspeed"):
        if d.get("bf16", "enabled") is True:
            yield d, ("bf16", "enabled"), "bf16"
    for d in job.of("trainer"):
        yield from ((d, (name,), name) for name in ("bf16", "tf32") if d.get(name) is True)
    for d in job.of("accelerate"):
        yield d, ("mixed_precision",), str(d.get("mixed_precision"))
    for d in job.of("lightning"):
        word = str(trainer_of(d).get("precision"))
        yield d, ("trainer", "precision"), "bf16" if word.startswith("bf16") else word


# --------------------------------------------------------------------------- limits


def _workers(job: Job) -> int | None:
    for d in job.documents:
        for key in ("dataloader_num_workers", "num_workers"):
            found = whole(d.get(key)) if d.get(key) is not None else whole(d.get("data", key))
            if found is not None:
                return found
    return None


def _shm(job: Job, host: Host) -> Iterator[Finding]:
    size, workers = host.shm_bytes, _workers(job)
    if size is None or workers == 0 or size >= _GIB:
        return
    small = size <= 64 << 20
    said = f", {workers} data workers per rank" if workers else ""
    yield SHM.found(
        MAY if (small and workers) or (small and workers is None) else NOTE, Place(name="/dev/shm"),
        f"/dev/shm has {size >> 20} MiB{said}",
        "workers hand each batch over through it (two per worker in advance), and NCCL uses it "
        "inside a node: \"unable to allocate shared memory\" or a bus error.",
        "docker run --ipc=host or --shm-size=16g; in Kubernetes an emptyDir of medium Memory there",
    )  # fmt: skip


def _limits(job: Job, host: Host) -> Iterator[Finding]:
    lock = host.limits.get("memlock", None)
    pinned = any(device_of(d, w) != "none" for d in job.of("deepspeed")
                 for w in ("offload_param", "offload_optimizer"))  # fmt: skip
    if lock is not None and (host.rdma or pinned):
        yield MEMLOCK.found(
            MAY if host.rdma else NOTE, Place(name="ulimit -l"), f"locked memory is limited to {lock >> 10} KiB",
            "RDMA registers its buffers in locked memory (ibv_reg_mr fails beyond the limit); pinned "
            "offload buffers cannot be paged out either.",
            "ulimit -l unlimited; docker --ulimit memlock=-1; LimitMEMLOCK=infinity for slurmd",
        )  # fmt: skip
    files, workers = host.limits.get("nofile", None), _workers(job) or 0
    if files is not None and files <= 1024:
        yield NOFILE.found(
            MAY if workers >= 8 else NOTE, Place(name="ulimit -n"), f"{files} open files at most",
            "workers share tensors by file descriptors, one each; shards and sockets come on top.",
            "ulimit -n 65536",
        )  # fmt: skip
    space = host.limits.get("as", None)
    if space is not None:
        yield ADDRESS.found(
            MAY, Place(name="ulimit -v"), f"address space is limited to {space >> 30} GiB",
            "CUDA reserves a virtual range as large as all memories together; torch fails with "
            "\"can't allocate memory\" while memory is free.",
            "ulimit -v unlimited",
        )  # fmt: skip


# --------------------------------------------------------------------------- storage

_NETWORK = ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "fuse.sshfs", "9p")


def _nvme(job: Job, host: Host) -> Iterator[Finding]:
    for d in job.of("deepspeed"):
        for what in ("offload_param", "offload_optimizer"):
            path = d.get(ZERO, what, "nvme_path")
            if device_of(d, what) == "nvme" and isinstance(path, str):
                yield from _target(d, host, what, path)


def _target(d: Document, host: Host, what: str, path: str) -> Iterator[Finding]:
    disk, place = host.disk(path), d.place(ZERO, what, "nvme_path")
    if not disk.writable:
        yield NVME.found(
            WILL, place, f"{path} cannot be written" if disk.exists else f"{path} is not there",
            "DeepSpeed makes its folder there when the optimizer is made.", "mount it, or give access",
        )  # fmt: skip
        return
    if not disk.exists:
        yield NVME.found(
            MAY, place, f"{path} is not there yet",
            "DeepSpeed makes the folder; if a disk should have been mounted there, the states go to "
            "the root disk.",
            "mount the disk, or make the folder where it should be",
        )  # fmt: skip
    if disk.kind in _NETWORK or disk.kind in ("tmpfs", "ramfs", "overlay"):
        what_then = (
            "memory, so nothing is offloaded" if disk.kind in ("tmpfs", "ramfs")
            else "not a local disk: each step waits for it, and direct I/O may be refused"
        )  # fmt: skip
        yield NVME.found(
            MAY, place, f"{path} is {disk.kind}", f"that is {what_then}.", "use a local NVMe file system",
        )  # fmt: skip


def _locks(job: Job, host: Host) -> Iterator[Finding]:
    for lock in host.locks[:8]:
        if host.compilers:
            continue  # somebody may be building right now
        yield LOCK.found(
            MAY, Place(name=lock.path), f"a build lock, {_age(lock.age_s)} old, and no compiler runs",
            "every process that needs this extension waits for the file to go, silently and without "
            "end; a killed build leaves it.",
            f"if no rank is building (pgrep -a ninja): rm {lock.path}",
        )  # fmt: skip


def _age(seconds: float) -> str:
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86400:.0f} days"


# --------------------------------------------------------------------------- names and ports


def _names(job: Job, host: Host) -> Iterator[Finding]:
    several = (job.nodes or 1) > 1
    if several and host.addresses and all(is_loopback(a) for a in host.addresses):
        yield NAME.found(
            MAY, Place(name="/etc/hosts"), f"{host.hostname} is {', '.join(host.addresses)} to itself",
            "gloo publishes the address of the own name unless GLOO_SOCKET_IFNAME is set; peers on "
            "other nodes then connect to themselves.",
            "map the name to the network address, or export GLOO_SOCKET_IFNAME",
        )  # fmt: skip
    if host.addresses == ():
        yield NAME.found(
            MAY if several else NOTE, Place(name="/etc/hosts"), f"{host.hostname} has no address",
            "torch and gloo look the own name up at start.", "add it to /etc/hosts or DNS",
        )  # fmt: skip


def is_loopback(address: str) -> bool:
    """Return whether an address or name is this machine to itself."""
    return address.startswith("127.") or address in ("::1", "localhost", "0.0.0.0")


def _master(job: Job) -> Iterator[Finding]:
    found = job.variable("MASTER_ADDR")
    if found:
        yield from _address(job, *found)
    port = job.variable("MASTER_PORT")
    if port:
        yield from _port(job, *port)
    for number in sorted(job.ports):
        yield from _free(
            job, int(number[:6]), Place(name="rendezvous endpoint"), "may be another host's"
        )


def _address(job: Job, value: str, place: Place) -> Iterator[Finding]:
    if (job.nodes or 1) > 1 and is_loopback(value):
        yield MASTER.found(
            WILL, place, f"MASTER_ADDR={value} with {job.nodes} nodes",
            "each node then waits for the others at its own address.",
            "export the first node's name: scontrol show hostnames $SLURM_JOB_NODELIST | head -n1",
        )  # fmt: skip
    elif job.host and job.host.resolve(value) == ():
        yield MASTER.found(
            WILL, place, f"{value} cannot be resolved here",
            "every rank looks it up before it can join.", "use a name or address that this node knows",
        )  # fmt: skip


def _port(job: Job, value: str, place: Place) -> Iterator[Finding]:
    value = value.strip()  # int() takes spaces around it
    if not value.isdigit() or not 0 < int(value[:6]) < 65536:
        yield PORT.found(
            WILL, place, f"MASTER_PORT={value}", "that is no port.", "use a free one, such as 29500",
        )  # fmt: skip
        return
    yield from _free(job, int(value), place, "")


def _free(job: Job, port: int, place: Place, but: str) -> Iterator[Finding]:
    if job.host and port and job.host.port_free(port) is False:
        yield PORT.found(
            MAY if but else WILL, place, f"port {port} is in use here" + (f" (it {but})" if but else ""),
            "rank 0 listens there: EADDRINUSE. A run that was not ended often holds it.",
            f"ss -ltnp 'sport = :{port}'; end that process or take another port",
        )  # fmt: skip


# --------------------------------------------------------------------------- timeouts


def _timeout(job: Job) -> Iterator[Finding]:
    limit = job.options.checkpoint_s
    if not limit:
        return
    for seconds, place, name in _timeouts(job):
        if seconds <= limit:
            yield TIMEOUT.found(
                WILL if seconds < limit else MAY, place,
                f"{name} is {seconds:g} s, a checkpoint takes {limit:g} s",
                "ranks that do not write wait in a collective meanwhile; the watchdog ends them.",
                f"set {limit * 3:.0f} s or more",
            )  # fmt: skip


def _timeouts(job: Job) -> Iterator[tuple[float, Place, str]]:
    found = False
    for d in job.of("trainer"):
        value = whole(d.get("ddp_timeout"))
        found = True
        yield float(value or 1800), d.place("ddp_timeout"), "ddp_timeout"
    minutes = job.variable("DEEPSPEED_TIMEOUT")
    if job.has("deepspeed") and not found:
        found = True
        value = int(minutes[0][:6]) if minutes and minutes[0].isdigit() else 10
        place = minutes[1] if minutes else Place(name="DEEPSPEED_TIMEOUT")
        yield value * 60.0, place, "DeepSpeed's timeout"
    if not found:
        yield (
            (1800.0 if job.on_gloo else 600.0),
            Place(name="process group"),
            "torch's default timeout",
        )
