"""DeepSpeed's file: batch arithmetic, keys, combinations, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rootrank.preflight.finding import Severity
from tests.preflight.helpers import GIB, FakeHost, checked, disk, only, said

GOOD = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "zero_optimization": {
        "stage": 3,
        "overlap_comm": True,
        "stage3_prefetch_bucket_size": 5e7,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
    },
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
}


def zero(**keys: Any) -> dict[str, Any]:
    """Return a small file with this zero_optimization."""
    return {"train_micro_batch_size_per_gpu": 1, "zero_optimization": keys}


def test_a_sound_file_has_no_fault(tmp_path: Path) -> None:
    """The shape that documentation shows gives notes at most, and exit code 0."""
    report = checked(tmp_path, {"ds.json": GOOD}, world=8)
    assert [] == said(report, "will-fail") + said(report, "may-fail")
    assert 0 == report.code


@pytest.mark.parametrize(
    ("batch", "micro", "steps", "world", "fails"),
    [
        (32, 4, 2, 4, False), (32, 4, 2, 8, True), (6, 2, 2, 2, True), (7, None, None, 2, True),
        (8, None, None, 2, False), (8, 4, None, 4, True), (16, 4, None, 4, False),
        (16, None, 3, 4, True), (24, None, 3, 4, False), (None, 4, 2, 3, False),
        (None, 0, 1, 2, True), (-8, None, None, 2, True), (8.0, 4, 1, 2, False),
    ],
)  # fmt: skip
def test_batch_arithmetic(
    tmp_path: Path, batch: Any, micro: Any, steps: Any, world: int, fails: bool
) -> None:
    """train_batch_size = micro × accumulation × ranks, with whole division for what is left out."""
    values = {
        "train_batch_size": batch, "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
    }  # fmt: skip
    given = {k: v for k, v in values.items() if v is not None}
    report = checked(tmp_path, {"ds.json": {**given, "zero_optimization": {}}}, world=world)
    assert fails is ("ds-batch-arithmetic" in said(report, "will-fail"))


def test_the_finding_says_where_what_why_and_what_to_do(tmp_path: Path) -> None:
    """Line and key, the numbers, the library's rule, a value that works, the entry, the source."""
    values = {
        "train_batch_size": 6, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
    }  # fmt: skip
    found = only(checked(tmp_path, {"ds.json": values}, world=2), "ds-batch-arithmetic")
    assert "ds.json:2 train_batch_size" == Path(str(found.place)).name
    assert "no multiple of micro 2 × accumulation 2" in found.fault
    assert "multiple of 4" in found.remedy
    assert "deepspeed-batch-size-mismatch" == found.entry
    assert "_batch_assertion" in found.source


def test_without_a_world_the_needed_one_is_asked_for(tmp_path: Path) -> None:
    """Nothing is guessed: the number that would be right is named, as a question."""
    values = {
        "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
    }  # fmt: skip
    report = checked(tmp_path, {"ds.json": values})
    assert 0 == report.code
    assert any("exactly 8" in o.why for o in report.open)


def test_sequence_parallel_ranks_share_a_batch(tmp_path: Path) -> None:
    """DeepSpeed multiplies by world / sequence_parallel_size."""
    values = {
        "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1,
        "sequence_parallel_size": 2,
    }  # fmt: skip
    assert 0 == checked(tmp_path, {"ds.json": values}, world=8).code
    assert 1 == checked(tmp_path, {"ds.json": values}, world=16).code


@pytest.mark.parametrize("value", ["8", 2.5, True, [8], float("nan"), 10**30])
def test_a_batch_size_that_is_no_number(tmp_path: Path, value: Any) -> None:
    """Text, fractions, truth values, NaN and absurd sizes are named, none crashes the check."""
    report = checked(
        tmp_path, {"ds.json": {"train_batch_size": value, "zero_optimization": {}}}, world=2
    )
    assert "ds-batch-type" in said(report, "will-fail")


@pytest.mark.parametrize(
    ("values", "rule", "severity"),
    [
        (zero(stage=2, overlap_com=True), "ds-unknown-key-in-section", "will-fail"),
        ({**zero(stage=1), "fp16": {"enabled": True, "loss_scal": 0}}, "ds-unknown-key-in-section", "will-fail"),
        ({**zero(stage=1), "gradient_cliping": 1.0}, "ds-unknown-key", "may-fail"),
        ({**zero(stage=1), "our_own_note": 1}, "ds-unknown-key", "note"),
        ({**zero(stage=1), "amp": {"enabled": True}}, "ds-removed-key", "may-fail"),
        (zero(stage=2, cpu_offload=True), "ds-deprecated-key", "note"),
        (zero(stage=2, cpu_offload=True, offload_optimizer={"device": "cpu"}), "ds-deprecated-key", "will-fail"),
        (zero(stage=4), "zero-stage", "will-fail"),
        (zero(stage=2, offload_param={"device": "cpu"}), "offload-stage", "may-fail"),
        (zero(stage=2, offload_optimizer={"device": "cpu", "ratio": 0.5}), "offload-stage", "will-fail"),
        (zero(stage=3, offload_param={"device": "disk"}), "offload-device", "will-fail"),
        (zero(stage=3, offload_optimizer={"device": "nvme"}), "offload-nvme-path", "will-fail"),
        (zero(stage=2, offload_optimizer={"device": "nvme", "nvme_path": "/x"}), "offload-nvme-path", "may-fail"),
        (zero(stage=2, offload_optimizer="cpu"), "ds-section-shape", "will-fail"),
        (zero(stage=2, reduce_bucket_size="5e8"), "ds-section-shape", "will-fail"),
        ({**zero(stage=1), "bf16": True}, "ds-section-shape", "will-fail"),
        ({**zero(stage=1), "fp16": {"enabled": True}, "bf16": {"enabled": True}}, "fp16-and-bf16", "will-fail"),
        ({**zero(stage=0), "fp16": {"fp16_master_weights_and_grads": True}}, "ds-master-weights", "will-fail"),
        ({**zero(stage=3), "gradient_allreduce_op": "sum"}, "ds-allreduce-op", "will-fail"),
        ({**zero(stage=2), "prescale_gradients": True}, "ds-prescale", "will-fail"),
        ({**zero(stage=1), "communication_data_type": "float16"}, "ds-communication-type", "will-fail"),
        ({**zero(stage=1), "optimizer": {"type": "Adam", "params": {"max_grad_norm": 1}}}, "ds-optimizer", "will-fail"),
        ({**zero(stage=2), "optimizer": {"type": "Lamb"}}, "ds-optimizer", "will-fail"),
        (zero(stage=1, legacy_stage1=True), "ds-legacy-stage1", "will-fail"),
        (zero(stage=3, compute_grad_norm=False), "ds-grad-norm-off", "will-fail"),
        ({**zero(stage=2), "pipeline": {"stages": 4}}, "ds-pipeline-stage", "may-fail"),
        (zero(stage=2, offload_optimizer={"device": "cpu"}), "ds-offload-client-optimizer", "note"),
    ],
)  # fmt: skip
def test_what_deepspeed_refuses_or_ignores(
    tmp_path: Path, values: dict[str, Any], rule: str, severity: str
) -> None:
    """Each combination is named by its rule, as certain as DeepSpeed's own reaction is."""
    report = checked(tmp_path, {"ds.json": values}, world=4)
    assert severity == only(report, rule).severity.value
    assert {"will-fail": 1, "may-fail": 3, "note": 0}[severity] == report.code


def test_a_misspelt_key_is_met_with_the_right_one(tmp_path: Path) -> None:
    """did you mean …"""
    found = only(
        checked(tmp_path, {"ds.json": zero(stage=2, overlap_com=1)}), "ds-unknown-key-in-section"
    )
    assert "did you mean overlap_comm?" in found.fault


def test_an_installed_version_decides_on_removed_keys(tmp_path: Path) -> None:
    """With the refusing version installed here, it is certain."""
    from rootrank.preflight.host import Package

    packages = {"deepspeed": Package(name="deepspeed", version="0.19.8")}
    values = {**zero(stage=1), "elasticity": {}}
    report = checked(tmp_path, {"ds.json": values}, FakeHost(packages=packages))
    assert Severity.WILL is only(report, "ds-removed-key").severity


# --------------------------------------------------------------------------- memory

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "vocab_size": 32000, "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip
GPT2 = {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}


@pytest.mark.parametrize(("config", "params"), [(LLAMA, 6.738e9), (GPT2, 124e6)])
def test_a_models_size_from_its_config(
    tmp_path: Path, config: dict[str, Any], params: float
) -> None:
    """The computed size is the published one within one percent."""
    from rootrank.preflight.job import Job
    from rootrank.preflight.memory import model_of
    from rootrank.preflight.readers import Document

    model = model_of(Job(documents=[Document(name="config.json", kind="model", values=config)]))
    assert model is not None
    assert params == pytest.approx(model.params, rel=0.01)


@pytest.mark.parametrize(
    ("stage", "offload", "gpu", "host_low"),
    [
        (0, {}, 16e9, 0), (1, {}, 4e9 + 12e9 / 8, 0), (2, {}, 2e9 + 18e9 / 8, 0),
        (2, {"offload_optimizer": {"device": "cpu"}}, 2e9, 16e9 / 2), (3, {}, 18e9 / 8, 0),
        (3, {"offload_optimizer": {"device": "cpu"}}, 2e9 / 8, 16e9 / 2),
        (3, {"offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}, 0, 18e9 / 2),
        (3, {"offload_optimizer": {"device": "nvme", "nvme_path": "/n"}}, 2e9 / 8, 0),
    ],
)  # fmt: skip
def test_the_published_formulas(
    tmp_path: Path, stage: int, offload: dict[str, Any], gpu: float, host_low: float
) -> None:
    """A billion parameters on two nodes of four ranks; largest layer unknown, so zero."""
    from rootrank.preflight.memory import Model, needs
    from rootrank.preflight.readers import Document

    d = Document(name="d", kind="deepspeed", values=zero(stage=stage, **offload))
    need = needs(d, Model(params=1e9, largest=0, source="test"), 4, 2)
    assert gpu == pytest.approx(need.gpu)
    assert host_low == pytest.approx(need.host_low)


def test_states_that_do_not_fit_are_named_with_their_numbers(tmp_path: Path) -> None:
    """70 billion parameters, offloaded to one node of 512 GiB: the host is too small, surely."""
    values = zero(stage=3, offload_optimizer={"device": "cpu"}, offload_param={"device": "cpu"})
    report = checked(
        tmp_path, {"ds.json": values}, world=8, nodes=1, params=70e9, host_memory_bytes=512 * GIB
    )
    found = only(report, "zero-host-memory")
    assert Severity.WILL is found.severity
    assert "1,173 GiB" in found.fault
    assert "512 GiB" in found.fault
    assert any("70.00 billion" in e for e in report.estimates)


def test_slurms_memory_limit_counts(tmp_path: Path) -> None:
    """--mem of the batch script is the memory of a node."""
    script = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --mem=64G\nsrun -K torchrun --nproc-per-node 4 t.py\n"
    values = zero(stage=3, offload_optimizer={"device": "cpu"})
    report = checked(tmp_path, {"ds.json": values, "j.slurm": script}, params=7e9)
    assert "--mem" in only(report, "zero-host-memory").fault


def test_nothing_is_judged_without_the_models_size(tmp_path: Path) -> None:
    """It is asked for instead."""
    report = checked(tmp_path, {"ds.json": zero(stage=3)}, world=8)
    assert any("--params" in o.remedy for o in report.open)


def test_nvme_space_and_kind(tmp_path: Path) -> None:
    """A target that is too small will fail; one in memory or on the network may."""
    values = zero(stage=3, offload_optimizer={"device": "nvme", "nvme_path": "/nvme"})
    small = FakeHost(disks={"/nvme": disk(free_bytes=50 * GIB, kind="tmpfs")})
    report = checked(tmp_path, {"ds.json": values}, small, world=4, params=7e9)
    assert Severity.WILL is only(report, "zero-nvme-space").severity
    assert Severity.MAY is only(report, "nvme-target").severity
    missing = FakeHost(disks={"/nvme": disk(exists=False, writable=False)})
    report = checked(tmp_path, {"ds.json": values}, missing, world=4, params=7e9)
    assert Severity.WILL is only(report, "nvme-target").severity
