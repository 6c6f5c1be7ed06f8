"""Thread stacks (py-spy text and JSON, faulthandler) and /proc or cgroup extracts that lie beside the logs.

Belongs here: frames, and in what kind of wait a thread sits. Must not be here: who is guilty of a hang.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from rootrank.model import Line, Origin, Sighting, SpeaksOf
from rootrank.scan.words import sighting

_PROCESS = re.compile(r"^(?:Process|==) ?(?P<pid>\d+)(?::| |$)(?P<rest>.*)")
_THREAD = re.compile(
    r"^\s*(?:Current thread|Thread) (?P<tid>0x[0-9a-f]+|\d+)(?: \((?P<state>[\w +]+)\))?(?:[: ]+\"?(?P<name>[^\"(]*)\"?)?(?: ?\(most recent call first\):)?"
)
_FRAME = re.compile(r"^\s+(?P<func>[^\s(][^(]*?) \((?P<file>[^:()]+)(?::(?P<line>\d+))?\)\s*$")
_FAULT = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?: in (?P<func>\S+))?')
_RANKS = re.compile(r"\b(?P<key>GLOBAL_RANK|LOCAL_RANK|NODE_RANK|GROUP_RANK|RANK)[=: ]+(?P<n>\d+)")

_COLLECTIVES = (
    "all_reduce|allreduce|all_gather\\w*|reduce_scatter\\w*|broadcast\\w*|_?barrier|all_to_all\\w*|reduce|gather|scatter|send|recv|isend|irecv"
    "|batch_isend_irecv|monitored_barrier|_bcast_pipe_scalar|wait_tensor|_engine_run_backward|synchronize_with_peers"
)
_WAITS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("jit-lock", re.compile(r"FileBaton\.wait|file_baton\.py|\bbaton\b")),
    ("swap", re.compile(r"swap_tensor/|_wait_for_swap|swap_(?:in|out)\w*|AsyncPartitioned|async_io|aio_handle")),
    ("data", re.compile(r"_try_get_data|_next_data \(|_get_data \(|\bget_batch_iterator|_MultiProcessingDataLoaderIter")),
    ("data-worker", re.compile(r"_worker_loop \(|data/_utils/(?:worker|fetch)\.py")),
    (
        "collective",
        re.compile(
            rf"(?:^|[. ])(?:{_COLLECTIVES}) \(\S*(?:distributed|comm|c10d|autograd/graph|mpu|p2p|functional_collectives)\S*|AllGather\w*Handle\.wait|Work\.wait|(?:broadcast|all_reduce|barrier|all_gather\w*|reduce_scatter\w*) \(|_engine_run_backward|finalize_backward|_sync_ddp"
        ),
    ),
    ("checkpoint", re.compile(r"save_checkpoint|_save_to_state|torch/serialization\.py|checkpoint/(?:state_dict_saver|filesystem)|safetensors.*save")),
    ("lock", re.compile(r"\b(?:acquire|__enter__) \((?:threading|multiprocessing)|threading\.py:\d+\)|synchronize\.py|filelock|\bflock\b")),
    ("sleep", re.compile(r"(?:^|\b)sleep \(")),
    ("prompt", re.compile(r"\binput \(|getpass|prompt_toolkit|readline")),
    ("io", re.compile(r"\b(?:fsync|fdatasync) \(|\b(?:read|readinto|recv|recv_into|_recv_bytes|connect|select|poll|open) \((?:socket|ssl|selectors|subprocess|http|urllib3|requests|fsspec|pathlib|io)")),
)  # fmt: skip
_WRAPPERS = re.compile(
    r"wrapped_fn|wrapper|c10d_logger|nvtx\.py|_contextlib|_call_impl|_wrapped_call"
)
_STATE = re.compile(r"^State:\s+(?P<state>[A-Z]) ?\(?(?P<words>[\w ]*)")
_WCHAN = re.compile(
    r"(?:^|\bwchan[ =:]+)(?P<wchan>mem_cgroup_oom_synchronize|mem_cgroup_handle_over_high|rpc_wait_bit_killable|nfs_\w+|do_signal_stop|io_schedule\w*|folio_wait_bit\w*|wait_on_page_bit\w*|cl_sync_io_wait|ll_\w+|fuse_\w+|blk_mq_\w+|read_events|balance_dirty_pages\w*)\b"
)
_OOM = re.compile(
    r"(?:^|memory\.events(?:\.local)?:)(?P<key>under_oom|oom_kill_disable|oom|oom_kill|max) (?P<n>\d+)$"
)
_DF = re.compile(r"\s(?:100|99)%\s+(?P<path>/\S*)$")
_PS = re.compile(
    r"^\s*(?P<pid>\d+)\s+(?P<state>[DT])\S*\s.*?(?P<wchan>(?:mem_cgroup|rpc_wait|nfs|io_schedule|folio_wait|wait_on_page|do_signal_stop|blk_|fuse_|cl_sync|balance_dirty)\w*)?"
)
_LOCK = re.compile(r"(?P<path>\S*torch_extensions\S*/lock|(?:^|\s)lock)$")


def wait_of(frames: Iterable[str]) -> tuple[str, str | None]:
    """Return (wait, the frame that shows it) from "func (file:line)" frames, innermost first."""
    own = list(frames)
    # A loader's wait shows a queue, a selector or a condition first, and its own name a few frames out.
    data = next((f for f in own[:8] if "_try_get_data" in f), None)
    if data is not None and not any("distributed" in f for f in own[: own.index(data)]):
        return "data", data
    seen = 0
    for frame in own:
        if _WRAPPERS.search(frame):
            continue
        for wait, pattern in _WAITS:
            if wait == "lock" and any("_try_get_data" in f or "_next_data" in f for f in own[:6]):
                continue
            if pattern.search(frame):
                return wait, frame
        # Native frames stand in front of the Python frame that says what is waited for, in any number.
        seen += ".py:" in frame
        if seen > 6:
            break
    return "other", next((f for f in own if not _WRAPPERS.search(f)), None)


class Stacks:
    """Reads stack dumps line by line: one sighting per thread."""

    def __init__(self) -> None:
        self.done: list[Sighting] = []
        self._heads: list[tuple[Line, re.Match[str]]] = []
        self._frames: list[tuple[str, str]] = []
        self._pid: int | None = None
        self._where: Origin = Origin()
        self._fatal = False

    def feed(self, line: Line) -> bool:
        """Return True when the line belongs to a stack dump."""
        text = line.text
        if text.startswith(("Process ", "== ")):
            m = _PROCESS.match(text)
            if m:
                self.close()
                self._pid = int(m["pid"])
                self._where = _where(m["rest"], self._pid)
                return True
        if "hread " in text[:24]:
            m = _THREAD.match(text)
            if m and (m["state"] or m["tid"].startswith("0x")):
                if self._frames:
                    self.close()
                self._heads.append((line, m))
                return True
        if self._heads:
            m = _FRAME.match(text) or _FAULT.match(text)
            if m:
                # A native frame has a library and no line.
                place = f"{m['file']}:{m['line']}" if m["line"] else m["file"]
                self._frames.append((f"{(m['func'] or '?').strip()} ({place})", line.raw))
                return True
            if text.strip() and not text.startswith((" ", "\t")):
                self.close()
        return False

    def close(self) -> None:
        """End the dump that is open."""
        frames = tuple(f for f, _ in self._frames[:120])
        for line, m in self._heads if frames else ():
            self.done.append(
                _stack(
                    line,
                    m,
                    frames,
                    tuple(raw for _, raw in self._frames[:40]),
                    self._where,
                    self._pid,
                )
            )
        self._heads, self._frames = [], []

    def take(self) -> list[Sighting]:
        """Return finished stacks, and forget them."""
        out, self.done = self.done, []
        return out


def _where(words: str, pid: int | None) -> Origin:
    found = {m["key"]: int(m["n"]) for m in _RANKS.finditer(words)}
    rank = found.get("RANK", found.get("GLOBAL_RANK"))
    if rank is None and 0 in (found.get("NODE_RANK"), found.get("GROUP_RANK")):
        rank = found.get("LOCAL_RANK")  # on the first node a local rank is the global one
    return Origin(rank=rank, local_rank=found.get("LOCAL_RANK"), pid=pid)


def _stack(
    line: Line,
    m: re.Match[str],
    frames: tuple[str, ...],
    raw: tuple[str, ...],
    where: Origin,
    pid: int | None,
) -> Sighting:
    wait, at = wait_of(frames)
    tid = int(m["tid"], 16) if m["tid"].startswith("0x") else int(m["tid"])
    name = (m["name"] or "").strip().strip('"')
    origin = (
        where
        if where.pid is not None
        else Origin(pid=tid if name == "MainThread" and not m["tid"].startswith("0x") else None)
    )
    # The frame that shows the wait is what a reader must see; of a collective, not its innermost wrapper too.
    inner = raw[0] if raw else ""
    shown = next((r for f, r in zip(frames, raw, strict=False) if f == at), inner)
    quotes = (shown,) if wait == "collective" else tuple(dict.fromkeys((inner, shown)))
    s = sighting(
        line,
        "stack",
        _speaks(wait),
        origin=origin,
        thread=name,
        frames=frames,
        pid=origin.pid or pid,
        state=m["state"],
        wait=wait,
        op=at,
    )
    from dataclasses import replace

    return replace(s, quotes=quotes, end_line=line.number + len(frames))


def pyspy_json(data: bytes, source: str, origin: Origin) -> list[Sighting]:
    """Return one stack sighting per thread of `py-spy dump --json`; [] when it is something else. Bad JSON: []."""
    try:
        threads = json.loads(data)
    except (ValueError, RecursionError):
        return []
    if (
        not isinstance(threads, list)
        or not threads
        or not isinstance(threads[0], dict)
        or "frames" not in threads[0]
    ):
        return []
    out: list[Sighting] = []
    for n, thread in enumerate(threads[:2000]):
        s = _json_thread(thread, n, source, origin) if isinstance(thread, dict) else None
        if s:
            out.append(s)
    return out


def _json_thread(thread: dict[str, Any], n: int, source: str, origin: Origin) -> Sighting | None:
    raw = [f for f in thread.get("frames") or () if isinstance(f, dict)][:120]
    frames = tuple(
        f"{f.get('name')} ({f.get('short_filename') or f.get('filename')}:{f.get('line')})"
        for f in raw
    )
    if not frames:
        return None
    pid = thread.get("pid") if isinstance(thread.get("pid"), int) else None
    name = str(thread.get("thread_name") or "")
    wait, at = wait_of(frames)
    line = Line(
        source=source,
        number=1,
        offset=n,
        raw=f'Thread {thread.get("os_thread_id") or pid} "{name}": {at}',
        text="",
        origin=Origin(pid=pid).over(origin),
    )
    return sighting(
        line, "stack", _speaks(wait), thread=name, frames=frames, pid=pid, wait=wait, op=at,
        state="active" if thread.get("active") else "idle", owns_gil=thread.get("owns_gil") or None,
    )  # fmt: skip


def _speaks(wait: str) -> SpeaksOf:
    """A thread inside a collective waits for others; any other wait is its own."""
    return SpeaksOf.PEER if wait == "collective" else SpeaksOf.SELF


class HostState:
    """Reads /proc status, wchan, cgroup and lock-folder extracts: one sighting per telling line."""

    def __init__(self, source: str) -> None:
        name = source.rsplit("/", 1)[-1].lower()
        self._proc = bool(re.search(r"proc|threads|status|wchan", name))
        self._cgroup = bool(re.search(r"cgroup|memory\.|oom_control", name))
        self._lock = "lock" in name
        self._disk = bool(re.search(r"(?:^|[^a-z])(?:df|disk|mounts?)(?:[^a-z]|$)", name))
        self._ps = bool(re.search(r"(?:^|[^a-z])(?:ps|top|processes)(?:[^a-z]|$)", name))
        self.active = self._proc or self._cgroup or self._lock or self._disk or self._ps

    def feed(self, line: Line) -> Sighting | None:
        """Return what the line says of a process or a control group that is not well."""
        text = line.text.strip()
        if self._proc:
            m = _STATE.match(text)
            if m and m["state"] in "DTtZ":
                return sighting(line, "host-state", state=m["state"], message=text)
        if self._proc or self._cgroup:
            m = _WCHAN.search(text)
            if m:
                return sighting(line, "host-state", wchan=m["wchan"], message=text)
            m = _OOM.search(text)
            if m and self._cgroup and m["key"] in ("oom", "oom_kill") and int(m["n"]) > 0:
                return sighting(line, "host-state", oom_events=int(m["n"]), message=text)
            if m and m["key"] == "under_oom" and m["n"] == "1":
                return sighting(line, "host-state", under_oom=1, message=text)
        if self._disk:
            m = _DF.search(text)
            if m:
                return sighting(
                    line,
                    "host-state",
                    SpeaksOf.ENVIRONMENT,
                    disk="full",
                    path=m["path"],
                    message=text,
                )
        if self._ps:
            m = _PS.match(line.text)
            if m:
                origin = Origin(pid=int(m["pid"]))
                return sighting(
                    line,
                    "host-state",
                    origin=origin,
                    state=m["state"],
                    wchan=m["wchan"],
                    message=text,
                )
        if self._lock and _LOCK.search(text):
            return sighting(line, "host-state", SpeaksOf.ENVIRONMENT, path="lock", message=text)
        return None


def elastic_error_json(data: bytes, source: str, origin: Origin) -> Sighting | None:
    """Return the exception of a torchelastic error file (`@record`), or None when it is something else."""
    try:
        top = json.loads(data)
    except (ValueError, RecursionError):
        return None
    message = top.get("message") if isinstance(top, dict) else None
    if isinstance(message, dict):
        words, extra = message.get("message"), message.get("extraInfo") or {}
        stamp, stack = extra.get("timestamp"), extra.get("py_callstack") or ""
    elif isinstance(message, str) and isinstance(top.get("timestamp"), (int, str)):
        words, stamp, stack = message, top.get("timestamp"), ""
    else:
        return None
    if not isinstance(words, str):
        return None
    kind, _, rest = words.partition(": ")
    if not re.fullmatch(r"[\w.]+", kind):
        kind, rest = "", words
    frames = tuple(
        f"{m['file']}:{m['line']} in {m['func'] or ''}"
        for m in re.finditer(
            r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<func>[^\n]*))?', str(stack)
        )
    )[:100]
    time_s = (
        float(stamp)
        if isinstance(stamp, (int, str)) and re.fullmatch(r"\d{9,11}", str(stamp))
        else None
    )
    line = Line(
        source=source,
        number=1,
        offset=0,
        raw=words.split("\n")[0],
        text=words,
        origin=origin,
        time_s=time_s,
    )
    s = sighting(
        line,
        "exception",
        type=kind.rsplit(".", 1)[-1],
        qualified=kind,
        message=rest,
        frames=frames,
        innermost=frames[-1] if frames else None,
        via="record",
    )
    from rootrank.scan.python import reclassify, user_frame_of

    found = user_frame_of(frames)
    if found:
        s = _with(s, user_frame=found)
    return reclassify(s)


def _with(s: Sighting, **more: Any) -> Sighting:
    from dataclasses import replace

    return replace(s, fields={**s.fields, **more})
