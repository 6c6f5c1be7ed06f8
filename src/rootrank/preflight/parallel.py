"""Degrees of parallelism: their product divides, or is, the number of processes."""

from __future__ import annotations

from collections.abc import Iterator

from rootrank.preflight.finding import NOTE, WILL, Finding, Place, rule
from rootrank.preflight.job import Job
from rootrank.preflight.readers import Document, whole
from rootrank.preflight.shell import Command

DEGREES = rule(
    "parallel-degrees", "tensor × pipeline × context × sequence degrees divide the world size",
    "config-value-invalid",
    "Megatron-LM megatron/core/parallel_state.py initialize_model_parallel; deepspeed 0.19.8 "
    "runtime/config.py (world / sequence_parallel_size)",
)  # fmt: skip
TOTAL = rule(
    "parallelism-config", "accelerate's parallelism_config multiplies to num_processes",
    "accelerate-config-conflict", "accelerate 1.15.0 parallelism_config.py ParallelismConfig",
)  # fmt: skip
HEADS = rule(
    "attention-heads", "the tensor-parallel degree divides the attention heads",
    "config-value-invalid", "Megatron-LM megatron/training/arguments.py validate_args",
)  # fmt: skip
HPZ = rule(
    "zero-hpz", "zero_hpz_partition_size divides the world and fits a node",
    "config-value-invalid",
    "deepspeed 0.19.8 utils/groups.py _create_zero_param_parallel_group",
)  # fmt: skip

_OPTIONS = {
    "tensor": ("tensor-model-parallel-size", "tensor-parallel-size", "tp-size"),
    "pipeline": ("pipeline-model-parallel-size", "pipeline-parallel-size", "pp-size"),
    "context": ("context-parallel-size", "cp-size"),
}


def check(job: Job) -> Iterator[Finding]:
    """Yield degrees that do not fit the number of processes."""
    yield from _commands(job)
    for d in job.of("deepspeed"):
        yield from _deepspeed(job, d)
    for d in job.of("accelerate"):
        yield from _accelerate(job, d)


def degrees_of(command: Command) -> dict[str, int]:
    """Return the degrees that a training script is called with."""
    found: dict[str, int] = {}
    words = command.rest
    for i, word in enumerate(words):
        name, _, value = word.lstrip("-").replace("_", "-").partition("=")
        value = value or (words[i + 1] if i + 1 < len(words) else "")
        for kind, names in _OPTIONS.items():
            if word.startswith("--") and name in names and value.isdigit() and len(value) < 7:
                found[kind] = int(value)
    return found


def model_parallel(job: Job, d: Document) -> int | None:
    """Return how many processes share one copy of the data, as DeepSpeed counts; None if unknown."""
    sequence = whole(d.get("sequence_parallel_size")) or 1
    tensor = whole(d.get("tensor_parallel", "autotp_size")) or 1
    for other in job.of("accelerate"):
        sequence = max(
            sequence, whole(other.get("parallelism_config", "parallelism_config_sp_size")) or 1
        )
    product = sequence * tensor
    for _, command in job.commands("torchrun", "deepspeed", "srun", "python"):
        for size in degrees_of(command).values():
            product *= size
    return product if product > 0 else None


def _commands(job: Job) -> Iterator[Finding]:
    for script, command in job.commands("torchrun", "deepspeed", "python", "accelerate"):
        degrees = degrees_of(command)
        product = 1
        for size in degrees.values():
            product *= size
        place = script.place(command.line)
        said = " × ".join(f"{k} {v}" for k, v in degrees.items())
        if degrees and job.world and (product < 1 or job.world % product):
            yield DEGREES.found(
                WILL, place, f"{said} = {product} does not divide {job.world} processes",
                "the groups are cut from the world by whole division; what is left over has no group.",
                f"run a multiple of {product} processes, or change a degree",
            )  # fmt: skip
        yield from _heads(job, degrees.get("tensor", 1), place)


def _heads(job: Job, tensor: int, place: Place) -> Iterator[Finding]:
    for d in job.of("model"):
        heads = whole(d.get("num_attention_heads") or d.get("n_head"))
        if heads and tensor > 1 and heads % tensor:
            yield HEADS.found(
                WILL, place, f"{heads} attention heads over {tensor} tensor-parallel ranks",
                "each rank holds a whole number of heads.", f"take a divisor of {heads}",
            )  # fmt: skip


def _deepspeed(job: Job, d: Document) -> Iterator[Finding]:
    world = job.world
    for keys in (("sequence_parallel_size",), ("tensor_parallel", "autotp_size")):
        size = whole(d.get(*keys))
        if size and world and size > 0 and world % size:
            yield DEGREES.found(
                WILL, d.place(*keys), f"{keys[-1]} {size} does not divide {world} processes",
                "DeepSpeed divides the world by it to find the data-parallel ranks.",
                f"take a divisor of {world}",
            )  # fmt: skip
    size = whole(d.get("zero_optimization", "zero_hpz_partition_size"))
    # DeepSpeed takes the smaller of the two before it divides.
    if size and size > 1 and world and world % min(size, world):
        yield HPZ.found(
            WILL, d.place("zero_optimization", "zero_hpz_partition_size"),
            f"zero_hpz_partition_size {size} does not divide {world} processes",
            "the secondary groups are cut from the world by whole division.",
            f"take a divisor of {world}, normally the GPUs of one node",
        )  # fmt: skip
    elif size and size > 1 and job.per_node and size > job.per_node:
        yield HPZ.found(
            NOTE, d.place("zero_optimization", "zero_hpz_partition_size"),
            f"{size} ranks share weights, a node has {job.per_node}",
            "hpZeRO keeps the secondary copy inside a node; wider groups cross the network each time.",
            f"set {job.per_node}",
        )  # fmt: skip


_SIZES = ("dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size")


def _accelerate(job: Job, d: Document) -> Iterator[Finding]:
    section = d.section("parallelism_config")
    sizes = {
        name: whole(section.get(f"parallelism_config_{name}", section.get(name))) for name in _SIZES
    }
    given = {name: size for name, size in sizes.items() if size is not None}
    if not given:
        return
    product = 1
    for size in given.values():
        product *= size
    place = d.place("parallelism_config")
    if job.world and product != job.world:
        yield TOTAL.found(
            WILL, place, f"the sizes multiply to {product}, there are {job.world} processes",
            "ParallelismConfig raises ValueError unless its total size equals num_processes.",
            "change a size, or num_processes",
        )  # fmt: skip
    if given.get("cp_size", 1) > 1 and given.get("sp_size", 1) > 1:
        yield TOTAL.found(
            WILL, place, "cp_size and sp_size are both above 1",
            "ParallelismConfig raises ValueError: the two exclude each other.", "set one of them 1",
        )  # fmt: skip
