"""Lines whose own level word says ERROR, when no better parser took them.

Belongs here: level words and where they stand. Must not be here: trust in them; severity tags lie in both directions.
"""

from __future__ import annotations

import re

from rootrank.model import Line, Sighting, SpeaksOf
from rootrank.scan.words import is_prose, sighting

_LEVEL = re.compile(
    r"(?:^|[\s\[|(<])(?P<level>ERROR|CRITICAL|FATAL|Error|error|Fatal|fatal)(?P<sep>[\]\s:|)>]+)(?P<message>\S.*)$"
)
_GLOG = re.compile(
    r"(?:^|[\]:\s\[])(?P<level>[EF])\d{3,4} \d\d:\d\d:\d\d\.\d+ +(?:\d+ )?(?P<logger>[\w./-]+):\d+\] (?P<message>.*)$"
)
_TF = re.compile(
    r"(?:^|: )(?P<level>[EF]) (?P<logger>(?:tensorflow|external|\./tensorflow|\./external)/\S+?):\d+\] (?P<message>.*)$"
)
_QUIET = re.compile(
    r"0 errors?\b|no errors?\b|errors?[=:] ?0\b|error_rate|_error\b|error_(?!code)|\berrors?['\"]?\s*[:=]\s*-?\d*\.\d",
    re.I,
)
_CODE_LINE = re.compile(
    r"^\s*(?:#|//|\+ |raise |return |print\(|logger\.|logging\.|def |class |if |elif |for |import |from |assert |except |with |\"\"\"|\|\s+[a-z_]+ =)"
)


def log_error(line: Line) -> Sighting | None:
    """Return the message of a line that calls itself an error, unless it is code, a metric or a count of none."""
    raw = line.raw
    if len(raw) > 4000 or _CODE_LINE.match(line.text):
        return None
    m = _TF.search(raw)
    if m:
        # TensorFlow and XLA log recoverable registration trouble at E; alone it says nothing of the job.
        speaks = SpeaksOf.SELF if m["level"] == "F" else SpeaksOf.ENVIRONMENT
        return sighting(
            line, "log-error", speaks, level=m["level"], logger=m["logger"], message=m["message"]
        )
    m = _GLOG.search(raw)
    if m:
        return sighting(
            line,
            "log-error",
            level="ERROR" if m["level"] == "E" else "FATAL",
            logger=m["logger"],
            message=m["message"],
        )
    for text in (raw[:1500], line.text[:1500]):
        m = _LEVEL.search(text)
        if m and not _harmless(m, text):
            # A driver or daemon that calls itself in error in the system's log names no job.
            kernel = line.origin.role in ("kernel", "system")
            return sighting(
                line,
                "log-error",
                SpeaksOf.ENVIRONMENT if kernel else SpeaksOf.SELF,
                level=m["level"].upper(),
                logger=text[: m.start()].strip(" [|(")[-60:],
                message=m["message"].strip(),
            )
    return None


def _harmless(m: re.Match[str], text: str) -> bool:
    """Return True when the level word is far inside a sentence, a metric, a count of none, or prose."""
    if m.start() > 160 or is_prose(text, m.start()):
        return True
    if _QUIET.search(text[m.start() : m.start() + 80]):
        return True
    lower = m["level"] in ("Error", "error", "Fatal", "fatal")
    return lower and (":" not in m["sep"] or m.start() > 40)


PARSERS = (
    (
        (
            " ERROR", "ERROR:", "[ERROR", "ERROR ", "|ERROR", "CRITICAL", "FATAL:", " FATAL", "[FATAL", "rror: ", "atal: ", "[c10d] ",
            "TCPStore.cpp:", "socket.cpp:", "ProcessGroup", " E tensorflow", " E external", " F external", " F ./tensor", " F tensorflow",
            "atal error",
        ),
        log_error,
    ),
)  # fmt: skip
