"""One run of one fault: start the job, watch it, take evidence, end it, leave nothing behind.

Belongs here: the life of a run and its deadline. Must not be here: the verdict (judge.py).
The job runs in a folder whose name says nothing, and is diagnosed there.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from rootrank.lab import processes, snapshot
from rootrank.lab.fault import Found
from rootrank.lab.launch import WAYS, Place, Process, environment, free_port

_HERE = Path(__file__).parent
_POLL_S = 0.5
_QUIET_S = 8.0  # a step takes a tenth of a second; the collectives wait longer than this
_GRACE_S = 5.0
_STEPS_SEEN = (b"step 3 ", b"'loss'")
_BEGUN = (b"start world_size", b"it/s", b"Trainable params", b"step 0 ", *_STEPS_SEEN)


@dataclass(slots=True)
class Run:
    """A run while it lasts; handed to the functions of a fault that the lab calls."""

    found: Found
    place: Place
    token: str
    commands: list[Process]
    options: dict[str, object]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)

    @property
    def work(self) -> Path:
        """The job's folder."""
        return self.place.work

    @property
    def live(self) -> Path:
        """Where evidence of the live job and of its host goes."""
        return self.place.evidence / "live"

    @property
    def failed(self) -> bool:
        """Whether any command ended otherwise than by success."""
        return any(p.returncode != 0 for p in self.started)

    def text(self) -> bytes:
        """Return what all commands have printed so far."""
        return b"".join(p.read_bytes() for p in sorted(self.place.evidence.glob("*.log")))

    def size(self) -> int:
        """Return how much has been printed; a change of it is a sign of life."""
        return sum(p.stat().st_size for p in self.place.evidence.rglob("*.log"))

    def terminate(self) -> None:
        """Ask every command to stop, as a scheduler does at the time limit."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)


@contextmanager
def ran(found: Found, ranks: int) -> Iterator[Run]:
    """Run the fault; yield what became of it. Its folder is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as folder:
        run = _prepare(found, ranks, Path(folder).resolve())
        try:
            with _around(run):
                _start(run)
                _watch(run)
        finally:
            _end(run)
        snapshot.keep_records(run.live, run.work)
        yield run


def _prepare(found: Found, ranks: int, folder: Path) -> Run:
    """Lay out the job's folder."""
    fault = found.fault
    place = Place(work=folder / "work", evidence=folder / "logs", ranks=ranks, port=free_port())
    for made in (place.evidence, place.work / "tmp", place.work / "cache"):
        made.mkdir(parents=True)
    script = "job.py" if fault.job == "plain" else f"job_{fault.job}.py"
    shutil.copy(_HERE / script, place.work / "train.py")
    (place.work / "tasks.py").write_text(found.job_side(), encoding="utf-8")
    return Run(found, place, uuid.uuid4().hex, WAYS[fault.launch](place), dict(fault.options))


def _around(run: Run) -> AbstractContextManager[object]:
    """Return the fault's own frame around the job, which may change the commands and options."""
    around = run.found.lab_side("around")
    if around is None:
        return nullcontext()
    return cast("AbstractContextManager[object]", contextmanager(cast("Any", around))(run))


def _start(run: Run) -> None:
    options = json.dumps(run.options)
    (run.work / "job.json").write_text(options, encoding="utf-8")
    for command in run.commands:
        env = environment(run.place, run.token, {**run.found.fault.env, **command.env})
        with (run.place.evidence / command.output).open("ab") as output:
            started = subprocess.Popen(
                command.argv,
                cwd=run.work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        run.started.append(started)


def _watch(run: Run) -> None:
    """Wait for the end or the deadline; call on the way what waits for steps or for silence."""
    fault = run.found.fault
    until = time.monotonic() + fault.deadline_s
    running = _once(lambda: _at(run, "running"))
    quiet = _once(lambda: _at(run, "quiet"))
    size, changed = -1, time.monotonic()
    while any(p.poll() is None for p in run.started):
        run.pids.update(processes.pids_with(run.token))
        if (now := run.size()) != size:
            size, changed = now, time.monotonic()
        text = run.text()
        if any(mark in text for mark in _STEPS_SEEN):
            running()
        if time.monotonic() - changed > _QUIET_S and _has_begun(text):
            quiet()
        if time.monotonic() > until:
            run.terminate()
            time.sleep(_GRACE_S)
            return
        time.sleep(_POLL_S)


def _has_begun(text: bytes) -> bool:
    """Return whether the job itself has spoken: before that, silence is the loading of torch."""
    return any(mark in text for mark in _BEGUN)


def _at(run: Run, moment: str) -> None:
    """Take a snapshot if it is due at this moment, then let the fault act."""
    if run.found.fault.snapshot == moment:
        ranks = processes.ranks_of(processes.pids_with(run.token))
        snapshot.take(run.started[0].pid, ranks, run.live, run.work)
    act = run.found.lab_side(f"when_{moment}")
    if act is not None:
        act(run)


def _once(act: Callable[[], None]) -> Callable[[], None]:
    done: list[bool] = []

    def first() -> None:
        if not done:
            done.append(True)
            act()

    return first


def _end(run: Run) -> None:
    """Leave no process and no shared memory behind."""
    run.pids.update(processes.pids_with(run.token))
    processes.end(run.token)
    for process in run.started:
        try:
            process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            pass
    processes.drop_shared_memory(run.pids)


def keep(evidence: Path, target: Path) -> None:
    """Copy the evidence of a run to where the user wants it, in place of an earlier one's."""
    if target.exists():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(evidence, target, ignore=_special)


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes and sockets cannot be copied."""
    paths = [Path(folder, n) for n in names]
    return [p.name for p in paths if not (p.is_file() or p.is_dir()) or p.is_symlink()]
