"""The benchmark: python bench/run.py CORPORA [--rounds 5] [--only NAME,…] [--out bench/results.json] [--docs docs]

Makes the corpora that are missing, then runs rootrank and its peers in turns, every task in a process of its own, and
prints the medians of CPU time (user and system, children included), wall time and peak memory, the ratios to ripgrep
with the same patterns in the same run, and for every bar of the project whether it holds. `--docs` redraws the plots
of docs/performance.md. CPU time and ratios mean something on a busy machine; wall time does not.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

import corpora

HERE = pathlib.Path(__file__).parent
SOURCE = HERE.parent / "src"


@dataclass
class Task:
    """One command and what it reads."""

    name: str
    argv: list[str]
    reads: str = ""  # corpus; "" for none
    env: dict[str, str] = field(default_factory=dict)
    once: bool = False  # too slow for several rounds


@dataclass
class Run:
    """What one run cost."""

    cpu_s: float
    wall_s: float
    rss_mb: float
    code: int


def patterns(out: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Write what rootrank looks for: as ripgrep patterns, and as plain literals. Look-around, which rg lacks, is a literal."""
    from rootrank import pipeline
    from rootrank.knowledge.load import load_knowledge

    known = load_knowledge()
    engine, _ = pipeline.tools_for(known)
    found, covered = set(), set()
    for entry in known.entries.values():
        for s in entry.signals:
            if s.literal and s.regex and not re.search(r"\(\?[=!<]", s.regex):
                found.add(s.regex)
                covered.update(s.literal)
    of_entries = {x for e in known.entries.values() for s in e.signals for x in s.literal}
    found |= {
        _quoted(x)
        for i, x in enumerate(engine.literals)
        if x not in covered or i in engine.parsers or x not in of_entries
    }
    regexes, literals = out / "patterns.txt", out / "literals.txt"
    regexes.write_text("".join(f"{x}\n" for x in sorted(found) if "\n" not in x))
    literals.write_text("".join(f"{x}\n" for x in sorted(engine.literals)))
    return regexes, literals


def _quoted(text: str) -> str:
    return re.sub(r"([\\.+*?()|\[\]{}^$#&\-~])", r"\\\1", text)


BASELINE = """
import re, sys
words = [x.rstrip("\\n").encode() for x in open(sys.argv[1], encoding="utf-8")]
print(len(re.findall(b"|".join(map(re.escape, words)), open(sys.argv[2], "rb").read())))
"""


def tasks(c: pathlib.Path, regexes: pathlib.Path, literals: pathlib.Path) -> list[Task]:
    """Return every task; those whose program is missing are left out."""
    me = [sys.executable, "-m", "rootrank"]
    env = {"PYTHONPATH": str(SOURCE)}
    big = str(c / "interleaved.log")
    made = [
        Task("cat", ["sh", "-c", f"cat {big} >/dev/null"], "interleaved.log"),
        Task(
            "rg",
            ["rg", "-a", "-c", "-j1", "--no-unicode", "-f", str(regexes), big],
            "interleaved.log",
        ),
        Task(
            "rg literals",
            ["rg", "-a", "-c", "-j1", "--no-unicode", "-F", "-f", str(literals), big],
            "interleaved.log",
        ),
        Task(
            "grep -F",
            ["env", "LC_ALL=C", "grep", "-a", "-c", "-F", "-f", str(literals), big],
            "interleaved.log",
            once=True,
        ),
        Task("rootrank", [*me, big], "interleaved.log", env),
        Task("rootrank, 2 workers", [*me, big, "--jobs", "2"], "interleaved.log", env),
        Task("rootrank, re2", [*me, big], "interleaved.log", {**env, "ROOTRANK_MATCHER": "re2"}),
        Task(
            "rootrank, stdlib",
            [*me, big],
            "interleaved.log",
            {**env, "ROOTRANK_MATCHER": "stdlib"},
            once=True,
        ),
        Task(
            "re baseline, 1 MB",
            [sys.executable, "-c", BASELINE, str(literals), str(c / "one_mb.log")],
            "one_mb.log",
            once=True,
        ),
        Task("half", [*me, str(c / "half.log")], "half.log", env),
        Task("quarter", [*me, str(c / "quarter.log")], "quarter.log", env),
        Task("one line", [*me, str(c / "oneline.log")], "oneline.log", env),
        Task("storm", [*me, str(c / "storm.log")], "storm.log", env),
        Task("binary", [*me, str(c / "binary.bin")], "binary.bin", env),
        Task("gz", [*me, str(c / "quarter.log.gz")], "quarter.log", env),
        Task("zst", [*me, str(c / "quarter.log.zst")], "quarter.log", env),
        Task("1,024 ranks, 1 worker", [*me, str(c / "ranks1024")], "ranks1024", env, once=True),
        Task(
            "1,024 ranks, 2 workers", [*me, str(c / "ranks1024"), "--jobs", "2"], "ranks1024", env
        ),
        Task("10,000 digests", [*me, "merge", str(c / "digests")], "digests", env, once=True),
        Task(
            "5,000 digests",
            [*me, "merge", *(str(c / "digests" / f"{n}.rrd") for n in range(5000))],
            "",
            env,
            once=True,
        ),
        Task("--help", [*me, "--help"], "", env),
        Task("1 KB", [*me, str(c / "one_kb.log")], "one_kb.log", env),
        Task("1 MB", [*me, str(c / "one_mb.log")], "one_mb.log", env),
    ]
    return [t for t in made if shutil.which(t.argv[0])]


def run(task: Task) -> Run:
    """Run a task once."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as nowhere:  # not /dev/null: grep then stops at its first match
        process = subprocess.Popen(
            task.argv, stdout=nowhere, stderr=nowhere, env={**os.environ, **task.env}
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Run(
        usage.ru_utime + usage.ru_stime,
        time.perf_counter() - start,
        usage.ru_maxrss / 1024,
        process.returncode,
    )


def size_of(path: pathlib.Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    return sum(p.stat().st_size for p in path.iterdir()) if path.is_dir() else path.stat().st_size


def measure(c: pathlib.Path, every: list[Task], rounds: int) -> dict[str, dict[str, float]]:
    """Run all tasks in turns and return the medians by name."""
    runs: dict[str, list[Run]] = {t.name: [] for t in every}
    for t in every:  # warm the page cache and what rootrank keeps between starts
        if not t.once:
            run(t)
    for n in range(rounds):
        for t in every:
            if n == 0 or not t.once:
                runs[t.name].append(run(t))
                print(".", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    out = {}
    for t in every:
        done = runs[t.name]
        size = size_of(c / t.reads) if t.reads else 0
        cpu = statistics.median(r.cpu_s for r in done)
        out[t.name] = {
            "cpu_s": cpu, "cpu_min_s": min(r.cpu_s for r in done), "wall_s": statistics.median(r.wall_s for r in done), "rss_mb": max(r.rss_mb for r in done),
            "bytes": size, "cpu_s_per_gb": cpu / size * 1e9 if size else 0.0, "mb_per_cpu_s": size / 1e6 / cpu if size and cpu else 0.0, "runs": len(done),
            "code": done[-1].code,
        }  # fmt: skip
    return out


def bars(m: dict[str, dict[str, float]]) -> list[tuple[str, float, float, str, bool]]:
    """Return (what, measured, limit, unit, whether it holds) for every bar whose tasks ran."""
    out: list[tuple[str, float, float, str, bool]] = []

    def bar(
        what: str, needs: list[str], value: object, limit: float, unit: str, at_least: bool = False
    ) -> None:
        if all(n in m for n in needs):
            v = value()  # type: ignore[operator]
            out.append((what, v, limit, unit, v >= limit if at_least else v <= limit))

    def cpu(name: str) -> float:
        return m[name]["cpu_s"]

    def normal(size: float) -> float:
        """Return the CPU seconds of an ordinary log of a size, start-up included."""
        a, b = m["quarter"], m["rootrank"]
        slope = (b["cpu_s"] - a["cpu_s"]) / (b["bytes"] - a["bytes"])
        return a["cpu_s"] + slope * (size - a["bytes"])

    bar(
        "whole engine CPU against rg, same patterns, 1 GB",
        ["rg", "rootrank"],
        lambda: cpu("rootrank") / cpu("rg"),
        0.60,
        "x rg",
    )
    bar(
        "re2 back end against rg",
        ["rg", "rootrank, re2"],
        lambda: cpu("rootrank, re2") / cpu("rg"),
        2.0,
        "x rg",
    )
    bar(
        "stdlib back end",
        ["rootrank, stdlib"],
        lambda: m["rootrank, stdlib"]["mb_per_cpu_s"],
        10,
        "MB/s",
        True,
    )
    one = ["rootrank", "one line", "storm", "quarter"]
    bar(
        "peak memory, one worker, any input",
        one,
        lambda: max(m[n]["rss_mb"] for n in one),
        80,
        "MB",
    )
    bar(
        "peak memory of the largest of two workers",
        ["rootrank, 2 workers"],
        lambda: m["rootrank, 2 workers"]["rss_mb"],
        110,
        "MB",
    )
    for name in ("storm", "one line", "binary"):
        bar(
            f"{name} against a normal log of its size",
            [name, "rootrank", "quarter"],
            lambda name=name: cpu(name) / normal(m[name]["bytes"]),
            2.5,
            "x",
        )
    bar("--help, CPU", ["--help"], lambda: cpu("--help"), 0.12, "s")
    bar("1 KB log, cold, CPU", ["1 KB"], lambda: cpu("1 KB"), 0.20, "s")
    bar("1 MB log, cold, CPU", ["1 MB"], lambda: cpu("1 MB"), 0.30, "s")
    bar(
        "1,024 ranks x 2 MB, two workers, wall time",
        ["1,024 ranks, 2 workers"],
        lambda: m["1,024 ranks, 2 workers"]["wall_s"],
        10,
        "s",
    )
    bar(
        "10,000 digests merged and diagnosed, CPU",
        ["10,000 digests"],
        lambda: cpu("10,000 digests"),
        20,
        "s",
    )
    bar(
        "10,000 digests, peak memory",
        ["10,000 digests"],
        lambda: m["10,000 digests"]["rss_mb"],
        1000,
        "MB",
    )
    bar(
        "cost against size, 1 GB / 0.5 GB",
        ["half", "rootrank"],
        lambda: cpu("rootrank") / cpu("half"),
        2.15,
        "x",
    )
    bar(
        "cost against ranks, 10,000 digests / 5,000",
        ["10,000 digests", "5,000 digests"],
        lambda: cpu("10,000 digests") / cpu("5,000 digests"),
        2.15,
        "x",
    )
    return out


# --------------------------------------------------------------------------- plots


def bar_chart(title: str, rows: list[tuple[str, float]], unit: str) -> str:
    """Return an SVG of horizontal bars; readable on light and dark pages."""
    top = max((v for _, v in rows), default=1.0) or 1.0
    height = 40 + 26 * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" font-family="system-ui,sans-serif" font-size="13" role="img" aria-label="{title}">',
        "<style>text{fill:#333}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
        f'<text x="8" y="20" font-weight="600">{title}</text>',
    ]
    for n, (name, value) in enumerate(rows):
        y = 36 + 26 * n
        color = "#2b7de9" if name.startswith("rootrank") else "#9aa4b2"
        parts.append(
            f'<text x="8" y="{y + 14}">{name}</text><rect x="200" y="{y}" width="{420 * value / top:.1f}" height="18" rx="2" fill="{color}"/>'
        )
        parts.append(
            f'<text x="{206 + 420 * value / top:.1f}" y="{y + 14}">{value:,.0f} {unit}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def line_chart(title: str, points: list[tuple[float, float, float]]) -> str:
    """Return an SVG of CPU seconds (left) and memory (right) against size."""
    width, height, left, low = 720, 300, 60, 250
    far = max((x for x, _, _ in points), default=1.0)
    high, most = max(y for _, y, _ in points) * 1.1, max(max(z for _, _, z in points) * 1.1, 100)

    def at(x: float, y: float, top: float) -> str:
        return f"{left + 580 * x / far:.1f},{low - 200 * y / top:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui,sans-serif" font-size="13" role="img" aria-label="{title}">',
        "<style>text{fill:#333}.a{stroke:#888}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
        f'<text x="8" y="20" font-weight="600">{title}</text><path class="a" fill="none" d="M{left},40V{low}H{left + 580}V40"/>',
        f'<polyline fill="none" stroke="#2b7de9" stroke-width="2" points="{" ".join(at(x, y, high) for x, y, _ in points)}"/>',
        f'<polyline fill="none" stroke="#d9822b" stroke-width="2" points="{" ".join(at(x, z, most) for x, _, z in points)}"/>',
    ]
    for x, y, z in points:
        parts.append(f'<text x="{left + 580 * x / far - 24:.0f}" y="{low + 18}">{x:,.0f} MB</text>')
        parts.append(
            f'<text x="{left + 580 * x / far - 40:.0f}" y="{low - 200 * y / high - 8:.0f}" fill="#2b7de9">{y:.2f} s</text>'
        )
        parts.append(
            f'<text x="{left + 580 * x / far - 40:.0f}" y="{low - 200 * z / most - 8:.0f}" fill="#d9822b">{z:.0f} MB RSS</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def draw(m: dict[str, dict[str, float]], docs: pathlib.Path) -> None:
    """Write the plots of docs/performance.md."""
    folder = docs / "images"
    folder.mkdir(parents=True, exist_ok=True)
    names = [
        "rg literals",
        "rg",
        "grep -F",
        "rootrank",
        "rootrank, re2",
        "rootrank, stdlib",
        "re baseline, 1 MB",
    ]
    rows = [(n, m[n]["mb_per_cpu_s"]) for n in names if n in m]
    (folder / "throughput.svg").write_text(
        bar_chart("Megabytes per CPU second, 64 ranks in one stream", rows, "MB/s")
    )
    sizes = [
        (m[n]["bytes"] / 1e6, m[n]["cpu_s"], m[n]["rss_mb"])
        for n in ("1 MB", "quarter", "half", "rootrank")
        if n in m
    ]
    if sizes:
        (folder / "size.svg").write_text(
            line_chart("CPU time and peak memory against size, one worker", sizes)
        )


# --------------------------------------------------------------------------- all of it


def main() -> int:
    """Run, print, write, draw. Returns 1 when a bar is missed."""
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("corpora", type=pathlib.Path)
    ap.add_argument("--mb", type=int, default=1000)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--only", default="", help="task names, separated by semicolons")
    ap.add_argument("--out", type=pathlib.Path, default=HERE / "results.json")
    ap.add_argument("--docs", type=pathlib.Path)
    a = ap.parse_args()
    sys.path.insert(0, str(SOURCE))
    names = "interleaved,half,quarter,ranks1024,oneline,storm,binary,small,tiny,gz,zst,digests"
    corpora.make(a.corpora, a.mb, names.split(","))
    every = tasks(a.corpora, *patterns(a.corpora))
    wanted = [w.strip() for w in a.only.split(";") if w.strip()]
    every = [t for t in every if not wanted or t.name in wanted]
    m = measure(a.corpora, every, a.rounds)
    base = m.get("rg", {}).get("cpu_s_per_gb", 0.0)
    print(
        f"{'task':26} {'CPU s':>8} {'s/GB':>7} {'x rg':>6} {'MB/CPU s':>9} {'wall s':>7} {'RSS MB':>7}"
    )
    for name, r in m.items():
        ratio = f"{r['cpu_s_per_gb'] / base:6.2f}" if base and r["bytes"] > 1e8 else "     -"
        print(
            f"{name:26} {r['cpu_s']:8.3f} {r['cpu_s_per_gb']:7.2f} {ratio} {r['mb_per_cpu_s']:9.0f} {r['wall_s']:7.2f} {r['rss_mb']:7.0f}"
        )
    print()
    missed = 0
    rows = bars(m)
    for what, value, limit, unit, holds in rows:
        missed += not holds
        over = "" if holds else f"   MISSED: {value / limit:.2f} of the bar"
        print(f"{'ok ' if holds else '!! '} {what:52} {value:8.2f} {unit:5} (bar {limit:g}){over}")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    a.out.write_text(json.dumps({"machine": machine, "medians": m, "bars": rows}, indent=1) + "\n")
    if a.docs:
        draw(m, a.docs)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
