"""Every probe: on the real thing where this machine has it, and its failures on fakes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rootrank.live.command import Runner
from rootrank.live.probes import Context, cluster, gpu, host, process, records, software, stacks
from rootrank.live.procfs import MAX_THREADS, Proc
from rootrank.live.ranks import Process, Rank, find
from rootrank.live.store import Store

from .jobs import LOCK, MANY, SLEEP, SPIN, Running, await_words, fake, job

SPY = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
needs_spy = pytest.mark.skipif(SPY is None, reason="py-spy is not installed")


def context(running: Running, **changes: object) -> Context:
    """Return what the probes are given for a job of ours."""
    proc = Proc()
    return replace(
        Context(
            proc=proc, job=find(proc, run_id=running.run_id), store=Store("h"), runner=Runner(),
            interval_s=0.2, began_s=time.time() - 60,
        ),
        **changes,  # type: ignore[arg-type]
    )  # fmt: skip


def looked(ctx: Context, pause_s: float = 0.3) -> list[dict[str, object]]:
    """Look twice, keep both, and return the movements."""
    first = process.look(ctx, full=True)
    time.sleep(pause_s)
    second = process.look(ctx, full=True)
    process.keep(ctx, first, second)
    return [process.movement(a, b) for a, b in zip(first, second, strict=True)]


def text(ctx: Context, file: str) -> str:
    """Return a file of the store."""
    return ctx.store.get(file).decode()


def missing(ctx: Context) -> dict[str, str]:
    """Return what -> reason and remedy."""
    return {
        m["what"]: f"{m['reason']} {m.get('remedy', '')}" for m in ctx.store.seal()[0]["missing"]
    }


# --------------------------------------------------------------------------- /proc


def test_stuck_slow_and_stopped_differ(tmp_path: Path) -> None:
    """Two looks tell a rank that computes from one that waits and one that was stopped."""
    with job(tmp_path, [LOCK, SPIN, SLEEP]) as running:
        os.kill(running.pid(2), signal.SIGSTOP)
        ctx = context(running)
        waits, computes, stopped = looked(ctx)
        assert 0 == waits["cpu_s"]
        assert computes["cpu_s"] > 0  # type: ignore[operator]
        assert ["T", "T"] == stopped["state"]
        assert "State:\tT (stopped)" in text(ctx, "proc_rank2.txt")
        assert "## wchan\ndo_signal_stop" in text(ctx, "proc_rank2.txt")
        assert f"{running.pid(0)} comm=python" in text(ctx, "threads_rank0.txt")


def test_growth_of_logs_is_seen_without_asking_the_file_system(tmp_path: Path) -> None:
    """The position of a descriptor moves with what is written."""
    code = "while True: print('x' * 99, flush=True); time.sleep(0.02)"
    with job(tmp_path, [code, SLEEP]) as running:
        grows, still = looked(context(running))
        log = str(tmp_path / "rank0.log")
        assert grows["written_files"][log] > 0  # type: ignore[index]
        assert {0} == set(still["written_files"].values())  # type: ignore[attr-defined]


def test_many_threads_are_bounded(tmp_path: Path) -> None:
    """Of thousands of threads the first hundreds are listed and all are counted."""
    with job(tmp_path, [MANY], THREADS="3000") as running:
        await_words(tmp_path / "rank0.log", "ready")
        ctx = context(running)
        began = time.monotonic()
        looked(ctx, 0)
        lines = text(ctx, "threads_rank0.txt").splitlines()
        assert time.monotonic() - began < 7
        assert MAX_THREADS + 1 == len(lines)
        assert "3001 threads" in lines[-1]


def test_environment_is_an_allow_list(tmp_path: Path) -> None:
    """What says how the job runs is kept; what may be a secret is not, whatever its name begins with."""
    secret = {"HF_TOKEN": "abc", "MY_DATA": "abc", "WANDB_API_KEY": "abc", "NCCL_AUTH_X": "abc"}
    with job(tmp_path, [SLEEP], NCCL_DEBUG="INFO", **secret) as running:
        ctx = context(running)
        looked(ctx, 0)
        kept = text(ctx, "proc_rank0_env.txt")
        assert "NCCL_DEBUG=INFO\n" in kept
        assert "RANK=0\n" in kept
        assert "abc" not in kept


def test_a_number_that_passed_on_is_another_process(tmp_path: Path) -> None:
    """After PID reuse nothing of the stranger is kept."""
    with job(tmp_path, [SLEEP]) as running:
        ctx = context(running)
        r = ctx.job.ranks[0]
        older = replace(r.process, stat=replace(r.process.stat, start_ticks=1))
        ctx = replace(ctx, job=replace(ctx.job, ranks=(replace(r, process=older),)))
        moved = looked(ctx, 0)
        stacks.first(ctx)
        stacks.second(ctx)
        assert "another process has its number" in str(moved[0]["ended"])
        assert not ctx.store.has("proc_rank0.txt")
        assert not ctx.store.has("pyspy_rank0.json")
        assert "another process" in missing(ctx)["state of rank 0"]


def test_killed_between_the_looks(tmp_path: Path) -> None:
    """The first look is kept, and it is said that the process ended."""
    with job(tmp_path, [SLEEP, SLEEP]) as running:
        ctx = context(running)
        first = process.look(ctx, full=True)
        running.ranks[1].kill()
        running.ranks[1].wait()
        second = process.look(ctx, full=True)
        process.keep(ctx, first, second)
        stacks.second(ctx)
        assert "State:\tS" in text(ctx, "proc_rank1.txt")
        assert "had ended" in str(process.movement(first[1], second[1])["ended"])
        assert "the process had ended" in missing(ctx)["state of rank 1"]


def test_unprivileged(tmp_path: Path) -> None:
    """What may not be read is named with what would help; the rest is there."""
    with job(tmp_path, [SLEEP]) as running:
        ctx = context(running)
        folder = tmp_path / "proc" / str(running.pid(0))
        folder.mkdir(parents=True)
        for name in ("stat", "wchan", "status"):
            (folder / name).write_bytes(Path(f"/proc/{running.pid(0)}/{name}").read_bytes())
        ctx = replace(ctx, proc=Proc(tmp_path / "proc"))
        looked(ctx, 0)
        assert "State:" in text(ctx, "proc_rank0.txt")
        said = missing(ctx)
        assert "run as root" in said["kernel stack of rank 0"]
        assert f"/proc/{running.pid(0)}/io of rank 0" in said


# --------------------------------------------------------------------------- stacks


@needs_spy
def test_stacks_of_every_state(tmp_path: Path) -> None:
    """Real py-spy: a lock, a stopped process, a busy one; none is stopped by it, none hangs it."""
    with job(tmp_path, [LOCK, SLEEP, SPIN]) as running:
        os.kill(running.pid(1), signal.SIGSTOP)
        ctx = context(running)
        stacks.first(ctx)
        stacks.second(ctx)
        for rank in range(3):
            frames = stacks.main_frames(ctx.store.get(f"pyspy_rank{rank}.json"))
            assert frames is not None, missing(ctx)
            assert frames[-1][1].endswith(f"train{rank}.py")
        assert "Thread" in text(ctx, "pyspy_rank1.txt")
        assert "same" == ctx.moving[f"same {running.pid(0)}"]


def test_a_hanging_spy_keeps_the_deadline(
    tmp_path: Path, fakes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked once per rank, ended with its children, and named."""
    monkeypatch.setattr(stacks, "DUMP_S", 0.5)
    fake(fakes, "py-spy", f"echo $$ >> {tmp_path}/asked\nsleep 300 & wait")
    fake(fakes, "pystack", "exit 1")
    with job(tmp_path, [SLEEP, SLEEP]) as running:
        ctx = context(running)
        began = time.monotonic()
        stacks.first(ctx)
        stacks.second(ctx)
        assert time.monotonic() - began < 5
        asked = (tmp_path / "asked").read_text().split()
        assert 2 == len(asked)
        assert not any(Path(f"/proc/{pid}").exists() for pid in asked)
        assert "no answer within" in missing(ctx)["py-spy stack of rank 0"]


def test_what_py_spy_is_asked(tmp_path: Path, fakes: Path) -> None:
    """Never without --nonblocking unless native frames were asked for; signals and native never by default."""
    fake(fakes, "py-spy", f'echo "$@" >> {tmp_path}/asked; echo "[]"')
    with job(tmp_path, [SLEEP]) as running:
        ctx = context(running)
        stacks.first(ctx)
        stacks.second(ctx)
        asked = (tmp_path / "asked").read_text().splitlines()
        assert 3 == len(asked)
        assert all("--nonblocking" in line and "--native" not in line for line in asked)


def test_refused(tmp_path: Path, fakes: Path) -> None:
    """pystack is tried next; the reason names what is missing and how to grant it."""
    fake(fakes, "py-spy", "echo 'Permission Denied: Try running again' >&2; exit 1")
    fake(fakes, "pystack", "echo 'Traceback for thread 1'")
    with job(tmp_path, [SLEEP]) as running:
        ctx = context(running)
        stacks.second(ctx)
        assert "Traceback" in text(ctx, "pystack_rank0.txt")
        assert "(pystack answered)" in missing(ctx)["py-spy stack of rank 0"]


@pytest.mark.parametrize(
    ("uid", "caps", "yama", "reason", "remedy"),
    [
        ("1234", "0", "0", "runs as uid 1234", "as the user of the job"),
        ("me", "0", "1", "ptrace_scope is 1 and CAP_SYS_PTRACE is missing", "sysctl kernel.yama"),
        ("me", "0", "3", "ptrace_scope is 3", "reboot"),
        ("me", "0", "0", "CAP_SYS_PTRACE is missing", "--cap-add SYS_PTRACE"),
        ("me", "80000", "1", "seccomp", "seccomp=unconfined"),
    ],
)
def test_why_it_was_refused(
    tmp_path: Path, uid: str, caps: str, yama: str, reason: str, remedy: str
) -> None:
    """Each obstacle has its own words."""
    uid = str(os.geteuid()) if uid == "me" else uid
    for pid, status in (("7", f"Uid:\t{uid}\t{uid}\n"), ("self", f"CapEff:\t{caps}\n")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "status").write_text(status)
    (tmp_path / "sys/kernel/yama").mkdir(parents=True)
    (tmp_path / "sys/kernel/yama/ptrace_scope").write_text(yama + "\n")
    stat = Proc().stat(os.getpid())
    assert stat is not None
    r = Rank(process=Process(stat=replace(stat, pid=7)), rank=0)
    ctx = Context(proc=Proc(tmp_path), job=None, store=Store("h"), runner=Runner())  # type: ignore[arg-type]
    said = stacks.refusal(ctx, r)
    assert reason in said[0]
    assert remedy in said[1]


HANDLER = """
import faulthandler, signal
faulthandler.register(signal.SIGUSR1, all_threads=True)
print('ready', flush=True)
while True: time.sleep(300)
"""


def test_signals_only_where_handled(tmp_path: Path) -> None:
    """SIGUSR1 ends a process without a handler: that one is left alone."""
    with job(tmp_path, [HANDLER, SLEEP]) as running:
        await_words(tmp_path / "rank0.log", "ready")
        ctx = context(running, allow_signals=True)
        stacks.second(ctx)
        await_words(tmp_path / "rank0.log", "most recent call first", 5)
        records.again(ctx)
        assert running.ranks[1].poll() is None
        assert "no handler" in missing(ctx)["faulthandler dump of rank 1"]
        assert "most recent call first" in text(ctx, "rank0.stdout.log")


def test_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without py-spy and pystack it is said how to get one."""
    monkeypatch.setattr(stacks, "tool", lambda ctx, name: None)
    with job(tmp_path, [SLEEP]) as running:
        ctx = context(running)
        stacks.first(ctx)
        stacks.second(ctx)
        assert "pip install py-spy" in missing(ctx)["Python stacks"]


# --------------------------------------------------------------------------- host


@pytest.fixture
def ctx(tmp_path: Path) -> Iterator[Context]:
    """Return the context of a job of one sleeping rank."""
    with job(tmp_path, [SLEEP]) as running:
        yield context(running)


def test_host_facts(ctx: Context) -> None:
    """The real machine: memory, groups, room, states."""
    host.memory(ctx)
    host.disks(ctx)
    host.blocked(ctx)
    assert "MemTotal" in text(ctx, "meminfo.txt")
    assert "Capacity Mounted on" in text(ctx, "df.txt")
    assert "IUse% Mounted on" in text(ctx, "df.txt")
    assert f"{ctx.job.ranks[0].pid} S" in text(ctx, "ps.txt")


def test_a_dead_mount_costs_its_own_row(
    ctx: Context, fakes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """df hangs on one path; the others are there, and the one is named."""
    monkeypatch.setattr(host, "_DF_S", 0.5)
    monkeypatch.setattr(host, "paths_of_interest", lambda c: ["/dead", "/tmp"])
    fake(
        fakes,
        "df",
        '[ "$3" = /dead ] && exec sleep 60\necho "Filesystem Mounted on"\necho "x 1% $3"',
    )
    host.disks(ctx)
    assert "x 1% /tmp" in text(ctx, "df.txt")
    assert "does not answer" in missing(ctx)["room of /dead"]


def test_groups_of_both_versions(tmp_path: Path, ctx: Context) -> None:
    """A full group of version 1 and one of version 2; strangers' events above are left out."""
    v1, v2 = tmp_path / "v1", tmp_path / "v2"
    (v1 / "job").mkdir(parents=True)
    (v2 / "pod" / "main").mkdir(parents=True)
    (v1 / "job" / "memory.oom_control").write_text("oom_kill_disable 1\nunder_oom 1\n")
    (v1 / "memory.oom_control").write_text("under_oom 0\n")
    (v2 / "pod" / "main" / "memory.events").write_text("oom 2\noom_kill 1\n")
    (v2 / "pod" / "memory.max").write_text("1000\n")
    (v2 / "memory.events").write_text("oom_kill 99\n")
    said = "4:memory:/job\n0::/pod/main\n"
    mounts = {"memory": (str(v1), "/"), "": (str(v2), "/")}
    out = "".join(host._group_lines(said, mounts))
    assert f"## {v1}/job/memory.oom_control\noom_kill_disable 1\nunder_oom 1\n" in out
    assert f"{v2}/pod/main/memory.events:oom_kill 1\n" in out
    assert f"{v2}/pod/memory.max:1000\n" in out
    assert "99" not in out
    assert "under_oom 0" not in out
    host.cgroups(ctx)  # and whatever this machine has


def test_a_path_of_the_outside_world() -> None:
    """Inside a container the group may be written from the root of the host."""
    assert ["/tmp"] == host.group_folders("/tmp", "/", "/../../kubepods/x")
    assert ["/tmp"] == host.group_folders("/tmp", "/docker/1", "/docker/1")


DMESG = """
echo '2020-01-01T00:00:00,000000+00:00 before the job'
echo '2100-01-01T00:00:00,000000+00:00 Out of memory: Killed process 812 (python3)'
echo ' its next line'
"""


def test_kernel_log_since_the_job(ctx: Context, fakes: Path) -> None:
    """Older records than the job are somebody else's."""
    fake(fakes, "dmesg", DMESG)
    host.kernel(ctx)
    said = text(ctx, "dmesg.txt")
    assert "before the job" not in said
    assert said.endswith("(python3)\n its next line\n")


def test_kernel_log_refused(ctx: Context, fakes: Path) -> None:
    """journalctl is next; without it there is a reason and a command."""
    fake(
        fakes,
        "dmesg",
        "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1",
    )
    fake(fakes, "journalctl", 'echo "2100-01-01T00:00:00+0000 n kernel: hello $*"')
    host.kernel(ctx)
    assert "hello -k" in text(ctx, "dmesg.txt")
    ctx.store.drop("dmesg.txt")
    fake(fakes, "journalctl", "echo '-- No entries --'")
    host.kernel(ctx)
    assert "sudo dmesg" in missing(ctx)["kernel log"]


# --------------------------------------------------------------------------- GPUs (reconstructed output)

SMI = """
case "$*" in
  *compute-apps*) echo "pid, gpu_uuid, gpu_bus_id, used_gpu_memory [MiB], process_name"
                  echo "PID_HERE, GPU-5a, 00000000:18:00.0, 70000 MiB, python3" ;;
  *query-gpu*) echo "index, uuid"; echo "0, GPU-5a" ;;
  *) echo "==============NVSMI LOG==============" ;;
esac
"""


def test_gpus_and_their_ranks(ctx: Context, fakes: Path) -> None:
    """The process table joins ranks and devices."""
    pid = ctx.job.ranks[0].pid
    fake(fakes, "nvidia-smi", SMI.replace("PID_HERE", str(pid)))
    gpu.devices(ctx)
    assert [{"uuid": "GPU-5a", "pci": "00000000:18:00.0"}] == ctx.moving[f"gpus {pid}"]
    assert "NVSMI LOG" in text(ctx, "nvidia-smi.txt")


def test_a_driver_that_hangs(ctx: Context, fakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked once, and that it does not answer is the evidence."""
    monkeypatch.setattr(gpu, "_SMI_S", 0.4)
    fake(fakes, "nvidia-smi", "sleep 60")
    began = time.monotonic()
    gpu.devices(ctx)
    assert time.monotonic() - began < 2
    assert "the driver does not answer" in missing(ctx)["GPU state"]


@pytest.mark.parametrize("answers", [True, False])
def test_ras(ctx: Context, monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    """A listener that answers, and one that says nothing (reconstructed)."""
    monkeypatch.setattr(gpu, "_RAS_S", 0.5)
    server = socket.create_server(("127.0.0.1", 0))
    asked = []

    def serve() -> None:
        line, _ = server.accept()
        asked.append(line.recv(100))
        if answers:
            line.sendall(b"NCCL version 2.27\nJob summary\n")
            line.close()
        else:
            time.sleep(1)

    threading.Thread(target=serve, daemon=True).start()
    r = ctx.job.ranks[0]
    env = {"NCCL_RAS_ADDR": f"127.0.0.1:{server.getsockname()[1]}"}
    job_ = replace(ctx.job, ranks=(replace(r, process=replace(r.process, env=env)),))
    gpu.ras(replace(ctx, job=job_))
    server.close()
    assert [b"verbose status\n"] == asked
    assert answers == ("Job summary" in text(ctx, "nccl_ras.txt"))


# --------------------------------------------------------------------------- records


def with_env(ctx: Context, **env: str) -> Context:
    """Return the context with further variables of rank 0."""
    r = ctx.job.ranks[0]
    changed = replace(r, process=replace(r.process, env={**r.process.env, **env}))
    return replace(ctx, job=replace(ctx.job, ranks=(changed, *ctx.job.ranks[1:])))


def test_flight_records(tmp_path: Path, ctx: Context) -> None:
    """A dump of this job is taken byte for byte; one from before it is not."""
    ctx = with_env(ctx, TORCH_NCCL_DEBUG_INFO_TEMP_FILE=str(tmp_path / "dump_rank_"))
    dump = tmp_path / "dump_rank_0"
    dump.write_bytes(b"\x80\x05N.")
    records.flight(ctx)
    assert b"\x80\x05N." == ctx.store.get("dump_rank_0")
    ctx.store.drop("dump_rank_0")
    os.utime(dump, (1, 1))
    records.flight(ctx)
    assert not ctx.store.has("dump_rank_0")
    assert "before this job" in missing(ctx)["flight record of rank 0"]


def test_a_dump_is_triggered_only_through_the_job_s_own_pipe(tmp_path: Path, ctx: Context) -> None:
    """Nothing is written unless asked for, and then only where somebody reads."""
    prefix = str(tmp_path / "fr_")
    os.mkfifo(prefix + "0.pipe")
    ctx = with_env(ctx, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=prefix)
    reader = os.open(prefix + "0.pipe", os.O_RDONLY | os.O_NONBLOCK)
    records.flight(ctx)
    assert b"" == os.read(reader, 10)
    records.flight(replace(ctx, trigger_dump=True))
    assert b"1" == os.read(reader, 10)
    os.close(reader)
    records.flight(replace(ctx, trigger_dump=True))  # nobody listens: no hang
    assert any("on demand" in what for what in missing(ctx))


def test_error_files(tmp_path: Path, ctx: Context) -> None:
    """What @record wrote is taken; that there is none yet is no gap."""
    path = tmp_path / "error.json"
    ctx = with_env(ctx, TORCHELASTIC_ERROR_FILE=str(path))
    records.errors(ctx)
    assert not ctx.store.has("error_rank0.json")
    path.write_text('{"message": {"message": "KeyError: 1"}}')
    records.errors(ctx)
    assert "KeyError" in text(ctx, "error_rank0.json")
    assert {} == missing(ctx)


def test_build_locks(tmp_path: Path, ctx: Context) -> None:
    """Locks are listed with their age."""
    folder = tmp_path / "ext" / "py311_cpu" / "cpu_adam"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    os.utime(folder / "lock", (time.time() - 500, time.time() - 500))
    ctx = with_env(ctx, TORCH_EXTENSIONS_DIR=str(tmp_path / "ext"))
    records.locks(ctx)
    said = text(ctx, "lockdir.txt")
    assert f"{folder}/lock\n" in said
    assert "lock is 500 s old" in said
    assert "# compilers that run:" in said


def test_ends_of_logs(tmp_path: Path) -> None:
    """The end is kept from a whole line on, and no secret in it."""
    code = f"print('first'); print(('x' * 70 + chr(10)) * 9000); print('token hf_{'a' * 34}', flush=True)\n{SLEEP}"
    with job(tmp_path, [code]) as running:
        await_words(tmp_path / "rank0.log", "token")
        ctx = context(running)
        records.logs(ctx)
        said = text(ctx, "rank0.stdout.log")
        assert "first" not in said
        assert said.startswith("x" * 70 + "\n")
        assert "hf_aaa" not in said


# --------------------------------------------------------------------------- software, schedulers


def test_configuration_and_packages(tmp_path: Path, ctx: Context) -> None:
    """Files that the command line names as configuration; data files are not taken."""
    (tmp_path / "ds_config.json").write_text(
        json.dumps({"zero_optimization": {"offload_param": {"nvme_path": "/local_nvme"}}})
    )
    (tmp_path / "train.json").write_text("{}")
    words = ("python3", "train.py", "--deepspeed", "ds_config.json", "--data", "train.json")
    r = ctx.job.ranks[0]
    job_ = replace(ctx.job, ranks=(replace(r, process=replace(r.process, words=words)),))
    ctx = replace(ctx, job=job_)
    software.configs(ctx)
    assert "nvme_path" in text(ctx, "config/ds_config.json")
    assert not ctx.store.has("config/train.json")
    assert ["/local_nvme"] == software.configured_paths(ctx)


def test_packages(ctx: Context) -> None:
    """Names and versions, without importing anything."""
    software.packages(ctx)
    assert "pytest==" in text(ctx, "packages.cfg")


def test_slurm(ctx: Context, fakes: Path) -> None:
    """The job that the ranks' environment names (reconstructed output)."""
    fake(fakes, "scontrol", 'echo "JobId=$4 JobState=RUNNING"')
    fake(fakes, "sacct", "echo slow >&2; exit 1")
    ctx = with_env(ctx, SLURM_JOB_ID="77")
    cluster.slurm(ctx)
    assert "JobId=77" in text(ctx, "scontrol.txt")
    assert "sacct ended with 1: slow sacct -j 77" in missing(ctx)["Slurm: sacct"]


def test_output_is_bounded(fakes: Path) -> None:
    """A program that never stops talking is cut and ended."""
    fake(fakes, "talk", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done")
    done = Runner().run([str(fakes / "talk")], deadline_s=0.5, limit=1000)
    assert (1000, True, True) == (len(done.out), done.cut, done.timed_out)


def test_a_program_that_is_not_there() -> None:
    """It is a fault, not an exception."""
    done = Runner().run(["/no/such/program"], deadline_s=1)
    assert (None, False) == (done.code, done.ok)
    assert "No such file" in done.fault


def test_nothing_of_ours_stays(tmp_path: Path, fakes: Path) -> None:
    """A program's own children end with it."""
    fake(fakes, "parent", f"sleep 300 & echo $! > {tmp_path}/child\nwait")
    Runner().run([str(fakes / "parent")], deadline_s=0.5)
    pid = int((tmp_path / "child").read_text())
    time.sleep(0.2)
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    assert state.stdout.strip()[:1] in ("", "Z")
