"""Which commands count as reading only."""

from __future__ import annotations

import pytest

from rootrank.knowledge.commands import writes


@pytest.mark.parametrize(
    "command",
    [
        "",
        "dmesg -T | grep -i 'killed process'",
        "awk '$3 > 5' f",
        "ls 2>/dev/null; cat x 2>&1 | head",
        "nvidia-smi --query-gpu=name --format=csv",
        "kubectl exec POD -- cat /sys/fs/cgroup/memory.max",
        "py-spy dump --pid PID",
        "find . -name '*.err' -exec tail -n 40 {} + 2>/dev/null",
        "scontrol show job 5",
        "grep -H . <path>",
        "grep kill log.txt",
        'python -c "import torch; print(1 > 0)"',
        "journalctl -k --no-pager | grep -E 'rm|kill'",
    ],
)
def test_reads(command: str) -> None:
    """Words inside quotes, comparisons and writing to nowhere change nothing."""
    assert writes(command) is None


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("rm -rf x", "rm"),
        ("/bin/rm x", "rm"),
        ("cat a > b", ">"),
        ("ls >> f", ">"),
        ("ls | tee f", "tee"),
        ("sudo nvidia-smi -r", "nvidia-smi -r"),
        ("ssh node-1 'rm x'", "rm"),
        ("ssh node-1 reboot", "reboot"),
        ("for p in $(pgrep python); do kill $p; done", "kill"),
        ("echo w > /proc/sysrq-trigger", ">"),
        ("scontrol update NodeName=x State=DRAIN", "scontrol update"),
        ("kubectl delete pod x", "kubectl delete"),
        ("find . -exec rm {} +", "rm"),
        ("find . -delete", "find -delete"),
        ("CUDA_VISIBLE_DEVICES=0 timeout 5 dd if=a of=b", "dd"),
        ("mkfs.ext4 /dev/sda", "mkfs.ext4"),
        ("sysctl -w vm.x=1", "sysctl -w"),
        ("unbalanced ' ; rm x", "rm"),
    ],
)
def test_writes(command: str, word: str) -> None:
    """The word that may change something is named."""
    assert word == writes(command)
