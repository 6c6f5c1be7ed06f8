"""Runs other programs: with a deadline, bounded output, and nothing of ours left behind.

Belongs here: starting, reading, ending. Must not be here: what a program is asked.

A program that asks the kernel about a sick device may not be killable. Then it is left alone and
said so; waiting for it would make the collector hang where the job hangs.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_OUTPUT = 2 << 20
_REAP_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a program said. `code` is None when it did not end in time or could not start."""

    argv: tuple[str, ...]
    code: int | None
    out: bytes = b""
    err: str = ""
    seconds: float = 0.0
    cut: bool = False  # more output than was kept
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended with success."""
        return self.code == 0

    @property
    def text(self) -> str:
        """Its standard output as text."""
        return self.out.decode("utf-8", "replace")

    @property
    def fault(self) -> str:
        """Why there is no answer, in a few words."""
        name = Path(self.argv[0]).name
        if self.timed_out:
            return f"{name} gave no answer within {self.seconds:.0f} s"
        said = (self.err or self.text).partition("Stack backtrace:")[0]  # of py-spy's own code
        said = " ".join(said.split())[:300]
        if self.code is None:
            return said or f"{name} could not be started"
        return (
            f"{name} ended with {self.code}: {said}" if said else f"{name} ended with {self.code}"
        )


def find(name: str, *, beside: Sequence[str] = ()) -> str | None:
    """Return the path of a program: on PATH, beside our own interpreter, or in one of `beside`.

    Folders in `beside` come from the job. A program there is run only if it is root's or our own:
    root must not run what a user left lying.
    """
    found = shutil.which(name)
    if found:
        return found
    own = Path(sys.executable).parent / name
    if os.access(own, os.X_OK):
        return str(own)
    for folder in beside:
        path = Path(folder) / name
        try:
            status = path.stat()
        except OSError:
            continue
        trusted = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022
        if trusted and os.access(path, os.X_OK):
            return str(path)
    return None


class Runner:
    """Runs programs, a few at a time, so that collecting does not itself load the machine."""

    def __init__(self, at_once: int | None = None) -> None:
        self._slots = threading.BoundedSemaphore(at_once or max(2, min(8, os.cpu_count() or 2)))

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        stdin: bytes = b"",
        limit: int = MAX_OUTPUT,
        free: bool = False,
    ) -> Done:
        """Return what a program said. Never raises for what the program does.

        The deadline counts from the start of the program, not from the wait for a free slot;
        `free` needs no slot (a remote collector waits, it does not work here).
        """
        if free:
            return _run(argv, deadline_s, stdin, limit)
        with self._slots:
            return _run(argv, deadline_s, stdin, limit)


def _run(argv: Sequence[str], deadline_s: float, stdin: bytes, limit: int) -> Done:
    began = time.monotonic()
    names = tuple(argv)
    try:
        child = subprocess.Popen(
            names,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that its own children end with it
            env={**os.environ, "LC_ALL": "C", "NO_COLOR": "1"},
        )
    except OSError as error:
        return Done(argv=names, code=None, err=f"{names[0]}: {error.strerror or error}")
    if stdin:
        threading.Thread(target=_feed, args=(child, stdin), daemon=True).start()
    out, err, cut = _drain(child, began + deadline_s, limit)
    code = _ended(child, began + deadline_s)
    if code is None:
        _end(child)
    _close(child)
    return Done(
        argv=names, code=code, out=out, err=err.decode("utf-8", "replace"), cut=cut,
        seconds=time.monotonic() - began, timed_out=code is None,
    )  # fmt: skip


def _feed(child: subprocess.Popen[bytes], data: bytes) -> None:
    try:
        if child.stdin is not None:
            child.stdin.write(data)
            child.stdin.close()
    except OSError:  # it did not want to hear the rest
        pass


def _drain(child: subprocess.Popen[bytes], until: float, limit: int) -> tuple[bytes, bytes, bool]:
    """Return (output, errors, whether output was cut) up to a moment or the end of both streams."""
    kept: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
    limits = {"out": limit, "err": 64 << 10}
    cut = False
    with selectors.DefaultSelector() as ready:
        for name, stream in (("out", child.stdout), ("err", child.stderr)):
            if stream is not None:
                ready.register(stream, selectors.EVENT_READ, name)
        while ready.get_map():
            left = until - time.monotonic()
            if left <= 0:
                break
            for key, _ in ready.select(left):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    ready.unregister(key.fileobj)
                    continue
                room = limits[key.data] - len(kept[key.data])
                kept[key.data] += data[: max(0, room)]
                cut = cut or (key.data == "out" and len(data) > room)
    return bytes(kept["out"]), bytes(kept["err"]), cut


def _ended(child: subprocess.Popen[bytes], until: float) -> int | None:
    try:
        return child.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a program and what it started; one that the kernel does not let go is left to init."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    try:
        child.wait(_REAP_S)
    except subprocess.TimeoutExpired:
        child.returncode = -signal.SIGKILL  # or Python warns at exit about what nobody can end


def _close(child: subprocess.Popen[bytes]) -> None:
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
