"""DeepSpeed's batch arithmetic, alone and against what the framework around it says."""

from __future__ import annotations

from collections.abc import Iterator

from rootrank.preflight.finding import MAY, NOTE, WILL, Finding, Open, rule
from rootrank.preflight.job import Job
from rootrank.preflight.readers import Document, number, shown, whole

TOTAL, MICRO, STEPS = (
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
)  # fmt: skip
_CONFIG = "deepspeed 0.19.8 runtime/config.py"
_ENTRY = "deepspeed-batch-size-mismatch"

ARITHMETIC = rule(
    "ds-batch-arithmetic",
    "train_batch_size = micro batch × accumulation × data-parallel ranks, all whole and positive",
    _ENTRY, f"{_CONFIG} DeepSpeedConfig._set_batch_related_parameters, _batch_assertion",
)  # fmt: skip
MISSING = rule(
    "ds-batch-missing", "one of train_batch_size and train_micro_batch_size_per_gpu is given",
    _ENTRY, f"{_CONFIG} DeepSpeedConfig._set_batch_related_parameters",
)  # fmt: skip
TYPE = rule(
    "ds-batch-type", "batch sizes are numbers; \"auto\" only under transformers or accelerate",
    "config-value-invalid", f"{_CONFIG} get_train_batch_size (the value is used as it stands)",
)  # fmt: skip
TRAINER = rule(
    "ds-trainer-mismatch", "DeepSpeed's values equal TrainingArguments', or are \"auto\"",
    "accelerate-config-conflict",
    "transformers 5.24.0 integrations/deepspeed.py HfTrainerDeepSpeedConfig.fill_match",
)  # fmt: skip
ACCELERATE = rule(
    "ds-accelerate-accumulation", "accelerate and DeepSpeed accumulate over the same number of steps",
    "accelerate-config-conflict", "accelerate 1.15.0 accelerator.py Accelerator._prepare_deepspeed",
)  # fmt: skip
LIGHTNING = rule(
    "ds-lightning-accumulation", "under Lightning, DeepSpeed's file leaves accumulation to Lightning",
    "lightning-misconfiguration",
    "lightning 2.6.6 strategies/deepspeed.py _format_batch_size_and_grad_accum_config",
)  # fmt: skip


def check(job: Job) -> Iterator[Finding]:
    """Yield what is wrong with batch sizes in each DeepSpeed file."""
    for d in job.of("deepspeed"):
        wrong = list(_types(job, d))
        yield from wrong
        if not any(f.severity is WILL for f in wrong):
            yield from _arithmetic(job, d)
        for trainer in job.of("trainer"):
            yield from _trainer(job, d, trainer)
        for other in job.of("accelerate"):
            yield from _accelerate(d, other)
        yield from _lightning(job, d)


def _types(job: Job, d: Document) -> Iterator[Finding]:
    given = [k for k in (TOTAL, MICRO, STEPS) if d.get(k) is not None]
    for key in given:
        value = d.get(key)
        if value != "auto" and whole(value) is None:
            yield TYPE.found(
                WILL, d.place(key), f"{key} is {shown(value)}, not a whole number",
                "DeepSpeed computes with the value as it stands and checks the product exactly.",
                "write a whole number without quotes",
            )  # fmt: skip
    auto = [k for k in given if d.get(k) == "auto"]
    if auto and not (job.has("trainer") or job.has("accelerate") or job.uses("accelerate")):
        yield TYPE.found(
            NOTE, d.place(auto[0]), f"\"auto\" for {', '.join(auto)}",
            "transformers and accelerate put numbers there; DeepSpeed alone divides the word and "
            "stops with TypeError.",
            "give numbers if neither of them starts this job",
        )  # fmt: skip


def _arithmetic(job: Job, d: Document) -> Iterator[Finding]:
    total, micro, steps = (whole(d.get(k)) for k in (TOTAL, MICRO, STEPS))
    auto = {k for k in (TOTAL, MICRO, STEPS) if d.get(k) == "auto"}
    low = [
        k for k, v in ((TOTAL, total), (MICRO, micro), (STEPS, steps)) if v is not None and v < 1
    ]
    for key in low:
        yield ARITHMETIC.found(
            WILL, d.place(key), f"{key} is {d.get(key)}",
            "DeepSpeed asserts that each of the three is greater than 0.", "give 1 or more",
        )  # fmt: skip
    if low or auto:
        return
    if total is None and micro is None:
        yield from _missing(job, d)
    elif total is not None:
        yield from _product(job, d, total, micro, steps)


def _missing(job: Job, d: Document) -> Iterator[Finding]:
    if job.has("lightning") or job.has("accelerate"):
        return
    severity = WILL if job.has("trainer") or job.uses("deepspeed") else MAY
    yield MISSING.found(
        severity, d.place(), f"neither {TOTAL} nor {MICRO} is given",
        "DeepSpeed asserts that one of them is there; Trainer only fills in \"auto\" (Lightning "
        "and accelerate add what is missing).",
        f"add \"{MICRO}\": \"auto\" under Trainer, or a number",
    )  # fmt: skip


def _product(
    job: Job, d: Document, total: int, micro: int | None, steps: int | None
) -> Iterator[Finding]:
    part = (micro or 1) * (steps or 1)
    said = " × ".join(
        f"{name} {value}" for name, value in (("micro", micro), ("accumulation", steps)) if value
    )
    ranks = data_parallel(job, d)
    if total % part:
        yield ARITHMETIC.found(
            WILL, d.place(TOTAL), f"{TOTAL} {total} is no multiple of {said}",
            "DeepSpeed asserts train_batch_size == micro × accumulation × ranks, whatever the "
            "number of ranks.",
            f"set {TOTAL} to a multiple of {part}, or leave one of the three out",
        )  # fmt: skip
        return
    if ranks is None:
        need = f"exactly {total // part}" if micro and steps else f"a divisor of {total // part}"
        job.open.append(
            Open(
                what=f"{d.name}: {TOTAL} {total}" + (f" with {said}" if said else ""),
                why=f"right only if the number of data-parallel ranks is {need}",
                remedy="give --world N, or the launch command",
            )
        )
        return
    exact = bool(micro and steps)
    if total == part * ranks or (not exact and total % (part * ranks) == 0):
        return
    goal = part * ranks
    product = f"{said} × {ranks} ranks" if said else f"{ranks} ranks"
    fault = f"{TOTAL} {total} ≠ {product} = {goal}" if exact else (
        f"{TOTAL} {total} is no multiple of {product}"
    )  # fmt: skip
    yield ARITHMETIC.found(
        WILL, d.place(TOTAL), fault,
        "DeepSpeed derives what is missing by whole division and asserts that the product is exact.",
        f"set {TOTAL} to {goal if exact else (total // goal or 1) * goal}, or leave it out and "
        "let DeepSpeed compute it",
    )  # fmt: skip


def data_parallel(job: Job, d: Document) -> int | None:
    """Return the ranks that DeepSpeed multiplies by: the world without model parallelism."""
    from rootrank.preflight.parallel import model_parallel

    world = job.world
    split = model_parallel(job, d)
    if world is None or split is None:
        return None
    return world // split if world % split == 0 else None


# --------------------------------------------------------------------------- frameworks

# DeepSpeed's key, TrainingArguments' name, its default.
_PAIRS = (
    ((MICRO,), "per_device_train_batch_size", 8),
    ((STEPS,), "gradient_accumulation_steps", 1),
    (("gradient_clipping",), "max_grad_norm", 1.0),
    (("optimizer", "params", "lr"), "learning_rate", 5e-5),
    (("optimizer", "params", "eps"), "adam_epsilon", 1e-8),
    (("optimizer", "params", "weight_decay"), "weight_decay", 0.0),
    (("scheduler", "params", "warmup_max_lr"), "learning_rate", 5e-5),
)


def _trainer(job: Job, d: Document, trainer: Document) -> Iterator[Finding]:
    for keys, name, default in _PAIRS:
        here, there = d.get(*keys), trainer.get(name)
        if number(here) is None or (there is not None and number(there) is None):
            continue
        if here == (default if there is None else there):
            continue
        yield _differs(d, trainer, keys, name, there, default)
    yield from _precision(d, trainer)
    yield from _computed(job, d, trainer)


def _differs(
    d: Document, trainer: Document, keys: tuple[str, ...], name: str, there: object, default: object
) -> Finding:
    key = ".".join(keys)
    said = f"{name} {shown(there)}" if there is not None else f"the default {name} {default}"
    return TRAINER.found(
        WILL if there is not None else MAY, d.place(*keys),
        f"{key} is {shown(d.get(*keys))}, {trainer.name} says {said}",
        "Trainer compares the two and raises ValueError (\"Please correct the following DeepSpeed "
        "config values\") before training.",
        f"write \"auto\" for {key}, or make both equal",
    )  # fmt: skip


def _precision(d: Document, trainer: Document) -> Iterator[Finding]:
    for name in ("fp16", "bf16"):
        here, there = d.get(name, "enabled"), trainer.get(name)
        if isinstance(here, bool) and isinstance(there, bool) and here is not there:
            yield _differs(d, trainer, (name, "enabled"), name, there, False)


def _computed(job: Job, d: Document, trainer: Document) -> Iterator[Finding]:
    total, world = whole(d.get(TOTAL)), job.world
    each = whole(trainer.get("per_device_train_batch_size"))
    steps = whole(trainer.get("gradient_accumulation_steps")) or 1
    if None in (total, world, each) or total == (each or 0) * steps * (world or 0):
        return
    yield TRAINER.found(
        WILL, d.place(TOTAL),
        f"{TOTAL} is {total}, Trainer computes {each} × {steps} × {world} = "
        f"{(each or 0) * steps * (world or 0)}",
        "Trainer compares its product with DeepSpeed's value and raises ValueError.",
        f"write \"auto\" for {TOTAL}",
    )  # fmt: skip


def _accelerate(d: Document, other: Document) -> Iterator[Finding]:
    here = whole(d.get(STEPS))
    there = whole(other.get("deepspeed_config", STEPS) or other.get(STEPS))
    if here is None or there is None or here == there:
        return
    yield ACCELERATE.found(
        MAY, d.place(STEPS), f"{STEPS} is {here}, {other.name} says {there}",
        "accelerate warns, takes DeepSpeed's value, and the effective batch is another than the "
        "one that the rest of the run was set for.",
        "write \"auto\" in DeepSpeed's file, or make both equal",
    )  # fmt: skip


def _lightning(job: Job, d: Document) -> Iterator[Finding]:
    if not job.has("lightning") or d.get(STEPS) is None:
        return
    yield LIGHTNING.found(
        WILL, d.place(STEPS), f"{STEPS} is set in DeepSpeed's file",
        "Lightning raises MisconfigurationException: it sets the value from accumulate_grad_batches.",
        f"remove {STEPS} and set trainer.accumulate_grad_batches",
    )  # fmt: skip
