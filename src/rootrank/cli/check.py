"""Say before the launch what will fail or hang.

Reads DeepSpeed, accelerate, FSDP, TrainingArguments and Lightning files, launch scripts and command
lines, a model's config.json, and with --host this machine. Imports no training library and runs
nothing, but what --repro asks for.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rootrank.cli import shared

if TYPE_CHECKING:
    from rootrank.preflight.finding import Finding
    from rootrank.preflight.job import Options

EXAMPLES = """\
examples:
  rootrank check ds_config.json --world 16 --nodes 2
  rootrank check train.slurm ds_config.json model/config.json --host
  rootrank check 'torchrun --nnodes 2 --nproc-per-node 8 train.py'
  rootrank check accelerate.yaml --repro 'python train.py --max_steps 3'

exit codes: 0 nothing found that fails, 1 something will fail, 2 usage or unreadable input,
3 something may fail
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank check`."""
    parser.add_argument(
        "configs", nargs="*", metavar="CONFIG", help="a file, - or a launch command in quotes"
    )
    job = parser.add_argument_group("the job, where the files do not say it")
    job.add_argument("--world", type=_count, metavar="N", help="processes of the job")
    job.add_argument("--nodes", type=_count, metavar="N", help="machines of the job")
    job.add_argument(
        "--params", type=_amount, metavar="P", help="parameters of the model: 7e9, 70B"
    )
    job.add_argument("--gpu-memory", type=_gib, metavar="GIB", help="memory of one GPU")
    job.add_argument("--host-memory", type=_gib, metavar="GIB", help="memory of one machine")
    job.add_argument(
        "--checkpoint-seconds", type=_amount, metavar="S", help="how long a checkpoint takes"
    )
    more = parser.add_argument_group("beyond reading files")
    more.add_argument("--host", action="store_true", help="look at this machine too")
    more.add_argument(
        "--repro", metavar="CMD",
        help="run this short command on one process, then on two; says first what it runs",
    )  # fmt: skip
    more.add_argument(
        "--repro-deadline", type=_amount, default=300.0, metavar="S",
        help="seconds for each of the two runs (default: 300)",
    )  # fmt: skip
    out = parser.add_argument_group("report")
    out.add_argument("--format", choices=("text", "json"), help="form of the report")
    out.add_argument("-o", "--output", metavar="FILE", help="write the report to FILE")
    shared.add_look_arguments(parser)
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    number = int(text)
    if not 0 < number <= 1 << 20:
        raise argparse.ArgumentTypeError("give a number from 1 to 1048576")
    return number


def _amount(text: str) -> float:
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1:].upper(), 1.0)
    number = float(text[:-1] if scale != 1.0 else text) * scale
    if not 0 < number < 1e16:
        raise argparse.ArgumentTypeError("give a number above 0")
    return number


def _gib(text: str) -> int:
    number = float(text)
    if not 0 < number < 1 << 30:
        raise argparse.ArgumentTypeError("give a number of GiB")
    return int(number * 2**30)


def run(args: argparse.Namespace) -> int:
    """Check, report, and return 0, 1, 2 or 3."""
    from rootrank.errors import UsageError
    from rootrank.preflight.host import this_host
    from rootrank.preflight.report import render_json, render_text
    from rootrank.preflight.run import check
    from rootrank.report.layout import Sheet

    if not (args.configs or args.host or args.repro):
        raise UsageError("check", "nothing to check", "give a configuration, --host or --repro")
    report = check(args.configs, _options(args), this_host() if args.host else None, _repro(args))
    if report.unreadable and not report.checked and len(report.unreadable) == 1:
        raise report.unreadable[0]
    if shared.chosen_format(args) == "json":
        shared.emit(render_json(report), args.output, exact=True)
    else:
        sheet = Sheet(shared.text_width(args), shared.use_color(args), shared.use_unicode(args))
        shared.emit(render_text(report, sheet), args.output)
    return report.code


def _options(args: argparse.Namespace) -> Options:
    from rootrank.preflight.job import Options

    return Options(
        world=args.world, nodes=args.nodes, params=args.params, gpu_memory_bytes=args.gpu_memory,
        host_memory_bytes=args.host_memory, checkpoint_s=args.checkpoint_seconds,
    )  # fmt: skip


def _repro(args: argparse.Namespace) -> list[Finding]:
    if not args.repro:
        return []
    from rootrank.preflight.repro import reproduce

    return reproduce(args.repro, args.repro_deadline, _say)


def _say(text: str) -> None:
    from rootrank.report.redact import redact

    print(f"rootrank: {redact(text)}", file=sys.stderr, flush=True)
