"""Python tracebacks, whole, truncated, chained, nested and interleaved.

Belongs here: assembling frames and exception lines of one writer. Must not be here: what an exception means.

One `Tracebacks` object follows one source; writers are told apart by the line's tag. Where several ranks share a stream
without tags their frames mix: the exception lines are still exact, and so is their number; whose they are is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from rootrank.model import Line, Sighting, SpeaksOf
from rootrank.scan.words import classify, sighting

# Loggers that put their head before every line of a traceback, as vLLM's does: "ERROR 06-01 12:06:00 [core.py:396] ".
_LOGGED = re.compile(r"^(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,60}:\d+\] ?")
HEAD = "Traceback (most recent call last)"
_FRAME = re.compile(
    r'^[\s|+^~]*File "(?P<file>[^"]{1,300})", line (?P<line>\d+)(?:, in (?P<func>.*))?$'
)
# rich's box: "│ /home/user/train.py:210 in main                    │"
_RICH = re.compile(
    r"^\s*[│|] +(?:❱ )?(?P<file>[^\s:│]+\.py):(?P<line>\d+)(?: in (?P<func>[\w.<>]+))?\s*[│|]?\s*$"
)
_EXC = re.compile(
    r"^(?:\s{0,4}[|+] )?\s*(?P<type>[A-Za-z_][\w.]{1,120}(?:\([\w.]+\))?)(?:: ?(?P<message>.*))?$"
)
_CLASS = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Failure|Timeout|Warning|Stop\w*|Unavailable|NotFound|Invalid\w*|Cancelled|"
    r"Group|gaierror|herror|timeout|error|Closed|Refused|Failed|Fault|Traceback|Expired|Unauthorized|Forbidden|Found|Missing\w*)(?:\([\w.]+\))?$"
)
_BARE = re.compile(
    r"^(?P<type>(?:(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)|socket\.(?:gaierror|timeout|herror))(?:\([\w.]+\))?): ?(?P<message>.*)$"
)
# Two or more ranks writing the same word at once: "TypeErrorTypeError: : ".
_WOVEN = re.compile(r"^(?P<type>(?:[A-Z]\w*?(?:Error|Exception)){2,}): ")
_DIRECT = "The above exception was the direct cause of the following exception"
_DURING = "During handling of the above exception, another exception occurred"
_CARETS = re.compile(r"^[\s|]*[~^]+[\s~^]*$")
_MARKS = re.compile(r"[\^~]+")
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib/python\d|/lib64/python\d|^<frozen |^<string>|^<__array|/conda-bld/|\\lib\\site-packages\\"
    r"|\\Lib\\|/miniconda3/bin/|/bin/(?:torchrun|deepspeed|accelerate)$|^/opt/pytorch/"
)
_LAUNCH = re.compile(
    r"torch/distributed/(?:run|launch|launcher|elastic)|/bin/(?:torchrun|deepspeed|accelerate)|deepspeed/launcher"
    r"|accelerate/commands|torch/distributed/launcher"
)
_WORKER = re.compile(
    r"Caught (?P<type>\w+) in DataLoader worker process (?P<worker>\d+)|in pin memory thread"
)
_SPAWN = re.compile(r"-- Process (?P<n>\d+) terminated with the following error")
_NOT_CONTINUED = re.compile(
    r"^\s*(?:Traceback|File \"|\[|\d{4}-\d\d-\d\d|[EWIF]\d{4} |During handling|The above|=====|-----|srun:|W\d|wandb:|Exception ignored)"
)
MAX_FRAMES = 200
MAX_CONTINUED = 24
MAX_IDLE = (
    400  # lines of the same writer without a frame, then an open traceback is closed as truncated
)


@dataclass(slots=True)
class _Open:
    """One traceback being read."""

    start: Line
    frames: list[tuple[str, int, str]] = field(default_factory=list)
    code: str = ""
    idle: int = 0
    headed: bool = True
    after_frame: bool = False
    via: str | None = None
    ignored: bool = False


@dataclass(slots=True)
class _Writer:
    open: _Open | None = None
    last: Sighting | None = None  # the exception just ended; its message may go on
    continued: int = 0
    chain: tuple[str, ...] = ()
    chain_how: str | None = None
    chain_pending: bool = False
    via: str | None = None
    ignored: bool = False
    before: int = 0  # length of the line before, and how many lines had the greatest length so far
    widest: int = 0
    at_widest: int = 0

    def measure(self, length: int) -> bool:
        """Note a line's length; return True when the line before was cut at the width of a terminal or a log.

        Two lines at least have ended at exactly that width, and none went beyond it.
        """
        cut = self.before >= 40 and self.before == self.widest and self.at_widest > 1
        if length > self.widest:
            self.widest, self.at_widest = length, 0
        self.at_widest += length == self.widest
        self.before = length
        return cut


class Tracebacks:
    """Follows all writers of one source. Feed every examined line; collect with `take`."""

    def __init__(self) -> None:
        self._writers: dict[str, _Writer] = {}
        self.done: list[Sighting] = []

    def take(self) -> list[Sighting]:
        """Return the exceptions that are complete, and forget them."""
        out, self.done = self.done, []
        return out

    def close(self) -> None:
        """End of source: flush what is open; a traceback without its last line is an exception of unknown type."""
        for writer in self._writers.values():
            self._truncate(writer)
            self._flush(writer)

    def feed(self, line: Line) -> bool:
        """Return True when the line belongs to a traceback (and means nothing else)."""
        if line.text[:1] in "EC":
            head = _LOGGED.match(line.text)
            if head:
                line = replace(line, text=line.text[head.end() :])
        text = line.text
        writer = self._writers.get(line.tag)
        if writer is None:
            interesting = (
                HEAD in text
                or 'File "' in text
                or ("rror" in text or "xception" in text or "nterrupt" in text)
            )
            if not interesting:
                return False
            writer = self._writers.setdefault(line.tag, _Writer())
        cut = writer.measure(len(line.raw))
        if HEAD in text:
            return self._head(writer, line)
        frame = _FRAME.match(text) if 'File "' in text else None
        if frame:
            self._frame(writer, line, frame)
            return True
        if writer.open is not None and text.lstrip()[:1] in "│╭╰" and text.strip():
            boxed = _RICH.match(text)
            if boxed:
                self._frame(writer, line, boxed)
            return True
        if _DIRECT in text or _DURING in text:
            self._connect(writer, "direct" if _DIRECT in text else "during")
            return True
        if writer.open is not None:
            return self._inside(writer, line)
        if writer.last is not None and self._goes_on(writer, line, cut):
            return True
        return self._bare(writer, line)

    def _head(self, writer: _Writer, line: Line) -> bool:
        via = writer.via
        if writer.last is not None and "Original Traceback" in line.text:
            writer.chain, writer.chain_how, writer.chain_pending = (
                self._links(writer.last),
                "original",
                True,
            )
        ignored = writer.ignored or "Exception ignored" in line.text
        writer.ignored = False
        self._truncate(writer)
        self._flush(writer)
        if not writer.chain_pending:
            writer.chain, writer.chain_how = (), None
        writer.open = _Open(start=line, via=via, ignored=ignored)
        return True

    def _frame(self, writer: _Writer, line: Line, m: re.Match[str]) -> None:
        if writer.open is None:
            self._flush(writer)
            writer.open = _Open(start=line, headed=False)
        block = writer.open
        if len(block.frames) < MAX_FRAMES:
            block.frames.append((m["file"], int(m["line"]), (m["func"] or "").strip()))
        block.after_frame, block.idle, block.code = True, 0, ""

    def _inside(self, writer: _Writer, line: Line) -> bool:
        block = writer.open
        assert block is not None
        text = line.text
        stripped = text.strip()
        if (
            not stripped
            or _CARETS.match(text)
            or stripped == "..."
            or stripped.startswith("[Previous line repeated")
        ):
            return True
        indented = text[:1] in " \t|+" and text.lstrip(" |+\t") != text
        if indented and block.after_frame and not (_BARE.match(stripped) and "|" in text[:6]):
            block.after_frame = False
            block.code = stripped[:300]
            return True
        woven = _unweave(stripped)
        if woven:
            self._end(writer, line, woven[0], woven[1], woven=True)
            return True
        if "^" in text and "rror" in text:
            return self._unmark(writer, line)
        m = _EXC.match(text) if not indented or "|" in text[:6] or not block.frames else None
        if (
            m
            and (block.frames or _CLASS.search(m["type"]))
            and _is_class(m["type"], bool(block.frames), m["message"])
        ):
            self._end(writer, line, m["type"], m["message"] or "")
            return True
        if not indented and block.frames and not block.headed and self._bare(writer, line):
            return True
        block.idle += 1
        if block.idle > MAX_IDLE:
            self._truncate(writer)
        return indented and block.idle < 4

    def _unmark(self, writer: _Writer, line: Line) -> bool:
        """Take the caret marks of other ranks out of an exception line: "^^KeyError^: ^'x'^"."""
        m = _BARE.match(re.sub(r"\s*:\s*", ": ", _MARKS.sub("", line.text).strip(), count=1))
        if m:
            self._end(writer, line, m["type"], m["message"].strip(), woven=True)
        return True

    def _end(
        self, writer: _Writer, line: Line, qualified: str, message: str, woven: bool = False
    ) -> None:
        block, writer.open = writer.open, None
        assert block is not None
        self._flush(writer)
        writer.last = _exception(line, block, qualified, message, writer, woven)
        writer.continued = 0
        writer.chain_pending = False
        writer.via = None
        if _WORKER.search(message):
            writer.via = "dataloader-worker"
        if block.ignored:
            writer.last = replace(writer.last, speaks_of=SpeaksOf.TEARDOWN)

    def _bare(self, writer: _Writer, line: Line) -> bool:
        text = line.text
        if "Exception ignored in" in text:
            writer.ignored = True
            return True
        stripped = text.strip()
        woven = _unweave(stripped)
        m = _BARE.match(stripped)
        if not woven and not m:
            return False
        if text[:1] in " \t" and len(text) - len(text.lstrip()) > 8:
            return False  # a quoted or documented message, not a raised one
        qualified, message = woven or (m["type"], m["message"])  # type: ignore[index]
        self._flush(writer)
        block = writer.open or _Open(start=line, headed=False)
        writer.open = None
        writer.last = _exception(line, block, qualified, message, writer, bool(woven))
        writer.continued = 0
        return True

    def _goes_on(self, writer: _Writer, line: Line, cut: bool) -> bool:
        """Take a line as the continuation of a message: same writer, no stamp, no structure of its own."""
        assert writer.last is not None
        text = line.text
        via = _SPAWN.search(text)
        if (
            writer.continued >= MAX_CONTINUED
            or line.time_s is not None
            or _NOT_CONTINUED.match(text)
            or _BARE.match(text.strip())
            or _unweave(text.strip())
            or "%|" in text
            or (not text.strip() and writer.continued and not via)
        ):
            self._flush(writer)
            return False
        if via:
            writer.via = "multiprocessing"
        writer.continued += 1
        message = str(writer.last.get("message", ""))
        if text.strip() and len(message) < 4000:
            last = writer.last
            writer.last = replace(
                last,
                end_line=line.number,
                fields={
                    **last.fields,
                    "message": message + text.rstrip() if cut else f"{message}\n{text.strip()}",
                },
            )
        # A message's second line may carry signals of its own, so it stays visible to the other parsers.
        return not text.strip()

    def _links(self, s: Sighting) -> tuple[str, ...]:
        first = str(s.get("message", "")).split("\n")[0][:200]
        return (*s.get("chain", ()), f"{s.get('type')}: {first}")

    def _connect(self, writer: _Writer, how: str) -> None:
        self._truncate(writer)
        if writer.last is not None:
            writer.chain, writer.chain_how, writer.chain_pending = (
                self._links(writer.last),
                how,
                True,
            )
            self._flush(writer)
        elif self.done and self.done[-1].kind == "exception":
            writer.chain, writer.chain_how, writer.chain_pending = (
                self._links(self.done[-1]),
                how,
                True,
            )

    def _truncate(self, writer: _Writer) -> None:
        block, writer.open = writer.open, None
        if block is None or not block.frames:
            return
        s = _exception(block.start, block, "", "", writer, False)
        if block.ignored:
            s = replace(s, speaks_of=SpeaksOf.TEARDOWN)
        self.done.append(s)

    def _flush(self, writer: _Writer) -> None:
        if writer.last is not None:
            self.done.append(reclassify(writer.last))
            writer.last = None
            writer.continued = 0

    def attach(self, line: Line, signal: str) -> bool:
        """Add an entry's signal to the exception whose message this line belongs to; False when there is none."""
        writer = self._writers.get(line.tag)
        if writer is None or writer.last is None or writer.last.end_line < line.number:
            return False
        if signal not in writer.last.signals:
            writer.last = replace(writer.last, signals=(*writer.last.signals, signal))
        return True


def _is_class(qualified: str, framed: bool, message: str | None) -> bool:
    """Tell an exception's name from any other flush-left word."""
    name = qualified.split("(")[0].rsplit(".", 1)[-1]
    if _CLASS.search(name):
        return True
    # After frames any capitalised dotted name followed by a colon is the exception: `mylib.BadThing: text`.
    return framed and name[:1].isupper() and (message is not None or "." in qualified)


def _unweave(text: str) -> tuple[str, str] | None:
    """Return (type, message) of "TypeErrorTypeError: : msgmsg", or None when that is not what the line is."""
    m = _WOVEN.match(text)
    if not m:
        spaced = re.match(r"^([A-Z]\w+(?:Error|Exception)) +: +(?=\S)", text)
        return (spaced[1], text[spaced.end() :]) if spaced else None
    once = _unit(m["type"])
    if once is None:
        return None
    rest = text[m.end("type") :].lstrip(": ")
    return once, _unit(rest) or rest


def _unit(text: str) -> str | None:
    """Return the shortest string that `text` repeats at least twice, or None."""
    at = (text + text).find(text, 1)
    return text[:at] if 0 < at < len(text) else None


def _is_library(path: str) -> bool:
    return bool(_LIBRARY.search(path))


def user_frame_of(frames: tuple[str, ...]) -> str | None:
    """Return the last of "file:line in func" frames that is not library code, or None."""
    return next((f for f in reversed(frames) if not _is_library(f)), None)


def _exception(
    line: Line, block: _Open, qualified: str, message: str, writer: _Writer, woven: bool
) -> Sighting:
    frames = tuple(f"{f}:{n} in {func}" for f, n, func in block.frames)
    user = [x for x, (f, _, _) in zip(frames, block.frames, strict=True) if not _is_library(f)]
    launcher = (
        bool(block.frames)
        and all(_LAUNCH.search(f) or _is_library(f) for f, _, _ in block.frames)
        and any(_LAUNCH.search(f) for f, _, _ in block.frames)
    )
    via = block.via or writer.via
    fields: dict[str, Any] = {
        "type": qualified.split("(")[0].rsplit(".", 1)[-1],
        "qualified": qualified,
        "message": message.strip(),
        "frames": frames,
        "innermost": frames[-1] if frames else None,
        "user_frame": user[-1] if user else None,
        "code": block.code,
        "chain": writer.chain if writer.chain_how else (),
        "chain_how": writer.chain_how if writer.chain else None,
        "via": via,
        "woven": woven or None,
        "truncated": True if not qualified else None,
        "launcher": launcher or None,
        "start_line": block.start.number,
    }
    if _WORKER.search(message):
        fields["via"] = "dataloader-worker"
    return sighting(line, "exception", **fields)


def reclassify(s: Sighting) -> Sighting:
    """Return the exception with the kind and speaks-of that its words call for."""
    kind = str(s.get("type", ""))
    message = str(s.get("message", ""))
    words = classify(f"{kind}: {message}")
    if words:
        new_kind, speaks, fields = words
        return replace(s, kind=new_kind, speaks_of=speaks, fields={**s.fields, **fields})
    # Wrappers: the remote exception itself follows, or the launcher only repeats an exit code.
    if kind in {
        "RayTaskError",
        "RemoteTraceback",
        "ChildFailedError",
        "KeyboardInterrupt",
        "SystemExit",
        "SignalException",
    }:
        return replace(s, speaks_of=SpeaksOf.TEARDOWN)
    frames = " ".join(s.get("frames", ()))
    if kind in {
        "ConnectionResetError",
        "BrokenPipeError",
        "EOFError",
        "ConnectionRefusedError",
    } and re.search(
        r"torch/(?:distributed|multiprocessing)|multiprocessing/(?:connection|managers|resource_sharer)|deepspeed/comm",
        frames,
    ):
        return replace(
            s, kind="peer-loss", speaks_of=SpeaksOf.PEER, fields={**s.fields, "library": "python"}
        )
    if (
        kind in {"RuntimeError", "DistNetworkError"}
        and _SOCKET.match(message)
        and "torch/distributed" in frames
    ):
        return replace(
            s, kind="peer-loss", speaks_of=SpeaksOf.PEER, fields={**s.fields, "library": "store"}
        )
    if kind == "CalledProcessError" and _COMMAND.search(message):
        return _as_exit(s, message)
    return s


_SOCKET = re.compile(
    r"^(?:\[[^\]]{1,80}\]:? ?)?(?:Connection (?:reset by peer|closed)|Broken pipe)\.?$"
)
_COMMAND = re.compile(r"-m torch|local_rank|torchrun|deepspeed|accelerate|python")
_STATUS = re.compile(r"non-zero exit status (?P<code>\d+)|died with <Signals\.(?P<signal>SIG\w+)")
_LOCAL = re.compile(r"--local[_-]rank[= ',]+(?P<n>\d+)")


def _as_exit(s: Sighting, message: str) -> Sighting:
    """Return a launcher's CalledProcessError as what it is: the exit code of a process."""
    m, local = _STATUS.search(message), _LOCAL.search(message)
    signal = m["signal"] if m else None
    fields = {
        **s.fields,
        "by": "accelerate",
        "code": int(m["code"]) if m and m["code"] else None,
        "signal": signal,
    }
    origin = replace(s.origin, local_rank=int(local["n"])) if local else s.origin
    speaks = SpeaksOf.TEARDOWN if signal == "SIGTERM" else SpeaksOf.SELF
    return replace(
        s,
        kind="exit",
        speaks_of=speaks,
        origin=origin,
        fields={k: v for k, v in fields.items() if v is not None},
    )
