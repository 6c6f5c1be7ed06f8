"""Launch commands and batch scripts: what never starts, waits for ever, or leaves no trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rootrank.preflight.finding import MAY, NOTE, WILL, Finding, rule
from rootrank.preflight.job import Job
from rootrank.preflight.shell import Command, Script

_RUN = "torch 2.13.0 distributed/run.py"

ENDPOINT = rule(
    "torchrun-endpoint", "several nodes meet at an address that all can reach",
    "master-unreachable", f"{_RUN} (--master-addr defaults to 127.0.0.1; get_rdzv_endpoint)",
)  # fmt: skip
NODE_RANK = rule(
    "torchrun-node-rank", "with a static rendezvous each node has its own rank",
    "ranks-never-joined", f"{_RUN} (--node-rank defaults to 0; static rendezvous)",
)  # fmt: skip
STANDALONE = rule(
    "torchrun-standalone", "--standalone is for one node", "ranks-never-joined",
    f"{_RUN} --standalone (c10d at localhost:0)",
)  # fmt: skip
VALUES = rule(
    "torchrun-values", "nnodes, nproc-per-node and ports are values that torchrun takes",
    "bad-command-line", f"{_RUN} parse_min_max_nnodes, determine_local_world_size",
)  # fmt: skip
LOGS = rule(
    "torchrun-logs", "each rank's output is kept apart", None,
    "torch.distributed.run: --log-dir, --redirects, --tee",
)  # fmt: skip
RECORD = rule(
    "torchrun-record", "the script's main function carries @record", "process-exit-nonzero",
    "torch.distributed.elastic.multiprocessing.errors.record (error_file: <N/A> without it)",
)  # fmt: skip
NESTED = rule(
    "launcher-nested", "one torchrun per node, not one per task", "port-in-use",
    "sbatch(1) --ntasks-per-node; torch.distributed.run starts nproc-per-node processes itself",
)  # fmt: skip
ONE_NODE = rule(
    "sbatch-one-node", "a job on several nodes starts its launcher through srun",
    "ranks-never-joined", "sbatch(1): the batch script runs once, on the first node",
)  # fmt: skip
KILL = rule(
    "srun-kill-on-bad-exit", "a failed task ends the step", "rank-missing-from-collective",
    "srun(1) --kill-on-bad-exit; slurm.conf(5) KillOnBadExit (default 0)",
)  # fmt: skip
SBATCH_KILL = rule(
    "sbatch-unknown-option", "no #SBATCH option that only srun has", "slurm-submission-rejected",
    "sbatch(1), srun(1)",
)  # fmt: skip
CPUS = rule(
    "srun-cpus-per-task", "srun is told the CPUs per task itself", "throughput-drop",
    "Slurm 22.05 release notes: srun no longer reads SLURM_CPUS_PER_TASK",
)  # fmt: skip
HOSTFILE = rule(
    "deepspeed-hostfile", "the hostfile exists and has slots for the processes asked for",
    "hostfile-mismatch", "deepspeed 0.19.8 launcher/runner.py fetch_hostfile, parse_inclusion_exclusion",
)  # fmt: skip

_LOCAL = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[?::1\]?|0\.0\.0\.0)(?::\d*)?\Z")


def check(job: Job) -> Iterator[Finding]:
    """Yield what is wrong with how the job is started."""
    for script, command in job.commands("torchrun"):
        yield from _torchrun(script, command)
        yield from _kept(script, command)
    for script, command in job.commands("srun"):
        yield from _srun(job, script, command)
    for script, command in job.commands("deepspeed"):
        yield from _hostfile(script, command)
    for script in job.scripts:
        yield from _batch(script)


def nodes_of(command: Command) -> str:
    """Return the greatest number of nodes as text; "" when not known."""
    if not command.has("nnodes"):
        return "1"
    return (command.value("nnodes") or "").rpartition(":")[2]


def _torchrun(script: Script, command: Command) -> Iterator[Finding]:
    place = script.place(command.line)
    yield from _values(script, command)
    nodes = nodes_of(command)
    if not nodes.isdigit() or int(nodes) < 2:
        return
    if command.has("standalone"):
        yield STANDALONE.found(
            WILL, place, f"--standalone with {nodes} nodes",
            "each node opens its own rendezvous at localhost and waits there for the others.",
            "use --rdzv-backend c10d --rdzv-endpoint HOST:PORT",
        )  # fmt: skip
        return
    endpoint = command.value("rdzv-endpoint", "master-addr")
    told = command.has("rdzv-endpoint", "master-addr")
    if (told and endpoint and _LOCAL.match(endpoint)) or (
        not told and not _from_environment(script)
    ):
        yield ENDPOINT.found(
            WILL, place, f"{nodes} nodes meet at {endpoint or '127.0.0.1 (the default)'}",
            "every node then waits at its own address; MASTER_ADDR in the environment is not read "
            "by torchrun.",
            "give --rdzv-backend c10d --rdzv-endpoint FIRST_NODE:29500 (or --master-addr)",
        )  # fmt: skip
    static = command.value("rdzv-backend") in (None, "static") and not command.has("rdzv-backend")
    if (static or command.value("rdzv-backend") == "static") and not command.has("node-rank"):
        if "PET_NODE_RANK" not in script.exports:
            yield NODE_RANK.found(
                WILL, place, f"{nodes} nodes, static rendezvous, no --node-rank",
                "the rank of each node is then 0, and the others are waited for.",
                "add --node-rank $SLURM_NODEID (per node), or --rdzv-backend c10d",
            )  # fmt: skip


def _from_environment(script: Script) -> bool:
    return bool({"PET_MASTER_ADDR", "PET_RDZV_ENDPOINT"} & set(script.exports))


_COUNT = re.compile(r"\d{1,6}\Z|(?:gpu|cpu|auto|xpu|npu|hpu|mps)\Z")


def _values(script: Script, command: Command) -> Iterator[Finding]:
    place = script.place(command.line)
    each = command.value("nproc-per-node")
    if each is not None and (not _COUNT.match(each) or each == "0"):
        yield VALUES.found(
            WILL, place, f"--nproc-per-node {each}",
            "torchrun takes a number, gpu, cpu or auto.", "give the processes of one node",
        )  # fmt: skip
    nodes = command.value("nnodes")
    if nodes is not None:
        low, _, high = nodes.partition(":")
        good = (
            low.isdigit()
            and int(low) > 0
            and (not high or (high.isdigit() and int(high) >= int(low)))
        )
        if not good:
            yield VALUES.found(
                WILL, place, f"--nnodes {nodes}", "torchrun takes N or MIN:MAX, 0 < MIN ≤ MAX.",
                "give the number of nodes",
            )  # fmt: skip
    port = (command.value("rdzv-endpoint") or "").rpartition(":")[2] or command.value("master-port")
    if port is not None and port.isdigit() and not 0 <= int(port) < 65536:
        yield VALUES.found(
            WILL, place, f"port {port}", "ports end at 65535.", "give a free port above 1024",
        )  # fmt: skip


def _kept(script: Script, command: Command) -> Iterator[Finding]:
    place = script.place(command.line)
    if not command.has("log-dir", "tee", "redirects", "logs-specs"):
        yield LOGS.found(
            NOTE, place, "no --log-dir, --redirects or --tee",
            "the output of all ranks is then one stream without names; after a failure it is not "
            "known which rank said what.",
            "add --log-dir logs --redirects 3 --tee 3",
        )  # fmt: skip
    source = _source(script, command)
    if source is not None and not re.search(r"@record\b|errors\.record\b", source):
        yield RECORD.found(
            NOTE, place, f"{command.script} has no @record",
            "without it a failing rank leaves no error file, and torchrun prints "
            "\"error_file: <N/A>\" in place of its traceback.",
            "decorate main() with torch.distributed.elastic.multiprocessing.errors.record",
        )  # fmt: skip


def _source(script: Script, command: Command) -> str | None:
    """Return the text of the training script, when it is here and small."""
    name = command.script
    if not name.endswith(".py") or "$" in name:
        return None
    for path in (Path(name), Path(script.folder) / name):
        try:
            if path.is_file() and path.stat().st_size < 1 << 20:
                return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return None


# --------------------------------------------------------------------------- Slurm


def _srun(job: Job, script: Script, command: Command) -> Iterator[Finding]:
    place = script.place(command.line)
    asked = command.value("kill-on-bad-exit")
    if (
        not command.has("kill-on-bad-exit") or asked == "0"
    ) and "SLURM_KILL_BAD_EXIT" not in script.exports:
        if job.world != 1 and command.script not in ("hostname", "nvidia-smi", "echo", "bash"):
            yield KILL.found(
                MAY, place, "srun without --kill-on-bad-exit=1",
                "when one task fails, Slurm by default lets the others run: they wait in their "
                "next collective until a watchdog or the time limit.",
                "add --kill-on-bad-exit=1 (-K)",
            )  # fmt: skip
    cpus = "cpus-per-task" in script.sbatch
    if cpus and not command.has("cpus-per-task") and "SRUN_CPUS_PER_TASK" not in script.exports:
        yield CPUS.found(
            MAY, place, "#SBATCH --cpus-per-task is not passed to srun",
            "since Slurm 22.05 srun does not take it from the batch job: each task may get one CPU, "
            "and data loading starves.",
            "add --cpus-per-task=$SLURM_CPUS_PER_TASK, or export SRUN_CPUS_PER_TASK",
        )  # fmt: skip


def _batch(script: Script) -> Iterator[Finding]:
    for name in ("kill-on-bad-exit", "label", "unbuffered"):
        if name in script.sbatch:
            yield SBATCH_KILL.found(
                MAY, script.place(script.sbatch[name][1]), f"#SBATCH --{name}",
                "that is an option of srun; sbatch refuses options it does not know.",
                f"give --{name} to srun",
            )  # fmt: skip
    nodes, tasks = script.batch("nodes") or "", script.batch("ntasks-per-node") or ""
    for command in script.commands:
        if command.launcher not in ("torchrun", "accelerate"):
            continue
        place = script.place(command.line)
        under = "srun" in command.inside
        spread = under or {"remote", "mpirun"} & set(command.inside)
        if nodes.isdigit() and int(nodes) > 1 and not spread:
            yield ONE_NODE.found(
                WILL if nodes_of(command) == nodes else MAY, place,
                f"{command.launcher} without srun in a job of {nodes} nodes",
                "sbatch runs the script once, on the first node; the other nodes start nothing and "
                "the rendezvous waits for them.",
                f"write srun --ntasks-per-node=1 {command.launcher} …",
            )  # fmt: skip
        own = _own_tasks(script, command)
        if (
            under
            and (own or tasks).isdigit()
            and int(own or tasks) > 1
            and command.launcher == "torchrun"
        ):
            yield NESTED.found(
                WILL, place, f"srun starts {own or tasks} torchrun on each node",
                "each of them starts a whole node's processes: ports and GPUs collide.",
                "set --ntasks-per-node=1 for torchrun, or start python itself from srun",
            )  # fmt: skip


def _own_tasks(script: Script, command: Command) -> str | None:
    """Return what the srun around a command says of tasks per node."""
    for other in script.commands:
        if other.launcher == "srun" and other.line == command.line:
            return other.value("ntasks-per-node")
    return None


# --------------------------------------------------------------------------- DeepSpeed launcher


def _hostfile(script: Script, command: Command) -> Iterator[Finding]:
    name = command.value("hostfile", "H")
    if not name:
        return
    place = script.place(command.line, "--hostfile")
    try:
        with Path(name).open("rb") as stream:
            text = stream.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        yield HOSTFILE.found(
            MAY, place, f"{name} cannot be read",
            "the launcher then falls back to this machine alone, with a warning.",
            "correct the path",
        )  # fmt: skip
        return
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        slots = re.fullmatch(r"slots=(\d{1,6})", words[1]) if len(words) == 2 else None
        fault = "" if slots else f'not "HOST slots=N": {line.strip()[:60]}'
        fault = f"{words[0]} stands twice" if words[0] in seen else fault
        seen.add(words[0])
        if fault:
            yield HOSTFILE.found(
                WILL, place, f"{name}:{number}: {fault}",
                "the launcher raises ValueError for such a line.", "write one line per host",
            )  # fmt: skip
