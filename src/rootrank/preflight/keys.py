"""Keys of configuration files: unknown, misspelt, deprecated, removed, given twice."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from rootrank.preflight.finding import MAY, NOTE, WILL, Finding, rule
from rootrank.preflight.host import Host
from rootrank.preflight.job import Job, trainer_of
from rootrank.preflight.readers import Document
from rootrank.preflight.versions import at_least

UNKNOWN = rule(
    "ds-unknown-key", "top-level keys of DeepSpeed's file are ones that it reads",
    "config-value-invalid", "deepspeed 0.19.8 runtime/config.py DeepSpeedConfig._initialize_params",
)  # fmt: skip
STRICT = rule(
    "ds-unknown-key-in-section", "keys inside zero_optimization, offload_*, fp16, bf16 are known",
    "config-value-invalid", "deepspeed 0.19.8 runtime/config_utils.py extra=\"forbid\"",
)  # fmt: skip
REMOVED = rule(
    "ds-removed-key", "no key that a newer DeepSpeed refuses by name",
    "config-value-invalid",
    "deepspeed 0.19.8 runtime/config.py _reject_removed_config_keys; DeepSpeed issue 8489",
)  # fmt: skip
DEPRECATED = rule(
    "ds-deprecated-key", "no deprecated key, and none beside its successor",
    "config-value-invalid",
    "deepspeed 0.19.8 runtime/zero/config.py, runtime/config_utils.py _process_deprecated_field",
)  # fmt: skip
TWICE = rule(
    "key-twice", "no key stands twice in one object", "config-value-invalid",
    "deepspeed 0.19.8 runtime/config_utils.py dict_raise_error_on_duplicate_keys; "
    "json and PyYAML keep the last",
)  # fmt: skip
COMMENTS = rule(
    "json-comments", "JSON without comments, trailing commas and byte-order mark",
    "config-value-invalid", "deepspeed 0.19.8 runtime/config.py (hjson.load); "
    "accelerate 1.15.0 utils/deepspeed.py HfDeepSpeedConfig (json.load)",
)  # fmt: skip
ACCELERATE = rule(
    "accelerate-unknown-key", "accelerate's file holds only keys that it knows",
    "accelerate-config-conflict", "accelerate 1.15.0 commands/config/config_args.py from_yaml_file",
)  # fmt: skip
TRAINER = rule(
    "misspelt-key", "no key that is one letter away from a known one",
    "bad-command-line", "transformers 5.24.0 training_args.py; lightning 2.6.6 trainer/trainer.py",
)  # fmt: skip
YAML_WORD = rule(
    "yaml-word", "YAML 1.1 words mean what they look like: no, off, 1e-5",
    "config-value-invalid", "YAML 1.1 types bool and float; PyYAML resolver.py",
)  # fmt: skip

_TOP = frozenset(
    "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps "
    "managed_gradient_accumulation steps_per_print dump_state disable_python_gc "
    "disable_allgather communication_data_type seq_parallel_communication_data_type "
    "prescale_gradients gradient_predivide_factor gradient_allreduce_op zero_optimization "
    "activation_checkpointing comms_logger tensorboard wandb csv_monitor comet monitor_config "
    "gradient_clipping fp16 bf16 bfloat16 torch_autocast optimizer scheduler "
    "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer flops_profiler "
    "wall_clock_breakdown memory_breakdown autotuning use_data_before_expert_parallelism "
    "hybrid_engine pipeline data_efficiency checkpoint data_types aio dataloader_drop_last "
    "log_level datastates_ckpt checkpoint_engine weight_quantization compile timers tensor_parallel "
    "expert_parallel sequence_parallel_size data_parallel_size vocabulary_size allgather_size "
    "legacy_fusion ddp_bf16 local_rank inference_optimization "
    # Read by older versions, or by the frameworks around it.
    "amp nebula compression_training quantize_training sparse_gradients eigenvalue "
    "sparse_attention elasticity graph_harvesting curriculum_learning progressive_layer_drop "
    "fp32_allreduce communication_data_type disable_allgather msamp".split()
)
_SECTIONS: dict[tuple[str, ...], frozenset[str]] = {
    ("zero_optimization",): frozenset(
        "allgather_bucket_size allgather_partitions allgather_sequential compute_grad_norm "
        "contiguous_gradients cpu_offload cpu_offload_param cpu_offload_use_pin_memory "
        "elastic_checkpoint enable_sanity_checks gather_16bit_weights_on_model_save "
        "ignore_unused_parameters leaf_module legacy_stage1 load_from_fp32_weights "
        "log_trace_cache_warnings max_live_parameters max_reuse_distance memory_efficient_linear "
        "model_persistence_threshold module_granularity_threshold offload_optimizer offload_param "
        "overlap_comm override_module_apply param_persistence_threshold parameter_alignment "
        "pipeline_loading_checkpoint prefetch_bucket_size reduce_bucket_size reduce_scatter "
        "round_robin_gradients save_muon_momentum_buffer_in_memory stage "
        "stage3_allgather_sequential stage3_gather_16bit_weights_on_model_save "
        "stage3_gather_fp16_weights_on_model_save stage3_max_live_parameters "
        "stage3_max_reuse_distance stage3_model_persistence_threshold "
        "stage3_module_granularity_threshold stage3_param_persistence_threshold "
        "stage3_prefetch_bucket_size stage3_use_all_reduce_for_fetch_params sub_group_size "
        "use_all_reduce_for_fetch_params use_multi_rank_bucket_allreduce zenflow "
        "zero_hpz_partition_size zero_quantized_gradients zero_quantized_nontrainable_weights "
        "zero_quantized_weights "
        "mics_shard_size mics_hierarchical_params_gather zeropp_loco_param".split()
    ),
    ("zero_optimization", "offload_param"): frozenset(
        "buffer_count buffer_size device max_in_cpu nvme_path pin_memory".split()
    ),
    ("zero_optimization", "offload_optimizer"): frozenset(
        "buffer_count cpuadam_cores_perc device fast_init nvme_path pin_memory pipeline_read "
        "pipeline_write ratio super_offload".split()
    ),
    ("fp16",): frozenset(
        "auto_cast consecutive_hysteresis enabled fp16_master_weights_and_grads hysteresis "
        "initial_scale_power loss_scale loss_scale_window min_loss_scale".split()
    ),
    ("bf16",): frozenset(
        "bf16_master_weights_and_grads bf16_optimizer_states check_grad_overflow enabled "
        "immediate_grad_update".split()
    ),
}
# Key, what takes its place. The last column of the refusals is the version that was read.
_GONE = {
    ("nebula",): "checkpoint_engine", ("compression_training",): "", ("amp",): "fp16 or bf16",
    ("quantize_training",): "", ("sparse_gradients",): "sparse=True of the embedding",
    ("eigenvalue",): "", ("sparse_attention",): "", ("elasticity",): "fixed batch sizes",
    ("graph_harvesting",): "", ("progressive_layer_drop",): "",
    ("curriculum_learning",): "data_efficiency.data_sampling.curriculum_learning",
    ("zero_optimization", "mics_shard_size"): "zero_hpz_partition_size",
    ("zero_optimization", "mics_hierarchical_params_gather"): "",
    ("zero_optimization", "zeropp_loco_param"): "",
}  # fmt: skip
_OLD = {
    ("zero_optimization", "cpu_offload"): "offload_optimizer",
    ("zero_optimization", "cpu_offload_param"): "offload_param",
    ("zero_optimization", "cpu_offload_use_pin_memory"): "",
    ("zero_optimization", "stage3_gather_fp16_weights_on_model_save"):
        "gather_16bit_weights_on_model_save",
    ("bfloat16",): "bf16",
}  # fmt: skip
_ACCELERATE = frozenset(
    "compute_environment distributed_type mixed_precision use_cpu debug num_processes "
    "machine_rank num_machines gpu_ids main_process_ip main_process_port rdzv_backend "
    "same_network main_training_function enable_cpu_affinity fp8_config deepspeed_config "
    "fsdp_config parallelism_config megatron_lm_config mpirun_config downcast_bf16 tpu_name "
    "tpu_zone tpu_use_cluster tpu_use_sudo command_file commands tpu_vm tpu_env dynamo_config "
    "fp16 dynamo_backend".split()
)
_TRAINER = (
    "per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps "
    "learning_rate weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm "
    "num_train_epochs max_steps lr_scheduler_type warmup_steps warmup_ratio logging_steps "
    "save_strategy save_steps save_total_limit eval_strategy eval_steps fp16 bf16 tf32 "
    "gradient_checkpointing deepspeed fsdp fsdp_config ddp_backend ddp_timeout "
    "ddp_find_unused_parameters dataloader_num_workers dataloader_drop_last "
    "dataloader_pin_memory load_best_model_at_end output_dir seed report_to run_name "
    "resume_from_checkpoint torch_compile use_cpu optim"
).split()
_LIGHTNING = (
    "accelerator strategy devices num_nodes precision logger callbacks max_epochs max_steps "
    "accumulate_grad_batches gradient_clip_val gradient_clip_algorithm val_check_interval "
    "check_val_every_n_epoch log_every_n_steps enable_checkpointing enable_progress_bar "
    "use_distributed_sampler sync_batchnorm num_sanity_val_steps benchmark deterministic"
).split()


def check(job: Job) -> Iterator[Finding]:
    """Yield what is wrong with the keys of each file."""
    for d in job.documents:
        yield from _twice(d)
        yield from _quirks(d)
        if d.kind == "deepspeed":
            yield from _deepspeed(job.host, d)
        elif d.kind == "accelerate":
            yield from _accelerate(d)
        elif d.kind == "trainer":
            yield from _near(d, d.values, (), _TRAINER)
        elif d.kind == "lightning":
            below = ("trainer",) if isinstance(d.get("trainer"), dict) else ()
            yield from _near(d, trainer_of(d), below, _LIGHTNING)
        if d.is_yaml:
            yield from _words(d)


def _twice(d: Document) -> Iterator[Finding]:
    for keys, line in d.duplicates:
        place = d.place(*keys)
        at = f"again on line {line}" if line and line != place.line else "twice"
        yield TWICE.found(
            WILL if d.kind == "deepspeed" else MAY, place, f"{keys[-1]} stands here and {at}",
            "DeepSpeed refuses a file with a repeated key; the frameworks keep the last one without "
            "a word.",
            "keep one of them",
        )  # fmt: skip


def _quirks(d: Document) -> Iterator[Finding]:
    if not d.quirks:
        return
    what = "a byte-order mark" if "bom" in d.quirks else "comments or trailing commas"
    yield COMMENTS.found(
        MAY if d.kind == "deepspeed" else WILL, d.place(), f"holds {what}",
        "DeepSpeed reads its file as Hjson, which takes comments; transformers, accelerate and "
        "Lightning read it as JSON and stop with JSONDecodeError.",
        "save it as plain JSON",
    )  # fmt: skip


def _deepspeed(host: Host | None, d: Document) -> Iterator[Finding]:
    for key in d.values:
        if key not in _TOP and not key.startswith(("_", "//", "#")):  # the ways to comment in JSON
            yield _unknown(d, key)
    for below, known in _SECTIONS.items():
        for key in d.section(*below):
            if key not in known:
                yield _refused(d, (*below, key), known)
    yield from _gone(host, d)
    yield from _old(d)


def _unknown(d: Document, key: str) -> Finding:
    near = _nearest(key, _TOP)
    return UNKNOWN.found(
        MAY if near else NOTE, d.place(key), f"DeepSpeed reads no {key}" + _meant(near),
        "a top-level key that it does not know is ignored, so the default applies in silence.",
        f"rename it to {near}" if near else "remove it if nothing else reads it",
    )  # fmt: skip


def _refused(d: Document, keys: tuple[str, ...], known: frozenset[str]) -> Finding:
    near = _nearest(keys[-1], known)
    return STRICT.found(
        WILL, d.place(*keys), f"unknown key {keys[-1]}" + _meant(near),
        "this section is a pydantic model that forbids extra keys: ValidationError at start.",
        f"rename it to {near}" if near else "remove it, or use the DeepSpeed version that knows it",
    )  # fmt: skip


def _gone(host: Host | None, d: Document) -> Iterator[Finding]:
    installed = host.packages.get("deepspeed") if host else None
    for keys, successor in _GONE.items():
        if d.get(*keys) is None:
            continue
        sure = installed is not None and at_least(installed.version, "0.19.8")
        yield REMOVED.found(
            WILL if sure else MAY, d.place(*keys), f"{keys[-1]} is no longer supported",
            "DeepSpeed 0.19.8 raises DeepSpeedConfigError when the key is there; older ones accept it.",
            f"use {successor} instead" if successor else "remove it",
        )  # fmt: skip


def _old(d: Document) -> Iterator[Finding]:
    for keys, successor in _OLD.items():
        if d.get(*keys) is None:
            continue
        both = successor in d.section(*keys[:-1]) and keys != ("bfloat16",)
        yield DEPRECATED.found(
            WILL if both else NOTE, d.place(*keys),
            f"{keys[-1]} stands beside its successor {successor}" if both
            else f"{keys[-1]} is deprecated",
            "DeepSpeed asserts that the two are not given together." if both
            else "DeepSpeed warns and translates it, until a version drops it.",
            f"keep only {successor}" if successor else "use offload_*.pin_memory",
        )  # fmt: skip


def _accelerate(d: Document) -> Iterator[Finding]:
    if d.get("compute_environment") not in (None, "LOCAL_MACHINE"):
        return
    for key in d.values:
        if key in _ACCELERATE:
            continue
        near = _nearest(key, _ACCELERATE)
        yield ACCELERATE.found(
            WILL, d.place(key), f"accelerate knows no {key}" + _meant(near),
            "it raises ValueError (\"had unknown keys\") when it loads the file.",
            f"rename it to {near}" if near else "remove it, or upgrade accelerate",
        )  # fmt: skip
    if d.get("distributed_type") is None:
        yield ACCELERATE.found(
            WILL, d.place(), "distributed_type is missing",
            "accelerate raises ValueError: a distributed_type must be specified.",
            "add it (MULTI_GPU, DEEPSPEED, FSDP, 'NO' …)",
        )  # fmt: skip


def _near(
    d: Document, values: dict[str, object], below: tuple[str, ...], known: list[str]
) -> Iterator[Finding]:
    """Only near misses: other keys belong to the script's own arguments."""
    for key in values:
        near = _nearest(key, known) if key not in known else None
        if near and near not in values and _one_letter(key, near):
            yield TRAINER.found(
                MAY, d.place(*below, key), f"unknown key {key}" + _meant(near),
                "a parser with fixed arguments stops at it; one that takes any ignores it.",
                f"rename it to {near}",
            )  # fmt: skip


def _one_letter(key: str, near: str) -> bool:
    return abs(len(key) - len(near)) <= 1 and difflib.SequenceMatcher(None, key, near).ratio() > 0.9


def _words(d: Document) -> Iterator[Finding]:
    for key, why in (("mixed_precision", "'no'"), ("distributed_type", "'NO'")):
        if d.get(key) is False:
            yield YAML_WORD.found(
                MAY, d.place(key), f"{key} is the truth value false, not the word {why}",
                "YAML 1.1 reads an unquoted no as false; accelerate compares words.",
                f"write {key}: {why}",
            )  # fmt: skip
    if d.kind == "trainer":
        for key, value in d.values.items():
            if isinstance(value, str) and _is_exponent(value):
                yield YAML_WORD.found(
                    MAY, d.place(key), f"{key} is the text \"{value}\", not a number",
                    "YAML 1.1 wants a dot before an exponent; the optimizer then compares text "
                    "with a number (TypeError), unless the reader converts it.",
                    f"write {value.lower().replace('e', '.0e', 1)}",
                )  # fmt: skip


def _is_exponent(text: str) -> bool:
    head, e, tail = text.lower().partition("e")
    return bool(e) and head.isdigit() and tail.lstrip("+-").isdigit() and len(text) < 12


def _nearest(key: str, known: frozenset[str] | list[str]) -> str | None:
    found = difflib.get_close_matches(key[:80], sorted(known), 1, 0.82)
    return found[0] if found else None


def _meant(near: str | None) -> str:
    return f"; did you mean {near}?" if near else ""
