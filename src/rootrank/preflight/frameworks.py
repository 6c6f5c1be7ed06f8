"""What accelerate, TrainingArguments, FSDP and Lightning refuse in their own files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rootrank.preflight.finding import MAY, NOTE, WILL, Finding, rule
from rootrank.preflight.job import Job, trainer_of
from rootrank.preflight.readers import Document, number, shown, whole
from rootrank.preflight.zero import BOTH

_ARGS = "transformers 5.24.0 training_args.py TrainingArguments.__post_init__"
_LAUNCH = "accelerate 1.15.0 commands/launch.py _validate_launch_command"

FIELDS = rule(
    "accelerate-ds-fields", "beside deepspeed_config_file no field that belongs into that file",
    "accelerate-config-conflict",
    "accelerate 1.15.0 utils/dataclasses.py DeepSpeedPlugin._deepspeed_config_checks",
)  # fmt: skip
FILE = rule(
    "config-file-missing", "a configuration that another one names exists", "file-not-found",
    "accelerate 1.15.0 utils/deepspeed.py HfDeepSpeedConfig; transformers, lightning likewise",
)  # fmt: skip
PROCESSES = rule(
    "accelerate-processes", "num_processes, num_machines, machine_rank and gpu_ids fit together",
    "accelerate-config-conflict", _LAUNCH,
)  # fmt: skip
MACHINES = rule(
    "accelerate-main-process", "several machines have main_process_ip, and it is not localhost",
    "master-unreachable", "accelerate 1.15.0 utils/launch.py prepare_multi_gpu_env",
)  # fmt: skip
PRECISION = rule(
    "accelerate-ds-precision", "mixed_precision is the precision of DeepSpeed's file",
    "accelerate-config-conflict", "accelerate 1.15.0 utils/dataclasses.py set_mixed_precision",
)  # fmt: skip
BEST = rule(
    "trainer-best-model", "load_best_model_at_end has matching save and eval strategies",
    "config-value-invalid", _ARGS,
)  # fmt: skip
STEPS = rule("trainer-steps", "a strategy of steps has its number", "config-value-invalid", _ARGS)
FSDP = rule(
    "fsdp-config", "FSDP wraps something, with words it knows", "config-value-invalid",
    "accelerate 1.15.0 utils/dataclasses.py FullyShardedDataParallelPlugin; "
    "transformers 5.24.0 training_args.py",
)  # fmt: skip
TWO = rule(
    "fsdp-and-deepspeed", "one sharding library, not FSDP and DeepSpeed both",
    "config-value-invalid", "transformers 5.24.0 training_args.py; accelerate 1.15.0 launch.py",
)  # fmt: skip
CHECKPOINTING = rule(
    "ddp-gradient-checkpointing", "no unused-parameter search with reentrant gradient checkpointing",
    "ddp-unused-parameters",
    "torch/nn/parallel/distributed.py (\"marked as ready only once\"); transformers docs, "
    "ddp_find_unused_parameters",
)  # fmt: skip
SLURM = rule(
    "lightning-slurm", "Lightning's devices and num_nodes are the script's tasks and nodes",
    "lightning-misconfiguration",
    "lightning 2.6.6 fabric/plugins/environments/slurm.py validate_settings, _validate_srun_variables",
)  # fmt: skip
STRATEGY = rule(
    "lightning-strategy", "Lightning's strategy, devices and precision fit together",
    "lightning-misconfiguration",
    "lightning 2.6.6 trainer/connectors/accelerator_connector.py; strategies/deepspeed.py",
)  # fmt: skip


def check(job: Job) -> Iterator[Finding]:
    """Yield what each framework refuses in its own file."""
    for d in job.of("accelerate"):
        yield from _accelerate(job, d)
    for d in job.of("trainer"):
        yield from _trainer(job, d)
    for d in (*job.of("fsdp"), *job.of("accelerate"), *job.of("trainer")):
        yield from _fsdp(d)
    for d in job.of("lightning"):
        yield from _lightning(job, d)


def beside(d: Document, name: str) -> str | None:
    """Return the path of a file named in a document: from here, or from one of its folders up.

    Examples name files from the root of their repository, where the job is started.
    """
    folder = Path(d.folder)
    bases = [Path(), folder, *folder.resolve().parents[:4]]
    for base in bases:
        try:
            path = base / Path(name).expanduser()  # an absolute one stays what it is
            if path.is_file():
                return str(path)
        except (OSError, ValueError, RuntimeError):  # too long, a NUL in it, nobody's home
            continue
    return None


def referenced(d: Document) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the configuration files that a document names, with their key."""
    places: tuple[tuple[str, ...], ...] = ()
    if d.kind == "accelerate":
        places = (("deepspeed_config", "deepspeed_config_file"),)
    elif d.kind == "trainer":
        places = (("deepspeed",), ("fsdp_config",))
    elif d.kind == "lightning":
        places = (("trainer", "strategy", "init_args", "config"),)
    for keys in places:
        value = d.get(*keys)
        if isinstance(value, str) and value.endswith((".json", ".yaml", ".yml")):
            yield keys, value


def _files(d: Document) -> Iterator[Finding]:
    for keys, name in referenced(d):
        if "$" not in name and beside(d, name) is None:
            yield FILE.found(
                MAY if not os.path.isabs(name) else WILL, d.place(*keys), f"{name} does not exist",  # noqa: PTH117
                "the library opens it at start, relative to the folder that the job starts in.",
                "correct the path, or start the job where it is valid",
            )  # fmt: skip


# --------------------------------------------------------------------------- accelerate

_BELONGS = (
    "gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device",
    "offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path",
    "zero3_save_16bit_model",
)  # fmt: skip


def _accelerate(job: Job, d: Document) -> Iterator[Finding]:
    yield from _files(d)
    section = d.section("deepspeed_config")
    if section.get("deepspeed_config_file"):
        for key in _BELONGS:
            if key in section:
                yield FIELDS.found(
                    WILL, d.place("deepspeed_config", key), f"{key} beside deepspeed_config_file",
                    "accelerate raises ValueError: with a DeepSpeed file, this value must stand in it.",
                    f"remove {key} here and set it in the DeepSpeed file",
                )  # fmt: skip
    yield from _processes(job, d)
    for other in job.of("deepspeed"):
        yield from _mixed(d, other)


def _processes(job: Job, d: Document) -> Iterator[Finding]:
    processes, machines = whole(d.get("num_processes")), whole(d.get("num_machines")) or 1
    if processes and machines > 1 and processes % machines:
        yield PROCESSES.found(
            MAY, d.place("num_processes"), f"{processes} processes over {machines} machines",
            "num_processes is the total over all machines; accelerate starts "
            "num_processes // num_machines on each, so fewer run than were asked for.",
            f"set a multiple of {machines}",
        )  # fmt: skip
    if d.get("distributed_type") == "MULTI_GPU" and processes == 1:
        yield PROCESSES.found(
            NOTE, d.place("num_processes"), "MULTI_GPU with one process",
            "one process uses one GPU, whatever the type says.",
            "set num_processes to the number of GPUs",
        )  # fmt: skip
    rank = whole(d.get("machine_rank"))
    if rank is not None and not 0 <= rank < machines:
        yield PROCESSES.found(
            WILL, d.place("machine_rank"), f"machine_rank {rank} of {machines} machines",
            "ranks count from 0 to num_machines - 1; the rendezvous waits for one that never comes.",
            f"set 0 to {machines - 1}",
        )  # fmt: skip
    yield from _ids(d, processes, machines)
    yield from _main(d, machines)


def _ids(d: Document, processes: int | None, machines: int) -> Iterator[Finding]:
    ids = d.get("gpu_ids")
    listed = str(ids).split(",") if isinstance(ids, (str, int)) and ids != "all" else []
    if listed and processes and machines == 1 and processes > len(listed):
        yield PROCESSES.found(
            WILL, d.place("gpu_ids"), f"{processes} processes on {len(listed)} GPUs",
            "accelerate shows only these GPUs; the next local rank has an invalid device ordinal.",
            "list as many GPUs as processes, or write all",
        )  # fmt: skip


_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def _main(d: Document, machines: int) -> Iterator[Finding]:
    if machines < 2:
        return
    address = d.get("main_process_ip")
    if address is None and d.get("deepspeed_config", "deepspeed_multinode_launcher") == "pdsh":
        return
    if address is None or str(address) in _LOCAL:
        yield MACHINES.found(
            MAY if address is None or d.get("mpirun_config") else WILL, d.place("main_process_ip"),
            f"{machines} machines, main_process_ip {shown(address)}",
            "every machine then waits for the others at its own address, until the rendezvous "
            "times out.",
            "set the address of machine 0 that the others can reach, and main_process_port",
        )  # fmt: skip


def _mixed(d: Document, other: Document) -> Iterator[Finding]:
    mine = d.get("mixed_precision")
    if mine not in ("fp16", "bf16"):
        return
    wrong = "bf16" if mine == "fp16" else "fp16"
    if str(other.get(wrong, "enabled")).lower() == "true":
        yield PRECISION.found(
            WILL, d.place("mixed_precision"), f"mixed_precision {mine}, {other.name} enables {wrong}",
            "accelerate raises ValueError when the other precision is on in DeepSpeed's file.",
            f"make both {mine}, or write \"auto\" there",
        )  # fmt: skip


# --------------------------------------------------------------------------- TrainingArguments


def _trainer(job: Job, d: Document) -> Iterator[Finding]:
    yield from _files(d)
    for suffix in ("", "_full_eval"):
        if d.get("fp16" + suffix) is True and d.get("bf16" + suffix) is True:
            yield BOTH.found(
                WILL, d.place("bf16" + suffix), "fp16 and bf16 are both true",
                "TrainingArguments raises ValueError: at most one of them.", "keep one",
            )  # fmt: skip
    yield from _strategies(d)
    if d.get("fsdp") and (d.get("deepspeed") or job.has("deepspeed")):
        yield TWO.found(
            MAY, d.place("fsdp"), "fsdp beside a DeepSpeed configuration",
            "each wants to shard the model itself; accelerate refuses --use_fsdp with --use_deepspeed.",
            "remove one of them",
        )  # fmt: skip
    if d.get("ddp_find_unused_parameters") is True and d.get("gradient_checkpointing") is True:
        yield CHECKPOINTING.found(
            MAY, d.place("ddp_find_unused_parameters"),
            "unused-parameter search with gradient checkpointing",
            "a reentrant checkpoint runs backward hooks twice: \"Expected to mark a variable ready "
            "only once\".",
            "set it false, or gradient_checkpointing_kwargs: {use_reentrant: false}",
        )  # fmt: skip


def _strategies(d: Document) -> Iterator[Finding]:
    evaluate = d.get("eval_strategy") or d.get("evaluation_strategy")
    evaluate = "no" if evaluate in (None, False) else str(evaluate)
    save = "no" if d.get("save_strategy") is False else str(d.get("save_strategy") or "steps")
    saves, evals = number(d.get("save_steps")), number(d.get("eval_steps"))
    if evaluate == "steps" and evals == 0 and not number(d.get("logging_steps")):
        yield STEPS.found(
            WILL, d.place("eval_steps"), "evaluation by steps, every 0 steps",
            "TrainingArguments raises ValueError.", "set eval_steps",
        )  # fmt: skip
    if d.get("load_best_model_at_end") is not True or save == "best":
        return
    if evaluate != save:
        yield BEST.found(
            WILL, d.place("load_best_model_at_end"), f"eval strategy {evaluate}, save strategy {save}",
            "TrainingArguments raises ValueError unless the two match.",
            "set eval_strategy and save_strategy alike",
        )  # fmt: skip
    elif evaluate == "steps" and saves and evals and evals >= 1 and saves % evals:
        yield BEST.found(
            WILL, d.place("save_steps"), f"save_steps {saves:g} is no multiple of eval_steps {evals:g}",
            "TrainingArguments raises ValueError: the best model must have been evaluated.",
            f"set save_steps to a multiple of {evals:g}",
        )  # fmt: skip


# --------------------------------------------------------------------------- FSDP

_WRAPS = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")
_STATES = ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT")


def _fsdp(d: Document) -> Iterator[Finding]:
    inner = d.section("fsdp_config") if d.kind != "fsdp" else d.values
    if not inner:
        return
    below = ("fsdp_config",) if d.kind != "fsdp" else ()
    for key, known in (("auto_wrap_policy", _WRAPS), ("state_dict_type", _STATES)):
        name = f"fsdp_{key}" if f"fsdp_{key}" in inner else key
        value = inner.get(name)
        if isinstance(value, str) and value.upper() not in known:
            yield FSDP.found(
                WILL, d.place(*below, name), f"{name} is {shown(value)}",
                "the plugin raises ValueError for a word it does not know.",
                f"write one of {', '.join(known)}",
            )  # fmt: skip
    yield from _fsdp_efficient(d, inner, below)


def _fsdp_efficient(
    d: Document, inner: dict[str, object], below: tuple[str, ...]
) -> Iterator[Finding]:
    if (
        inner.get("fsdp_cpu_ram_efficient_loading") is True
        and inner.get("fsdp_sync_module_states") is False
    ):
        yield FSDP.found(
            NOTE, d.place(*below, "fsdp_sync_module_states"),
            "cpu_ram_efficient_loading without sync_module_states",
            "only rank 0 reads the weights, so accelerate turns the synchronisation on by force.",
            "set fsdp_sync_module_states true",
        )  # fmt: skip


# --------------------------------------------------------------------------- Lightning


def _lightning(job: Job, d: Document) -> Iterator[Finding]:
    yield from _files(d)
    trainer = trainer_of(d)
    below = ("trainer",) if isinstance(d.get("trainer"), dict) else ()
    devices, nodes = whole(trainer.get("devices")), whole(trainer.get("num_nodes")) or 1
    for script in job.scripts:
        tasks, machines = script.batch("ntasks-per-node"), script.batch("nodes")
        if devices and tasks and tasks.isdigit() and int(tasks) != devices:
            yield _slurm(d, (*below, "devices"), f"devices {devices}", f"--ntasks-per-node={tasks}")
        if machines and machines.isdigit() and int(machines) != nodes:
            yield _slurm(d, (*below, "num_nodes"), f"num_nodes {nodes}", f"--nodes={machines}")
        total = script.batch("ntasks")
        if total and total.isdigit() and int(total) > 1 and not tasks:
            yield _slurm(
                d,
                (*below, "devices"),
                f"devices {shown(trainer.get('devices'))}",
                f"--ntasks={total}",
            )
    strategy = trainer.get("strategy")
    word = strategy if isinstance(strategy, str) else ""
    if "deepspeed" in word and trainer.get("gradient_clip_algorithm") == "value":
        yield STRATEGY.found(
            WILL, d.place(*below, "gradient_clip_algorithm"), "clipping by value under DeepSpeed",
            "Lightning raises MisconfigurationException: DeepSpeed clips by norm only.",
            "use gradient_clip_algorithm: norm",
        )  # fmt: skip
    if trainer.get("accelerator") == "cpu" and any(w in word for w in ("deepspeed", "fsdp")):
        yield STRATEGY.found(
            WILL, d.place(*below, "strategy"), f"strategy {word} on accelerator cpu",
            "Lightning raises: these strategies are for GPUs.", "use strategy: ddp on CPU",
        )  # fmt: skip


def _slurm(d: Document, keys: tuple[str, ...], mine: str, its: str) -> Finding:
    return SLURM.found(
        WILL, d.place(*keys), f"{mine}, the script says {its}",
        "under srun Lightning starts nothing itself; it raises unless devices equals "
        "--ntasks-per-node and num_nodes equals --nodes, and refuses a bare --ntasks.",
        "make them equal, with --ntasks-per-node",
    )  # fmt: skip
