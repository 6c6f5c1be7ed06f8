"""The shape of the package: who may import whom, and what runs on the standard library alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rootrank

PACKAGE = Path(rootrank.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
STAGES = ("ingest", "scan", "timeline", "infer", "report")
# What a stage may use beside itself: values, errors, and the shape of knowledge.
SHARED = ("rootrank.model", "rootrank.errors", "rootrank.knowledge.types", "rootrank._version")


def name_of(path: Path) -> str:
    """Return the dotted name of a module of the package."""
    parts = ["rootrank", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    """Return the modules of ours that a module imports anywhere, dotted and absolute."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert 0 == node.level, f"{path}:{node.lineno}: relative import; write it absolute"
            module = node.module or ""
            names = [f"{module}.{a.name}" for a in node.names]
            found.update(n if _is_module(n) else module for n in names)
    return {n for n in found if n.split(".")[0] == "rootrank"}


def _is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def under(name: str, *parents: str) -> bool:
    """Return whether a module is one of the parents or inside one."""
    return any(name == p or name.startswith(p + ".") for p in parents)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is(path: Path) -> None:
    """Every module has a docstring, and none lies deeper than two levels below the package."""
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), name_of(path)
    assert len(path.relative_to(PACKAGE).parts) <= 3


@pytest.mark.parametrize("name", ["model", "errors", "_version"])
def test_the_bottom_imports_nothing_of_ours(name: str) -> None:
    """model, errors and the version stand on nothing."""
    assert set() == imports_of(PACKAGE / f"{name}.py")


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_no_other_stage(stage: str) -> None:
    """Stages share the model, the errors and the knowledge types, and nothing else."""
    for path in sorted((PACKAGE / stage).rglob("*.py")):
        foreign = {n for n in imports_of(path) if not under(n, f"rootrank.{stage}", *SHARED)}
        assert set() == foreign, name_of(path)


def test_only_the_pipeline_imports_stages() -> None:
    """The order of the stages is known in one place; report is for whoever shows a diagnosis."""
    stages = [f"rootrank.{s}" for s in STAGES if s != "report"]
    for path in MODULES:
        name = name_of(path)
        if name == "rootrank.pipeline" or under(name, *stages):
            continue
        assert set() == {n for n in imports_of(path) if under(n, *stages)}, name


def test_knowledge_knows_no_stage_and_no_command() -> None:
    """Entries can be read, checked and rendered without the pipeline."""
    for path in sorted((PACKAGE / "knowledge").rglob("*.py")):
        foreign = {n for n in imports_of(path) if not under(n, "rootrank.knowledge", *SHARED)}
        assert set() == foreign, name_of(path)


BARE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top != "rootrank":
            raise ImportError(f"{name} is not in the standard library")

sys.meta_path.insert(0, Blocked())
sys.path.insert(0, sys.argv[1])
import io
import rootrank.pipeline
log = b"Traceback (most recent call last):\\n  File \\"train.py\\", line 1, in <module>\\nValueError: x\\n"
print(rootrank.pipeline.diagnose(["-"], stdin=io.BytesIO(log)).verdict.value)
"""


# Before 3.11 the standard library reads no TOML, so entries come compiled or through tomli.
@pytest.mark.skipif(sys.version_info < (3, 11), reason="no tomllib")
def test_the_pipeline_runs_on_the_standard_library_alone() -> None:
    """Without any third-party package a diagnosis works: in a bare container, in a browser."""
    command = [sys.executable, "-I", "-c", BARE, str(PACKAGE.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "" == done.stderr
    assert "failure\n" == done.stdout


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import rootrank` resolves its names on first use."""
    code = "import sys, rootrank; print(sorted(m for m in sys.modules if 'rootrank' in m))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "['rootrank', 'rootrank._version']\n" == done.stdout


def test_public_names() -> None:
    """The public surface is this list: adding to it is a decision, removing breaks somebody."""
    expected = [
        *("Action", "Cause", "Collateral", "Coverage", "Diagnosis", "Entry", "Evidence", "Gap"),
        *("Initiating", "InputError", "Knowledge", "KnowledgeError", "Missing"),
        *("MissingExtraError", "RootCause", "RootrankError", "Status", "UsageError", "Verdict"),
        *("__version__", "diagnose", "load_knowledge", "to_plain"),
    ]
    assert expected == rootrank.__all__
    for name in expected:
        assert getattr(rootrank, name) is not None
