"""C++ aborts, fatal signals and glibc's last words.

Belongs here: text that a process prints while it dies without Python's help. Must not be here: who killed it.
"""

from __future__ import annotations

import re

from rootrank.model import Line, Origin, Sighting, SpeaksOf
from rootrank.scan.words import classify, sighting

_TERMINATE = re.compile(
    r"terminate called after throwing an instance of '(?P<type>[^']{1,200})'|terminate called (?:without an active exception|recursively)"
)
_WHAT = re.compile(r"what\(\): +(?P<message>.*)")
_FATAL = re.compile(r"Fatal Python error: (?P<message>.*)")
_SEGV_KERNEL = re.compile(
    r"(?P<process>[\w./:+-]+)\[(?P<pid>\d+)\]:? segfault at (?P<at>[0-9a-f]+) ip (?P<ip>[0-9a-f]+) sp [0-9a-f]+ error (?P<error>[0-9a-f]+)(?: in (?P<library>[^\[\s]+))?"
)
_TRAP = re.compile(
    r"traps: (?P<process>[\w./:+-]+)\[(?P<pid>\d+)\] (?P<what>trap invalid opcode|general protection[^ ]*)(?: fault)? ip:[0-9a-f]+.*?(?: in (?P<library>[^\[\s]+))?"
)
_HANDLER = re.compile(
    r"\*\*\* Process received signal \*\*\*|Signal: (?P<name>[A-Za-z ]+) \((?P<number>\d+)\)|Caught signal (?P<caught>\d+) \((?P<words>[^)]*)\)"
)
_SHELL = re.compile(
    r"(?:^|[\s:])(?P<what>Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)(?: +\(core dumped\)|$)"
)
_GLIBC = re.compile(
    r"(?P<message>double free or corruption.{0,40}|free\(\): invalid (?:pointer|size|next size).{0,40}|malloc\(\): .{0,60}|corrupted (?:size vs\. prev_size|double-linked list).{0,20}"
    r"|munmap_chunk\(\): invalid pointer|\*\*\* stack smashing detected \*\*\*.{0,40}|\*\*\* buffer overflow detected \*\*\*.{0,40})"
)
_ASSERT = re.compile(
    r"(?P<process>[\w./+-]+): (?P<file>[\w./+-]+):(?P<line>\d+): (?P<func>.{1,200}): Assertion [`'](?P<message>.{1,300})' failed"
)
_CHECK = re.compile(r"\bF(?:\d{4})? ?.{0,80}?[\w./]+:\d+\] (?P<message>Check failed: .*|.*)$")
_WORDS = {
    "Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT", "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL", "Floating point exception": "SIGFPE",
}  # fmt: skip


def terminate(line: Line) -> Sighting | None:
    """`terminate called…` names the C++ type; the words follow in `what():`."""
    m = _TERMINATE.search(line.text)
    if not m:
        return None
    kind = (m["type"] or "").rsplit("::", 1)[-1]
    if kind == "DistBackendError":  # thrown by a collective's watchdog: it speaks of the others
        return sighting(line, "watchdog-note", SpeaksOf.PEER, library="nccl", note=m.group(0))
    return sighting(line, "abort", type=kind, message="")


def what(line: Line) -> Sighting | None:
    """`what():` carries the message of an uncaught C++ exception."""
    m = _WHAT.search(line.text)
    if not m:
        return None
    words = classify(m["message"])
    if words:
        kind, speaks, fields = words
        return sighting(line, kind, speaks, message=m["message"], **fields)
    return sighting(line, "abort", message=m["message"])


def fatal_python(line: Line) -> Sighting | None:
    """faulthandler and the interpreter: "Fatal Python error: Segmentation fault"."""
    m = _FATAL.search(line.text)
    if not m:
        return None
    signal = next((s for w, s in _WORDS.items() if w in m["message"]), None)
    return sighting(line, "fatal-signal", signal=signal, message=m["message"], by="python")


def kernel_segfault(line: Line) -> Sighting | None:
    """The kernel's own record of a user-space fault; the library named is where it happened, not why."""
    m = _SEGV_KERNEL.search(line.text) or _TRAP.search(line.text)
    if not m:
        return None
    signal = "SIGSEGV" if "segfault" in line.text else "SIGILL"
    return sighting(
        line, "fatal-signal", origin=Origin(pid=int(m["pid"])), signal=signal, by="kernel",
        process=m["process"], library=m["library"], message=m.group(0),
    )  # fmt: skip


def signal_handler(line: Line) -> Sighting | None:
    """MPI's and UCX's handlers print the signal they caught."""
    m = _HANDLER.search(line.text)
    if not m or not (m["number"] or m["caught"]):
        return None
    from rootrank.scan.words import SIGNALS

    number = int(m["number"] or m["caught"])
    if number == 15:
        return sighting(line, "teardown", SpeaksOf.TEARDOWN, signal="SIGTERM", by="handler")
    return sighting(
        line, "fatal-signal", signal=SIGNALS.get(number), message=m.group(0), by="handler"
    )


def shell_words(line: Line) -> Sighting | None:
    """A shell reports that its child died: "Segmentation fault (core dumped)"."""
    m = _SHELL.search(line.text)
    if not m or len(line.text) > 400 or re.search(r"task \d|tasks \d", line.text):
        return None
    pid = re.search(r"(?:line \d+: +|^ *)(\d{2,8}) +" + re.escape(m["what"]), line.text)
    return sighting(
        line, "fatal-signal", origin=Origin(pid=int(pid[1]) if pid else None),
        signal=_WORDS[m["what"]], message=m["what"], by="shell",
    )  # fmt: skip


def glibc(line: Line) -> Sighting | None:
    """Heap corruption found by glibc: the process aborts at once."""
    m = _GLIBC.search(line.text)
    if not m or line.text.lstrip().startswith(("#", "//", '"')):
        return None
    return sighting(line, "fatal-signal", signal="SIGABRT", message=m["message"], by="glibc")


def c_assert(line: Line) -> Sighting | None:
    """assert(3) of C and C++ programs."""
    m = _ASSERT.search(line.text)
    if not m:
        return None
    return sighting(
        line, "abort", type="assert", message=f"Assertion '{m['message']}' failed",
        file=f"{m['file']}:{m['line']}",
    )  # fmt: skip


def check_failed(line: Line) -> Sighting | None:
    """glog and TensorFlow: `F file.cc:12] Check failed: …` ends the process."""
    if "Check failed: " not in line.text:
        return None
    m = _CHECK.search(line.raw)
    if not m:
        return None
    return sighting(line, "abort", type="check", message=m["message"])


PARSERS = (
    (("terminate called ",), terminate),
    (("what():  ", "what(): "), what),
    (("Fatal Python error",), fatal_python),
    (("segfault at ", "trap invalid opcode", "general protection"), kernel_segfault),
    (("Process received signal", "Signal: ", "Caught signal "), signal_handler),
    (
        (
            "Segmentation fault",
            "Aborted",
            "Bus error",
            "Illegal instruction",
            "Floating point exception",
        ),
        shell_words,
    ),
    (
        (
            "double free or",
            "free(): ",
            "malloc(): ",
            "corrupted size",
            "corrupted double",
            "munmap_chunk",
            "stack smashing",
            "buffer overflow det",
        ),
        glibc,
    ),
    (("Assertion `", "Assertion '"), c_assert),
    (("Check failed: ",), check_failed),
)
