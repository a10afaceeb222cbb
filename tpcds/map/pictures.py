"""Heat maps: the gain of changing plan, and the best system of each cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.query.drawing.picture import write
from qoop.tpcds.map.cells import DOWN, SHARES, SMALLEST, UP, Cell, cells
from qoop.tpcds.map.records import Group, Record, groups
from qoop.tpcds.map.systems import CEILING, CLARINET, GREEDY, OURS, REAL, ROBUST
from qoop.tpcds.suite import charts
from qoop.tpcds.suite.charts import CYCLE, Picture, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Table = Sequence[Sequence[float]]
_MOST = 2.5
"""Gains from here on have one colour."""
_BEST: Mapping[str, str] = dict(zip(REAL, ("#f1ece2", CYCLE[1], CYCLE[2], CYCLE[0]), strict=True))
_NOTHING = float("nan")


def draw(name: str, known: Sequence[Record], folder: Path) -> None:
    """Write the pictures of a part, as SVG and PNG. Raises ConfigError if that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write pictures to {folder}: {error.strerror}") from error
    found = groups(known)
    for title, drawn in _drawn(name, found).items():
        write(drawn.svg, folder / f"{title}.svg")
        write(drawn.png, folder / f"{title}.png")


def _drawn(name: str, found: Mapping[str, Group]) -> dict[str, Picture]:
    if name != "map":
        return {name: by_class(found)}
    return {"map-shares": shares(found), "map-axes": axes_of(found), "map-joins": joins(found)}


def shares(found: Mapping[str, Group]) -> Picture:
    """Share at launch × share later: the gains of ours and of the ceiling over Clarinet, and the best system."""
    with sheet(panels=3, width=3.9, height=3.7) as page:
        for axes, system in zip(page.axes, (OURS, CEILING), strict=False):
            table = _by_shares(found, lambda group, system=system: group.mean_gain(system))  # type: ignore[misc]
            _heat(axes, table, SHARES, SHARES)
            charts.labels(axes, f"Gain over {CLARINET}: {system}{_smallest(found, system)}", *_SHARES)
        _legend(page.axes[2], found)
        return page.picture()


_SHARES = ("slots later", "slots at launch")


def _by_shares(found: Mapping[str, Group], value: Callable[[Group], float]) -> Table:
    def at(before: int, after: int) -> float:
        group = found.get(Cell("shares", before, after).name)
        return value(group) if group is not None else _NOTHING

    return [[at(before, after) for after in SHARES] for before in SHARES]


def _smallest(found: Mapping[str, Group], system: str) -> str:
    group = found.get(Cell("shares", *SMALLEST).name)
    return f"\n(2 to 60 slots: {group.mean_gain(system):.2f})" if group is not None else ""


def _heat(axes: Axes, table: Table, rows: Sequence[object], columns: Sequence[object]) -> None:
    """Numbers on colours: white for 1, blue for a gain, red for a loss, by their logarithm."""
    from matplotlib.colors import LogNorm

    axes.imshow(table, cmap="RdBu", norm=LogNorm(1 / _MOST, _MOST), aspect="auto")
    for y, row in enumerate(table):
        for x, value in enumerate(row):
            if value == value:
                colour = "white" if not 0.55 < value < 1.8 else "black"
                axes.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=8, color=colour)
    _ticks(axes, rows, columns)


def _ticks(axes: Axes, rows: Sequence[object], columns: Sequence[object]) -> None:
    axes.set_xticks(range(len(columns)), [str(one) for one in columns])
    axes.set_yticks(range(len(rows)), [str(one) for one in rows])
    axes.grid(visible=False)
    axes.tick_params(length=0)


def _legend(axes: Axes, found: Mapping[str, Group]) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    table = _by_shares(found, lambda group: float(REAL.index(group.best)))
    axes.imshow(
        table, cmap=ListedColormap([_BEST[name] for name in REAL]), vmin=-0.5, vmax=len(REAL) - 0.5, aspect="auto"
    )
    _ticks(axes, SHARES, SHARES)
    handles = [Patch(facecolor=_BEST[name], edgecolor="#999999", label=name) for name in REAL]
    charts.labels(axes, "Best system (the simplest within 1 %)", *_SHARES, legend=False)
    axes.legend(handles=handles, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.16), columnspacing=0.9)


def axes_of(found: Mapping[str, Group]) -> Picture:
    """All other axes: a row for each value, and the gain of each system over Clarinet."""
    systems = (ROBUST, GREEDY, OURS, CEILING)
    with sheet(panels=2, width=4.6, height=5.4) as page:
        for axes, pair in zip(page.axes, (UP, DOWN), strict=True):
            some = [cell for cell in _along(pair) if cell.name in found]
            table = [[found[cell.name].mean_gain(system) for system in systems] for cell in some]
            if table:
                names = [_ROW.get(cell.axis, cell.axis).format(cell.value) for cell in some]
                _heat(axes, table, names, systems)
            charts.labels(axes, f"Gain over {CLARINET}: {pair[0]} to {pair[1]} slots", "", "", legend=False)
        return page.picture()


_ROW = {
    "shares": "base point", "moment": "after {} of the run", "steps": "{} steps in a run", "work": "tasks × {}",
    "error": "estimates: {}", "memory": "memory × {}", "memory falls": "memory falls, slots stay",
}  # fmt: skip


def _along(pair: tuple[int, int]) -> list[Cell]:
    base = Cell("shares", *pair)
    return [base, *(cell for cell in cells() if cell.axis != "shares" and cell.before == pair[0])]


def joins(found: Mapping[str, Group]) -> Picture:
    """By query, in order of its joins: the mean gain over the cells in which the share grows, and in which it falls."""
    with sheet(panels=2, width=4.4) as page:
        for axes, grows in zip(page.axes, (True, False), strict=True):
            names = [Cell("shares", b, a).name for b in SHARES for a in SHARES if b != a and (b < a) == grows]
            records = [one for name in names if name in found for one in found[name].records]
            queries = sorted({(one.joins, one.query) for one in records})
            labels = [f"{query}\n({count})" for count, query in queries]
            for system, colour in ((GREEDY, CYCLE[2]), (OURS, CYCLE[0]), (CEILING, "#777777")):
                gains = [fmean(r.gain(system) for r in records if r.query == query) for _, query in queries]
                axes.plot(range(len(gains)), gains, "o-", label=system, color=colour, markersize=4)
            axes.set_xticks(range(len(labels)), labels)
            charts.labels(axes, f"The share {'grows' if grows else 'falls'}", "query (joins)", f"gain over {CLARINET}")
        return page.picture()


def by_class(found: Mapping[str, Group]) -> Picture:
    """The gain of each system over Clarinet, a row for each class and length."""
    systems = (ROBUST, GREEDY, OURS, "hindsight", CEILING)
    with sheet(width=6.4, height=1.2 + 0.24 * len(found)) as page:
        (axes,) = page.axes
        _heat(axes, [[group.mean_gain(one) for one in systems] for group in found.values()], list(found), systems)
        charts.labels(axes, f"Gain over {CLARINET}", "", "", legend=False)
        return page.picture()
