"""Draw docs/shell.svg: the shell on a separate terminal, while a query runs and most of the machine is taken away.

Run by `make picture`. The tables are those of docs/tutorial.md, made by the commands it gives.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from html import escape
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from screen import Screen  # what the tests of the shell look at

ROOT = Path(__file__).parent.parent

QUERY = (
    "SELECT city, month(day) AS month, count(*) AS orders,{enter}"
    "       count(DISTINCT customer) AS customers, median(price) AS usual{enter}"
    "FROM orders JOIN customers USING (customer){enter}"
    "GROUP BY city, month ORDER BY orders DESC LIMIT 5;{enter}"
)
COLUMNS, LINES = 100, 18
_WIDE, _HIGH, _MARGIN, _BAR = 8.4, 19, 16, 30
_COLOURS = {
    "default": "#d8dee9", "black": "#3b4252", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b",
    "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#d8dee9", "brightblack": "#7f8898",
}  # fmt: skip
"""Of pyte's names, on a dark ground."""

Cell = tuple[str, bool, str]
"""Colour, whether bold, and the character."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path, help="where the tutorial's folder shop is, or shall be made")
    options.add_argument("--picture", type=Path, default=ROOT / "docs" / "shell.svg", metavar="FILE")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as home:
        arguments.picture.write_text(draw(recorded(shop(arguments.folder), Path(home))))


def shop(folder: Path) -> Path:
    """The tutorial's tables, made unless they are there."""
    data = folder / "shop"
    if not data.exists():
        folder.mkdir(parents=True, exist_ok=True)
        blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / "tutorial.md").read_text(), re.MULTILINE | re.DOTALL)
        script = "\n".join(block for block in blocks if "COPY" in block)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["bash", "-e"], input=script, cwd=folder, env=os.environ | {"PATH": path}, text=True, check=True)
    return data


def recorded(data: Path, home: Path) -> list[list[Cell]]:
    """The lines of the screen some moments after the plan was changed."""
    screen = Screen(str(data), "--slots", "4", "--memory", "4GB", columns=COLUMNS, lines=LINES, home=home)
    try:
        screen.wait("2 tables")
        screen.type(QUERY)
        screen.wait("ends in", "4 running")
        screen.type("\\resize slots=1 memory=1GB{enter}")
        screen.wait("switched plan")
        time.sleep(1.5)
        return screen.cells()
    finally:
        screen.close()


def draw(lines: list[list[Cell]]) -> str:
    """A window with these lines, as SVG that needs no font but the reader's own."""
    while lines and not any(character.strip() for _, _, character in lines[-1]):
        lines = lines[:-1]
    width, height = COLUMNS * _WIDE + 2 * _MARGIN, len(lines) * _HIGH + _BAR + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-size="14"'
        ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace">',
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#20242c"/>',
        *(f'<circle cx="{x}" cy="15" r="5" fill="#4c5463"/>' for x in (20, 38, 56)),
    ]
    for number, line in enumerate(lines):
        parts += _line(line, _BAR + (number + 0.7) * _HIGH)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(line: list[Cell], y: float) -> list[str]:
    """A text for each run of one colour, stretched to its place, whatever the width of the font."""
    made, place = [], 0
    for (colour, bold), run in groupby(line, lambda cell: cell[:2]):
        text = "".join(character for _, _, character in run)
        left = len(text) - len(text.lstrip())
        if text.strip():
            shown = text.strip()
            weight = ' font-weight="bold"' if bold else ""
            made.append(
                f'<text x="{_MARGIN + (place + left) * _WIDE:.1f}" y="{y:.1f}" textLength="{len(shown) * _WIDE:.1f}"'
                f' lengthAdjust="spacingAndGlyphs" xml:space="preserve" fill="{_COLOURS.get(colour, f"#{colour}")}"'
                f"{weight}>{escape(shown)}</text>"
            )
        place += len(text)
    return made


if __name__ == "__main__":
    main()
