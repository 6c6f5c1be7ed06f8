"""What the scheduler says of the job.

Belongs here: Slurm as asked from a node of the job. Must not be here: visiting other nodes, and pods
(remote.py), which need the collector itself there.
"""

from __future__ import annotations

from rootrank.live import command
from rootrank.live.probes import Context, Probe

_SLURM_S = 8.0
_SACCT = "JobID,JobName,State,ExitCode,DerivedExitCode,Reason,Start,End,Elapsed,Timelimit,NodeList,ReqMem,MaxRSS,MaxRSSNode,MaxRSSTask"


def job_of(ctx: Context) -> str | None:
    """Return the Slurm job: as asked, else as the ranks' environment names it."""
    if ctx.slurm:
        return ctx.slurm
    for r in ctx.job.ranks:
        job = r.process.env.get("SLURM_JOB_ID") or r.process.env.get("SLURM_JOBID")
        if job and job.replace("_", "").isdecimal():
            return job
    return None


def commands(job: str) -> dict[str, list[str]]:
    """Return file -> command that shows a job."""
    return {
        "scontrol.txt": ["scontrol", "-d", "show", "job", job],
        "sacct.txt": ["sacct", "-j", job, "--parsable2", f"--format={_SACCT}"],
    }


def slurm(ctx: Context) -> None:
    """Keep what Slurm knows of the job, where it runs under Slurm."""
    job = job_of(ctx)
    if job is None:
        return
    for file, argv in commands(job).items():
        program = command.find(argv[0])
        if program is None:
            ctx.store.miss(f"Slurm: {argv[0]}", "it is not on this node", " ".join(argv))
            continue
        done = ctx.runner.run([program, *argv[1:]], deadline_s=_SLURM_S)
        if done.ok:
            ctx.store.put(file, done.text, what="Slurm", source=" ".join(argv), cut=done.cut)
        else:
            ctx.store.miss(f"Slurm: {argv[0]}", done.fault, " ".join(argv))


def _plan_slurm(ctx: Context) -> list[str]:
    job = job_of(ctx)
    return [f"Slurm: {' '.join(argv)}" for argv in commands(job).values()] if job else []


PROBES = (Probe(name="slurm", ask=slurm, plan=_plan_slurm, deadline_s=9.0),)
