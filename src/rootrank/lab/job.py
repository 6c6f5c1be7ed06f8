"""A tiny data-parallel training job on CPU, with places where a task may do something else.

The lab copies this file into a folder as train.py, beside tasks.py (the hooks of one fault) and
job.json (the options), and runs it under torchrun or by itself. It imports nothing of rootrank.
Hooks, all optional: start, ready, read, on_step, forward, on_loss, save, load, evaluate, finish.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # whether or not torch is there, types stop at it
    torch: Any
    tasks: Any
else:
    import tasks
    import torch
    import torch.distributed

DEFAULTS = {
    "steps": 12,
    "step_s": 0.05,
    "timeout_s": 25,  # how long a collective may take
    "workers": 0,
    "batch": 8,
    "save_every": 0,
    "evaluate_every": 0,
    "resume": "",
    "records": False,  # leave a flight record when asked, and at the end
}


class Job:
    """What the hooks are given: the job's state, and torch without an import."""

    def __init__(self) -> None:
        given = json.loads(Path("job.json").read_text(encoding="utf-8"))
        self.options: dict[str, Any] = {**DEFAULTS, **given}
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.torch, self.dist = torch, torch.distributed
        self.log = logging.getLogger("train")
        self.steps = int(self.options["steps"])
        self.step = 0
        self.net: Any = None
        self.model: Any = None
        self.optimizer: Any = None
        self.loss = 0.0

    def hook(self, name: str, *values: Any, default: Any = None) -> Any:
        """Return what the task's function says, or `default` when it has none of that name."""
        function = getattr(tasks, name, None)
        return default if function is None else function(self, *values)


class Samples:
    """Samples made from their index, the same on every rank."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __len__(self) -> int:
        return int(self.job.options["batch"]) * self.job.world * (self.job.steps + 2)

    def __getitem__(self, index: int) -> Any:
        if (given := self.job.hook("read", index)) is not None:
            return given
        x = torch.randn(16, generator=torch.Generator().manual_seed(index))
        return x, x.sum().unsqueeze(0)


class Net(torch.nn.Module):  # type: ignore[misc]
    """Three layers, and an auxiliary head that takes part with weight 0."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self.body = torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU()
        )
        self.head, self.aux = torch.nn.Linear(32, 1), torch.nn.Linear(32, 1)

    def forward(self, x: Any) -> Any:
        """Return the prediction."""
        hidden = self.body(x)
        given = self.job.hook("forward", self, hidden)
        return self.head(hidden) + 0.0 * self.aux(hidden) if given is None else given


def main() -> None:
    """Train, evaluate and save as the options say."""
    job = Job()
    form = f"%(asctime)s [rank{job.rank}] %(levelname)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stderr)
    job.hook("start")
    limit = timedelta(seconds=float(job.options["timeout_s"]))
    torch.distributed.init_process_group("gloo", timeout=limit)
    if job.options["records"]:
        threading.Thread(target=answer, args=(job,), name="recorder", daemon=True).start()
    build(job)
    job.log.info("start world_size=%d steps=%d pid=%d", job.world, job.steps, os.getpid())
    job.hook("ready")
    train(job)
    torch.distributed.barrier()
    if job.options["records"]:
        record(job)
    job.log.info("training finished after %d steps", job.step)
    job.hook("finish")
    torch.distributed.destroy_process_group()


def build(job: Job) -> None:
    """Make model and optimizer, and load a checkpoint where one is named."""
    torch.manual_seed(0)
    job.net = Net(job)
    if job.options["resume"]:
        job.log.info("loading checkpoint %s", job.options["resume"])
        job.net.load_state_dict(torch.load(job.options["resume"]))
    job.model = torch.nn.parallel.DistributedDataParallel(job.net)
    job.optimizer = torch.optim.SGD(job.model.parameters(), lr=0.01)


def batches(job: Job) -> Any:
    """Return the batches of this rank."""
    data = Samples(job)
    sampler = torch.utils.data.DistributedSampler(data, job.world, job.rank, shuffle=False)
    return torch.utils.data.DataLoader(
        data,
        batch_size=int(job.options["batch"]),
        sampler=sampler,
        num_workers=int(job.options["workers"]),
        multiprocessing_context="fork" if job.options["workers"] else None,
    )


def train(job: Job) -> None:
    """Run the steps."""
    for x, y in batches(job):
        if job.step >= job.steps:
            break
        job.hook("on_step", job.step)
        loss = ((job.model(x) - y) ** 2).mean()
        loss = job.hook("on_loss", job.step, loss, default=loss)
        job.optimizer.zero_grad()
        loss.backward()
        job.optimizer.step()
        job.loss = loss.item()
        job.log.info("step %d loss %.4f", job.step, job.loss)
        job.step += 1
        time.sleep(float(job.options["step_s"]))
        if due(job, "save_every"):
            save_checkpoint(job)
        if due(job, "evaluate_every"):
            evaluate(job)


def due(job: Job, option: str) -> bool:
    """Return whether what happens every so many steps happens now."""
    every = int(job.options[option])
    return every > 0 and job.step % every == 0


def save_checkpoint(job: Job) -> None:
    """Rank 0 writes, the others wait for it."""
    path = Path("checkpoints") / f"step{job.step}.pt"
    if job.rank == 0:
        path.parent.mkdir(exist_ok=True)
        job.log.info("saving checkpoint at step %d to %s", job.step, path)
        job.hook("save", path)
        torch.save(job.net.state_dict(), path)
        job.log.info("saved checkpoint at step %d", job.step)
    torch.distributed.barrier()


def evaluate(job: Job) -> None:
    """Average the loss over the ranks."""
    job.log.info("evaluation at step %d", job.step)
    value = job.hook("evaluate", default=None)
    if value is None:
        value = torch.tensor([job.loss, 1.0])
        torch.distributed.all_reduce(value)
    job.log.info("evaluation done at step %d: loss %.4f", job.step, float(value[0] / value[1]))


def answer(job: Job) -> None:
    """Leave a flight record when a file asks for it: the main thread may be stuck by then."""
    while not Path("records.request").exists():
        time.sleep(0.5)
    record(job)


def record(job: Job) -> None:
    """Write which collectives this rank has entered."""
    folder = Path("records")
    folder.mkdir(exist_ok=True)
    text = torch._C._distributed_c10d._dump_fr_trace_json(True, False)
    text = text.decode() if isinstance(text, bytes) else text
    (folder / f"fr_trace_rank_{job.rank}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
