"""A tiny language model trained with the transformers Trainer. Copied as train.py. Hook: read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    tasks: Any
    torch: Any
    transformers: Any
else:
    import tasks
    import torch
    import transformers


class Samples:
    """Random tokens."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Any]:
        hook = getattr(tasks, "read", None)
        if hook:
            hook(int(os.environ["RANK"]), index)
        tokens = torch.randint(0, 64, (16,))
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    """Train for eight steps."""
    shape = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 64, "n_positions": 32}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))
    arguments = transformers.TrainingArguments(
        "out",
        per_device_train_batch_size=4,
        max_steps=8,
        logging_steps=1,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        ddp_backend="gloo",
        ddp_timeout=25,
    )
    transformers.Trainer(model, arguments, train_dataset=Samples()).train()


if __name__ == "__main__":
    main()
