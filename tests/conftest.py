"""What tests of several parts share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache folder; colour and width are the program's own."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setenv("LOCALAPPDATA", str(folder))
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "_ARGCOMPLETE"):
        if name in os.environ:
            monkeypatch.delenv(name)
