"""Launch scripts and command lines as commands with options, without running anything.

Belongs here: the part of shell that launch scripts use: continued lines, literal variables,
options. Must not be here: whether an option is right. What cannot be known without running the
script (a substitution, a loop) is None, never a guess.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from rootrank.preflight.finding import Place
from rootrank.preflight.readers import Document

MAX_LINE = 65536
MAX_COMMANDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One launcher's call: `options` by long name, with `-` for `_`; None where unknown."""

    launcher: str  # torchrun, deepspeed, accelerate, srun, mpirun, python
    options: dict[str, str | None]
    line: int
    script: str = ""
    rest: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()  # launchers around it, outermost first

    def has(self, *names: str) -> bool:
        """Return whether one of the options was given."""
        return any(name in self.options for name in names)

    def value(self, *names: str) -> str | None:
        """Return the value of the first of these options that has one."""
        return next((v for n in names if (v := self.options.get(n)) is not None), None)

    def count(self, *names: str) -> int | None:
        """Return the value of an option as a whole number."""
        value = self.value(*names) or ""
        return int(value) if value.isdigit() and len(value) < 9 else None


@dataclass(slots=True, kw_only=True)
class Script:
    """A launch text: its commands, the variables it exports, its #SBATCH options."""

    name: str
    folder: str = "."
    commands: list[Command] = field(default_factory=list)
    exports: dict[str, tuple[str | None, int]] = field(default_factory=dict)
    sbatch: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    def place(self, line: int, key: str = "") -> Place:
        """Return a line of this script; a command line typed in has no number."""
        known = None if self.name == "command line" else line
        return Place(name=self.name, line=known, key=key)

    def batch(self, *names: str) -> str | None:
        """Return an #SBATCH option's value by any of its names."""
        return next((self.sbatch[n][0] for n in names if n in self.sbatch), None)


def parse(document: Document) -> Script:
    """Return what a launch text would start."""
    script = Script(name=document.name, folder=document.folder)
    variables: dict[str, str] = {}
    for line, text in _logical(document.text):
        if text.startswith("#SBATCH"):
            _sbatch(script, line, text[7:])
            _known(script, variables)
        elif not text.startswith("#") and len(script.commands) < MAX_COMMANDS:
            for words in _split(text):
                _statement(script, variables, words, line, ())
    return script


def _logical(text: str) -> Iterator[tuple[int, str]]:
    held, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        first = first or number
        if line.endswith("\\") and not line.startswith("#") and len(held) < MAX_LINE:
            held += line[:-1] + " "
            continue
        yield first, (held + line)[:MAX_LINE]
        held, first = "", 0
    if held:
        yield first, held


def _split(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command on a line."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if word.strip(";&|"):
                words.append(word)
            elif words:
                yield words
                words = []
    except ValueError:  # an open quote: the lines below belong to it
        words = text.split()
    if words:
        yield words


_ASSIGN = re.compile(r"([A-Za-z_]\w{0,99})=(.*)\Z", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:(\w{1,99})|\{(\w{1,99})(?::?-([^{}$]{0,200}))?\})")


def _resolve(text: str, variables: dict[str, str]) -> str | None:
    """Return the text with literal variables filled in; None when something stays unknown."""

    def fill(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        return variables.get(name, match.group(3) if match.group(3) is not None else "\0")

    filled = _VARIABLE.sub(fill, text)
    return None if "\0" in filled or "$" in filled or "`" in filled else filled


def _statement(
    script: Script,
    variables: dict[str, str],
    words: list[str],
    line: int,
    inside: tuple[str, ...],
) -> None:
    words = list(words)
    exported = words[0] in ("export", "env", "declare", "typeset")
    if exported:
        words.pop(0)
    local: list[tuple[str, str | None]] = []
    while words and (found := _ASSIGN.match(words[0]) or _dashed(words[0], exported)):
        words.pop(0)
        if found is not True:
            local.append((found.group(1), _resolve(found.group(2), variables)))
    for name, value in local:
        if value is not None:
            variables[name] = value
        # A plain assignment reaches the job only through `export` or before its command.
        if exported or words or name in script.exports:
            script.exports[name] = (value, line)
    if (words and not exported) or (words and words[0] not in variables):
        _command(script, variables, words, line, inside)


def _dashed(word: str, exported: bool) -> bool:
    return exported and word.startswith("-")


def _command(
    script: Script, variables: dict[str, str], words: list[str], line: int, inside: tuple[str, ...]
) -> None:
    name, used = _launcher(words)
    if not name:
        _inner(script, variables, words, line, inside)
        return
    options, after = _options(words[used:], _FLAGS[name], _SHORT.get(name, {}), variables)
    rest = words[used + after :]
    target = rest[0] if rest else ""
    command = Command(
        launcher=name, options=options, line=line, script=target, rest=tuple(rest[1:]),
        inside=inside,
    )  # fmt: skip
    script.commands.append(command)
    if name in ("srun", "mpirun") and rest:
        _statement(script, variables, rest, line, (*inside, name))


def _inner(
    script: Script, variables: dict[str, str], words: list[str], line: int, inside: tuple[str, ...]
) -> None:
    """Look for a launcher behind `bash -c`, `exec`, `nohup`, `singularity exec …`."""
    if len(inside) > 4:
        return
    if words[0].rsplit("/", 1)[-1] in ("ssh", "pdsh", "clush", "parallel-ssh", "aprun", "jsrun"):
        inside = (*inside, "remote")
    for i, word in enumerate(words[:60]):
        if " " in word and _WORDS.search(word):
            for inner in _split(word):
                _statement(script, variables, inner, line, (*inside, "shell"))
            return
        if i and _launcher(words[i:])[0]:
            _command(script, variables, words[i:], line, inside)
            return


_WORDS = re.compile(r"\b(?:torchrun|deepspeed|accelerate|srun|python[\d.]*|mpirun)\b")
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*\Z")


def _launcher(words: list[str]) -> tuple[str, int]:
    """Return the launcher that these words begin with and how many name it; "" for none."""
    first = words[0].rsplit("/", 1)[-1]
    if first in ("torchrun", "deepspeed", "srun"):
        return first, 1
    if first in ("mpirun", "mpiexec"):
        return "mpirun", 1
    if first == "accelerate" and words[1:2] == ["launch"]:
        return "accelerate", 2
    if not _PYTHON.match(words[0]):
        return "", 0
    if words[1:2] == ["-m"] and len(words) > 2:
        module = words[2]
        if module in ("torch.distributed.run", "torch.distributed.launch"):
            return "torchrun", 3
        if module == "accelerate.commands.launch":
            return "accelerate", 3
        if module in ("deepspeed.launcher.runner", "deepspeed"):
            return "deepspeed", 3
    return "python", 1


# Options that stand alone; every other one takes the next word.
_FLAGS = {
    "torchrun": set("standalone module no-python run-path use-env m virtual-local-rank".split()),
    "deepspeed": set(
        "no-python no-local-rank module save-pid force-multi bind-cores-to-rank no-ssh "
        "no-ssh-check elastic-training".split()
    ),
    "accelerate": set(
        "cpu multi-gpu tpu ipex use-xpu use-deepspeed use-fsdp use-megatron-lm same-network "
        "use-parallelism-config module m no-python debug quiet q enable-cpu-affinity "
        "tpu-use-cluster tpu-use-sudo use-fp8 dynamo-use-fullgraph dynamo-use-dynamic "
        "use-mps-device".split()
    ),
    "srun": set(
        "kill-on-bad-exit label unbuffered exclusive overlap verbose pty overcommit quiet "
        "preserve-env no-kill wait-all-nodes oversubscribe contiguous multi-prog test-only".split()
    ),
    "mpirun": set("allow-run-as-root oversubscribe tag-output report-bindings verbose v".split()),
    "python": set("u B E I O s S v x m".split()),
}
_SHORT = {
    "srun": {
        "K": "kill-on-bad-exit", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus",
        "l": "label", "u": "unbuffered", "p": "partition", "t": "time", "J": "job-name",
        "o": "output", "e": "error", "w": "nodelist", "x": "exclude", "v": "verbose",
        "O": "overcommit", "Q": "quiet", "E": "preserve-env", "k": "no-kill",
    },
    "torchrun": {"r": "redirects", "t": "tee"},
    "mpirun": {"n": "np"},
}  # fmt: skip
_OPTIONAL = {"kill-on-bad-exit": "1"}


def _options(
    words: list[str], flags: set[str], short: dict[str, str], variables: dict[str, str]
) -> tuple[dict[str, str | None], int]:
    """Return the options that these words begin with, and how many words they take."""
    found: dict[str, str | None] = {}
    i = 0
    while i < len(words) and words[i].startswith("-") and len(words[i]) > 1:
        name, has_value, value = words[i].lstrip("-").partition("=")
        if not words[i].startswith("--") and short and name[:1] in short and len(name) > 1:
            name, has_value, value = name[0], "=", value or name[1:]  # -N2
        name = short.get(name, name).replace("_", "-")
        i += 1
        if has_value:
            found[name] = _resolve(value, variables)
        elif name in flags:
            found[name] = _OPTIONAL.get(name, "")
        elif i < len(words):
            found[name] = _resolve(words[i], variables)
            i += 1
    return found, i


def _sbatch(script: Script, line: int, text: str) -> None:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    options, _ = _options(words, _FLAGS["srun"] | {"requeue", "no-requeue"}, _SHORT["srun"], {})
    for name, value in options.items():
        script.sbatch[name] = (value, line)


def _known(script: Script, variables: dict[str, str]) -> None:
    """Fill in what Slurm will set from the script's own #SBATCH lines."""
    nodes = script.batch("nodes")
    if nodes and nodes.isdigit():
        variables.update(SLURM_NNODES=nodes, SLURM_JOB_NUM_NODES=nodes)
    for option, name in (
        ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ("ntasks", "SLURM_NTASKS"),
        ("gpus-per-node", "SLURM_GPUS_PER_NODE"),
        ("cpus-per-task", "SLURM_CPUS_PER_TASK"),
    ):
        value = script.batch(option)
        if value and value.isdigit():
            variables[name] = value
