"""Same input, same bytes of JSON: whatever the matcher, the workers, the chunks, the order of files, the line ends."""

from __future__ import annotations

import itertools
import pathlib
import random
from collections.abc import Callable

import pytest

from rootrank import pipeline, report
from rootrank.ingest.sources import Source
from rootrank.knowledge.load import load_knowledge
from rootrank.scan import Engine, SignalIndex

KNOWN = load_knowledge()


def log(rank: int, lines: int, seed: int = 0) -> str:
    """Return the log of one rank of a job: rank 2 raises, the others lose it; trouble on the way."""
    rng = random.Random(rank * 1000 + seed)
    out = [f"[rank{rank}]: 2026-03-01 00:00:00,000 INFO start world_size=4 pid={4000 + rank}"]
    for n in range(lines):
        stamp = f"2026-03-01 {n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d},{rng.randrange(1000):03d}"
        out.append(
            f"[rank{rank}]: {stamp} INFO step {n} | loss {rng.random():.4f} | tokens/s {18000 + rng.randrange(900)}"
        )
        kind = rng.random()
        if kind < 0.002:
            out.append(f"[rank{rank}]: {stamp} WARNING Connection reset by peer, attempt {n}")
        elif kind < 0.003:
            out += [
                f"[rank{rank}]: Traceback (most recent call last):",
                f'[rank{rank}]:   File "data.py", line 7, in fetch',
                f"[rank{rank}]: TimeoutError: read timed out after {n} s",
            ]
    error = (
        "KeyError: 'labels'"
        if rank == 2
        else "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:4096."
    )
    out += [
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "train.py", line 210, in <module>',
        f"[rank{rank}]: {error}",
    ]
    return "\n".join(out) + "\n"


def woven(ranks: int, lines: int) -> str:
    """Return one stream of all ranks, line by line."""
    parts = [log(r, lines).splitlines() for r in range(ranks)]
    return (
        "\n".join(x for row in itertools.zip_longest(*parts) for x in row if x is not None) + "\n"
    )


def storm(lines: int) -> str:
    """Return a log in which every line is the same error, but for a traceback in the midst."""
    out = [
        f"[rank{n % 4}]: 2026-03-01 00:00:{n % 60:02d} ERROR CUDA error: an illegal memory access was encountered at call {n}"
        for n in range(lines)
    ]
    out[lines // 2] = "[rank1]: Traceback (most recent call last):"
    return "\n".join(out) + "\n"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with a job's logs: small, large, woven, a storm, a line without end, a broken archive."""
    folder = tmp_path_factory.mktemp("job")
    for rank in range(4):
        (folder / f"rank_{rank}.log").write_text(log(rank, 300), newline="")
    (folder / "all.log").write_text(woven(4, 12_000), newline="")
    (folder / "storm.log").write_text(storm(60_000), newline="")
    (folder / "oneline.log").write_bytes(
        b"abcde fgh " * 400_000 + b"RuntimeError: CUDA error: out of memory"
    )
    (folder / "broken.log.gz").write_bytes(b"\x1f\x8b\x08\x00nonsense")
    return folder


def answer(*paths: pathlib.Path | str, jobs: int = 1) -> str:
    """Return the JSON of a diagnosis."""
    return report.render_json(
        pipeline.diagnose([str(p) for p in paths], knowledge=KNOWN, jobs=jobs), "test"
    )


@pytest.fixture(scope="module")
def usual(job: pathlib.Path) -> str:
    """Return the answer in the plain way."""
    return answer(job)


@pytest.mark.parametrize("name", ["hyperscan", "re2", "stdlib"])
def test_the_matcher_does_not_matter(
    job: pathlib.Path, usual: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each back end leads to the same bytes."""
    pytest.importorskip({"stdlib": "re"}.get(name, name))
    engine = Engine.of(SignalIndex.of(KNOWN), prefer=name)
    assert name == engine.matcher.name
    _, matcher = pipeline.tools_for(KNOWN)
    monkeypatch.setattr(pipeline, "tools_for", lambda _: (engine, matcher))

    assert usual == answer(job)


@pytest.mark.parametrize("jobs", [2, 3])
def test_workers_do_not_matter(
    job: pathlib.Path, usual: str, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole files shared out, and the largest searched in pieces."""
    monkeypatch.setattr(pipeline, "_ALONE_BYTES", 0)

    assert usual == answer(job, jobs=jobs)
    monkeypatch.setattr(pipeline, "_HUGE_BYTES", 1 << 20)
    for name in ("all.log", "storm.log", "oneline.log"):
        assert answer(job / name) == answer(job / name, jobs=jobs), name


@pytest.mark.parametrize("size", [61_007, 1 << 16, (1 << 20) + 1, 5 << 20])
def test_chunks_do_not_matter(
    job: pathlib.Path, usual: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the bytes come from the disk."""
    plain: Callable[..., object] = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self, block_bytes=size: plain(self, size))

    assert usual == answer(job)


def test_order_of_files_does_not_matter(job: pathlib.Path) -> None:
    """Files in any order are the same job."""
    files = sorted(job.iterdir())
    want = answer(*files)
    for seed in range(3):
        assert want == answer(*random.Random(seed).sample(files, len(files)))


def test_line_ends_do_not_matter(tmp_path: pathlib.Path) -> None:
    """A log that went through Windows reads the same, but for its size."""
    text = woven(4, 400)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x.log").write_text(text, newline="")
    (tmp_path / "b" / "x.log").write_bytes(text.replace("\n", "\r\n").encode())
    a, b = answer(tmp_path / "a"), answer(tmp_path / "b")

    assert a.replace(str(len(text)), "N") == b.replace(str(len(text) + text.count("\n")), "N")


def test_compression_does_not_matter(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unpacked in a thread of its own or not, the text is the text."""
    import gzip

    monkeypatch.setattr(pipeline, "_AHEAD_BYTES", 0)
    text = woven(4, 6000).encode()
    for name, data in (("a", text), ("b", gzip.compress(text))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.log").write_bytes(data)

    assert answer(tmp_path / "a") == answer(tmp_path / "b")


def test_digests_do_not_matter(job: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Digests made file by file, merged in any order, are the same as one run."""
    files = sorted(job.iterdir())
    want = answer(*files)
    for n, file in enumerate(files):
        pipeline.write_digests(
            pipeline.digest_sources([str(file)], KNOWN), str(tmp_path / f"{n}.rrd")
        )
    made = sorted(map(str, tmp_path.iterdir()))
    for seed in range(3):
        digests = pipeline.read_digests(random.Random(seed).sample(made, len(made)))
        assert want == report.render_json(pipeline.conclude(digests, KNOWN), "test")
