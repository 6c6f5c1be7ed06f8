"""Combinations of ZeRO stage, offload, precision and optimizer that DeepSpeed refuses or ignores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rootrank.preflight.finding import MAY, NOTE, WILL, Finding, rule
from rootrank.preflight.job import Job
from rootrank.preflight.readers import Document, number, shown, whole

ZERO = "zero_optimization"
_CONFIG = "deepspeed 0.19.8 runtime/config.py"
_ZERO = "deepspeed 0.19.8 runtime/zero/config.py"
_ENGINE = "deepspeed 0.19.8 runtime/engine.py"
_BAD = "config-value-invalid"

STAGE = rule("zero-stage", "the ZeRO stage is 0, 1, 2 or 3", _BAD, f"{_ZERO} ZeroStageEnum")
SHAPE = rule(
    "ds-section-shape", "sections are objects, sizes are numbers", _BAD,
    f"{_CONFIG}, {_ZERO} (pydantic models)",
)  # fmt: skip
DEVICE = rule(
    "offload-device", "an offload device is none, cpu or nvme", _BAD,
    "deepspeed 0.19.8 runtime/zero/offload_config.py OffloadDeviceEnum",
)  # fmt: skip
OFFLOAD = rule(
    "offload-stage", "parameters are offloaded only with stage 3, the optimizer with 1 to 3", _BAD,
    f"{_ZERO} offload_param (\"Valid only with stage 3\"), offload_ratio_check",
)  # fmt: skip
PATH = rule(
    "offload-nvme-path", "device nvme comes with nvme_path, and stage 3", "config-value-invalid",
    "deepspeed 0.19.8 runtime/zero/partition_parameters.py, stage3.py (os.path.join(nvme_path, …))",
)  # fmt: skip
BOTH = rule(
    "fp16-and-bf16", "fp16 and bf16 are not both on", _BAD,
    f"{_CONFIG} _initialize_params; transformers 5.24.0 training_args.py; "
    "accelerate 1.15.0 utils/dataclasses.py set_mixed_precision",
)  # fmt: skip
MASTER = rule(
    "ds-master-weights", "low-precision master weights come with ZeRO 1 to 3", _BAD,
    f"{_CONFIG} _do_error_check",
)  # fmt: skip
NORM = rule(
    "ds-grad-norm-off", "compute_grad_norm=false only with stage 1 or 2, without clipping or offload",
    _BAD, f"{_ZERO} compute_grad_norm_valid; runtime/zero/stage_1_and_2.py",
)  # fmt: skip
SUM = rule(
    "ds-allreduce-op", "gradient_allreduce_op is mean or sum; sum not with stage 3", _BAD,
    f"{_CONFIG} get_gradient_allreduce_op, _do_error_check",
)  # fmt: skip
SCALE = rule(
    "ds-prescale", "no gradient pre-scaling with reduce_scatter in stage 2 or 3", _BAD,
    "deepspeed 0.19.8 runtime/zero/stage_1_and_2.py, stage3.py (__init__)",
)  # fmt: skip
OPTIMIZER = rule(
    "ds-optimizer", "the optimizer is one that ZeRO supports, with parameters it takes", _BAD,
    f"{_ENGINE} _do_sanity_check, _do_optimizer_sanity_check; runtime/zero/utils.py",
)  # fmt: skip
CLIENT = rule(
    "ds-offload-client-optimizer", "an offloaded optimizer is DeepSpeed's own", _BAD,
    f"{_ENGINE} _configure_optimizer (zero_force_ds_cpu_optimizer)",
)  # fmt: skip
PIPELINE = rule(
    "ds-pipeline-stage", "pipeline parallelism with ZeRO 0 or 1 only", _BAD,
    "deepspeed 0.19.8 runtime/pipe/engine.py PipelineEngine.__init__",
)  # fmt: skip
COMM = rule(
    "ds-communication-type", "communication_data_type is fp16, bf16 or fp32", _BAD,
    f"{_CONFIG} get_communication_data_type",
)  # fmt: skip
LEGACY = rule("ds-legacy-stage1", "legacy_stage1 is not asked for", _BAD, f"{_ENGINE}")
NAN = rule(
    "number-not-finite", "numbers are finite", "loss-nan",
    "RFC 8259 section 6 (JSON has no NaN); Python's json takes it",
)  # fmt: skip


def check(job: Job) -> Iterator[Finding]:
    """Yield refused and ignored combinations of each DeepSpeed file."""
    for d in job.of("deepspeed"):
        shapes = list(_shapes(d))
        yield from shapes
        for family in (_stage, _offload, _nvme, _precision, _norm, _reduce, _optimizer, _rest):
            yield from family(job, d)
    for d in job.documents:
        yield from _finite(d)


def stage_of(d: Document) -> int:
    """Return the ZeRO stage; 0 where none is given, as DeepSpeed has it."""
    zero = d.get(ZERO)
    if isinstance(zero, bool):
        return int(zero)
    value = d.get(ZERO, "stage")
    if isinstance(value, str) and value.isdigit():
        value = int(value[:4])  # pydantic converts it, and true to 1
    if isinstance(value, bool):
        return int(value)
    return whole(value) or 0


def device_of(d: Document, what: str) -> str:
    """Return the device of offload_param or offload_optimizer; "none" where off."""
    old = {"offload_param": "cpu_offload_param", "offload_optimizer": "cpu_offload"}[what]
    if d.get(ZERO, old) is True:
        return "cpu"
    return str(d.get(ZERO, what, "device") or "none")


def _on(d: Document, *keys: str) -> bool:
    return d.get(*keys) is True


def _shapes(d: Document) -> Iterator[Finding]:
    for keys in (("fp16",), ("bf16",), ("optimizer",), ("scheduler",), (ZERO,),
                 (ZERO, "offload_param"), (ZERO, "offload_optimizer")):  # fmt: skip
        value = d.get(*keys)
        empty_offload = value is None and len(keys) == 2
        given = keys[-1] in d.section(*keys[:-1])
        if not given or isinstance(value, dict) or empty_offload:
            continue
        if keys == (ZERO,) and isinstance(value, bool):
            continue  # an old form that is still translated
        yield SHAPE.found(
            WILL, d.place(*keys), f"{keys[-1]} is {shown(value)}, not an object",
            "DeepSpeed takes the section apart by keys and stops with TypeError or ValidationError.",
            f"write \"{keys[-1]}\": {{ … }}, or remove it",
        )  # fmt: skip
    for key in ("reduce_bucket_size", "allgather_bucket_size", "sub_group_size"):
        value = d.get(ZERO, key)
        low = 1 if key == "reduce_bucket_size" else 0
        if value in (None, "auto") or (isinstance(value, str) and value.isdigit()):
            continue
        size = whole(value)
        if size is None or size < low:
            yield SHAPE.found(
                WILL, d.place(ZERO, key), f"{key} is {shown(value)}",
                f"it must be a whole number of {low} or more; \"5e8\" in quotes is none.",
                "write a number such as 5e8",
            )  # fmt: skip


def _stage(job: Job, d: Document) -> Iterator[Finding]:
    value = d.get(ZERO, "stage")
    if value in (None, "auto") or isinstance(value, bool):
        return
    if str(value) not in ("0", "1", "2", "3", "0.0", "1.0", "2.0", "3.0"):
        yield STAGE.found(
            WILL, d.place(ZERO, "stage"), f"stage is {shown(value)}",
            "the stage is an enumeration of 0, 1, 2, 3: ValidationError at start.",
            "choose 1, 2 or 3",
        )  # fmt: skip


def _offload(job: Job, d: Document) -> Iterator[Finding]:
    stage = stage_of(d)
    for what in ("offload_param", "offload_optimizer"):
        device = device_of(d, what)
        place = d.place(ZERO, what, "device")
        if device not in ("none", "cpu", "nvme", "auto"):
            yield DEVICE.found(
                WILL, place, f"device is {shown(device)}",
                "the device is an enumeration of none, cpu, nvme: ValidationError at start.",
                "choose one of them",
            )  # fmt: skip
        elif device in ("cpu", "nvme") and stage < (3 if what == "offload_param" else 1):
            yield OFFLOAD.found(
                MAY, place, f"{what} with ZeRO stage {stage}",
                f"{what} is read only by stage {'3' if what == 'offload_param' else '1 to 3'}; "
                "below it nothing is offloaded and nothing says so, so the GPU must hold it.",
                "set stage 3, or remove the section and count on GPU memory",
            )  # fmt: skip
    ratio = number(d.get(ZERO, "offload_optimizer", "ratio"))
    if ratio is not None and ratio < 1 and stage != 3:
        yield OFFLOAD.found(
            WILL, d.place(ZERO, "offload_optimizer", "ratio"), f"ratio {ratio:g} with stage {stage}",
            "DeepSpeed asserts that partial offloading comes with stage 3.", "set stage 3, or ratio 1",
        )  # fmt: skip


def _nvme(job: Job, d: Document) -> Iterator[Finding]:
    stage = stage_of(d)
    for what in ("offload_param", "offload_optimizer"):
        if device_of(d, what) != "nvme":
            continue
        path = d.get(ZERO, what, "nvme_path")
        if stage == 3 and not isinstance(path, str):
            yield PATH.found(
                WILL, d.place(ZERO, what, "nvme_path"), f"{what} to nvme without nvme_path",
                "DeepSpeed joins the path with its folder name when the optimizer is made; None "
                "stops it.",
                "add \"nvme_path\" on a local NVMe disk",
            )  # fmt: skip
        elif stage in (1, 2) and what == "offload_optimizer":
            yield PATH.found(
                MAY, d.place(ZERO, what, "device"), f"nvme with ZeRO stage {stage}",
                "stages 1 and 2 treat every offload device as cpu: the states fill host memory.",
                "use stage 3, or device cpu with enough memory",
            )  # fmt: skip


def _precision(job: Job, d: Document) -> Iterator[Finding]:
    bf16 = "bf16" if d.get("bf16") is not None else "bfloat16"
    if _on(d, "fp16", "enabled") and _on(d, bf16, "enabled"):
        yield BOTH.found(
            WILL, d.place(bf16, "enabled"), "fp16 and bf16 are both enabled",
            "DeepSpeed asserts that the two are not enabled together.", "keep one of them",
        )  # fmt: skip
    stage = stage_of(d)
    for section, key in (("fp16", "fp16_master_weights_and_grads"),
                         (bf16, "bf16_master_weights_and_grads"),
                         (bf16, "bf16_optimizer_states")):  # fmt: skip
        if _on(d, section, key) and not 1 <= stage <= 3:
            yield _master(d, section, key, "DeepSpeed asserts ZeRO stage 1, 2 or 3 for it.",
                          "set a ZeRO stage")  # fmt: skip
    if _on(d, bf16, "bf16_optimizer_states") and not _on(d, bf16, "bf16_master_weights_and_grads"):
        yield _master(d, bf16, "bf16_optimizer_states",
                      "DeepSpeed asserts bf16_master_weights_and_grads beside it.",
                      "enable bf16_master_weights_and_grads")  # fmt: skip


def _master(d: Document, section: str, key: str, why: str, remedy: str) -> Finding:
    return MASTER.found(WILL, d.place(section, key), f"{key} without what it needs", why, remedy)


def _norm(job: Job, d: Document) -> Iterator[Finding]:
    if d.get(ZERO, "compute_grad_norm") is not False:
        return
    clash = ""
    if stage_of(d) not in (1, 2):
        clash = f"ZeRO stage {stage_of(d)}"
    elif (number(d.get("gradient_clipping")) or 0) > 0:
        clash = "gradient_clipping"
    elif device_of(d, "offload_optimizer") != "none":
        clash = "optimizer offload"
    if clash:
        yield NORM.found(
            WILL, d.place(ZERO, "compute_grad_norm"), f"compute_grad_norm false with {clash}",
            "DeepSpeed raises ValueError: without the norm it can neither clip nor offload.",
            "remove compute_grad_norm",
        )  # fmt: skip


def _reduce(job: Job, d: Document) -> Iterator[Finding]:
    stage, op = stage_of(d), d.get("gradient_allreduce_op")
    if op is not None and (str(op).lower() not in ("mean", "sum") or
                           (str(op).lower() == "sum" and stage == 3)):  # fmt: skip
        yield SUM.found(
            WILL, d.place("gradient_allreduce_op"), f"{shown(op)} with ZeRO stage {stage}",
            "DeepSpeed raises ValueError: mean and sum are known, and stage 3 knows only mean.",
            "use mean",
        )  # fmt: skip
    divide = number(d.get("gradient_predivide_factor"))
    scaled = _on(d, "prescale_gradients") or divide not in (None, 1.0)
    if scaled and stage in (2, 3) and d.get(ZERO, "reduce_scatter") is not False:
        key = "prescale_gradients" if _on(d, "prescale_gradients") else "gradient_predivide_factor"
        yield SCALE.found(
            WILL, d.place(key), f"{key} with ZeRO stage {stage} and reduce_scatter",
            "DeepSpeed asserts that gradients are neither pre-scaled nor pre-divided there.",
            f"remove {key}, or set reduce_scatter false",
        )  # fmt: skip
    kind = d.get("communication_data_type")
    if kind is not None and str(kind).lower() not in ("fp16", "bf16", "fp32"):
        yield COMM.found(
            WILL, d.place("communication_data_type"), f"communication_data_type {shown(kind)}",
            "DeepSpeed raises ValueError for any other word.", "write fp16, bf16 or fp32",
        )  # fmt: skip


_TESTED = {"adam", "adamw", "adagrad", "lion", "muon", "muadam", "muadamw", "fusedadam"}


def _optimizer(job: Job, d: Document) -> Iterator[Finding]:
    name, params = d.get("optimizer", "type"), d.section("optimizer", "params")
    place = d.place("optimizer", "type")
    if "max_grad_norm" in params:
        yield OPTIMIZER.found(
            WILL, d.place("optimizer", "params", "max_grad_norm"), "max_grad_norm as an optimizer parameter",
            "DeepSpeed raises ValueError.", "use the top-level key gradient_clipping",
        )  # fmt: skip
    if isinstance(name, str) and stage_of(d) and name.lower() not in _TESTED:
        if not _on(d, "zero_allow_untested_optimizer"):
            yield OPTIMIZER.found(
                WILL, place, f"optimizer {shown(name)} under ZeRO",
                "DeepSpeed asserts zero_allow_untested_optimizer for any but Adam, AdamW, Adagrad, "
                "Lion and Muon.",
                "add \"zero_allow_untested_optimizer\": true, or take one of these",
            )  # fmt: skip
    scale = number(d.get("fp16", "loss_scale"))
    if isinstance(name, str) and name.lower() == "lamb" and scale:
        yield OPTIMIZER.found(
            WILL, d.place("fp16", "loss_scale"), f"lamb with the fixed loss scale {scale:g}",
            "DeepSpeed asserts dynamic loss scaling for Lamb.", "set loss_scale 0",
        )  # fmt: skip
    forced = d.get("zero_force_ds_cpu_optimizer") is not False
    offloaded = device_of(d, "offload_optimizer") in ("cpu", "nvme") and stage_of(d)
    if offloaded and forced and name is None and not job.has("accelerate"):
        yield CLIENT.found(
            NOTE, d.place(ZERO, "offload_optimizer"), "an offloaded optimizer, and none in this file",
            "an optimizer made in code must be DeepSpeedCPUAdam or -Lion, else DeepSpeed raises "
            "ZeRORuntimeException (accelerate converts torch's Adam).",
            "add an \"optimizer\" section, or set zero_force_ds_cpu_optimizer false",
        )  # fmt: skip


def _rest(job: Job, d: Document) -> Iterator[Finding]:
    if _on(d, ZERO, "legacy_stage1"):
        yield LEGACY.found(
            WILL, d.place(ZERO, "legacy_stage1"), "legacy_stage1 is on",
            "DeepSpeed since 0.5.9 raises when it is.", "remove it",
        )  # fmt: skip
    stages = whole(d.get("pipeline", "stages")) or 0
    if stages > 1 and stage_of(d) >= 2:
        yield PIPELINE.found(
            MAY, d.place("pipeline", "stages"), f"{stages} pipeline stages with ZeRO {stage_of(d)}",
            "the pipeline engine asserts a stage below 2: partitioned gradients cannot accumulate "
            "over micro-batches of a pipeline.",
            "set ZeRO stage 1",
        )  # fmt: skip


def _finite(d: Document) -> Iterator[Finding]:
    stack: list[tuple[tuple[str, ...], Any]] = [((), d.values)]
    while stack:
        keys, value = stack.pop()
        if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
            yield NAN.found(
                MAY, d.place(*keys), f"{'.'.join(keys)} is {value}",
                "comparisons with it are false and arithmetic spreads it: limits do not hold, the "
                "loss becomes NaN.",
                "write a finite number",
            )  # fmt: skip
        elif isinstance(value, dict):
            stack.extend((keys + (str(k),), v) for k, v in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend((keys, v) for v in reversed(value[:1000]))
