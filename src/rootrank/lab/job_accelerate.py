"""A tiny language model trained with accelerate. Copied as train.py. Hook: read(rank, index)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    accelerate: Any
    tasks: Any
    torch: Any
    transformers: Any
else:
    import accelerate
    import tasks
    import torch
    import transformers


class Samples:
    """Random tokens."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        hook = getattr(tasks, "read", None)
        if hook:
            hook(self.rank, index)
        return torch.randint(0, 64, (16,))


def main() -> None:
    """Train for one epoch."""
    patience = accelerate.InitProcessGroupKwargs(timeout=timedelta(seconds=25))
    acc = accelerate.Accelerator(cpu=True, kwargs_handlers=[patience])
    torch.manual_seed(0)
    shape = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 64, "n_positions": 32}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = torch.utils.data.DataLoader(Samples(acc.process_index), batch_size=4)
    model, optimizer, loader = acc.prepare(model, optimizer, loader)
    for step, tokens in enumerate(loader):
        loss = model(input_ids=tokens, labels=tokens).loss
        acc.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        acc.print(f"step {step} loss {loss.item():.4f}", flush=True)
    acc.wait_for_everyone()
    acc.print("training finished", flush=True)
    acc.end_training()


if __name__ == "__main__":
    main()
