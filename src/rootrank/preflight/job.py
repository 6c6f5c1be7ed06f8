"""The job that the given files describe together: how many processes, where, of which model.

Belongs here: joining what several files say. Must not be here: whether it is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rootrank.preflight import shell
from rootrank.preflight.finding import Open, Place
from rootrank.preflight.host import Host
from rootrank.preflight.readers import Document, whole
from rootrank.preflight.shell import Command, Script


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user says beside the files."""

    world: int | None = None
    nodes: int | None = None
    params: float | None = None
    host_memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    checkpoint_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Job:
    """All that is known before the launch. `open` collects what could not be checked."""

    documents: list[Document]
    options: Options = field(default_factory=Options)
    host: Host | None = None
    scripts: list[Script] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    estimates: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Parse the launch texts once."""
        self.scripts = [shell.parse(d) for d in self.documents if d.kind == "launch"]

    def of(self, kind: str) -> list[Document]:
        """Return the documents of one kind."""
        return [d for d in self.documents if d.kind == kind]

    def has(self, kind: str) -> bool:
        """Return whether a document of this kind was given."""
        return any(d.kind == kind for d in self.documents)

    def commands(self, *launchers: str) -> Iterator[tuple[Script, Command]]:
        """Yield the commands of these launchers, with their script."""
        for script in self.scripts:
            for command in script.commands:
                if command.launcher in launchers:
                    yield script, command

    def uses(self, launcher: str) -> bool:
        """Return whether a launcher is called."""
        return any(True for _ in self.commands(launcher))

    # ------------------------------------------------------------------ size

    @property
    def nodes(self) -> int | None:
        """Return the number of machines, or None."""
        return self.options.nodes or next(self._nodes(), None)

    @property
    def per_node(self) -> int | None:
        """Return the number of processes of one machine, or None."""
        found = next(self._per_node(), None)
        if found is None and self.options.world and self.nodes:
            return max(1, self.options.world // self.nodes)
        return found

    @property
    def world(self) -> int | None:
        """Return the number of processes, or None."""
        if self.options.world:
            return self.options.world
        total = next(self._world(), None)
        if total is None and self.per_node and self.nodes:
            return self.per_node * self.nodes
        return total

    def _nodes(self) -> Iterator[int]:
        for _, c in self.commands("torchrun"):
            # Elastic: MIN:MAX. The greatest world is the one that memory and batches are set for.
            last = (c.value("nnodes") or "").rpartition(":")[2]
            if last.isdigit():
                yield int(last)
            elif not c.has("nnodes"):
                yield 1
        for _, c in self.commands("accelerate", "deepspeed"):
            yield from _some(c.count("num-machines", "num-nodes"))
        for script in self.scripts:
            yield from _some(_int(script.batch("nodes")))
        for d in self.of("accelerate"):
            yield from _some(whole(d.get("num_machines")))
        for d in self.of("lightning"):
            yield from _some(whole(trainer_of(d).get("num_nodes")))

    def _per_node(self) -> Iterator[int]:
        for _, c in self.commands("torchrun", "deepspeed"):
            yield from _some(c.count("nproc-per-node", "num-gpus"))
        for d in self.of("lightning"):
            yield from _some(_devices(trainer_of(d).get("devices")))
        if not self.uses("torchrun"):
            for script in self.scripts:
                yield from _some(_int(script.batch("ntasks-per-node")))

    def _world(self) -> Iterator[int]:
        for _, c in self.commands("accelerate"):
            yield from _some(c.count("num-processes"))
        if not self.uses("torchrun"):
            for _, c in self.commands("srun", "mpirun"):
                yield from _some(c.count("ntasks", "np"))
            for script in self.scripts:
                yield from _some(_int(script.batch("ntasks")))
        if not (self.uses("torchrun") or self.uses("deepspeed")):
            for d in self.of("accelerate"):
                yield from _some(whole(d.get("num_processes")))

    # ------------------------------------------------------------------ environment

    def variables(self) -> Iterator[tuple[str, str | None, Place]]:
        """Yield the variables that the job will see: exported by scripts, then this machine's."""
        seen: set[str] = set()
        for script in self.scripts:
            for name, (value, line) in script.exports.items():
                seen.add(name)
                yield name, value, script.place(line, name)
        if self.host:
            for name, value in sorted(self.host.environment.items()):
                if name not in seen:
                    yield name, value, Place(name="environment", key=name)

    def variable(self, name: str) -> tuple[str, Place] | None:
        """Return the value of one variable and where it is set."""
        for found, value, place in self.variables():
            if found == name and value is not None:
                return value, place
        return None

    @property
    def on_cpu(self) -> bool:
        """Return whether the job is told to do without GPUs."""
        for d in self.documents:
            if d.get("use_cpu") is True or d.get("no_cuda") is True:
                return True
            if d.kind == "lightning" and trainer_of(d).get("accelerator") == "cpu":
                return True
        found = self.variable("DS_ACCELERATOR")
        return bool(found and found[0] == "cpu")

    @property
    def on_gloo(self) -> bool:
        """Return whether the job is told to use gloo."""
        return self.on_cpu or any(d.get("ddp_backend") == "gloo" for d in self.documents)

    @property
    def ports(self) -> set[str]:
        """Return rendezvous ports named in commands."""
        return {
            port
            for _, c in self.commands("torchrun")
            if (port := (c.value("rdzv-endpoint") or "").rpartition(":")[2]).isdigit()
        }


def trainer_of(d: Document) -> dict[str, object]:
    """Return the Trainer's arguments of a Lightning file, whichever form it has."""
    return d.section("trainer") or d.values


def _some(value: int | None) -> Iterator[int]:
    if value is not None and value > 0:
        yield value


def _int(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and len(text) < 9 else None


def _devices(value: object) -> int | None:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, str):
        return _int(value) or (len(value.split(",")) if "," in value else None)
    return whole(value)
