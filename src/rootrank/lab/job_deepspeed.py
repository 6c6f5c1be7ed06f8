"""The same tiny job under DeepSpeed: ZeRO with CPU offload, nothing compiled.

Copied as train.py like job.py. Hooks: on_step, on_loss, skip, ready.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

if TYPE_CHECKING:
    deepspeed: Any
    torch: Any
    tasks: Any
else:
    import deepspeed
    import deepspeed.ops
    import tasks
    import torch

DEFAULTS = {
    "steps": 8,
    "timeout_s": 25,
    "stage": 3,
    "offload": True,
    "fp16": False,
    "accumulation": 2,
    "micro_batch": 2,
    "train_batch": 0,  # 0: the product of the other three
    "width": 128,
}


class Job:
    """What the hooks are given."""

    def __init__(self) -> None:
        given = json.loads(Path("job.json").read_text(encoding="utf-8"))
        self.options: dict[str, Any] = {**DEFAULTS, **given}
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.torch = torch
        self.log = logging.getLogger("train")
        self.engine: Any = None

    def hook(self, name: str, *values: Any, default: Any = None) -> Any:
        """Return what the task's function says, or `default` when it has none of that name."""
        function = getattr(tasks, name, None)
        return default if function is None else function(self, *values)


def settings(job: Job) -> dict[str, Any]:
    """Return the DeepSpeed configuration."""
    options = job.options
    micro, accumulation = int(options["micro_batch"]), int(options["accumulation"])
    zero: dict[str, Any] = {"stage": options["stage"], "overlap_comm": False}
    if options["stage"] == 3:
        zero["stage3_param_persistence_threshold"] = 0
    if options["offload"]:
        zero["offload_param"] = zero["offload_optimizer"] = {"device": "cpu"}
    config: dict[str, Any] = {
        "train_batch_size": options["train_batch"] or micro * accumulation * job.world,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulation,
        "steps_per_print": 1,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": zero,
    }
    if options["fp16"]:
        scale = {"initial_scale_power": 5, "hysteresis": 1, "min_loss_scale": 1}
        config["fp16"] = {"enabled": True, **scale}
    return config


def main() -> None:
    """Train."""
    # Building an operator takes minutes in silence; none is needed here.
    for name in list(deepspeed.ops.__compatible_ops__):
        deepspeed.ops.__compatible_ops__[name] = False
    job = Job()
    form = f"%(asctime)s [rank{job.rank}] %(levelname)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stderr)
    limit = timedelta(seconds=float(job.options["timeout_s"]))
    deepspeed.init_distributed(dist_backend="gloo", timeout=limit)
    job.engine = build(job, settings(job))
    job.log.info("start world_size=%d pid=%d", job.world, os.getpid())
    job.hook("ready")
    train(job)
    job.log.info("training finished")
    torch.distributed.destroy_process_group()


def build(job: Job, config: dict[str, Any]) -> Any:
    """Return the engine around a small model."""
    torch.manual_seed(0)
    width = int(job.options["width"])
    with deepspeed.zero.Init(config_dict_or_path=config, enabled=job.options["stage"] == 3):
        layers = [torch.nn.Linear(width, width) for _ in range(4)]
        model = torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Linear(width, 1))
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]


def train(job: Job) -> None:
    """Run the steps, each of several micro-batches."""
    kind = torch.float16 if job.options["fp16"] else torch.float32
    for step in range(int(job.options["steps"])):
        job.hook("on_step", step)
        loss = None
        for part in range(int(job.options["accumulation"])):
            if job.hook("skip", step, part):
                continue
            x = torch.randn(int(job.options["micro_batch"]), int(job.options["width"]), dtype=kind)
            loss = job.engine(x).float().pow(2).mean()
            loss = job.hook("on_loss", step, loss, default=loss)
            job.engine.backward(loss)
            job.engine.step()
        shown = float("nan") if loss is None else loss.item()
        job.log.info("step %d loss %.5f global_steps=%d", step, shown, job.engine.global_steps)


if __name__ == "__main__":
    main()
