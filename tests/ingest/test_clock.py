"""Time stamps become UTC seconds, or None where the line leaves something open."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootrank.ingest.clock import detect_year, find_time, from_value, stamp_at, to_iso


def seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).replace(tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("iso", "line"),
    [
        ("2026-12-01T01:27:13.292", "2026-12-01 01:27:13,292 [rank0] INFO start"),
        ("2026-12-01T01:29:22.377", "[2026-12-01 01:29:22,377] [INFO] [engine.py:1:f] x"),
        ("2026-01-01T00:00:00.250", "2026-01-01T00:00:00.250000000Z stderr F x"),
        ("2026-01-01T08:00:00.500", "2026-01-01T00:00:00.5-08:00 x"),
        ("2026-01-01T00:00:00", "2026-01-01 01:00:00 +0100 x"),
        ("2025-01-21T04:41:44.285060", "kern  :warn  : 2025-01-21T04:41:44,285060+00:00 x"),
        ("2025-02-27T14:08:27", "[Feb 27 2025 14:08:27] [INFO] x"),
        ("2025-02-23T16:24:18", "[Sun Feb 23 16:24:18 2025] NVRM: x"),
        ("2023-03-01T17:43:24", "[Wed Mar  1 17:43:24 2023] x"),
        ("2023-03-01T17:43:24", "Wed Mar  1 17:43:24 UTC 2023"),
        ("2026-09-07T13:22:10", "Mon, 07 Sep 2026 14:22:10 +0100"),
        ("2021-11-15T15:21:28.023100", "2021-Nov-15 15:21:28.0231 x"),
        ("2026-01-02T03:04:05", "2026/01/02 03:04:05 x"),
        ("2022-07-12T04:17:53.762", "submitit INFO (2022-07-12 04:17:53,762) - x"),
        ("2024-01-19T14:49:08.123", "[ERROR] HCCL(1):2024-01-19-14:49:08.123.456 [f.cc:1] x"),
        ("2021-05-25T06:45:27.966", "[INFO|trainer.py:12] 2021-05-25 06:45:27,966 >> x"),
        ("2026-12-01T01:27:13", "  time      : 2026-12-01_01:27:13"),
        ("2026-01-01T00:00:00", "00:00:10 since 2026-01-01 00:00:00 x"),
        ("2024-02-29T00:00:00", "2024-02-29 00:00:00"),
    ],
)
def test_reads_the_stamps_of_launchers_runtimes_and_kernels(iso: str, line: str) -> None:
    """A full stamp near the start of a line gives its moment; no zone means UTC."""
    assert seconds(iso) == pytest.approx(find_time(line), abs=1e-6)


@pytest.mark.parametrize(
    ("iso", "line"),
    [
        ("2026-12-01T01:02:03", "Dec  1 01:02:03 node-7 kernel: x"),
        ("2026-12-01T01:26:39.995", "E1201 01:26:39.995000 6565 path.py:12] x"),
        ("2026-10-03T18:37:01.833", "[rank2]:[E1003 18:37:01.833000000 ProcessGroupNCCL.cpp:1] x"),
        ("2026-03-18T14:38:12.100", "[W318 14:38:12.1 Utils.hpp:1] x"),
    ],
)
def test_a_stamp_without_year_needs_one(iso: str, line: str) -> None:
    """Syslog and glog state no year: with one given they have a time, else None."""
    assert seconds(iso) == pytest.approx(find_time(line, year=2026), abs=1e-6)
    assert None is find_time(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "01:02:03 step 4",
        "01/02/2026 03:04:05 x",
        "2026-13-01 00:00:00",
        "2026-02-30 00:00:00",
        "2026-01-01 25:00:00",
        "2026-01-01",
        "9999-01-01 00:00:00",
        "version 2026-01-01x00:00:00",
        "12026-01-01 00:00:00",
        "1767225600 a number is no time outside JSON",
        "x" * 60 + " 2026-01-01 00:00:00",
        "Feb 30 01:02:03",
        '{"step": 1767225600}',
    ],
)
def test_unknown_rather_than_a_guess(line: str) -> None:
    """Ambiguous, impossible, bare or far-off stamps give None."""
    assert None is find_time(line, year=2026)


@pytest.mark.parametrize(
    "value",
    [1767225600, 1767225600.0, 1767225600000, 1767225600e6, 1767225600e9, "2026-01-01T00:00:00Z"],
)
def test_json_numbers_tell_their_unit_by_size(value: object) -> None:
    """A JSON time field may hold seconds, milli-, micro- or nanoseconds, or a stamp."""
    assert 1767225600.0 == from_value(value)


def test_json_line() -> None:
    """A JSON line has the time of its time field."""
    assert 1767225600.5 == find_time('{"level": "INFO", "ts": 1767225600.5}')
    assert 1767225600.0 == find_time('{"msg": "x", "timestamp": "2026-01-01 00:00:00"}')


@pytest.mark.parametrize("value", [True, None, [], 12, -5, "soon", float("nan"), float("inf")])
def test_json_values_that_are_no_time(value: object) -> None:
    """Flags, counters and words are no time."""
    assert None is from_value(value)


def test_the_end_of_a_stamp_is_known() -> None:
    """`stamp_at` says where the message goes on, also when the year is missing."""
    assert (None, 15) == stamp_at("Dec  1 01:02:03 host", 0)
    assert 23 == (stamp_at("2026-12-01 01:27:13,292 x", 0) or (0, 0))[1]


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        (
            2026,
            [
                "E1201 01:26:39.995000 1 a.py:1] x",
                "2026-12-01 01:27:13,292 x",
                "2026-12-02 00:00:00",
            ],
        ),
        (None, ["2025-12-31 23:59:59 x", "2026-01-01 00:00:00 x"]),
        (None, ["E1201 01:26:39.995000 1 a.py:1] x", ""]),
    ],
)
def test_detect_year(expected: int | None, lines: list[str]) -> None:
    """Full stamps of a source tell the year of its short ones, unless they tell two."""
    assert expected == detect_year(lines)


def test_to_iso() -> None:
    """Times print as UTC with milliseconds."""
    assert "2026-08-20T03:12:44.102Z" == to_iso(seconds("2026-08-20T03:12:44.102"))
    assert "1970-01-01T00:00:00.000Z" == to_iso(0)
    assert "2026-01-01T00:00:00.000Z" == to_iso(1767225599.9996)
    with pytest.raises(OverflowError):
        to_iso(1e18)


@given(st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2100, 12, 31)))
def test_a_printed_stamp_is_read_back(moment: datetime) -> None:
    """Every whole millisecond survives `to_iso` and `find_time`."""
    time_s = round(moment.replace(tzinfo=timezone.utc).timestamp(), 3)
    assert time_s == pytest.approx(find_time(to_iso(time_s)), abs=1e-6)


@given(st.text(max_size=120))
def test_any_text_is_survived(text: str) -> None:
    """No text makes the clock raise."""
    found = find_time(text, year=2026)
    assert found is None or isinstance(found, float)


@given(st.from_regex(r"\A[\dA-Z][\w\-/ :.,+]{0,50}\Z"))
def test_near_stamps_are_survived(text: str) -> None:
    """Text made of the characters of stamps raises nothing either."""
    find_time(text, year=2026)
    stamp_at(text, 0, None)
