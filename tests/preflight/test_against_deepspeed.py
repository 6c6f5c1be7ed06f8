"""Our word on random files against DeepSpeed's own configuration class, where it is installed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from rootrank.preflight import batch, keys, zero
from rootrank.preflight.job import Job, Options
from rootrank.preflight.readers import Document

WORLD = 4
# Rules about code that runs after the configuration has been read.
LATER = {"ds-optimizer", "ds-prescale", "offload-nvme-path", "ds-grad-norm-off", "ds-legacy-stage1"}
CPU = {"device": "cpu"}
TOP: dict[str, tuple[float, list[Any]]] = {
    "train_batch_size": (0.6, [8, 16, 32, 12, 7, "8", 0, -4, 8.0, 2.5]),
    "train_micro_batch_size_per_gpu": (0.6, [1, 2, 3, 4, 0]),
    "gradient_accumulation_steps": (0.6, [1, 2, 3]),
    "fp16": (0.3, [{"enabled": True}, {"enabled": False}, True, {"enabled": True, "loss_scal": 1}]),
    "bf16": (0.3, [{"enabled": True}, {"enabled": True, "bf16_optimizer_states": True}]),
    "gradient_allreduce_op": (0.1, ["sum", "mean", "max", "SUM"]),
    "communication_data_type": (0.1, ["fp16", "float16", "BF16"]),
    "nebula": (0.02, [{}]),
    "optimizer": (0.1, [{"type": "Adam"}, None, "adam", {"params": {}}]),
}
ZERO: dict[str, tuple[float, list[Any]]] = {
    "stage": (0.9, [0, 1, 2, 3, 4, "3", "x", -1, True]),
    "offload_optimizer": (0.3, [CPU, {"device": "disk"}, "cpu", None, {**CPU, "ratio": 0.5}]),
    "offload_param": (0.3, [CPU, {"device": "gpu"}, None, {**CPU, "buffer_counts": 2}]),
    "cpu_offload": (0.2, [True, False]),
    "reduce_bucket_size": (0.2, [0, 5e8, "5e8", "auto", 100, 1.5]),
    "compute_grad_norm": (0.2, [True, False]),
    "overlap_com": (0.05, [1]),
}


def drawn(table: dict[str, tuple[float, list[Any]]], dice: random.Random) -> dict[str, Any]:
    """Return some keys of a table with one of their values each."""
    return {k: dice.choice(v) for k, (share, v) in table.items() if dice.random() < share}


def refusal(values: dict[str, Any], config: Any) -> str | None:
    """Return how DeepSpeed refuses a file, or None."""
    try:
        config.DeepSpeedConfig(json.loads(json.dumps(values)))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.slow
def test_deepspeed_refuses_what_we_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it refuses has a finding; what it accepts has no will-fail."""
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    config = pytest.importorskip("deepspeed.runtime.config")
    if not hasattr(config, "_reject_removed_config_keys"):
        pytest.skip("an older DeepSpeed, with other rules")
    monkeypatch.setattr(config.dist, "get_rank", lambda *_, **__: 0)
    monkeypatch.setattr(config.dist, "get_world_size", lambda *_, **__: WORLD)
    dice = random.Random(7)
    for _ in range(1500):
        values = drawn(TOP, dice)
        if dice.random() < 0.6:
            values["zero_optimization"] = drawn(ZERO, dice)
        document = Document(name="d", kind="deepspeed", values=values)
        job = Job(documents=[document], options=Options(world=WORLD))
        found = [f for family in (keys, batch, zero) for f in family.check(job)]
        refused = refusal(values, config)
        if refused:
            assert any(f.severity.value != "note" for f in found), (values, refused)
        else:
            wrong = [f for f in found if f.severity.value == "will-fail" and f.rule not in LATER]
            assert [] == wrong, values
