"""Files that are huge, binary, nested, repeated, endless or no configuration at all."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from rootrank.errors import InputError
from rootrank.preflight.readers import parse, read
from tests.preflight.helpers import checked, only, said

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.json", "[" * 100_000, "nested"),
        ("a.json", '{"fp16":' * 100 + "1" + "}" * 100, "nested"),
        ("a.json", '{"zero_optimization": ', "not JSON"),
        ("a.json", "[1, 2]", "no object"),
        ("a.json", '{"something": "else"}', "not recognised"),
        ("a.json", "", "not JSON"),
        ("a.json", '{"a": "' + '\\"' * 200_000, "not JSON"),
        ("a.json", '{"a": ' + "9" * 10_000 + "}", "not JSON|not recognised"),
        ("a.yaml", "[" * 5000, "nested"),
        ("a.yaml", BOMB, "aliases"),
        ("a.yaml", "a: [1\nb: }", "not YAML"),
        ("a.yaml", "- 1\n- 2\n", "no mapping"),
        ("a.yaml", "trainer: !!python/object/apply:os.system [echo]\n", "not recognised"),
    ],
)
def test_text_that_is_no_configuration(name: str, text: str, fault: str) -> None:
    """Each ends in one InputError, quickly."""
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    began = time.monotonic()
    with pytest.raises(InputError, match=fault):
        parse(name, text.encode())
    assert 10 > time.monotonic() - began


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """Binary and other encodings are named as such."""
    with pytest.raises(InputError, match="not UTF-8"):
        parse("a.json", b'{"a": "\xff\xfe"}')
    path = tmp_path / "weights.bin"
    path.write_bytes(b"\x00\x01" * 100)
    with pytest.raises(InputError, match="binary"):
        read(str(path))


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    """100 MB of anything are refused by their size."""
    path = tmp_path / "ds.json"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    began = time.monotonic()
    with pytest.raises(InputError, match="95 MiB are no configuration"):
        read(str(path))
    assert 1 > time.monotonic() - began


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFO")
def test_a_pipe_or_a_folder_is_not_opened(tmp_path: Path) -> None:
    """Opening a FIFO would wait for a writer."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(InputError, match="not a file"):
            read(str(tmp_path / name))


def test_repeated_keys_are_named_with_both_lines(tmp_path: Path) -> None:
    """DeepSpeed refuses them."""
    text = '{\n "train_batch_size": 8,\n "fp16": {},\n "train_batch_size": 16\n}\n'
    found = only(checked(tmp_path, {"ds.json": text}), "key-twice")
    assert 2 == found.place.line
    assert "again on line 4" in found.fault


def test_comments_are_read_as_deepspeed_reads_them(tmp_path: Path) -> None:
    """With the warning that others do not."""
    text = '{\n // batch\n "train_batch_size": 8, # all\n "zero_optimization": {"stage": 7,}\n}\n'
    report = checked(tmp_path, {"ds.json": text}, world=2)
    assert {"json-comments", "zero-stage"} == set(said(report))
    assert 4 == only(report, "zero-stage").place.line


def test_numbers_that_are_none(tmp_path: Path) -> None:
    """NaN and infinity are named; nothing is computed with them."""
    text = '{"train_batch_size": 1e999, "optimizer": {"type": "Adam", "params": {"lr": NaN}}, "fp16": {}}'
    report = checked(tmp_path, {"ds.json": text}, world=2)
    assert 2 == said(report).count("number-not-finite")


@pytest.mark.parametrize(
    "text",
    [
        "#SBATCH --nodes='\ntorchrun 'x\n",
        "torchrun " + "--x " * 20_000 + "\n",
        "bash -c \"bash -c 'bash -c torchrun'\"\n" * 500,
        "\\\n" * 50_000 + "torchrun t.py",
        "torchrun --nproc-per-node $((8*$N)) --nnodes ${X:-${Y}} `x` t.py\n",
        "export\nenv\nsrun\ntorchrun\npython -m\n" + "=" * 1000 + "\n",
        "python -m torch.distributed.run\nsrun -\nsrun --\naccelerate launch\n",
    ],
)
def test_scripts_that_are_no_scripts(tmp_path: Path, text: str) -> None:
    """No launch text crashes or delays the check."""
    began = time.monotonic()
    checked(tmp_path, {"j.sh": text})
    assert 5 > time.monotonic() - began


def test_hostile_values_do_not_crash(tmp_path: Path) -> None:
    """Any type may stand anywhere."""
    odd = ['"x"', "[]", "{}", "null", "true", "-1", "1e308", "[[]]", '{"enabled": {}}', '""']
    keys = (
        "train_batch_size zero_optimization fp16 optimizer pipeline tensor_parallel output_dir "
        "distributed_type num_processes num_machines gpu_ids fsdp_config deepspeed_config deepspeed "
        "trainer hidden_size num_hidden_layers ddp_timeout parallelism_config eval_steps"
    ).split()
    for value in odd:
        for chosen in (
            keys[:6],
            keys[6:7] + keys[11:14],
            keys[7:13],
            keys[14:15],
            keys[15:17],
            keys,
        ):
            body = ", ".join(f'"{key}": {value}' for key in chosen)
            try:
                report = checked(tmp_path, {"c.json": "{" + body + "}"}, world=3, params=1e9)
            except InputError:
                continue
            assert report.code in (0, 1, 2, 3)
