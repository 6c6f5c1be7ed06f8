"""Fixtures of live collection: a PATH with fakes in front."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    collect_ignore_glob = ["test_*.py"]  # /proc is Linux's


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder whose programs are found first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder
