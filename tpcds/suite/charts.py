"""Charts in one style: distributions, lines, bars and points, drawn by matplotlib (the extra `plot`).

Nothing global is set, and the same values give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from qoop.catalog.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Mapping[str, str] = {
    "low": "#5fae57", "medium": "#e8973a", "high": "#d9666c", "QOOP": "#2f6fa8", "Clarinet": "#e8973a",
    "Volcano": "#9a836b", "paper": "#777777",
}  # fmt: skip
CYCLE = ("#2f6fa8", "#e8973a", "#5fae57", "#b277c0", "#d9666c", "#4fb0b5", "#c7b02e", "#9a836b")
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "qoop", "font.size": 9, "font.family": "DejaVu Sans", "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e6e6e6", "grid.linewidth": 0.7,
    "axes.axisbelow": True, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "legend.frameon": False, "legend.fontsize": 8, "lines.linewidth": 1.6, "axes.edgecolor": "#999999",
    "xtick.color": "#555555", "ytick.color": "#555555",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn figure, as both kinds of file."""

    svg: bytes
    png: bytes


class Sheet:
    """One figure in the making: axes side by side, or one below the other. Use :func:`sheet`."""

    def __init__(self, figure: Figure, axes: Sequence[Axes]) -> None:
        self.axes = tuple(axes)
        self._figure = figure

    def picture(self) -> Picture:
        """As files."""
        svg, png = io.BytesIO(), io.BytesIO()
        engine = self._figure.get_layout_engine()
        if engine is not None:
            engine.execute(self._figure)
            self._figure.set_layout_engine(None)  # for each of the files, it would be drawn and laid out twice again
        self._figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        self._figure.savefig(png, format="png", dpi=144, metadata={"Software": None})
        return Picture(svg.getvalue(), png.getvalue())


@contextmanager
def sheet(panels: int = 1, width: float = 4.4, height: float = 3.2, below: bool = False) -> Iterator[Sheet]:
    """Empty axes to draw on and to take the picture of. width, height: of each panel; below: one below the other.

    Raises ConfigError without the extra `plot`.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("figures need a plotting library: pip install 'qoop[plot]'") from error
    with matplotlib.rc_context(_STYLE):
        rows, columns = (panels, 1) if below else (1, panels)
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        FigureCanvasAgg(figure)
        yield Sheet(figure, [figure.add_subplot(rows, columns, number + 1) for number in range(panels)])


def labels(axes: Axes, title: str, x: str, y: str, legend: bool = True) -> None:
    """Finish axes: what they show; a legend of what has a label."""
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend()


def distribution(axes: Axes, values: Sequence[float], label: str, colour: str) -> None:
    """The part of the values up to each value."""
    ordered = sorted(values)
    parts = [100.0 * (place + 1) / len(ordered) for place in range(len(ordered))]
    axes.step([ordered[0], *ordered], [0.0, *parts], where="post", label=label, color=colour)
    axes.set_ylim(0, 101)


def log_ticks(axes: Axes, ticks: Sequence[float], which: Literal["x", "y"] = "x") -> None:
    """A logarithmic axis with these ticks as plain numbers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_ticks(list(ticks), [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def bars(
    axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[float]], colours: Mapping[str, str] = COLOURS,
    form: str = "{:.2f}",
) -> None:  # fmt: skip
    """A group of bars for each name, a bar for each series; every bar says its value."""
    width = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        places = [place - 0.4 + width * (number + 0.5) for place in range(len(groups))]
        colour = colours.get(label, CYCLE[number % len(CYCLE)])
        drawn = axes.bar(places, values, width * 0.92, label=label, color=colour)
        axes.bar_label(drawn, [form.format(value) for value in values], fontsize=7, padding=1)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.grid(visible=False, axis="x")


def paper_line(axes: Axes, value: float, text: str, across: bool = False, colour: str = COLOURS["paper"]) -> None:
    """Draw the paper's value as a dashed line. across: at that height, else at that x."""
    (axes.axhline if across else axes.axvline)(value, color=colour, linestyle=(0, (4, 3)), linewidth=1.1, label=text)
