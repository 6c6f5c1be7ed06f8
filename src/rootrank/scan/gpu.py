"""Accelerators: runtime errors outside tracebacks, device asserts, driver records (Xid, SXid), health tools.

Belongs here: CUDA/HIP/Neuron/Ascend words and codes. Must not be here: whether hardware or software is to blame.
Xid numbers are explained in NVIDIA's "XID Errors" document; their meaning lives in the entries.
"""

from __future__ import annotations

import re

from rootrank.model import Line, Origin, Sighting, SpeaksOf
from rootrank.scan.words import classify, is_prose, sighting

_CUDA = re.compile(
    r"(?P<lib>CUDA|HIP|Cuda|cuda|hip)(?: runtime| driver)? (?:error|failure)(?: \(?(?P<num>\d{1,4})\)?)?[: ]+['\"]?(?P<message>[^'\"\n]{3,200})"
)
_NAMED = re.compile(
    r"\b(?P<name>(?:cuda|hip)Error[A-Z]\w+|CUBLAS_STATUS_(?!SUCCESS)\w+|CUDNN_STATUS_(?!SUCCESS)\w+|CUSOLVER_STATUS_(?!SUCCESS)\w+|CUFFT_(?!SUCCESS)[A-Z_]{6,}|NVML_ERROR_\w+|CUDA_ERROR_\w+|ROCBLAS_STATUS_\w+|NRT_(?!SUCCESS)[A-Z_]{5,})\b(?P<rest>.{0,160})"
)
_ASSERT = re.compile(
    r"(?P<file>[\w./-]+\.(?:cu|cuh|hip|cpp|h)):(?P<line>\d+): .{0,200}?block: \[(?P<block>[\d, ]+)\], thread: \[(?P<thread>[\d, ]+)\] Assertion [`'\"]?(?P<message>.{1,160}?)[`'\"]? failed"
)
_HIP_ASSERT = re.compile(r":\d+: .{0,200}?Device-side assertion [`'](?P<message>.{1,160})' failed")
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+)(?:, (?P<rest>.*))?"
)
_OF_PROCESS = frozenset({13, 31, 43, 68, 69, 94, 109})
_XID_PID = re.compile(r"pid='?(?P<pid>\d+)'?")
_XID_NAME = re.compile(r"name=(?P<name>[^,]+)")
_SXID = re.compile(r"SXid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+), (?P<message>.*)")
_FM = re.compile(
    r"detected NVSwitch (?P<fatal>non-fatal|fatal) error (?P<code>\d+).{0,60}?(?:pci bus id (?P<pci>[0-9a-fA-F:.]+))?.{0,40}?(?:port (?P<port>\d+))?$"
)
# A row of a table, or a string in somebody's configuration.
_QUOTED = re.compile(r"^\s*\||[\"'][^\"']*fallen off the bus")
_OFF_BUS = re.compile(r"GPU has fallen off the bus|fallen off the bus")
_NEURON = re.compile(
    r"ERROR +(?P<component>(?:NRT|TDRV|NMGR|NCOM|ENC)):(?P<func>\w+) +(?P<message>.*)"
)
_ASCEND = re.compile(
    r"(?:Call (?P<call>(?:acl|rt|hccl|Hcom)\w+) failed|(?P<err>E[A-Z]\d{4}): ?)(?P<message>.{0,300})"
)
_HEALTH = re.compile(
    r"(?P<message>GPU \d+ Thermal violations.{0,60}|Fail - GPUs?: [\d, ]+|Unable to determine the device handle for GPU.{0,80}|(?:GPU|device).{0,20}(?:is lost|is unhealthy|requires? (?:a )?reset)|ERR!.{0,40}|Reboot the system to recover this GPU|GPU requires reset|(?:SRAM|DRAM|Device Memory|Double Bit).{0,30}Uncorrectable[^:]{0,30}: *[1-9]\d*|H[Ww] (?:Thermal |Power Brake )?Slowdown *: Active|SW Thermal Slowdown *: Active|row remapping (?:failure|pending).{0,40}|Remapping Failure Occurred *: Yes|uncorrectable (?:ECC|memory) errors? (?:count )?.{0,40}[1-9]\d*)"
)


def cuda_words(line: Line) -> Sighting | None:
    """A CUDA or HIP failure printed by C++ code, NCCL or a driver API."""
    text = line.text
    m = _CUDA.search(text)
    if m and is_prose(text, m.start()):
        return None
    if m and m["message"].strip().lower() not in {"no error", "success", "0"}:
        named = _NAMED.search(text)
        return sighting(
            line,
            "cuda-error",
            name=named["name"] if named else m["message"].strip()[:80],
            message=m["message"].strip(),
            library=m["lib"].lower(),
        )
    named = _NAMED.search(text)
    if named and not re.match(r"^\s*(?:#|//|case |if |return |raise |import |from )", text):
        return sighting(
            line, "cuda-error", name=named["name"], message=(named["name"] + named["rest"]).strip()
        )
    return None


def device_assert(line: Line) -> Sighting | None:
    """A kernel's assert: thousands of threads print it; the first is as good as any."""
    m = _ASSERT.search(line.text)
    if m:
        return sighting(
            line,
            "device-assert",
            message=m["message"],
            file=f"{m['file']}:{m['line']}",
            block=m["block"],
            thread=m["thread"],
        )
    m = _HIP_ASSERT.search(line.text)
    return sighting(line, "device-assert", message=m["message"]) if m else None


def xid(line: Line) -> Sighting | None:
    """The driver's error record. With a process named it speaks of that process, else of the surroundings."""
    m = _XID.search(line.raw)
    if not m:
        return None
    rest = m["rest"] or ""
    pid, name = _XID_PID.search(rest), _XID_NAME.search(rest)
    # These codes end the process they name; the others are the device's own trouble, whoever was on it.
    speaks = (
        SpeaksOf.SELF if pid and name and int(m["code"]) in _OF_PROCESS else SpeaksOf.ENVIRONMENT
    )
    return sighting(
        line, "xid", speaks, origin=Origin(device=m["pci"], role="kernel"),
        code=int(m["code"]), pci=m["pci"], pid=int(pid["pid"]) if pid else None,
        process=name["name"].strip() if name else None, message=rest,
    )  # fmt: skip


def sxid(line: Line) -> Sighting | None:
    """NVSwitch errors, as the kernel or the fabric manager tells them."""
    m = _SXID.search(line.raw)
    if m:
        fatal = "fatal" in m["message"].lower() and "non-fatal" not in m["message"].lower()
        return sighting(
            line,
            "sxid",
            SpeaksOf.ENVIRONMENT,
            code=int(m["code"]),
            pci=m["pci"],
            fatal=fatal,
            message=m["message"],
        )
    m = _FM.search(line.raw)
    if m:
        return sighting(
            line,
            "sxid",
            SpeaksOf.ENVIRONMENT,
            code=int(m["code"]),
            pci=m["pci"],
            port=m["port"],
            fatal=m["fatal"] == "fatal",
            message=line.text.strip(),
        )
    return None


def off_bus(line: Line) -> Sighting | None:
    """A GPU that left the PCIe bus; also printed without any Xid."""
    if "Xid" in line.raw or _QUOTED.search(line.text) or not _OFF_BUS.search(line.text):
        return None
    return sighting(
        line, "gpu-health", SpeaksOf.ENVIRONMENT, message=line.text.strip(), check="bus"
    )


def neuron(line: Line) -> Sighting | None:
    """AWS Neuron runtime errors carry component and function."""
    m = _NEURON.search(line.text) or _NEURON.search(line.raw)
    if not m:
        return None
    words = classify(line.raw)
    if words:
        kind, speaks, fields = words
        return sighting(line, kind, speaks, message=m["message"].strip(), **fields)
    name = f"{m['component']}:{m['func']}"
    return sighting(line, "cuda-error", name=name, message=m["message"].strip(), library="neuron")


def ascend(line: Line) -> Sighting | None:
    """Ascend runtime: the failed call and its return code."""
    m = _ASCEND.search(line.text)
    if not m:
        return None
    return sighting(
        line, "cuda-error", name=m["call"] or m["err"], message=m.group(0).strip(), library="ascend"
    )


def health(line: Line) -> Sighting | None:
    """dcgmi, nvidia-smi and the like say that a device is unwell."""
    if "device plugin" in line.raw or "Allocate failed" in line.raw:
        return None  # Kubernetes speaks of a pod
    m = _HEALTH.search(line.text)
    return (
        sighting(
            line, "gpu-health", SpeaksOf.ENVIRONMENT, message=m["message"].strip(), check="tool"
        )
        if m
        else None
    )


PARSERS = (
    (("CUDA error", "CUDA failure", "Cuda failure", "HIP error", "CUDA runtime error", "CUDA driver error", "hipError", "cudaError", "CUBLAS_STATUS_", "CUDNN_STATUS_", "NVML_ERROR_", "CUDA_ERROR_", "CUSOLVER_STATUS_", "ROCBLAS_STATUS_"), cuda_words),
    (("Assertion ",), device_assert),
    (("Device-side assertion",), device_assert),
    (("NVRM: Xid",), xid),
    (("SXid (PCI", "detected NVSwitch"), sxid),
    (("fallen off the bus",), off_bus),
    ((" NRT:", " TDRV:", " NMGR:"), neuron),
    (("aclrt", " failed, ret[", "Call acl", "Call rt", "Call hccl"), ascend),
    (("Thermal violations", "Fail - GPU", "device handle for GPU", "GPU is lost", "is unhealthy", "requires reset", "recover this GPU", "Remapping Failure", "requires a reset", "require reset",
            "Uncorrectable",
            "Slowdown"), health),
)  # fmt: skip
