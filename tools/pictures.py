"""Draw the terminal pictures of the README from real output: python tools/pictures.py

Each picture is what the command prints, in colour, at 96 columns; nothing is typed by hand.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).parents[1]
PICTURES = {
    "silent-rank": ["demo", "silent-rank"],
    "frozen-offload": ["demo", "frozen-offload"],
}
WIDTH, CHAR, LINE, PAD = 96, 8.43, 18, 18
COLOURS = {31: "#ff6b6b", 32: "#7bd88f", 33: "#f2c14e", 34: "#78a9ff", 35: "#d6a2e8", 36: "#6fc3df"}
_SGR = re.compile(r"\x1b\[([\d;]*)m")


def run(arguments: list[str]) -> str:
    """Return the coloured output of one command."""
    command = [
        sys.executable,
        "-m",
        "rootrank",
        *arguments,
        "--color",
        "always",
        "--width",
        str(WIDTH),
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=env, check=False
    ).stdout


def spans(line: str) -> list[tuple[int, str, str]]:
    """Return (column, text, SVG attributes) for each run of one style."""
    out: list[tuple[int, str, str]] = []
    column, style = 0, ""
    codes: set[int] = set()
    for n, part in enumerate(_SGR.split(line)):
        if n % 2:
            for code in (int(c or 0) for c in part.split(";")):
                codes = set() if code == 0 else codes | {code}
            colour = next(
                (
                    COLOURS[c % 60 if c > 89 else c]
                    for c in codes
                    if c in COLOURS or c - 60 in COLOURS
                ),
                "",
            )
            style = (
                (f' fill="{colour}"' if colour else "")
                + (' font-weight="bold"' if 1 in codes else "")
                + (' opacity="0.6"' if 2 in codes else "")
            )
        elif part:
            lead = len(part) - len(part.lstrip(" "))
            if part.strip():
                out.append((column + lead, part.strip(" "), style))
            column += len(part)
    return out


def draw(command: str, text: str) -> str:
    """Return the SVG of a terminal that shows a command and what it printed."""
    lines = [f"\x1b[1m$ {command}\x1b[0m", "", *text.rstrip("\n").split("\n")]
    width, height = round(WIDTH * CHAR + 2 * PAD), len(lines) * LINE + 2 * PAD
    rows = [
        f'<text x="{PAD + column * CHAR:.1f}" y="{PAD + (n + 0.8) * LINE:.1f}" textLength="{len(run) * CHAR:.1f}" lengthAdjust="spacingAndGlyphs"{style}>{escape(run)}</text>'
        for n, line in enumerate(lines)
        for column, run, style in spans(line)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
        f"<title>$ {escape(command)}</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#1d1f24"/>\n'
        f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14" fill="#e6e6e6" xml:space="preserve">\n'
        + "\n".join(rows)
        + "\n</g>\n</svg>\n"
    )


def main() -> None:
    """Write docs/images/<name>.svg for each picture."""
    folder = ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for name, arguments in PICTURES.items():
        (folder / f"{name}.svg").write_text(
            draw(f"rootrank {' '.join(arguments)}", run(arguments)), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
