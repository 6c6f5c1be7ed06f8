"""Launch scripts, environment, this machine, versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rootrank.preflight import shell
from rootrank.preflight.host import Gpu, Lock, Package, installed, parse_gpus
from rootrank.preflight.readers import Document
from rootrank.preflight.run import check
from rootrank.preflight.versions import satisfies
from tests.preflight.helpers import GIB, FakeHost, checked, only, said

SOUND = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
srun --kill-on-bad-exit=1 torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 \\
    --rdzv-backend c10d --rdzv-endpoint $MASTER_ADDR:29500 --log-dir logs --tee 3 train.py --lr 1e-4
"""


def parsed(text: str) -> shell.Script:
    """Return the parsed launch text."""
    return shell.parse(Document(name="job.sh", kind="launch", text=text))


def test_a_script_as_commands() -> None:
    """Continued lines, literal variables and launchers inside launchers; the unknown stays None."""
    script = parsed(SOUND)
    srun, torchrun = script.commands
    assert ("srun", "torchrun") == (srun.launcher, torchrun.launcher)
    assert "2" == torchrun.value("nnodes")
    assert torchrun.value("rdzv-endpoint") is None
    assert ("train.py", ("--lr", "1e-4")) == (torchrun.script, torchrun.rest)
    assert ("srun",) == torchrun.inside
    assert 6 == torchrun.line


@pytest.mark.parametrize(
    "text",
    [
        "bash -c 'torchrun --nproc_per_node 4 t.py'",
        "FOO=1 python3 -m torch.distributed.run --nproc-per-node=4 t.py",
        "N=4; exec torchrun --nproc-per-node $N t.py",
        "cd x && nohup torchrun --nproc-per-node 4 t.py > log 2>&1 &",
        "singularity exec --nv img.sif torchrun --nproc-per-node 4 t.py",
    ],
)
def test_launchers_are_found_where_scripts_hide_them(text: str) -> None:
    """In quotes, behind assignments, wrappers and operators."""
    (command,) = [c for c in parsed(text).commands if c.launcher == "torchrun"]
    assert 4 == command.count("nproc-per-node")


def test_a_sound_script_has_no_fault(tmp_path: Path) -> None:
    """Nothing is claimed about what cannot be known before it runs."""
    report = checked(tmp_path, {"j.slurm": SOUND})
    assert (16, 2, 8) == (report.world, report.nodes, report.per_node)
    assert 0 == report.code, report.findings


@pytest.mark.parametrize(
    ("text", "rule", "severity"),
    [
        ("torchrun --nnodes 2 --nproc-per-node 8 t.py", "torchrun-endpoint", "will-fail"),
        ("torchrun --nnodes 2 --master-addr localhost --node-rank 0 t.py", "torchrun-endpoint", "will-fail"),
        ("torchrun --nnodes 2 --master-addr n0 t.py", "torchrun-node-rank", "will-fail"),
        ("torchrun --nnodes 2 --standalone t.py", "torchrun-standalone", "will-fail"),
        ("torchrun --nproc-per-node 0 t.py", "torchrun-values", "will-fail"),
        ("torchrun --nnodes 3:2 --rdzv-backend c10d --rdzv-endpoint a:1 t.py", "torchrun-values", "will-fail"),
        ("torchrun --nproc-per-node 2 t.py", "torchrun-logs", "note"),
        ("srun -N2 python t.py", "srun-kill-on-bad-exit", "may-fail"),
        ("#SBATCH --cpus-per-task=8\nsrun -K python t.py", "srun-cpus-per-task", "may-fail"),
        ("#SBATCH --kill-on-bad-exit=1\nsrun -K python t.py", "sbatch-unknown-option", "may-fail"),
        ("#SBATCH --ntasks-per-node=8\nsrun -K torchrun --nproc-per-node 8 t.py", "launcher-nested", "will-fail"),
        ("#SBATCH --nodes=2\ntorchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint a:1 t.py", "sbatch-one-node", "will-fail"),
        ("deepspeed --hostfile /none t.py", "deepspeed-hostfile", "may-fail"),
        ("export CUDA_LAUNCH_BLOCKING=1\npython t.py", "debug-left-on", "note"),
        ("export NCCL_DEBUG=TRACE\npython t.py", "debug-left-on", "note"),
        ("export TORCH_NCCL_ASYNC_ERROR_HANDLING=0\npython t.py", "watchdog-off", "may-fail"),
        ("export NCCL_BLOCKING_WAIT=1\npython t.py", "variable-renamed", "note"),
        ("export MASTER_ADDR=127.0.0.1\nsrun -K -N 2 python t.py", "master-address", "will-fail"),
        ("export MASTER_PORT=99999\npython t.py", "master-port", "will-fail"),
        ("export NCCL_SOCKET_IFNAME=lo\nsrun -K -N2 -n4 python t.py", "socket-loopback", "will-fail"),
        ("export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc-per-node 4 t.py", "devices", "will-fail"),
    ],
)  # fmt: skip
def test_launches_that_go_wrong(tmp_path: Path, text: str, rule: str, severity: str) -> None:
    """Each is named by its rule."""
    report = checked(tmp_path, {"j.sh": text + "\n"}, nodes=2 if "-N" in text else None)
    assert severity == only(report, rule).severity.value


def test_a_command_line_is_a_configuration_too() -> None:
    """Typed in quotes."""
    report = check(["torchrun --nnodes 2 --nproc-per-node 8 train.py"])
    assert 16 == report.world
    assert "torchrun-endpoint" in said(report, "will-fail")


def test_record_is_looked_for_in_the_script(tmp_path: Path) -> None:
    """The training script is read when it is there."""
    (tmp_path / "t.py").write_text("def main(): ...\n")
    command = "torchrun --nproc-per-node 2 --log-dir l t.py\n"
    assert "torchrun-record" in said(checked(tmp_path, {"j.sh": command}))
    (tmp_path / "t.py").write_text("@record\ndef main(): ...\n")
    assert "torchrun-record" not in said(checked(tmp_path, {"j.sh": command}))


# --------------------------------------------------------------------------- this machine

RUN = "torchrun --nproc-per-node 4 --log-dir l t.py\n"


@pytest.mark.parametrize(
    ("facts", "rule", "severity"),
    [
        ({"gpus": (Gpu(name="g", memory_bytes=GIB),) * 2}, "devices", "will-fail"),
        ({"gpus": ()}, "devices", "note"),
        ({"shm_bytes": 64 << 20}, "shared-memory", "may-fail"),
        ({"shm_bytes": 512 << 20}, "shared-memory", "note"),
        ({"limits": {"memlock": 65536}, "rdma": {"mlx5_0": 4}}, "memlock", "may-fail"),
        ({"limits": {"nofile": 256}}, "open-files", "note"),
        ({"limits": {"as": 64 * GIB}}, "address-space", "may-fail"),
        ({"locks": (Lock(path="/c/op/lock", age_s=9e4),)}, "jit-lock", "may-fail"),
        ({"environment": {"NCCL_SOCKET_IFNAME": "ib"}, "interfaces": ("lo", "eth0")}, "socket-interface", "will-fail"),
        ({"environment": {"GLOO_SOCKET_IFNAME": "eth"}, "interfaces": ("lo", "eth0")}, "socket-interface", "will-fail"),
        ({"environment": {"NCCL_IB_DISABLE": "1"}, "rdma": {"mlx5_0": 4}}, "nccl-ib-disable", "may-fail"),
        ({"environment": {"NCCL_IB_HCA": "mlx4"}, "rdma": {"mlx5_0": 4}}, "nccl-ib-hca", "may-fail"),
        ({"environment": {"NCCL_IB_GID_INDEX": "7"}, "rdma": {"mlx5_0": 4}}, "nccl-gid-index", "may-fail"),
        ({"environment": {"MASTER_ADDR": "nowhere"}}, "master-address", "will-fail"),
        ({"environment": {"MASTER_PORT": "29500"}, "busy": {29500}}, "master-port", "will-fail"),
    ],
)  # fmt: skip
def test_what_a_machine_lacks(
    tmp_path: Path, facts: dict[str, Any], rule: str, severity: str
) -> None:
    """Facts of a made-up machine."""
    report = checked(tmp_path, {"j.sh": RUN}, FakeHost(**facts))
    assert severity == only(report, rule).severity.value


@pytest.mark.parametrize(
    "facts",
    [
        {"gpus": None, "shm_bytes": None, "interfaces": None, "addresses": None},
        {"gpus": (Gpu(name="g", memory_bytes=80 * GIB),) * 4, "shm_bytes": 16 * GIB},
        {"environment": {"NCCL_SOCKET_IFNAME": "^docker"}, "interfaces": ("lo", "eth0", "docker0")},
        {"environment": {"NCCL_SOCKET_IFNAME": "=eth0"}, "interfaces": ("lo", "eth0")},
        {"locks": (Lock(path="/c/op/lock", age_s=30),), "compilers": 3},
        {"limits": {"memlock": None, "nofile": 1 << 20, "as": None}},
    ],
)
def test_a_sound_or_unknown_machine_is_not_blamed(tmp_path: Path, facts: dict[str, Any]) -> None:
    """Unknown is not a fault."""
    report = checked(tmp_path, {"j.sh": RUN}, FakeHost(**facts))
    assert [] == said(report, "will-fail") + said(report, "may-fail")


def test_a_name_that_is_loopback_matters_on_several_nodes(tmp_path: Path) -> None:
    """gloo would publish it to the peers."""
    host = FakeHost(hostname="n0", addresses=("127.0.1.1",))
    assert "hostname-loopback" not in said(checked(tmp_path, {"j.sh": RUN}, host))
    assert "hostname-loopback" in said(checked(tmp_path, {"j.slurm": SOUND}, host), "may-fail")


def test_precision_and_hardware(tmp_path: Path) -> None:
    """bf16 may be emulated before compute capability 8.0."""
    host = FakeHost(gpus=parse_gpus("Tesla V100-SXM2-32GB, 32768, 7.0\n"))
    report = checked(tmp_path, {"t.json": {"output_dir": "o", "bf16": True}}, host)
    assert "7.0" in only(report, "precision-hardware").fault


def test_a_timeout_shorter_than_the_checkpoint(tmp_path: Path) -> None:
    """The time of a checkpoint is the user's to give."""
    args = {"output_dir": "o", "ddp_timeout": 600}
    report = checked(tmp_path, {"t.json": args}, checkpoint_s=900)
    assert "ddp_timeout is 600 s" in only(report, "timeout-checkpoint").fault
    assert "timeout-checkpoint" not in said(checked(tmp_path, {"t.json": args}, checkpoint_s=60))


# --------------------------------------------------------------------------- versions


@pytest.mark.parametrize(
    ("versions", "fails"),
    [
        ({"torch": "2.2.1+cu121", "numpy": "2.0.0"}, True),
        ({"torch": "2.13.0+cpu", "numpy": "2.4.6"}, False),
        ({"deepspeed": "0.14.0", "torch": "2.4.0"}, True),
        ({"deepspeed": "0.9.5", "pydantic": "2.5.2"}, True),
        ({"transformers": "5.1.0", "accelerate": "1.0.1"}, True),
    ],
)
def test_known_pairs(tmp_path: Path, versions: dict[str, str], fails: bool) -> None:
    """Pairs that a public issue tells of."""
    packages = {n: Package(name=n, version=v) for n, v in versions.items()}
    report = checked(tmp_path, {"j.sh": RUN}, FakeHost(packages=packages))
    assert fails is ("version-pair" in said(report))


@pytest.mark.parametrize(
    ("version", "spec", "met"),
    [
        ("2.13.0+cpu", ">=2.0.0", True), ("1.26.4", ">=2", False), ("2.0", "==2.0.0", True),
        ("0.23.5", "<0.24.0,>=0.23.1", True), ("0.24.0", "<0.24.0,>=0.23.1", False),
        ("1.4.9", "~=1.4.2", True), ("1.5.0", "~=1.4.2", False), ("2.1", "!=2.1.*", False),
        ("weird", ">=1", False), ("1.0", "", True), ("1.0", "@ https://x", True),
    ],
)  # fmt: skip
def test_specifiers(version: str, spec: str, met: bool) -> None:
    """PEP 440 as far as Requires-Dist uses it."""
    assert met is satisfies(version, spec)


def test_declared_requirements_are_read_without_importing(tmp_path: Path) -> None:
    """From dist-info; extras and markers are left alone."""
    for name, version, requires in (
        ("transformers", "5.24.0", "tokenizers<0.24.0,>=0.23.1"),
        ("tokenizers", "0.21.0", "numpy; extra == 'x'"),
    ):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nRequires-Dist: {requires}\n\ntext\n")
    host = FakeHost(packages=installed([str(tmp_path)]))
    report = checked(tmp_path, {"j.sh": RUN}, host)
    assert "installed is 0.21.0" in only(report, "version-requirement").fault
