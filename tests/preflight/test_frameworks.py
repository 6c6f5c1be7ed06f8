"""accelerate, TrainingArguments, FSDP, Lightning, parallel degrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.preflight.helpers import checked, only, said

DS = {
    "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto", "zero_optimization": {"stage": 2},
}  # fmt: skip
ACCELERATE = {
    "compute_environment": "LOCAL_MACHINE", "distributed_type": "DEEPSPEED", "num_machines": 1,
    "num_processes": 4, "machine_rank": 0, "mixed_precision": "bf16",
}  # fmt: skip


def test_sound_files_together(tmp_path: Path) -> None:
    """auto values and equal precision: nothing fails."""
    args = {"output_dir": "o", "per_device_train_batch_size": 2, "bf16": True}
    report = checked(tmp_path, {"a.json": ACCELERATE, "ds.json": DS, "t.json": args})
    assert 0 == report.code


@pytest.mark.parametrize(
    ("ds", "args", "severity"),
    [
        ({"train_micro_batch_size_per_gpu": 4}, {"per_device_train_batch_size": 2}, "will-fail"),
        ({"gradient_accumulation_steps": 4}, {"gradient_accumulation_steps": 2}, "will-fail"),
        ({"gradient_clipping": 0.5}, {}, "may-fail"),
        ({"gradient_clipping": 0.5}, {"max_grad_norm": 0.5}, None),
        ({"bf16": {"enabled": True}}, {"bf16": False}, "will-fail"),
        ({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}, {"learning_rate": 2e-4}, "will-fail"),
        ({"train_batch_size": 64}, {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}, "will-fail"),
    ],
)  # fmt: skip
def test_trainer_against_deepspeed(
    tmp_path: Path, ds: dict[str, Any], args: dict[str, Any], severity: str | None
) -> None:
    """What both files say must be equal: Trainer compares."""
    files = {"ds.json": {**DS, **ds}, "t.json": {"output_dir": "o", **args}}
    report = checked(tmp_path, files, world=4)
    found = [f.severity.value for f in report.findings if f.rule == "ds-trainer-mismatch"]
    assert ([severity] if severity else []) == found


@pytest.mark.parametrize(
    ("change", "rule", "severity"),
    [
        ({"num_proceses": 4}, "accelerate-unknown-key", "will-fail"),
        ({"distributed_type": None}, "accelerate-unknown-key", "will-fail"),
        ({"machine_rank": 2, "num_machines": 2, "main_process_ip": "n0"}, "accelerate-processes", "will-fail"),
        ({"gpu_ids": "0,1"}, "accelerate-processes", "will-fail"),
        ({"num_machines": 2, "main_process_ip": "127.0.0.1"}, "accelerate-main-process", "will-fail"),
        ({"num_machines": 2}, "accelerate-main-process", "may-fail"),
        ({"deepspeed_config": {"deepspeed_config_file": "/none.json"}}, "config-file-missing", "will-fail"),
        ({"parallelism_config": {"parallelism_config_tp_size": 3}}, "parallelism-config", "will-fail"),
        ({"fsdp_config": {"fsdp_auto_wrap_policy": "TRANSFORMER"}}, "fsdp-config", "will-fail"),
    ],
)  # fmt: skip
def test_accelerates_own_file(
    tmp_path: Path, change: dict[str, Any], rule: str, severity: str
) -> None:
    """Each of these stops the launch, or may."""
    values = {k: v for k, v in {**ACCELERATE, **change}.items() if v is not None}
    assert severity == only(checked(tmp_path, {"a.json": values}), rule).severity.value


def test_a_file_named_in_another_is_read_too(tmp_path: Path) -> None:
    """deepspeed_config_file beside a field that belongs into it, and a precision that differs."""
    section = {"deepspeed_config_file": "ds.json", "gradient_accumulation_steps": 4}
    (tmp_path / "ds.json").write_text(
        '{"zero_optimization": {"stage": 2}, "fp16": {"enabled": true}}'
    )
    report = checked(tmp_path, {"a.json": {**ACCELERATE, "deepspeed_config": section}})
    assert {"accelerate-ds-fields", "accelerate-ds-precision"} <= set(said(report, "will-fail"))
    assert ["accelerate", "deepspeed"] == [kind for _, kind in report.checked]


@pytest.mark.parametrize(
    ("args", "rule"),
    [
        ({"fp16": True, "bf16": True}, "fp16-and-bf16"),
        ({"load_best_model_at_end": True, "eval_strategy": "epoch"}, "trainer-best-model"),
        ({"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 300, "save_steps": 500}, "trainer-best-model"),
        ({"eval_strategy": "steps", "eval_steps": 0}, "trainer-steps"),
    ],
)  # fmt: skip
def test_training_arguments(tmp_path: Path, args: dict[str, Any], rule: str) -> None:
    """TrainingArguments raises ValueError for each."""
    report = checked(tmp_path, {"t.json": {"output_dir": "o", **args}})
    assert [rule] == said(report, "will-fail")


def test_lightning_against_its_batch_script(tmp_path: Path) -> None:
    """devices and num_nodes must be Slurm's tasks per node and nodes."""
    pytest.importorskip("yaml")
    config = "trainer:\n  accelerator: gpu\n  devices: 4\n  num_nodes: 1\n  strategy: ddp\n"
    script = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun -K python train.py fit\n"
    report = checked(tmp_path, {"c.yaml": config, "j.sh": script})
    assert 2 == said(report, "will-fail").count("lightning-slurm")


def test_lightning_sets_accumulation_itself(tmp_path: Path) -> None:
    """DeepSpeed's file must not."""
    trainer = {"trainer": {"devices": 2, "strategy": "deepspeed_stage_2"}}
    ds = {**DS, "gradient_accumulation_steps": 2}
    report = checked(tmp_path, {"c.json": trainer, "ds.json": ds})
    assert "ds-lightning-accumulation" in said(report, "will-fail")


def test_yaml_words(tmp_path: Path) -> None:
    """no is false, and 1e-5 is text, in YAML 1.1."""
    pytest.importorskip("yaml")
    report = checked(tmp_path, {"t.yaml": "output_dir: o\nlearning_rate: 1e-5\n"})
    assert "write 1.0e-5" == only(report, "yaml-word").remedy
    report = checked(tmp_path, {"a.yaml": "distributed_type: MULTI_GPU\nmixed_precision: no\n"})
    assert 2 == only(report, "yaml-word").place.line


def test_degrees_divide_the_world(tmp_path: Path) -> None:
    """Megatron's degrees in the command, and heads over tensor-parallel ranks."""
    command = (
        "torchrun --nproc-per-node 8 --log-dir l pretrain.py --tensor-model-parallel-size 3 "
        "--pipeline-model-parallel-size 2\n"
    )
    model = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 9}
    report = checked(tmp_path, {"j.sh": command, "config.json": model})
    assert "6 does not divide 8" in only(report, "parallel-degrees").fault
    assert "attention-heads" in said(report, "will-fail")
