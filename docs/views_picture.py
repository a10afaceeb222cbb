"""Draw docs/figures/views.svg: the lag of a view with a goal, as files come. Run by `make picture`.

The program of a view runs on a virtual clock, so the picture comes out the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from qoop.adaptive.program import Begin
from qoop.programs.views.freshness import Freshness, Refresh, RefreshEnded, TablesCompared, Wait
from qoop.query.drawing.picture import FONT

GOAL, SECONDS, END = 30.0, 2.0, 150.0
"""The goal of the view, the time of a refresh, and the end of the picture, in seconds."""

_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 300, 56, 24, 40, 48
_LAG, _FILE, _INK, _GRID = "#2f6f9f", "#c2703d", "#222222", "#e4e4e0"


def main() -> None:
    """Write the picture."""
    target = Path(__file__).parent / "figures" / "views.svg"
    target.write_text(drawn() + "\n")
    print(target)


def arrivals() -> list[float]:
    """The times at which files come."""
    draw, found = Random(4), [3.0]
    while found[-1] < END:
        found.append(found[-1] + draw.uniform(2, 14))
    return found[:-1]


def lag(came: Sequence[float]) -> list[tuple[float, float]]:
    """The lag of the view at the times at which it changes its course."""
    state, _ = Freshness(GOAL, seconds=SECONDS).after(Begin())
    at, done, points = 0.0, 0.0, [(0.0, 0.0)]
    while at < END:
        since = next((one for one in came if done < one <= at), None)
        state, orders = state.after(TablesCompared(at, since))
        if any(isinstance(order, Refresh) for order in orders):
            oldest, done, at = next(one for one in came if one > done), at, at + SECONDS
            points += [(oldest, 0.0)] if oldest > points[-1][0] else []
            points.append((at, at - oldest))
            left = next((one for one in came if done < one <= at), at)
            points.append((at, at - left))
            state, orders = state.after(RefreshEnded(at, SECONDS))
        at = next(max(order.until, at + 0.01) for order in orders if isinstance(order, Wait))
    return points


def drawn() -> str:
    """The picture: the lag over time below the goal; a mark for each file."""
    came = arrivals()
    path = " ".join(f"{_x(at):.1f},{_y(lag):.1f}" for at, lag in lag(came) if at <= END)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}"',
            f' font-family="{FONT}" font-size="13"><title>The lag of a view with a goal</title>',
            f'<rect width="{_WIDE}" height="{_HIGH}" fill="#ffffff"/>',
            *_axes(),
            f'<polyline points="{path}" fill="none" stroke="{_LAG}" stroke-width="2.5"/>',
            *(f'<circle cx="{_x(at):.1f}" cy="{_y(0):.1f}" r="4" fill="{_FILE}"/>' for at in came),
            f'<text x="{_LEFT}" y="24" fill="{_INK}" font-size="15">the lag of a view, refresh by refresh</text>',
            "</svg>",
        ]
    )


def _axes() -> Iterator[str]:
    right = _WIDE - _RIGHT
    for seconds in range(0, 41, 10):
        y = _y(seconds)
        ink, dash = (_INK, ' stroke-dasharray="6 4"') if seconds == GOAL else (_GRID, "")
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{ink}"{dash}/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{_INK}">{seconds} s</text>'
    yield f'<text x="{right}" y="{_y(GOAL) - 6:.1f}" text-anchor="end" fill="{_INK}">target_lag = 30 s</text>'
    for seconds in range(0, int(END) + 1, 30):
        yield f'<text x="{_x(seconds):.1f}" y="{_HIGH - 26}" text-anchor="middle" fill="{_INK}">{seconds} s</text>'
    x = (_LEFT + right) / 2
    yield f'<text x="{x:.1f}" y="{_HIGH - 8}" text-anchor="middle" fill="{_FILE}">a file comes at each mark</text>'


def _x(at: float) -> float:
    return _LEFT + (_WIDE - _LEFT - _RIGHT) * at / END


def _y(seconds: float) -> float:
    return _HIGH - _BOTTOM - (_HIGH - _TOP - _BOTTOM) * seconds / 40


if __name__ == "__main__":
    main()
