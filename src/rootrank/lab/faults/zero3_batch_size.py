"""The three batch settings of DeepSpeed do not multiply."""

from __future__ import annotations

from rootrank.lab.fault import ALL, START, Fault, Truth

FAULT = Fault(
    about="train_batch_size is not micro batch x accumulation x ranks",
    truth=Truth(kind=START, ranks=ALL, entries=("deepspeed-batch-size-mismatch",)),
    job="deepspeed",
    ranks=2,
    options={"train_batch": 6},
)
