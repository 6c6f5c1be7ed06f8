"""Keep the documentation true: python tools/docs.py [--check]

Without --check it rewrites what is generated: schemas/rootrank.entry-1.schema.json, and in every
Markdown page each block of the form

    <!-- output of: rootrank demo killed --width 100 -->
    ```text
    …
    ```

With --check nothing is written; what differs is named, and so are links that lead nowhere and
commands that the program does not know. Exit code 0 when all is true, else 1.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from rootrank.cli import COMMANDS, build_parser, main
from rootrank.errors import UsageError
from rootrank.knowledge.schema import entry_schema_text

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "schemas" / "rootrank.entry-1.schema.json"
_OUTPUT = re.compile(r"(<!-- output of: (rootrank [^\n]*?) -->\n+```text\n)(.*?)(\n?```)", re.S)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)


def pages() -> list[Path]:
    """Return the Markdown pages of the project; entries have a check of their own."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")])


def output_of(command: str) -> str:
    """Return what a command of ours prints on standard output, whatever its exit code."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main(shlex.split(command)[1:])
    return out.getvalue().rstrip("\n")


def generated(text: str) -> str:
    """Return a page with its output blocks brought up to date."""
    return _OUTPUT.sub(lambda m: f"{m[1]}{output_of(m[2])}\n```", text)


def dead_links(path: Path, text: str) -> Iterator[str]:
    """Yield the relative links of a page that lead nowhere."""
    for link in _LINK.findall(re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))):
        target = link.partition("#")[0]
        if not re.match(r"[a-z]+:", link) and target and not (path.parent / target).exists():
            yield f"link to {link}, which does not exist"


def unknown_commands(text: str) -> Iterator[str]:
    """Yield the commands in shell blocks that the program would not understand."""
    for language, block in _FENCE.findall(text):
        if language in ("sh", "bash", "console"):
            for line in block.replace("\\\n", " ").split("\n"):
                for words in _commands_of(line):
                    if fault := _refusal(words):
                        yield f"{' '.join(['rootrank', *words])}: {fault}"


def _commands_of(line: str) -> Iterator[list[str]]:
    """Yield the arguments of every rootrank call on a shell line."""
    lexer = shlex.shlex(line.lstrip("$ "), posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # prose or a placeholder, not a command
        return
    call: list[str] | None = None
    for word in [*words, ";"]:
        if set(word) <= set("|&;()<>"):
            if call:
                yield call[1:]
            call = None
        elif call is not None:
            call.append(word)
        elif word == "rootrank":
            call = [word]


def _refusal(words: list[str]) -> str:
    """Return why the program would refuse the words, or ""."""
    if not words or words[0] in ("--help", "--version"):
        return ""
    if words[0] not in COMMANDS:
        if words[0].isalpha() and len(words[0]) > 2 and not (ROOT / words[0]).exists():
            return "no such command"
        words = ["diagnose", *words]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            build_parser(words[0]).parse_args(words)
    except UsageError as error:
        return error.fault
    except SystemExit:  # --help inside a command
        return ""
    return ""


def run(check: bool) -> int:
    """Bring everything up to date, or say what is not."""
    faults: list[str] = []
    wanted = {SCHEMA: entry_schema_text()}
    for path in pages():
        text = path.read_text(encoding="utf-8")
        wanted[path] = generated(text)
        shown = path.relative_to(ROOT)
        faults += [f"{shown}: {fault}" for fault in dead_links(path, text)]
        faults += [f"{shown}: {fault}" for fault in unknown_commands(text)]
    for path, text in wanted.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            faults.append(f"{path.relative_to(ROOT)}: not up to date; run python tools/docs.py")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"docs: {len(wanted)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(run("--check" in sys.argv[1:]))
