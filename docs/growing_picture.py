"""Draw docs/figures/growing.svg: an answer that grows, edition by edition. Run by `make picture`.

The rows are drawn by a seed and the order of the pieces is, too, so the picture comes out the same each time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np
import pyarrow as pa

import qoop
from qoop.programs.approximate.edition import Edition
from qoop.query.drawing.picture import FONT

ROWS, GOAL = 4_000_000, 0.01
TEXT = "SELECT shop, sum(price) AS income FROM sales GROUP BY shop ORDER BY shop"
SHOPS = ("A", "B", "C")
_COLOURS, _INK, _GRID = ("#2f6f9f", "#5fae57", "#c2703d"), "#222222", "#e4e4e0"
_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 380, 64, 96, 52, 64


def editions() -> list[Edition]:
    """All editions of the answer, to the exact one."""
    rng = np.random.default_rng(5)
    shop = rng.choice(np.array(SHOPS), ROWS, p=[0.5, 0.3, 0.2])
    trend = 1 + 0.5 * np.sin(np.arange(ROWS) / 40_000)  # days differ, and their rows lie together
    sales = pa.table({"shop": shop, "price": np.round(rng.gamma(1.0, 30.0, ROWS) * trend).astype(np.int64)})
    with qoop.connect(slots=2, memory="1GB") as session:
        session.register("sales", sales)
        session.set("exact_within", 0)
        return list(session.approximate(TEXT, error=0.0, seed=3).editions())


def main() -> None:
    """Write the picture."""
    target = Path(__file__).parent / "figures" / "growing.svg"
    target.write_text(drawn(editions()) + "\n")
    print(target)


def drawn(shown: Sequence[Edition]) -> str:
    """The picture: part read from left to right, doubling; each estimate as its distance from the truth."""
    truth = [row[1] for row in shown[-1].plain().fetchall()]
    most = 1.15 * max(abs(end) for one in shown for _, _, *ends in _bars(one, truth) for end in ends)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" font-family="{FONT}" font-size="13">',
        f"<title>An answer that grows</title><desc>{escape(TEXT)}: estimates with intervals by the part read</desc>",
        f'<rect width="{_WIDE}" height="{_HIGH}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="24" fill="{_INK}" font-size="15">{escape(TEXT.removesuffix(" ORDER BY shop"))}</text>',
        *_axes(shown, most),
    ]
    for one in shown:
        for place, (shop, estimate, low, high) in enumerate(_bars(one, truth)):
            parts += _bar(_x(one.share, shown) + (place - 1) * 14, place, shop, estimate, low, high, most)
    return "\n".join([*parts, *_legend(shown, most), "</svg>"])


def _bars(edition: Edition, truth: Sequence[int]) -> Iterator[tuple[str, float, float, float]]:
    """By shop: the estimate and the ends of its interval, as parts of the truth above or below it."""
    for (shop, estimate, low, high, _), right in zip(edition.result.fetchall(), truth, strict=True):
        yield shop, estimate / right - 1, low / right - 1, high / right - 1


def _x(share: float, shown: Sequence[Edition]) -> float:
    first = math.log2(shown[0].share)
    return _LEFT + 34 + (_WIDE - _LEFT - _RIGHT - 68) * (1 - math.log2(share) / first)


def _y(off: float, most: float) -> float:
    return _TOP + (_HIGH - _TOP - _BOTTOM) * (0.5 - off / most / 2)


def _axes(shown: Sequence[Edition], most: float) -> Iterator[str]:
    right = _WIDE - _RIGHT
    high, low = _y(GOAL, most), _y(-GOAL, most)
    yield f'<rect x="{_LEFT}" y="{high:.1f}" width="{right - _LEFT}" height="{low - high:.1f}" fill="#f0f4f0"/>'
    step = 10 ** math.floor(math.log10(most))
    for number in range(-math.floor(most / step), math.floor(most / step) + 1):
        y, ink = _y(number * step, most), _INK if number == 0 else _GRID
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{ink}"/>'
        label = f"{number * step:+.0%}" if number else "truth"
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{_INK}">{label}</text>'
    for one in shown:
        label = "all: exact" if one.exact else f"{one.share:.1%}" if one.share < 0.1 else f"{one.share:.0%}"
        x, y = _x(one.share, shown), _HIGH - _BOTTOM
        yield f'<text x="{x:.1f}" y="{y + 20}" text-anchor="middle" fill="{_INK}">{label}</text>'
    x, y = (_LEFT + right) / 2, _HIGH - 20
    yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle" fill="{_INK}">part of the table that was read</text>'


def _bar(x: float, place: int, shop: str, estimate: float, low: float, high: float, most: float) -> Iterator[str]:
    colour, top, bottom = _COLOURS[place], _y(high, most), _y(low, most)
    yield f"<g><title>{shop}: {estimate:+.2%}, from {low:+.2%} to {high:+.2%}</title>"
    yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" stroke="{colour}" stroke-width="3"/>'
    yield f'<circle cx="{x:.1f}" cy="{_y(estimate, most):.1f}" r="4.5" fill="{colour}"/></g>'


def _legend(shown: Sequence[Edition], most: float) -> Iterator[str]:
    x = _WIDE - _RIGHT + 20
    for place, shop in enumerate(SHOPS):
        y = _TOP + 10 + 20 * place
        yield f'<circle cx="{x}" cy="{y - 4}" r="4.5" fill="{_COLOURS[place]}"/>'
        yield f'<text x="{x + 12}" y="{y}" fill="{_INK}">shop {shop}</text>'
    yield f'<text x="{x - 14}" y="{_y(0, most) - 8:.1f}" fill="{_INK}">within 1 %</text>'


if __name__ == "__main__":
    main()
