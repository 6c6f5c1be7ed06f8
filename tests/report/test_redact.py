"""Secrets go, everything else stays, and no line takes long."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootrank.model import Diagnosis, Evidence, to_plain
from rootrank.report import FORMATS, redact, redact_diagnosis, render
from rootrank.report.secret_formats import FORMATS as TABLE
from rootrank.report.secret_formats import Format
from tests.report.examples import ALL
from tests.report.hostile import through
from tests.report.samples import BENIGN, expand

by_id = pytest.mark.parametrize("form", TABLE, ids=lambda f: f.id)


@by_id
def test_hit_is_replaced_by_its_own_mark(form: Format) -> None:
    """Every example of a form loses its secret, whatever characters were made up for it."""
    for seed in range(40):
        line = expand(form.hit, seed)
        assert f"<redacted:{form.id}>" in redact(line), line


@by_id
def test_near_is_untouched(form: Format) -> None:
    """The nearest harmless look-alike of a form stays as it is."""
    for seed in range(40):
        line = expand(form.near, seed)
        assert line == redact(line)


@by_id
def test_hint_is_in_every_match(form: Format) -> None:
    """A line that the hints rule out holds no match: the sieve loses nothing."""
    for seed in range(40):
        found = re.search(form.pattern, expand(form.hit, seed))
        assert found
        assert any(hint in expand(form.hit, seed).lower() for hint in form.hints)
    assert all(hint == hint.lower() and hint for hint in form.hints)


@by_id
def test_row_is_documented(form: Format) -> None:
    """Each row says whose secret it is and what its documentation says."""
    assert form.vendor
    assert form.form.endswith(".")


def test_table_is_large_and_its_ids_are_unique() -> None:
    """At least 60 published forms, one id each."""
    assert 60 <= len(TABLE) == len({f.id for f in TABLE})


@pytest.mark.parametrize("line", BENIGN, ids=range(len(BENIGN)))
def test_ordinary_log_line_is_untouched(line: str) -> None:
    """Hashes, ids, addresses, tokenizer words and tensor names are no secrets."""
    assert line == redact(line)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("export DB_PASSWORD=hunter2x", "export DB_PASSWORD=<redacted:password>"),
        ("--hub-token abcd1234efgh5678", "--hub-token <redacted:secret-option>"),
        ("['--api-key', 'abcd1234efgh5678']", "['--api-key', '<redacted:secret-option>']"),
        ('{"password": "hunter2x"}', '{"password": "<redacted:password>"}'),
        (
            "{'password': 'hunter2x', 'user': 'ann'}",
            "{'password': '<redacted:password>', 'user': 'ann'}",
        ),
        (
            r"{\"api_key\": \"Q8w7e6r5t4y3u2i1\"}",
            r"{\"api_key\": \"<redacted:secret-assignment>\"}",
        ),
        ("password: hunter2x  # yaml", "password: <redacted:password>  # yaml"),
        ("[rank3]: token: a1b2c3d4e5f6g7", "[rank3]: token: <redacted:token-assignment>"),
        ("postgres://u:pw@db/x", "postgres://<redacted:url-userinfo>@db/x"),
        ("redis://:s3cret@cache:6379/0", "redis://<redacted:url-userinfo>@cache:6379/0"),
        ("Server=db;Pwd=hunter2x;", "Server=db;Pwd=<redacted:password>;"),
        ("mail ann.lee+ml@cs.example.edu now", "mail <redacted:email> now"),
    ],
)
def test_only_the_secret_goes(line: str, shown: str) -> None:
    """The name beside a secret stays, so that the line still explains itself."""
    assert shown == redact(line)


def test_private_key_block_keeps_its_lines() -> None:
    """A PEM block goes whole, and the lines after it keep their numbers."""
    pem = expand("-----BEGIN RSA PRIVATE KEY-----\n{b64}\n{b64}\n-----END RSA PRIVATE KEY-----")
    assert f"a\n<redacted:private-key>{chr(10) * 3}\nb" == redact(f"a\n{pem}\nb")


def test_private_key_cut_off_by_the_end_goes_too() -> None:
    """A log that stops inside a key shows none of it."""
    body = expand("{b64}")
    assert body not in redact(f"-----BEGIN PRIVATE KEY-----\n{body}")


def test_private_key_over_several_quoted_lines() -> None:
    """The body of a key stands in lines of its own when a traceback quotes it."""
    pem = expand("-----BEGIN PRIVATE KEY-----\n{b64}\n-----END PRIVATE KEY-----").split("\n")
    evidence = Evidence(kind="line", source="x", line=1, end_line=3, text="key:", lines=tuple(pem))
    found = redact_diagnosis(replace(ALL["hang"], unexplained=(evidence,)))
    assert ("<redacted:private-key>", "", "") == found.unexplained[0].lines


def test_clean_diagnosis_is_returned_itself() -> None:
    """Where there is nothing to hide, nothing is copied."""
    assert ALL["hang"] is redact_diagnosis(ALL["hang"])


def test_every_field_of_a_diagnosis_is_redacted() -> None:
    """No field is forgotten, also those that a new version adds."""
    secret = expand("ghp_{A36}")
    for d in ALL.values():
        filled: Diagnosis = through(d, lambda text: f"{text} {secret}")
        assert secret in str(to_plain(filled))
        assert secret not in str(to_plain(redact_diagnosis(filled)))


@pytest.mark.parametrize("format", FORMATS)
def test_render_redacts(format: str) -> None:
    """Every format hides secrets unless told not to."""
    secret = expand("ghp_{A36}")
    filled = through(ALL["host-oom"], lambda text: f"{secret} {text}")
    assert secret not in render(filled, format, version="1")
    assert secret in render(filled, format, version="1", redacted=False)


@given(st.text(max_size=300))
def test_twice_is_once(text: str) -> None:
    """Applying it again changes nothing, and the number of lines stays."""
    once = redact(text)
    assert once == redact(once)
    assert text.count("\n") == once.count("\n")


def test_twice_is_once_for_every_form() -> None:
    """A mark is not taken for a secret."""
    for form in TABLE:
        once = redact(expand(form.hit))
        assert once == redact(once)


SIZE = 64 * 1024
ATOMS = ("a", "A0", "-", "_", "/", ":", "@", " ", '"', "a.", "a_", "a@b.", "://a:", "=", "\\", "x=")


@by_id
def test_time_is_linear(form: Format) -> None:
    """64 KiB made to trouble a pattern take well under a second."""
    hit = expand(form.hit)
    pieces = [*ATOMS, *form.hints, *(h.upper() for h in form.hints)]
    pieces += [hit[:n] for n in range(4, len(hit), max(4, len(hit) // 6))]
    pattern = re.compile(form.pattern)
    for piece in pieces:
        text = form.hints[0] + piece * (SIZE // len(piece))
        start = time.perf_counter()
        pattern.sub("", text)
        assert time.perf_counter() - start < 1.0, piece


def test_ordinary_lines_are_cheap() -> None:
    """A line without a hint costs microseconds."""
    lines = BENIGN * 20
    for line in lines:  # compile what these lines need
        redact(line)
    start = time.perf_counter()
    for line in lines:
        redact(line)
    assert (time.perf_counter() - start) / len(lines) < 200e-6
