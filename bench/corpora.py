"""Make the corpora of the benchmark: python bench/corpora.py OUTDIR [--mb 1000] [--only interleaved,…]

`ranks1024` is 1,024 files of 2 MB; `digests` needs rootrank itself and is 10,000 digests of such files.

Everything is generated from a fixed seed: the same bytes on every machine. 64 ranks share one stream; rank 37 is killed by
a Python exception near the end and the others lose it, each with its own traceback.
"""

from __future__ import annotations

import argparse
import gzip
import pathlib
import random
import shutil

WORLD = 64
CULPRIT = 37


def stamp(ms: int) -> str:
    """Return a log time stamp, `ms` milliseconds after the start of the run."""
    s, ms = divmod(ms, 1000)
    return f"2026-03-0{1 + s // 86400 % 9} {s // 3600 % 24:02d}:{s // 60 % 60:02d}:{s % 60:02d},{ms:03d}"


def block(rng: random.Random, step: int, ms: int) -> list[str]:
    """Return the lines of one step of all ranks, in a shuffled order."""
    lines = []
    for rank in rng.sample(range(WORLD), WORLD):
        p = f"[rank{rank}]: "
        lines.append(
            f"{p}{stamp(ms + rng.randrange(40))} INFO step {step} | loss {2 + rng.random():.4f} | lr 3.00e-04 | grad norm {rng.random():.3f} | tokens/s {18000 + rng.randrange(900)}"
        )
        kind = rng.random()
        if kind < 0.25:
            lines.append(
                f"{p}node-{rank // 8}:{4000 + rank}:{5000 + rank} [{rank % 8}] NCCL INFO Channel {rng.randrange(16):02d}/0 : {rank}[{rank % 8}] -> {(rank + 1) % WORLD}[{(rank + 1) % 8}] via P2P/CUMEM"
            )
        elif kind < 0.40:
            lines.append(
                f"{p}{stamp(ms)} DEBUG loader: fetched shard-{rng.randrange(99999):05d}.tar in {rng.random() * 40:.1f} ms, queue {rng.randrange(64)}"
            )
        elif kind < 0.42:
            lines.append(
                f"{p}/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py:{rng.randrange(5000)}: UserWarning: an operator was called with a deprecated argument"
            )
    return lines


def ending(rng: random.Random) -> list[str]:
    """Return the interleaved tracebacks: the culprit's, then everybody's complaint."""
    frames = [
        "Traceback (most recent call last):",
        '  File "/home/user/train.py", line 210, in <module>',
        "    main()",
        '  File "/home/user/train.py", line 164, in main',
        "    loss.backward()",
    ]
    own = [*frames, "KeyError: 'labels'"]
    lost = [
        *frames,
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:4096. This is typically caused by a remote worker crashing.",
    ]
    out = [f"[rank{CULPRIT}]: {x}" for x in own]
    queues = {r: list(lost) for r in range(WORLD) if r != CULPRIT}
    while queues:
        rank = rng.choice(sorted(queues))
        out.append(f"[rank{rank}]: {queues[rank].pop(0)}")
        if not queues[rank]:
            del queues[rank]
    return out


def interleaved(path: pathlib.Path, mb: int, world: int = WORLD) -> None:
    """Write one stream of all ranks."""
    rng = random.Random(11)
    with path.open("w", newline="") as f:
        f.write(
            "".join(
                f"[rank{r}]: {stamp(0)} INFO start world_size={WORLD} pid={4000 + r}\n"
                for r in range(WORLD)
            )
        )
        step = 0
        while f.tell() < mb * 1_000_000 - 40_000:
            f.write("\n".join(block(rng, step, step * 900)) + "\n")
            step += 1
        f.write("\n".join(ending(rng)) + "\n")


def per_rank(folder: pathlib.Path, ranks: int, mb_each: float) -> None:
    """Write one file per rank; rank 37 raises, the others lose it."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        per_rank_one(folder / f"rank_{rank}.log", rank, mb_each)


def per_rank_one(path: pathlib.Path, rank: int, mb: float) -> None:
    """Write one rank's file."""
    rng = random.Random(rank)
    with path.open("w", newline="") as f:
        step = 0
        while f.tell() < mb * 1_000_000:
            f.write(
                f"{stamp(step * 900)} INFO step {step} | loss {2 + rng.random():.4f} | grad norm {rng.random():.3f} | tokens/s {18000 + rng.randrange(900)}\n"
            )
            step += 1
        last = (
            "KeyError: 'labels'"
            if rank == CULPRIT
            else "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:4096."
        )
        f.write(
            'Traceback (most recent call last):\n  File "/home/user/train.py", line 210, in <module>\n    main()\n'
            + last
            + "\n"
        )


def one_line(path: pathlib.Path, mb: int) -> None:
    """Write a single line without a newline."""
    rng = random.Random(3)
    piece = "".join(rng.choice("abcdefghij 0123456789:,") for _ in range(1 << 16))
    with path.open("w", newline="") as f:
        while f.tell() < mb * 1_000_000:
            f.write(piece)
        f.write(" RuntimeError: CUDA error: an illegal memory access was encountered ")


def storm(path: pathlib.Path, mb: int) -> None:
    """Write a log in which every line is an error."""
    with path.open("w", newline="") as f:
        n = 0
        while f.tell() < mb * 1_000_000:
            f.write(
                f"[rank{n % WORLD}]: {stamp(n)} ERROR CUDA error: an illegal memory access was encountered at call {n}\n"
            )
            n += 1


def binary(path: pathlib.Path, mb: int) -> None:
    """Write random bytes."""
    path.write_bytes(random.Random(5).randbytes(mb * 1_000_000))


def many_ranks(folder: pathlib.Path, ranks: int, mb_each: float) -> None:
    """Write one file per rank, of sixteen different bodies: faster to make, the same to read."""
    bodies = folder.parent / f"{folder.name}.bodies"
    per_rank(bodies, 16, mb_each)
    per_rank(folder, 0, mb_each)
    culprit = bodies / "culprit"
    per_rank_one(culprit, CULPRIT, mb_each)
    for rank in range(ranks):
        body = culprit if rank == CULPRIT else bodies / f"rank_{rank % 16}.log"
        shutil.copyfile(body, folder / f"rank_{rank}.log")
    shutil.rmtree(bodies)


def digests(folder: pathlib.Path, count: int, ranks: pathlib.Path) -> None:
    """Write a digest per rank, each in its own file, as `srun rootrank digest` leaves them."""
    from dataclasses import replace

    from rootrank import pipeline
    from rootrank.knowledge.load import load_knowledge

    files = [str(ranks / f"rank_{n}.log") for n in (*range(16), CULPRIT)]
    made = pipeline.digest_sources(files, load_knowledge())
    by_rank = {d.origin.rank: d for d in made}
    folder.mkdir()
    for rank in range(count):
        d = by_rank[CULPRIT] if rank == CULPRIT else by_rank[rank % 16]
        d = pipeline.renamed(d, f"rank_{rank}.log")
        d = replace(d, origin=replace(d.origin, rank=rank))
        d = replace(
            d, sightings=tuple(replace(s, origin=replace(s.origin, rank=rank)) for s in d.sightings)
        )
        d = replace(
            d, tails=tuple(replace(t, origin=replace(t.origin, rank=rank)) for t in d.tails)
        )
        d = replace(
            d,
            identities=tuple(replace(i, origin=replace(i.origin, rank=rank)) for i in d.identities),
        )
        pipeline.write_digests([d], str(folder / f"{rank}.rrd"))


def packed(path: pathlib.Path, source: pathlib.Path) -> None:
    """Write a compressed copy."""
    if path.suffix == ".gz":
        with source.open("rb") as a, gzip.open(path, "wb", 6) as b:
            shutil.copyfileobj(a, b, 1 << 20)
        return
    import zstandard

    with source.open("rb") as a, path.open("wb") as b:
        zstandard.ZstdCompressor(level=3).copy_stream(a, b)


def head(path: pathlib.Path, source: pathlib.Path, size: int) -> None:
    """Write the first bytes of another corpus."""
    with source.open("rb") as a, path.open("wb") as b:
        b.write(a.read(size))


def make(out: pathlib.Path, mb: int, names: list[str]) -> None:
    """Make what is missing of these corpora; sizes are relative to `mb`, of the ones with a fixed size apart."""
    out.mkdir(parents=True, exist_ok=True)
    big = out / "interleaved.log"
    jobs = {
        "interleaved": (big, lambda p: interleaved(p, mb)),
        "half": (out / "half.log", lambda p: head(p, big, mb * 500_000)),
        "quarter": (out / "quarter.log", lambda p: head(p, big, mb * 250_000)),
        "ranks": (out / "ranks", lambda p: per_rank(p, 512, mb / 512)),
        "ranks1024": (out / "ranks1024", lambda p: many_ranks(p, 1024, 2)),
        "oneline": (out / "oneline.log", lambda p: one_line(p, mb // 2)),
        "storm": (out / "storm.log", lambda p: storm(p, mb // 5)),
        "binary": (out / "binary.bin", lambda p: binary(p, mb // 4)),
        "small": (out / "one_mb.log", lambda p: interleaved(p, 1)),
        "tiny": (out / "one_kb.log", lambda p: head(p, out / "one_mb.log", 1000)),
        "gz": (out / "quarter.log.gz", lambda p: packed(p, out / "quarter.log")),
        "zst": (out / "quarter.log.zst", lambda p: packed(p, out / "quarter.log")),
        "digests": (out / "digests", lambda p: digests(p, 10_000, out / "ranks1024")),
    }
    for name in names or jobs:
        path, one = jobs[name]
        if not path.exists():
            one(path)


def main() -> None:
    """Make what is missing."""
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("--mb", type=int, default=1000)
    ap.add_argument("--only", default="", help="comma-separated names (default: all)")
    a = ap.parse_args()
    make(a.out, a.mb, [n for n in a.only.split(",") if n])


if __name__ == "__main__":
    main()
