"""SARIF 2.1.0: one result for each piece of evidence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rootrank.report import render_sarif
from rootrank.report.sarif import _uri
from tests.report.examples import ALL
from tests.report.hostile import STRINGS, through


def run(name: str) -> Any:
    """Return the one run of an example's log."""
    log = json.loads(render_sarif(ALL[name], "0.1.0"))
    assert "2.1.0" == log["version"]
    assert 1 == len(log["runs"])
    return log["runs"][0]


def test_decisive_evidence_is_the_first_result() -> None:
    """The entry is the rule, the log line the location."""
    result = run("host-oom")["results"][0]
    assert "host-oom-kill" == result["ruleId"]
    assert "error" == result["level"]
    place = result["locations"][0]["physicalLocation"]
    assert "node-5/dmesg.txt" == place["artifactLocation"]["uri"]
    assert 8812 == place["region"]["startLine"]
    assert "Killed process 48213" in place["region"]["snippet"]["text"]


def test_collateral_is_a_note() -> None:
    """What the failure explains does not stand beside it as an error."""
    levels = {r["ruleId"]: r["level"] for r in run("host-oom")["results"]}
    assert {"host-oom-kill": "error", "nccl-collective-timeout": "note"} == levels


@pytest.mark.parametrize("name", ALL)
def test_every_rule_is_described(name: str) -> None:
    """Each result's rule is in the driver's list, once."""
    found = run(name)
    rules = [r["id"] for r in found["tool"]["driver"]["rules"]]
    assert sorted(set(rules)) == sorted(rules)
    assert {r["ruleId"] for r in found["results"]} == set(rules)
    assert all(r["shortDescription"]["text"] for r in found["tool"]["driver"]["rules"])


def test_failure_without_entry_has_a_rule() -> None:
    """A failure that no entry knows is a result too."""
    assert "unlisted-failure" == run("unknown-exception")["results"][0]["ruleId"]


def test_no_failure_has_no_result() -> None:
    """A healthy run is an empty list."""
    assert [] == run("no-failure")["results"]


def test_gaps_are_notifications() -> None:
    """What could not be read is said where SARIF says such things."""
    notes = run("host-oom")["invocations"][0]["toolExecutionNotifications"]
    assert ["rank12.log.gz: truncated gzip after line 40211"] == [
        n["message"]["text"] for n in notes
    ]


@pytest.mark.parametrize(
    ("source", "uri"),
    [
        ("logs/rank 3.log", "logs/rank%203.log"),
        ("/var/log/x#1.log", "file:///var/log/x%231.log"),
        ("C:\\logs\\a.log", "C%3A/logs/a.log"),
        ("s3://bucket/a b.log", "s3://bucket/a%20b.log"),
        ("bundle.tar!/n1/dmesg", "bundle.tar!/n1/dmesg"),
        ("", "unknown"),
    ],
)
def test_uri(source: str, uri: str) -> None:
    """Any source name becomes a valid URI reference."""
    assert uri == _uri(source)


@pytest.mark.parametrize("name", STRINGS)
def test_hostile_text(name: str) -> None:
    """Any text gives valid, harmless JSON."""
    for d in ALL.values():
        text = render_sarif(through(d, lambda _: STRINGS[name]), "1")
        assert text.isascii()
        assert "\\u001b" not in text
        json.loads(text)
