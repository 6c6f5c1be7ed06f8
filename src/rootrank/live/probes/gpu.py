"""The GPUs of this host, and NCCL's own view of the job.

Belongs here: nvidia-smi, rocm-smi, NCCL RAS. Must not be here: kernel records about GPUs (host.py).
nvidia-smi asks the driver and can hang on a sick device: then that is the evidence.
"""

from __future__ import annotations

import csv
import io
import socket
import time
from pathlib import Path

from rootrank.live import command
from rootrank.live.probes import Context, Probe

_SMI_S = 8.0
_RAS_S = 6.0
_RAS_CONNECT_S = 1.0
_RAS_LIMIT = 1 << 20
RAS_DEFAULT = "localhost:28028"
_GPU_FIELDS = (
    "index,uuid,pci.bus_id,name,pstate,utilization.gpu,utilization.memory,memory.used,memory.total,"
    "power.draw,power.limit,temperature.gpu,clocks.sm,clocks.max.sm,"
    "clocks_throttle_reasons.active,ecc.errors.uncorrected.volatile.total,"
    "driver_version"
)
_APP_FIELDS = "pid,gpu_uuid,gpu_bus_id,used_memory,process_name"


def devices(ctx: Context) -> None:
    """Keep the state of every GPU, who uses it, and which rank that is."""
    smi = command.find("nvidia-smi")
    if smi is None:
        _other_devices(ctx)
        return
    # The process table first: with the rank map it is worth most should the driver hang.
    apps = ctx.runner.run(
        [smi, f"--query-compute-apps={_APP_FIELDS}", "--format=csv"], deadline_s=_SMI_S
    )
    if apps.timed_out:
        ctx.store.miss("GPU state", apps.fault + ": the driver does not answer")
        return
    if apps.ok:
        ctx.store.put("nvidia-smi_apps.csv", apps.text, what="GPU processes", source=_said(apps))
        _join(ctx, apps.text)
    gpus = ctx.runner.run([smi, f"--query-gpu={_GPU_FIELDS}", "--format=csv"], deadline_s=_SMI_S)
    if gpus.ok:
        ctx.store.put("nvidia-smi_gpus.csv", gpus.text, what="GPU counters", source=_said(gpus))
    full = ctx.runner.run([smi, "-q"], deadline_s=_SMI_S)
    if full.ok:
        ctx.store.put(
            "nvidia-smi.txt", full.text, what="GPU state", source=_said(full), cut=full.cut
        )
    for done in (apps, gpus, full):
        if not done.ok:
            ctx.store.miss("GPU state", done.fault)
            break


def _said(done: command.Done) -> str:
    return " ".join(["nvidia-smi", *done.argv[1:]])


def _join(ctx: Context, text: str) -> None:
    """Note which GPU each rank holds."""
    rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    for row in rows[1:]:
        if len(row) >= 3 and row[0].isdecimal():
            key = f"gpus {row[0]}"
            held = ctx.moving.setdefault(key, [])
            if isinstance(held, list):
                held.append({"uuid": row[1], "pci": row[2]})


def _other_devices(ctx: Context) -> None:
    rocm = command.find("rocm-smi")
    if rocm is None:
        if uses_gpu(ctx):
            ctx.store.miss("GPU state", "neither nvidia-smi nor rocm-smi is here")
        return
    done = ctx.runner.run([rocm, "--showallinfo"], deadline_s=_SMI_S)
    if done.ok:
        ctx.store.put("rocm-smi.txt", done.text, what="GPU state", source="rocm-smi --showallinfo")
    else:
        ctx.store.miss("GPU state", done.fault)


def uses_gpu(ctx: Context) -> bool:
    """Return whether the job seems to use GPUs; a job on processors misses nothing here."""
    names = ("/dev/nvidiactl", "/dev/kfd")
    return any(Path(n).exists() for n in names) or any(
        r.process.env.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1") for r in ctx.job.ranks
    )


# --------------------------------------------------------------------------- NCCL RAS


def ras_address(ctx: Context) -> tuple[str, int]:
    """Return where the ranks' NCCL listens for questions."""
    for r in ctx.job.ranks:
        given = r.process.env.get("NCCL_RAS_ADDR", "")
        host, _, port = given.rpartition(":")
        if host and port.isdecimal():
            return host.strip("[]"), int(port)
    host, _, port = RAS_DEFAULT.rpartition(":")
    return host, int(port)


def ras(ctx: Context) -> None:
    """Keep the answer of NCCL's RAS threads: counters of launched operations, lost peers."""
    host, port = ras_address(ctx)
    try:
        answer = ask_ras(host, port)
    except OSError as error:
        if uses_gpu(ctx):
            reason = f"{host}:{port}: {error.strerror or error}"
            remedy = "NCCL 2.24 or newer with NCCL_RAS_ENABLE=1 answers there"
            ctx.store.miss("NCCL RAS", reason, remedy)
        return
    if answer.strip():
        ctx.store.put(
            "nccl_ras.txt", answer, what="NCCL RAS", source=f"{host}:{port} verbose status"
        )
    else:
        ctx.store.miss("NCCL RAS", f"{host}:{port} said nothing within {_RAS_S:.0f} s")


def ask_ras(host: str, port: int) -> str:
    """Return what RAS says, up to a limit of time and size. Raises OSError when nobody listens."""
    until = time.monotonic() + _RAS_S
    out = bytearray()
    with socket.create_connection((host, port), timeout=_RAS_CONNECT_S) as line:
        line.sendall(b"verbose status\n")
        while len(out) < _RAS_LIMIT and (left := until - time.monotonic()) > 0:
            line.settimeout(left)
            try:
                data = line.recv(1 << 16)
            except TimeoutError:
                break
            if not data:
                break
            out += data
    return out.decode("utf-8", "replace")


def _plan_devices(ctx: Context) -> list[str]:
    smi = command.find("nvidia-smi")
    if smi:
        return [f"GPU state, counters and processes: {smi} -q and two queries as csv"]
    return ["GPU state: nvidia-smi is not here"]


def _plan_ras(ctx: Context) -> list[str]:
    host, port = ras_address(ctx)
    return [f"NCCL RAS status from {host}:{port}, if something listens there"]


PROBES = (
    Probe(name="gpu", ask=devices, plan=_plan_devices, deadline_s=12.0),
    Probe(name="nccl-ras", ask=ras, plan=_plan_ras, deadline_s=_RAS_S + 2),
)
