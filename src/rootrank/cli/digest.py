"""Scan logs and write what was found: a few kilobytes per rank, to diagnose elsewhere or to share.

Every node digests its own logs, and `rootrank merge` reaches the same diagnosis as one run over all of them. A digest
holds quoted lines, step numbers, loss values, host names and paths; secrets are redacted. `--show` prints all of it.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from rootrank.cli import shared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rootrank.model import Digest

EXAMPLES = """\
examples:
  srun --ntasks-per-node=1 sh -c 'rootrank digest /local/logs -o /shared/$SLURM_NODEID.rrd'
  rootrank merge /shared
  rootrank digest --show node-5.rrd
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank digest`."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="logs to scan; - is stdin")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the digest to FILE (*.rrd)")
    parser.add_argument(
        "--show", nargs="+", metavar="FILE", help="print exactly what digests hold, as JSON"
    )
    parser.add_argument(
        "--jobs",
        type=_jobs,
        default=0,
        metavar="N",
        help="worker processes (default: one per processor)",
    )
    parser.add_argument("--no-redact", action="store_true", help="keep secrets as they stand")
    parser.set_defaults(run=run)


def _jobs(text: str) -> int:
    jobs = int(text)
    if not 0 <= jobs <= 1024:
        raise argparse.ArgumentTypeError("give a number of processes")
    return jobs


def run(args: argparse.Namespace) -> int:
    """Scan and write, or show. Returns 0."""
    from rootrank.errors import UsageError

    if args.show:
        if args.paths or args.output:
            raise UsageError(
                "digest", "--show takes digests and nothing else", "leave out PATH and -o"
            )
        return _show(args.show, redact=not args.no_redact)
    if not args.paths:
        raise UsageError("digest", "nothing to read", "name a file or folder, or - for a piped log")
    if not args.output:
        raise UsageError("digest", "no file to write to", "add -o FILE.rrd")
    return _write(args)


def _write(args: argparse.Namespace) -> int:
    from rootrank import pipeline
    from rootrank.errors import UsageError
    from rootrank.knowledge.load import load_knowledge

    progress = shared.Progress()
    stdin = sys.stdin.buffer if "-" in args.paths and sys.stdin is not None else None
    try:
        digests = pipeline.digest_sources(
            args.paths, load_knowledge(), stdin=stdin, progress=progress, jobs=args.jobs
        )
    finally:
        progress.close()
    if not args.no_redact:
        digests = redacted(digests)
    try:
        size = pipeline.write_digests(digests, args.output)
    except OSError as error:
        raise UsageError(
            args.output, f"cannot be written: {error.strerror}", "give -o a writable path"
        ) from error
    read = sum(d.size_bytes for d in digests)
    count = sum(1 for d in digests if d.source)
    print(
        f"{args.output}: {count} source{'s' if count != 1 else ''}, {read:,} bytes read, {size:,} bytes written",
        file=sys.stderr,
    )
    return 0


def redacted(digests: Sequence[Digest]) -> list[Digest]:
    """Return the digests with secrets replaced in every text."""
    return [_redact(d) for d in digests]


def _redact(value: Any) -> Any:
    from dataclasses import fields, is_dataclass, replace

    from rootrank.report.redact import redact

    def walk(x: Any) -> Any:
        if type(x) is str:
            return redact(x)
        if type(x) is tuple:
            if len(x) > 1 and all(type(v) is str for v in x):
                joined = redact("\n".join(x)).split(
                    "\n"
                )  # the body of a key is known by the line above it
                return x if len(joined) != len(x) else tuple(joined)
            new = tuple(map(walk, x))
            return new if any(a is not b for a, b in zip(new, x, strict=True)) else x
        if isinstance(x, dict):
            return {k: walk(v) for k, v in x.items()}
        if is_dataclass(x) and not isinstance(x, type):
            changes = {
                f.name: new
                for f in fields(x)
                if (new := walk(old := getattr(x, f.name))) is not old
            }
            return replace(x, **changes) if changes else x
        return x

    return walk(value)


def _show(paths: list[str], *, redact: bool) -> int:
    import json

    from rootrank import pipeline
    from rootrank.model import to_plain

    digests = pipeline.read_digests(paths)
    for d in redacted(digests) if redact else digests:
        shared.emit(json.dumps(to_plain(d), ensure_ascii=True, indent=1) + "\n", exact=True)
    return 0
