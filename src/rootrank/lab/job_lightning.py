"""A tiny model trained with Lightning, which starts its ranks itself. Copied as train.py. Hook: read."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    lightning: Any
    tasks: Any
    torch: Any
else:
    import lightning
    import lightning.pytorch.strategies
    import tasks
    import torch


class Samples:
    """Random vectors."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        hook = getattr(tasks, "read", None)
        if hook:
            # The process that starts the others is rank 0 and is given no number.
            hook(int(os.environ.get("LOCAL_RANK", "0")), index)
        return torch.randn(16)


class Model(lightning.LightningModule):  # type: ignore[misc]
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def training_step(self, batch: Any, index: int) -> Any:
        """Return the loss of a batch."""
        loss = self.layer(batch).pow(2).mean()
        self.log("loss", loss, sync_dist=True, prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        """Return plain gradient descent."""
        return torch.optim.SGD(self.parameters(), 0.01)


def main() -> None:
    """Train for eight steps on two processes."""
    strategy = lightning.pytorch.strategies.DDPStrategy(
        process_group_backend="gloo", timeout=timedelta(seconds=25)
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=strategy,
        max_steps=8,
        log_every_n_steps=1,
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(Model(), torch.utils.data.DataLoader(Samples(), batch_size=4))


if __name__ == "__main__":
    main()
