"""Gather from a running job what says why it hangs, without stopping, waking or changing it.

Finds the ranks, looks at them twice some seconds apart, asks the machine about the rest, and writes
one bundle that `rootrank diagnose` reads. What could not be had is named in it, with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from rootrank.cli import shared

if TYPE_CHECKING:
    from rootrank.live.collector import Options, Result

EXAMPLES = """\
examples:
  rootrank collect
  rootrank collect --preview
  rootrank collect --pid 48213 -o hang.tar.zst
  rootrank collect --slurm 81234 -o hang/
  rootrank collect --host node-1 --host node-2 --run-id llama-7
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank collect`."""
    which = parser.add_argument_group("which job (default: the one that runs here)")
    which.add_argument("--pid", type=_pid, metavar="P", help="a launcher, rank or worker of it")
    which.add_argument("--run-id", metavar="ID", help="torchrun's run id, or a scheduler's job id")
    which.add_argument("--slurm", metavar="JOB", help="a Slurm job; its nodes through srun")
    which.add_argument("--k8s", metavar="NAME", help="[NAMESPACE/]POD or job; through kubectl exec")
    which.add_argument(
        "--host", action="append", default=[], metavar="H", dest="hosts",
        help="a host of the job, through ssh; repeat it",
    )  # fmt: skip
    how = parser.add_argument_group("how far")
    how.add_argument("--preview", action="store_true", help="say what would be taken; take nothing")
    how.add_argument(
        "--seconds", type=float, default=5.0, metavar="N", help="between the two looks (default: 5)"
    )
    how.add_argument(
        "--native", action=argparse.BooleanOptionalAction, default=False,
        help="native frames too: stops each rank for up to a second",
    )  # fmt: skip
    how.add_argument(
        "--allow-signals", action="store_true",
        help="SIGUSR1 to ranks that registered faulthandler: can wake a blocked call",
    )  # fmt: skip
    how.add_argument(
        "--trigger-dump", action="store_true",
        help="ask NCCL's flight recorder for a dump where the job made a pipe for that",
    )  # fmt: skip
    how.add_argument("--no-redact", action="store_true", help="keep secrets as they stand")
    parser.add_argument(
        "-o", "--output", default="", metavar="PATH",
        help=".tar.zst, .tar.gz, .tar, a folder, or - (default: rootrank-HOST-TIME.tar.zst)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def _pid(text: str) -> int:
    pid = int(text)
    if not 0 < pid < 1 << 31:
        raise argparse.ArgumentTypeError("give a process id")
    return pid


def run(args: argparse.Namespace) -> int:
    """Collect, or say what would be collected. Returns 0."""
    from rootrank.live import collector

    options = _options(args)
    if args.preview:
        shared.emit("".join(line + "\n" for line in collector.preview(options)))
        return 0
    _step_back()
    result = collector.collect(options, say=_say)
    if result.path is None:
        _stream(result)
    else:
        report(result)
    return 0


def _options(args: argparse.Namespace) -> Options:
    from rootrank.live.collector import Options

    return Options(
        output=args.output, pid=args.pid, run_id=args.run_id, slurm=args.slurm, k8s=args.k8s,
        hosts=tuple(args.hosts), interval_s=args.seconds, native=args.native,
        allow_signals=args.allow_signals, trigger_dump=args.trigger_dump,
        redact=not args.no_redact,
    )  # fmt: skip


def _step_back() -> None:
    """Leave the processors to the job: what collects must not be what slows it."""
    try:
        os.nice(10)
    except (OSError, AttributeError):  # not allowed, or not known there
        pass


def _say(text: str) -> None:
    print(f"rootrank: {text}", file=sys.stderr, flush=True)


def _stream(result: Result) -> None:
    import time

    from rootrank.live.store import write_archive

    write_archive(sys.stdout.buffer, result.files, "gz", time.time())
    sys.stdout.buffer.flush()


def report(result: Result) -> None:
    """Say where the bundle is, what is missing, and what to do with it."""
    for note in result.notes:
        _say(note)
    missing = [m for part in (result.manifest, *result.manifest["hosts"]) for m in part["missing"]]
    for line in missing[:8]:
        remedy = f"; {line['remedy']}" if "remedy" in line else ""
        _say(f"not had: {line['what']}: {line['reason']}{remedy}")
    if len(missing) > 8:
        _say(f"not had: {len(missing) - 8} more, in manifest.json")
    kib = sum(map(len, result.files.values())) // 1024
    shared.emit(f"{result.path}\n")
    _say(f"{len(result.files)} files, {kib} KiB before compression. Next:")
    _say(f"  rootrank diagnose {result.path}")
