"""Kernel and system-log lines: the OOM killer, hung tasks, links, buses, disks.

Belongs here: what the kernel prints (mm/oom_kill.c, kernel/hung_task.c, drivers). Must not be here: whose fault it is.
"""

from __future__ import annotations

import re

from rootrank.model import Line, Origin, Sighting, SpeaksOf
from rootrank.scan.words import sighting

_KILL = re.compile(
    r"(?P<memcg>Memory cgroup out of memory|Out of memory)(?: \(oom_kill_allocating_task\))?: Kill(?:ed)? process (?P<pid>\d+) \((?P<process>[^)]*)\)(?P<rest>.*)"
)
_OOM = re.compile(
    r"oom-kill:constraint=CONSTRAINT_(?P<constraint>\w+).*?(?:oom_memcg=(?P<cgroup>[^,]+),)?.*?task=(?P<process>[^,]+),pid=(?P<pid>\d+)"
)
_INVOKED = re.compile(r"(?P<process>\S+) invoked oom-killer")
_RSS = re.compile(r"anon-rss:(?P<kb>\d+)kB")
_HUNG = re.compile(
    r"INFO: task (?P<process>[^:]+):(?P<pid>\d+) blocked for more than (?P<s>\d+) seconds"
)

_EVENTS: tuple[tuple[str, SpeaksOf, re.Pattern[str]], ...] = (
    ("soft-lockup", SpeaksOf.ENVIRONMENT, re.compile(r"watchdog: BUG: soft lockup - CPU#(?P<device>\d+)|rcu_sched self-detected stall|hard LOCKUP")),
    ("panic", SpeaksOf.SELF, re.compile(r"Kernel panic - not syncing: (?P<what>.*)|BUG: unable to handle (?P<bug>.*)|kernel BUG at (?P<at>\S+)")),
    ("aer", SpeaksOf.ENVIRONMENT, re.compile(r"(?:pcieport|AER|nvidia|mlx5_core)\S* (?P<device>[0-9a-f:.]+)?:? ?(?:PCIe Bus Error: severity=(?P<sev>\w+)|AER: .{0,40}error)|PCIe Bus Error: severity=Uncorrect\w+")),
    ("mce", SpeaksOf.ENVIRONMENT, re.compile(r"mce: \[Hardware Error\]|Machine check events logged|Hardware Error\]: .{0,80}(?:Uncorrected|Fatal)")),
    ("edac", SpeaksOf.ENVIRONMENT, re.compile(r"EDAC \S+: \d+ UE |EDAC .{0,60}[Uu]ncorrect")),
    ("link-down", SpeaksOf.ENVIRONMENT, re.compile(r"mlx[45]_\w+.{0,60}(?:[Ll]ink down|port_state.{0,20}(?:DOWN|INIT)|Port module event.{0,60}(?:error|unplugged))|(?:ib\d|bond\d|eth\d|en\w+): (?:NIC )?Link is Down|link becomes (?:not ready|down)")),
    ("fs-error", SpeaksOf.ENVIRONMENT, re.compile(r"(?:EXT4-fs error|XFS \(\S+\): .{0,60}(?:Corruption|shutdown|I/O error|metadata)|BTRFS (?:error|critical)|Remounting filesystem read-only|LustreError: |GPFS: .{0,40}(?:unmount|panic))")),
    ("io-error", SpeaksOf.ENVIRONMENT, re.compile(r"blk_update_request: (?:critical |I/O )|Buffer I/O error|nvme\d?\S*: .{0,60}(?:timeout|reset|I/O \d+ QID)|I/O error, dev (?P<device>\w+)")),
    ("nfs", SpeaksOf.ENVIRONMENT, re.compile(r"nfs: server (?P<device>\S+) not responding|NFS: .{0,40}(?:error|timed out)|RPC: .{0,40}timed out")),
    ("nvrm", SpeaksOf.ENVIRONMENT, re.compile(r"NVRM: (?:GPU .{0,60}(?:lost|reset required|RmInitAdapter failed)|RmInitAdapter failed|.{0,40}API mismatch|rm_init_adapter failed)|nvidia: probe of .{0,40} failed")),
)  # fmt: skip


def oom(line: Line) -> Sighting | None:
    """The kernel killed a process to free memory. The victim is who it chose, not who used the memory."""
    m = _KILL.search(line.text)
    if m:
        rss = _RSS.search(m["rest"])
        return sighting(
            line, "oom-kill", origin=Origin(pid=int(m["pid"]), role="kernel"), process=m["process"], pid=int(m["pid"]),
            constraint="memcg" if m["memcg"].startswith("Memory") else "global",
            anon_rss_kb=int(rss["kb"]) if rss else None, message=m.group(0),
        )  # fmt: skip
    m = _OOM.search(line.text)
    if m:
        return sighting(
            line, "oom-kill", origin=Origin(pid=int(m["pid"]), role="kernel"), process=m["process"], pid=int(m["pid"]),
            constraint="memcg" if m["constraint"] == "MEMCG" else "global", cgroup=m["cgroup"], record=True,
        )  # fmt: skip
    return None


def hung(line: Line) -> Sighting | None:
    """hung_task: a process sat in uninterruptible sleep for minutes."""
    m = _HUNG.search(line.text)
    if not m:
        return None
    return sighting(
        line,
        "kernel",
        SpeaksOf.ENVIRONMENT,
        origin=Origin(pid=int(m["pid"]), role="kernel"),
        event="hung-task",
        process=m["process"],
        pid=int(m["pid"]),
        message=m.group(0),
    )


def event(line: Line) -> Sighting | None:
    """Links, buses, memory, disks and file systems."""
    for name, speaks, pattern in _EVENTS:
        m = pattern.search(line.raw)
        if m:
            # Corrected bus errors are repaired in hardware: they confirm nothing.
            corrected = name == "aer" and "Corrected" in line.raw and "Uncorrected" not in line.raw
            return sighting(
                line,
                "kernel",
                speaks,
                event="aer-corrected" if corrected else name,
                device=m.groupdict().get("device"),
                message=line.text.strip()[:400],
            )
    return None


PARSERS = (
    (("ut of memory: Kill", "oom-kill:constraint"), oom),
    (("blocked for more than",), hung),
    (
        (
            "soft lockup", "self-detected stall", "hard LOCKUP", "Kernel panic", "unable to handle", "kernel BUG at",
            "PCIe Bus Error", "AER: ", "Hardware Error", "Machine check", "EDAC MC", "Link down", "link down",
            "Link is Down", "Port module event", "port_state", "EXT4-fs error", "): Corruption", "I/O error", "BTRFS error", "BTRFS critical",
            "read-only", "LustreError", "blk_update_request", "not responding", "RmInitAdapter", "rm_init_adapter",
            "API mismatch", "nvidia: probe of", "GPFS: ",
        ),
        event,
    ),
)  # fmt: skip
