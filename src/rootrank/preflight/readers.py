"""Configuration files as values with line numbers, in bounded memory, whatever they hold.

Belongs here: bytes to values, and which kind of file it is. Must not be here: whether a value is
right. A file is somebody else's: it may be huge, binary, nested without end or full of aliases.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from rootrank.errors import InputError, MissingExtraError
from rootrank.preflight.finding import Place

MAX_BYTES = 4 << 20  # no configuration comes near; a checkpoint or a log does
MAX_DEPTH = 60
MAX_NODES = 200_000
Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A configuration: its kind, its values, and the line of each key."""

    name: str
    kind: str  # deepspeed, accelerate, trainer, lightning, fsdp, model, launch
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Keys, int] = field(default_factory=dict)
    text: str = ""
    duplicates: tuple[tuple[Keys, int], ...] = ()
    quirks: tuple[str, ...] = ()  # comments, bom
    folder: str = "."
    is_yaml: bool = False

    def place(self, *keys: str) -> Place:
        """Return where a key stands; the nearest parent's line when it is absent."""
        for end in range(len(keys), 0, -1):
            if keys[:end] in self.lines:
                return Place(name=self.name, line=self.lines[keys[:end]], key=".".join(keys))
        return Place(name=self.name, key=".".join(keys))

    def get(self, *keys: str) -> Any:
        """Return the value below these keys, or None."""
        value: Any = self.values
        for key in keys:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def section(self, *keys: str) -> dict[str, Any]:
        """Return the mapping below these keys; an empty one where there is none."""
        value = self.get(*keys)
        return value if isinstance(value, dict) else {}


def read(name: str) -> Document:
    """Return one configuration: a path, `-`, or a command line. Raises InputError."""
    if name != "-" and not os.path.exists(name) and is_command(name):  # noqa: PTH110
        return Document(name="command line", kind="launch", text=name)
    return parse("standard input" if name == "-" else name, _load(name))


def is_command(text: str) -> bool:
    """Return whether a text is a launch command rather than a path."""
    return " " in text and bool(LAUNCHERS.search(text))


LAUNCHERS = re.compile(
    r"(?:^|[\s/;&|'\"])(?:torchrun|srun|deepspeed|accelerate\s+launch|mpirun|mpiexec|"
    r"python[\d.]*\s+-m\s+torch\.distributed\.(?:run|launch)|python[\d.]*)\s|^#SBATCH\s",
    re.MULTILINE,
)


def _load(name: str) -> bytes:
    if name == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        return _fits("standard input", data, len(data))
    try:
        # A pipe or a device may never end: only what has a size is opened.
        state = os.stat(name)  # noqa: PTH116
        if not stat.S_ISREG(state.st_mode):
            raise InputError(name, "not a file", "give a configuration file, or - for a stream")
        if state.st_size > MAX_BYTES:
            return _fits(name, b"", state.st_size)
        with open(name, "rb") as stream:  # noqa: PTH123
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        fault = f"cannot be read: {error.strerror or error}"
        raise InputError(name, fault, "check the path and its permissions") from error
    except ValueError as error:  # a NUL in the path
        raise InputError(repr(name), "not a path", "give a configuration file") from error
    return _fits(name, data, len(data))


def _fits(name: str, data: bytes, size: int) -> bytes:
    if size > MAX_BYTES:
        fault = f"{size >> 20} MiB are no configuration (at most {MAX_BYTES >> 20} are read)"
        raise InputError(name, fault, "give the configuration file; logs are for diagnose")
    if b"\0" in data:
        raise InputError(name, "binary, not text", "give a JSON, YAML or shell file")
    return data


def parse(name: str, data: bytes) -> Document:
    """Return the document that these bytes hold. Raises InputError for what it cannot be."""
    quirks: list[str] = []
    if data.startswith(b"\xef\xbb\xbf"):
        quirks.append("bom")
        data = data[3:]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = f"not UTF-8 at byte {error.start}"
        raise InputError(name, fault, "save the file as UTF-8") from error
    folder = str(Path(name).parent)
    shape = _shape(name, text)
    if shape == "launch":
        return Document(name=name, kind="launch", text=text, folder=folder)
    values, lines, twice = _json(name, text, quirks) if shape == "json" else _yaml(name, text)
    return Document(
        name=name, kind=kind_of(name, values), values=values, lines=lines, duplicates=tuple(twice),
        quirks=tuple(quirks), folder=folder, is_yaml=shape == "yaml",
    )  # fmt: skip


def _shape(name: str, text: str) -> str:
    suffix = Path(name).suffix.lower()
    if suffix in (".json", ".jsonc", ".hjson"):
        return "json"
    if suffix in (".yaml", ".yml"):
        return "yaml"
    if suffix in (".sh", ".bash", ".slurm", ".sbatch", ".sub", ".job"):
        return "launch"
    if text.lstrip()[:1] in ("{", "["):
        return "json"
    if text.startswith("#!") or LAUNCHERS.search(text[:65536]):
        return "launch"
    return "yaml"


# --------------------------------------------------------------------------- JSON


class _Twice(dict[str, Any]):
    """A JSON object that remembers which of its keys came twice."""

    twice: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> _Twice:
    made = _Twice(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        made.twice = tuple(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]  # add returns None
    return made


_Read = tuple[dict[str, Any], dict[Keys, int], list[tuple[Keys, int]]]


def _json(name: str, text: str, quirks: list[str]) -> _Read:
    try:
        values = json.loads(text, object_pairs_hook=_pairs)
    except RecursionError as error:
        raise _deep(name) from error
    except ValueError as error:
        values = _relaxed(name, text, error)
        quirks.append("comments")
        text = _bare(text)
    if not isinstance(values, dict):
        raise InputError(name, "no object at its top", "give a configuration, { … } at the top")
    twice = [(keys, 0) for keys in _repeated(name, values)]
    lines, repeats = _key_lines(text)
    found = [(keys, repeats.get(keys, 0)) for keys, _ in twice]
    return cast("dict[str, Any]", values), lines, found


def _relaxed(name: str, text: str, first: ValueError) -> Any:
    """Return the values of JSON with comments and trailing commas, as DeepSpeed's hjson takes it."""
    try:
        return json.loads(_bare(text), object_pairs_hook=_pairs)
    except (ValueError, RecursionError):
        pass
    at = getattr(first, "lineno", None)
    where = f"{name}:{at}" if at else name
    raise InputError(where, f"not JSON: {getattr(first, 'msg', first)}", "correct it") from first


# Every alternative matches from its first character on, so hostile text costs one pass.
_JUNK = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|//[^\n]*|#[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING = re.compile(r'("[^"\\\n]*(?:\\.[^"\\\n]*)*"?)|,(?=\s{0,200}[}\]])')


def _bare(text: str) -> str:
    """Return JSON text without comments and trailing commas; line numbers stay."""

    def blank(match: re.Match[str]) -> str:
        part = match.group()
        return part if part.startswith('"') else "\n" * part.count("\n")

    return _TRAILING.sub(lambda m: m.group(1) or "", _JUNK.sub(blank, text))


_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\]:\n]', re.DOTALL)


def _key_lines(text: str) -> tuple[dict[Keys, int], dict[Keys, int]]:
    """Return the first line of each key, and the line where it came again."""
    lines: dict[Keys, int] = {}
    repeats: dict[Keys, int] = {}
    path: list[str] = []
    line, word, word_line = 1, "", 1
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "\n":
            line += 1
        elif token[0] == '"':
            word, word_line = token[1:-1], line
            line += token.count("\n")
        elif token in "{[":
            path.append("")
        elif token in "}]":
            if path:
                path.pop()
        elif path:
            path[-1] = word
            # Keys inside lists have no address here; nobody asks for them.
            keys = tuple(path)
            (repeats if keys in lines else lines)[keys] = word_line
        if len(lines) > MAX_NODES:
            break
    return lines, repeats


def _repeated(name: str, values: dict[str, Any]) -> Iterator[Keys]:
    """Yield keys that came twice in one object; refuse what is nested too deeply."""
    stack: list[tuple[Keys, Any]] = [((), values)]
    while stack:
        keys, value = stack.pop()
        if len(keys) > MAX_DEPTH:
            raise _deep(name)
        if isinstance(value, _Twice):
            yield from (keys + (key,) for key in value.twice)
        children = value.items() if isinstance(value, dict) else ()
        if isinstance(value, list):
            children = (("", v) for v in value)  # type: ignore[assignment]  # pairs all the same
        stack.extend((keys + (k,), v) for k, v in children if isinstance(v, (dict, list)))


def _deep(name: str) -> InputError:
    fault = f"nested more than {MAX_DEPTH} levels deep"
    return InputError(name, fault, "give a configuration, not data")


# --------------------------------------------------------------------------- YAML


def _yaml(name: str, text: str) -> _Read:
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]  # an optional extra
    except ImportError as error:
        remedy = "pip install 'rootrank[check]' (or PyYAML), or convert it to JSON"
        raise MissingExtraError(name, "reading YAML needs PyYAML", remedy) from error
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        builder = _Builder(name, loader)
        values = builder.build(node, (), 0) if node is not None else {}
    except RecursionError as error:
        raise _deep(name) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        fault = f"not YAML: {getattr(error, 'problem', None) or 'cannot be parsed'}"
        raise InputError(where, fault, "correct it") from error
    finally:
        loader.dispose()
    if not isinstance(values, dict):
        raise InputError(name, "no mapping at its top", "give a configuration file")
    return values, builder.lines, builder.twice


class _Builder:
    """Values of YAML nodes; aliases are followed within a budget, tags are not obeyed."""

    def __init__(self, name: str, loader: Any) -> None:
        self._name, self._loader, self._left = name, loader, MAX_NODES
        self.lines: dict[Keys, int] = {}
        self.twice: list[tuple[Keys, int]] = []

    def build(self, node: Any, keys: Keys, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            fault = f"more than {MAX_NODES} values (aliases multiply them)"
            raise InputError(self._name, fault, "give a configuration, not data")
        if depth > MAX_DEPTH:
            raise _deep(self._name)
        if node.id == "mapping":
            return self._mapping(node, keys, depth)
        if node.id == "sequence":
            return [self.build(v, keys + ("",), depth + 1) for v in node.value]
        return self._scalar(node)

    def _mapping(self, node: Any, keys: Keys, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if key_node.id == "scalar" else "?"
            below = keys + (key,)
            if key in made:
                self.twice.append((below, key_node.start_mark.line + 1))
            self.lines.setdefault(below, key_node.start_mark.line + 1)
            made[key] = self.build(value_node, below, depth + 1)
        return made

    def _scalar(self, node: Any) -> Any:
        if not node.tag.startswith("tag:yaml.org,2002:") or "python" in node.tag:
            return str(node.value)
        try:
            return self._loader.construct_object(node)
        except Exception:  # a date that is none, an integer of a million digits
            return str(node.value)


# --------------------------------------------------------------------------- kinds

_TRAINER = (
    "per_device_train_batch_size", "output_dir", "num_train_epochs", "save_steps", "eval_strategy",
    "ddp_timeout", "gradient_checkpointing", "lr_scheduler_type", "dataloader_num_workers",
)  # fmt: skip
_DEEPSPEED = (
    "zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "steps_per_print",
    "zero_allow_untested_optimizer", "activation_checkpointing", "wall_clock_breakdown",
)  # fmt: skip
_ACCELERATE = ("distributed_type", "compute_environment", "num_machines", "machine_rank")
_LIGHTNING = ("devices", "strategy", "accelerator", "num_nodes", "max_epochs", "precision")
_FSDP = (
    "fsdp_transformer_layer_cls_to_wrap", "transformer_layer_cls_to_wrap", "min_num_params",
    "fsdp_min_num_params", "reshard_after_forward", "backward_prefetch", "cpu_ram_efficient_loading",
)  # fmt: skip
_WIDTH = ("hidden_size", "n_embd", "d_model")
_HEIGHT = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")


def kind_of(name: str, values: dict[str, Any]) -> str:
    """Return which library reads this. Raises InputError when none is known to."""
    trainer = values.get("trainer")
    if isinstance(trainer, dict) and _holds(trainer, _LIGHTNING):
        return "lightning"
    if _holds(values, _ACCELERATE):
        return "accelerate"
    if _holds(values, _TRAINER):
        return "trainer"
    if _holds(values, _DEEPSPEED) or _half(values):
        return "deepspeed"
    if _holds(values, _WIDTH) and _holds(values, _HEIGHT):
        return "model"
    if _holds(values, _FSDP):
        return "fsdp"
    if sum(key in values for key in _LIGHTNING) > 1:
        return "lightning"
    known = "DeepSpeed, accelerate, FSDP, TrainingArguments, Lightning or a model's config.json"
    raise InputError(name, f"not recognised as {known}", "give one of these, or a launch script")


def _half(values: dict[str, Any]) -> bool:
    return any(isinstance(values.get(key), dict) for key in ("fp16", "bf16", "zero_optimisation"))


def _holds(values: dict[str, Any], keys: tuple[str, ...]) -> bool:
    return any(key in values for key in keys)


# --------------------------------------------------------------------------- values


def number(value: Any) -> float | None:
    """Return a usable number, or None: no truth value, text, NaN, infinity or absurd size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -(2**53) < value < 2**53:  # false for NaN too
        return None
    return float(value)


def whole(value: Any) -> int | None:
    """Return a whole number, or None."""
    found = number(value)
    return int(found) if found is not None and found == int(found) else None


def shown(value: Any) -> str:
    """Return a value as a message may hold it."""
    try:
        text = json.dumps(value, default=str)
    except (ValueError, TypeError, RecursionError):
        text = "a value without end"
    return text if len(text) <= 60 else text[:57] + "…"
