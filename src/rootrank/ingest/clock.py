"""Time stamps of log lines, as seconds since the epoch.

Belongs here: recognising a stamp, turning it into UTC seconds, printing it.
Must not be here: guessing a year, a zone or a day that the line does not state, and the wall clock.

A stamp without a zone is read as UTC: which zone a host used is not in its lines. Clock skew and
zone shifts between hosts are the timeline's business.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import date, datetime, timedelta, timezone
from typing import Final

SEARCH_CHARS: Final = 48  # a stamp that starts further right belongs to the message
_YEARS: Final = range(1990, 2101)  # other "years" are version numbers and counters
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CACHE_MAX: Final = 4096

_MONTHS: Final = {
    m: i
    for i, m in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_MON: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_HMS: Final = r"(\d\d):(\d\d):(\d\d)"
# Ascend and MindSpore print milliseconds and microseconds as two groups: .123.456
_FRACTION: Final = r"(?:[.,](\d{1,9})(?:\.\d{3})?)?"
_ZONE: Final = r"(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:.]))?"

# Groups of every pattern: date, hours, minutes, seconds, fraction, zone, trailing year.
_NUMERIC: Final = re.compile(rf"(\d{{4}}[-/]\d\d[-/]\d\d)[ T_-]{_HMS}{_FRACTION}{_ZONE}")
_DAY_FIRST: Final = re.compile(
    rf"(\d{{4}}-{_MON}-\d\d|\d{{1,2}} {_MON} \d{{4}}|\d\d/{_MON}/\d{{4}})[ :]"
    rf"{_HMS}{_FRACTION}{_ZONE}"
)
_MONTH_FIRST: Final = re.compile(
    rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?"
    rf"({_MON} [ \d]?\d(?: \d{{4}})?|\d{{1,2}} {_MON} \d{{4}}) {_HMS}{_FRACTION}{_ZONE}"
    rf"( \d{{4}}(?!\d))?"
)
# c10 prints month * 100 + day without padding: [W318 14:38:12.1 …]
_GLOG: Final = re.compile(rf"[IWEFCD](\d{{3,4}}) {_HMS}\.(\d{{1,9}})")
_CLOCK: Final = re.compile(r"\d\d:\d\d:\d\d")
_JSON_TIME: Final = re.compile(
    r'"(?:@?timestamp|time|ts|asctime|created)"\s*:\s*(?:"([^"]{1,48})"|([0-9]{1,20}(?:\.\d{1,9})?))'
)

_days: dict[tuple[str, int | None], int | None] = {}


def _ordinal(year: int, month: int, day: int) -> int | None:
    """Return days since the epoch, or None for a day that no calendar has."""
    if year not in _YEARS:
        return None
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def _parse_day(text: str, year: int | None) -> int | None:
    """Return days since the epoch of one of the date forms above; None without a year."""
    if text[:4].isdigit() and len(text) <= 4:  # glog
        number = int(text)
        return None if year is None else _ordinal(year, number // 100, number % 100)
    parts = [p for p in re.split(r"[-/ ]", text) if p]
    if parts[0].isalpha():
        stated = int(parts[2]) if len(parts) == 3 else year
        return None if stated is None else _ordinal(stated, _month(parts[0]), int(parts[1]))
    month = int(parts[1]) if parts[1].isdigit() else _month(parts[1])
    if len(parts[0]) == 4:
        return _ordinal(int(parts[0]), month, int(parts[2]))
    return _ordinal(int(parts[2]), month, int(parts[0]))


def _month(name: str) -> int:
    return _MONTHS[name[:3].lower()]


def _day(text: str, year: int | None) -> int | None:
    """Return `_parse_day`, remembered: a log has few distinct days."""
    key = (text, year)
    try:
        return _days[key]
    except KeyError:
        if len(_days) >= _CACHE_MAX:  # hostile input may hold every day there is
            _days.clear()
        value = _days[key] = _parse_day(text, year)
        return value


def _zone_s(zone: str) -> int:
    """Return the offset from UTC in seconds of Z, UTC, GMT, +hhmm or +hh:mm."""
    if zone[0] not in "+-":
        return 0
    seconds = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def _seconds(day: int | None, clock: tuple[str, str, str], fraction: str | None) -> float | None:
    """Return seconds since the epoch; None when the day is unknown or the clock impossible."""
    hours, minutes, seconds = int(clock[0]), int(clock[1]), int(clock[2])
    # 60 is a leap second.
    if day is None or hours > 23 or minutes > 59 or seconds > 60:
        return None
    whole = day * 86400 + hours * 3600 + minutes * 60 + seconds
    return whole + int(fraction) / 10 ** len(fraction) if fraction else float(whole)


def stamp_at(text: str, pos: int = 0, year: int | None = None) -> tuple[float | None, int] | None:
    """Return (seconds since the epoch, end) of the stamp that starts exactly at `pos`, or None.

    The time is None when the stamp is one, but states no year and `year` is None, or names an
    impossible moment. Forms: ISO with space, T, _ or - between date and time, slashes for dashes,
    `2021-Nov-15 …`, `27 Feb 2025 …`, `Feb 27 2025 …`, `Sun Feb 23 16:24:18 2025`, syslog
    `Dec  1 01:02:03`, glog `E1201 01:26:39.995`. Day-month order in digits only is ambiguous and
    not read.
    """
    head = text[pos : pos + 1]
    if "0" <= head <= "9":
        match = _NUMERIC.match(text, pos) or _DAY_FIRST.match(text, pos)
        trailing = None
    elif "A" <= head <= "Z":
        match = _GLOG.match(text, pos)
        if match is not None:
            number, hours, minutes, seconds, fraction = match.groups()
            when = _seconds(_day(number, year), (hours, minutes, seconds), fraction)
            return when, match.end()
        match = _MONTH_FIRST.match(text, pos)
        trailing = match.group(7) if match else None
    else:
        return None
    if match is None:
        return None
    day, hours, minutes, seconds, fraction, zone = match.groups()[:6]
    if trailing:
        year = int(trailing)
    when = _seconds(_day(day, year), (hours, minutes, seconds), fraction)
    if when is not None and zone is not None:
        when -= _zone_s(zone)
    return when, match.end()


# How far left of hh:mm:ss a stamp can start, most frequent first: "2026-12-01 ", "2021-Nov-15 " and
# "Feb 27 2025 ", "Dec  1 ", "E1201 " and "Dec 1 ", "W318 ".
_STARTS: Final = (11, 12, 7, 6, 5)


def find_time(text: str, year: int | None = None) -> float | None:
    """Return the first stamp that starts in the first 48 characters, or None.

    Seconds since the epoch; UTC where no zone is stated. `year` completes syslog and glog stamps,
    which state none; without it they give None, as do bare clocks (`01:02:03`). Numbers count as
    epoch seconds, milli-, micro- or nanoseconds only in a time field of a JSON line.
    """
    if text[:1] == "{":
        return _json_time(text, year)
    pos = 0
    for _ in range(3):  # durations and bare clocks may stand before the stamp
        match = _CLOCK.search(text, pos, SEARCH_CHARS + 24)
        if match is None:
            return None
        start = match.start()
        for back in _STARTS:
            first = start - back
            if 0 <= first <= SEARCH_CHARS and not text[first - 1 : first].isalnum():
                found = stamp_at(text, first, year)
                if found is not None and found[0] is not None:
                    return found[0]
        pos = match.end()
    return None


def _json_time(text: str, year: int | None) -> float | None:
    match = _JSON_TIME.search(text, 0, 4096)
    if match is None:
        return None
    written, number = match.groups()
    return from_value(written if written is not None else float(number), year)


def from_value(value: object, year: int | None = None) -> float | None:
    """Return the time that a JSON field holds: a stamp, or a number whose size tells its unit."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        found = stamp_at(value.strip(), 0, year)
        if found is not None:
            return found[0]
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, (int, float)):
        return None
    # Seconds since 1990 are about 6e8; every further factor of 1000 is a smaller unit.
    for unit in (1.0, 1e3, 1e6, 1e9):
        if 631_152_000.0 <= value / unit < 4_133_980_800.0:
            return value / unit
    return None


def detect_year(sample_lines: Iterable[str]) -> int | None:
    """Return the year that all full stamps in these lines share, or None.

    It completes the stamps of the same source that state none. Around New Year there are two
    candidates, so there is none.
    """
    years = {
        time.gmtime(time_s).tm_year for time_s in map(find_time, sample_lines) if time_s is not None
    }
    return years.pop() if len(years) == 1 else None


def to_iso(time_s: float) -> str:
    """Return `2026-08-20T03:12:44.102Z`: UTC, whole milliseconds, half to even.

    Raises OverflowError outside the years 1 to 9999.
    """
    moment = _EPOCH + timedelta(milliseconds=round(time_s * 1000))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
