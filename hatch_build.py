"""Build hook: a wheel ships the entries in compiled form, so that no user pays for parsing them.

The compiled file goes straight into the wheel and never into the source tree, where it would
outlive the next edit of an entry.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileKnowledge(BuildHookInterface[Any]):
    """Adds rootrank/knowledge/compiled.json to a wheel; leaves an editable install alone."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the entries; a malformed entry stops the build."""
        if version == "editable":
            return
        source = str(Path(self.root, "src"))
        sys.path.insert(0, source)
        try:
            from rootrank.knowledge import compile as compiled
        finally:
            sys.path.remove(source)
        self._folder = tempfile.TemporaryDirectory()
        target = Path(self._folder.name, "compiled.json")
        entries = Path(self.root, "src", "rootrank", "knowledge", "entries")
        compiled.write(compiled.compile_entries(entries, sealed=True), target)
        build_data["force_include"][str(target)] = "rootrank/knowledge/compiled.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary file once the wheel holds it."""
        if version != "editable":
            self._folder.cleanup()
