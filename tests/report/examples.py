"""Diagnoses as the pipeline makes them, one for each kind of answer. No test here: the report tests share them."""

from __future__ import annotations

from rootrank.model import (
    Action,
    Also,
    Attempt,
    Cause,
    Checkpoint,
    Collateral,
    Coverage,
    Diagnosis,
    End,
    Evidence,
    Gap,
    Impact,
    Initiating,
    LaneView,
    Missing,
    Prevent,
    Recovered,
    RootCause,
    Status,
    Verdict,
)

T0 = 1787195564.0  # 2026-08-20 03:12:44 UTC
T1 = 1777888631.0  # 2026-05-04 09:57:11 UTC


def host_oom() -> Diagnosis:
    """64 ranks on 8 hosts; the kernel kills rank 37; everybody else waits and times out."""
    kill = Evidence(
        kind="line",
        source="node-5/dmesg.txt",
        line=8812,
        end_line=8812,
        text="[1043771.118] Out of memory: Killed process 48213 (python3) total-vm:391224512kB, "
        "anon-rss:187345664kB, file-rss:1024kB, shmem-rss:0kB, UID:1000 pgtables:368640kB oom_score_adj:0",
        rank=37,
        host="node-5",
        time="2026-08-20T03:12:44.102Z",
        limits="Shows the victim the kernel chose, not who used the memory.",
    )
    workers = Evidence(
        kind="line",
        source="rank37.log",
        line=40211,
        end_line=40211,
        text="DataLoader: num_workers=16 exceeds the suggested max of 12 for this system",
        rank=37,
        host="node-5",
        time="2026-08-20T01:02:03Z",
        role="confirming",
    )
    waits = Evidence(
        kind="line",
        source="rank0.log",
        line=40377,
        end_line=40377,
        text="[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8812, OpType=ALLREDUCE, "
        "NumelIn=25557032, NumelOut=25557032, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
        rank=0,
        host="node-0",
        time="2026-08-20T03:22:45Z",
        role="downstream",
    )
    worker_copies = RootCause(
        id="worker-copies",
        text="Each DataLoader worker holds its own copy of the data set index.",
        status=Status.SUPPORTED,
        evidence=(workers,),
    )
    return Diagnosis(
        verdict=Verdict.FAILURE,
        summary="Rank 37 on node-5 was killed by the kernel because host memory was exhausted. "
        "63 ranks then timed out waiting for it.",
        end=End(how="failed"),
        initiating=Initiating(
            kind="rank",
            extent="one",
            rank=37,
            ranks="37",
            local_rank=5,
            pid=48213,
            host="node-5",
            basis="joined",
            time="2026-08-20T03:12:44.102Z",
            source="node-5/dmesg.txt",
            line=8812,
        ),
        cause=Cause(
            entry="host-oom-kill",
            title="The kernel killed a rank: host memory exhausted",
            category="killed",
            layer="configuration",
            status=Status.ESTABLISHED,
            root_cause=worker_copies,
            root_causes=(
                worker_copies,
                RootCause(
                    id="pinned-buffers", text="Pinned host buffers grow.", status=Status.SUSPECTED
                ),
                RootCause(
                    id="other-tenant", text="Another job used the memory.", status=Status.RULED_OUT
                ),
            ),
            owner="configuration",
            retry="will-recur",
            repair="config",
            evidence=(kill, workers),
        ),
        alternatives=(
            Cause(
                entry="nccl-collective-timeout",
                title="A collective ran into the watchdog timeout",
                category="hang",
                layer="framework",
                status=Status.RULED_OUT,
                against=(kill,),
            ),
        ),
        collateral=(
            Collateral(
                entry="nccl-collective-timeout",
                what="timed out waiting for it",
                count=63,
                ranks="0-36,38-63",
                evidence=(waits,),
            ),
            Collateral(entry=None, what="teardown", count=7, ranks="32-36,38-39"),
        ),
        recovered=(
            Recovered(
                what="gradient overflow, step skipped",
                from_="2026-08-19T22:10:01Z",
                until="2026-08-19T22:10:09Z",
            ),
        ),
        missing=(
            Missing(
                fact="memory limit and peak of the job's cgroup on node-5",
                decides=("worker-copies", "pinned-buffers"),
                command="grep -H . /sys/fs/cgroup/system.slice/slurmstepd.scope/job_*/memory.{max,peak,events}",
                answer="cgroup-memory",
            ),
        ),
        actions=(
            Action(
                text="Lower the number of DataLoader workers, or keep the index in one shared, memory-mapped file.",
                edit="num_workers: 16 -> 4",
                risk="Fewer workers may slow data loading; watch the step time.",
                verify="run 500 steps and check that memory.peak stays below 90 % of memory.max on every host",
            ),
        ),
        prevent=(
            Prevent(
                text="Alert on host memory before the kernel acts.",
                watch="node_memory_MemAvailable_bytes below 5 % for 2 min",
            ),
        ),
        impact=Impact(
            last_step=18272,
            last_time="2026-08-20T03:12:31Z",
            last_checkpoint=Checkpoint(step=18000, path="/scratch/run7/step18000", complete=True),
            lost_s=1240,
            idle_rank_s=38400,
        ),
        attempts=(Attempt(n=0, end="failed", entry="host-oom-kill", status=Status.ESTABLISHED),),
        coverage=Coverage(
            sources=66,
            bytes=412_882_113,
            lines=2_610_044,
            ranks_seen=64,
            world_size=64,
            gaps=(Gap(source="rank12.log.gz", reason="truncated gzip after line 40211"),),
            notes=(
                "torchelastic names rank 0 (exitcode -6) as the first observed failure, 10 min after rank 37",
            ),
        ),
        lanes=tuple(_lane(r) for r in range(64)),
    )


def _lane(rank: int) -> LaneView:
    dead = rank == 37
    return LaneView(
        label=f"rank {rank}",
        rank=rank,
        host=f"node-{rank // 8}",
        first_time_s=T0 - 26000 + rank % 5,
        last_time_s=T0 if dead else T0 + 600 + rank % 3,
        last_step=18272,
        state="initiating" if dead else "collateral",
        mark="killed by the kernel" if dead else "watchdog timeout, ALLREDUCE 8812",
    )


def hang() -> Diagnosis:
    """One of 16 ranks never enters a collective; why is open, and the stack of that rank would tell."""
    absence = Evidence(
        kind="absence",
        source="logs/attempt_0/5/stderr.log",
        line=2211,
        end_line=2211,
        text="[2026-05-04 10:02:11] step 411/20000 | loss 2.318 | data 0.041 s",
        says="15 of 16 ranks wait in ALLREDUCE seq 4412; only rank 5 never entered it",
        lines=(
            "[2026-05-04 10:02:11] step 411/20000 | loss 2.318 | data 0.041 s",
            "[rank3]:[E504 10:32:12] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4412, "
            "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800041 milliseconds",
        ),
        rank=5,
        time="2026-05-04T10:02:11Z",
        limits="Shows who was absent, not what held it.",
    )
    return Diagnosis(
        verdict=Verdict.FAILURE,
        summary="Rank 5 stopped making progress after step 411; 15 ranks waited for it in ALLREDUCE until the watchdog "
        "ended them.",
        end=End(how="killed"),
        initiating=Initiating(
            kind="rank",
            extent="one",
            rank=5,
            ranks="5",
            local_rank=5,
            host="gpu-a-03",
            basis="absent",
            time="2026-05-04T10:02:11Z",
            source="logs/attempt_0/5/stderr.log",
            line=2211,
        ),
        cause=Cause(
            entry="rank-missing-from-collective",
            title="One rank did not enter a collective that the others wait in",
            category="hang",
            layer="code",
            status=Status.SUPPORTED,
            root_causes=(
                RootCause(
                    id="data-stall",
                    text="The rank waits for its next batch.",
                    status=Status.SUSPECTED,
                ),
                RootCause(
                    id="branch", text="The rank took another branch.", status=Status.SUSPECTED
                ),
                RootCause(
                    id="slow-checkpoint",
                    text="The rank writes a checkpoint.",
                    status=Status.RULED_OUT,
                ),
            ),
            owner="user-code",
            retry="unknown",
            repair="code",
            evidence=(absence,),
        ),
        collateral=(
            Collateral(
                entry="nccl-collective-timeout",
                what="collective-timeout",
                count=15,
                ranks="0-4,6-15",
            ),
        ),
        missing=(
            Missing(
                fact="the Python stack of rank 5 while it hangs",
                decides=("data-stall", "branch"),
                command="py-spy dump --pid $(pgrep -f 'local_rank=5') > rank5.stack.txt",
                answer="stacks",
            ),
            Missing(
                fact="the NCCL flight recorder of all ranks",
                decides=("branch",),
                command="export TORCH_NCCL_TRACE_BUFFER_SIZE=20000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 "
                "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/scratch/run7/nccl_trace_rank_",
            ),
        ),
        actions=(
            Action(
                text="Collect the stack of rank 5 the next time it stalls, then diagnose again with it beside the logs.",
                command="rootrank collect --pid $(pgrep -f 'local_rank=5') -o bundle.tar.zst && "
                "rootrank diagnose logs/ bundle.tar.zst",
            ),
        ),
        impact=Impact(last_step=411, last_time="2026-05-04T10:02:11Z", idle_rank_s=27000),
        coverage=Coverage(sources=16, bytes=1_204_113, lines=35_377, ranks_seen=16, world_size=16),
        lanes=tuple(
            LaneView(
                label=f"rank {r}",
                rank=r,
                host="gpu-a-03",
                first_time_s=T1,
                last_time_s=T1 + (300 if r == 5 else 2100),
                last_step=411,
                state="silent" if r == 5 else "collateral",
                mark="step 411/20000" if r == 5 else "watchdog timeout, ALLREDUCE 4412",
            )
            for r in range(16)
        ),
    )


def everywhere() -> Diagnosis:
    """All 8 ranks fail with the same words; the entry knows it, the fix is an edit."""
    error = Evidence(
        kind="line",
        source="train.log",
        line=118,
        end_line=142,
        text="AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 256 != 8 * 2 * 8",
        count=8,
        limits="Shows which numbers disagree, not which one was meant.",
    )
    return Diagnosis(
        verdict=Verdict.FAILURE,
        summary="All 8 ranks stopped at start: the batch sizes in the DeepSpeed configuration do not multiply.",
        end=End(how="failed"),
        initiating=Initiating(
            kind="rank", extent="all", ranks="0-7", basis="spoke", source="train.log", line=118
        ),
        cause=Cause(
            entry="deepspeed-batch-size-mismatch",
            title="DeepSpeed refused the batch sizes: they do not multiply to train_batch_size",
            category="wont-start",
            layer="configuration",
            status=Status.ESTABLISHED,
            root_cause=RootCause(
                id="world-size-changed",
                text="The number of ranks changed, the configuration did not.",
                status=Status.SUSPECTED,
            ),
            owner="configuration",
            retry="will-recur",
            repair="config",
            evidence=(error,),
        ),
        collateral=(Collateral(entry=None, what="exit", count=8, ranks="0-7"),),
        actions=(
            Action(
                text="Leave train_batch_size out, or set it to micro batch × accumulation × ranks.",
                edit='"train_batch_size": "auto"',
                verify="the first step is logged",
            ),
            Action(
                text="Check the configuration before the next submit.",
                command="rootrank check ds_config.json",
            ),
        ),
        coverage=Coverage(sources=1, bytes=18_201, lines=240, ranks_seen=8, world_size=8),
        lanes=tuple(
            LaneView(
                label=f"rank {r}",
                rank=r,
                host=None,
                first_time_s=None,
                last_time_s=None,
                last_step=None,
                state="initiating",
                mark="AssertionError",
            )
            for r in range(8)
        ),
    )


def unknown_exception() -> Diagnosis:
    """A user exception that no entry knows, in an interleaved log without rank prefixes; two attempts."""
    error = Evidence(
        kind="line",
        source="slurm-88121.out",
        line=5120,
        end_line=5120,
        text="KeyError: 'labels_shifted'",
        lines=(
            '  File "/home/u/proj/data/collate.py", line 88, in pad_batch',
            "    y = batch['labels_shifted']",
        ),
        time="2026-03-01T12:00:01Z",
    )
    cause = Cause(
        entry=None,
        title="KeyError: 'labels_shifted' in data/collate.py:88",
        category="crash",
        layer="code",
        status=Status.SUPPORTED,
        owner="user-code",
        repair="code",
        evidence=(error,),
    )
    first = Initiating(
        kind="process",
        extent="one",
        pid=771,
        host="c12",
        basis="spoke",
        attempt=1,
        time="2026-03-01T12:00:01Z",
        source="slurm-88121.out",
        line=5120,
    )
    return Diagnosis(
        verdict=Verdict.FAILURE,
        summary="A process raised KeyError: 'labels_shifted' in data/collate.py:88; no entry knows this failure.",
        end=End(how="failed"),
        initiating=first,
        cause=cause,
        also=(
            Also(
                relation="earlier-attempt",
                initiating=Initiating(kind="external", extent="unknown", attempt=0),
                cause=Cause(
                    entry="slurm-preempted",
                    title="Slurm preempted the job",
                    category="killed",
                    layer="scheduler",
                    status=Status.ESTABLISHED,
                ),
            ),
        ),
        attempts=(
            Attempt(n=0, end="preempted", entry="slurm-preempted", status=Status.ESTABLISHED),
            Attempt(n=1, end="failed", entry=None, status=Status.SUPPORTED),
        ),
        unexplained=(
            Evidence(
                kind="line",
                source="slurm-88121.out",
                line=33,
                end_line=33,
                text="OSError: [Errno 5] Input/output",
            ),
        ),
        coverage=Coverage(
            sources=1,
            bytes=2_101_333,
            lines=5_140,
            ranks_seen=0,
            world_size=None,
            notes=(
                "rank unknown: no prefix, one file for all ranks",
                "times carry no zone; read as UTC",
            ),
        ),
    )


def insufficient() -> Diagnosis:
    """Only complaints about a peer; the peer's own first error is not in the logs."""
    loss = Evidence(
        kind="line",
        source="rank1.log",
        line=902,
        end_line=902,
        text="torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error, "
        "NCCL version 2.21.5 ncclRemoteError: Last error: NET/IB: Got completion from peer 10.0.0.7<43211>",
        rank=1,
        time="2026-06-01T00:00:09Z",
        role="downstream",
    )
    return Diagnosis(
        verdict=Verdict.INSUFFICIENT,
        summary="Ranks 0, 1 and 3 lost their connection to a peer; the peer's own words are not in these logs.",
        end=End(how="failed"),
        initiating=None,
        cause=None,
        collateral=(
            Collateral(entry=None, what="peer-loss", count=3, ranks="0,1,3", evidence=(loss,)),
        ),
        missing=(
            Missing(
                fact="the log of rank 2, or the kernel log of its host 10.0.0.7",
                command="ssh 10.0.0.7 dmesg -T > node-10.0.0.7.dmesg.txt",
            ),
        ),
        unexplained=(loss,),
        coverage=Coverage(
            sources=3,
            bytes=88_112,
            lines=2_706,
            ranks_seen=3,
            world_size=4,
            gaps=(Gap(source="rank2.log", reason="not among the given files"),),
        ),
    )


def no_failure() -> Diagnosis:
    """A run that ended as planned."""
    return Diagnosis(
        verdict=Verdict.NO_FAILURE,
        summary="The job logged 2,000 steps and ended as planned.",
        end=End(how="completed"),
        recovered=(
            Recovered(
                what="loss spike to 8.1", from_="2026-01-02T03:04:05Z", until="2026-01-02T03:06:00Z"
            ),
        ),
        impact=Impact(last_step=2000, last_time="2026-01-02T05:00:00Z"),
        coverage=Coverage(sources=8, bytes=3_300_120, lines=41_000, ranks_seen=8, world_size=8),
        lanes=tuple(
            LaneView(
                label=f"rank {r}",
                rank=r,
                host="n1",
                first_time_s=T0,
                last_time_s=T0 + 900,
                last_step=2000,
                state="normal",
            )
            for r in range(8)
        ),
    )


ALL = {
    "host-oom": host_oom(),
    "hang": hang(),
    "everywhere": everywhere(),
    "unknown-exception": unknown_exception(),
    "insufficient": insufficient(),
    "no-failure": no_failure(),
}
