"""The page of results: a plane of undisturbed cost and break-even discount, tables, and all shortfalls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.query.drawing.picture import page, write
from qoop.tpcds.results import read
from qoop.tpcds.spot import sent
from qoop.tpcds.spot.markets import EXPONENTIAL, SOURCES, Market, at_hand
from qoop.tpcds.spot.measures import Ratio
from qoop.tpcds.spot.records import Run, runs
from qoop.tpcds.spot.summary import Row, Summary

_COLOURS = ("#2f6fa8", "#e8973a", "#5fae57", "#b277c0", "#d9666c", "#4fb0b5", "#c7b02e", "#9a836b")
_HEADS = (
    "engine", "stretch of the reference", "of its own", "starts credited", "reference : engine", "break-even discount",
    "waste", "right in time", "losses", "start s", "to next reply s", "to busy CPUs s", "wait p50, p95 s",
    "machine s a task", "durable MB", "at the end", "disturbed",
)  # fmt: skip


@dataclass(frozen=True)
class Section:
    """Results that may be compared: of one machine, data, and versions. files: where they are from."""

    settings: Mapping[str, Any]
    engines: Mapping[str, Mapping[str, str]]
    files: Sequence[Path]
    summary: Summary
    problems: Sequence[str]

    @property
    def wrong(self) -> Sequence[str]:
        """Wrong answers, with the reasons."""
        return [f"{run.key}: {work}: {why}" for run in self.summary.runs for work, why in run.wrong.items()]


def make(files: Sequence[Path], target: Path, traces: Path | None = None) -> list[Section]:
    """Check files of results and write the page. Raises ConfigError for a file that has no results."""
    found = sections(files, traces)
    body = [part for number, section in enumerate(found) for part in _section(section, number, len(found))]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {target.parent} cannot be made: {error.strerror}") from error
    body.append(_list("Orders of engines that differ between results", list(_other_orders(found))))
    write(page("SQL engines under recorded spot markets", _HEAD, *body), target)
    return found


def sections(files: Sequence[Path], traces: Path | None = None) -> list[Section]:
    """The results by what has to be equal for a ratio: settings, and versions of each engine."""
    markets = _markets(files, traces)
    groups: dict[str, list[Path]] = {}
    for file in files:
        kept = read(file)
        fixed = {name: value for name, value in kept.values.items() if name.startswith(("engine ", "market "))}
        clash = next((name for name, group in groups.items() if _agree(json.loads(name), kept.settings, fixed)), None)
        groups.setdefault(clash or json.dumps([kept.settings, fixed], sort_keys=True), []).append(file)
    return [_of_files(own, markets) for own in groups.values()]


def _agree(group: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> bool:
    """True if results have the settings of a group, and no other version or trace."""
    known = group[1]
    return group[0] == settings and all(known.get(name, value) == value for name, value in fixed.items())


def _markets(files: Sequence[Path], traces: Path | None) -> Mapping[str, Market]:
    """The markets of the files that are at hand without a fetch."""
    named = {name.removeprefix("market ") for file in files for name in read(file).values if name.startswith("market ")}
    known = {name: at_hand(name, traces) for name in named if name in SOURCES or name == EXPONENTIAL}
    return {name: market for name, market in known.items() if market is not None}


def _of_files(files: Sequence[Path], markets: Mapping[str, Market]) -> Section:
    values: dict[str, Any] = {}
    for file in files:
        values |= read(file).values
    engines = {name.removeprefix("engine "): value for name, value in values.items() if name.startswith("engine ")}
    problems = [problem for file in files for problem in sent.problems(file, markets)]
    return Section(read(files[0]).settings, engines, files, Summary(_whole(runs(values))), problems)


def _whole(found: Iterator[Run]) -> Iterator[Run]:
    return (run for run in found if run.events)


def lines(found: Sequence[Section]) -> Iterator[str]:
    """The figures for a terminal."""
    for section in found:
        yield _about(section)
        for row in section.summary.rows():
            cells = [_cell(cell) for cell in _cells(row)[1:8]]
            yield f"{row.work_class:6} {_pressure(row):12} {row.engine:15} " + "  ".join(cells)
        yield from (
            f"{engine} cannot run {', '.join(names)}" for (engine, _), names in section.summary.unable().items()
        )
        yield from (f"PROBLEM {problem}" for problem in [*section.problems, *section.wrong])


def _section(section: Section, number: int, count: int) -> Iterator[str]:
    yield f"<h2>Results{f' {number + 1}' if count > 1 else ''}</h2><p>{escape(_about(section))}</p>"
    rows = section.summary.rows()
    for work_class in dict.fromkeys(row.work_class for row in rows):
        own = [row for row in rows if row.work_class == work_class and not row.notice]
        yield f"<h3>Class {work_class}</h3>{_plane(own)}"
    for name in dict.fromkeys((row.work_class, _pressure(row)) for row in rows):
        own = [row for row in rows if (row.work_class, _pressure(row)) == name]
        yield f"<h3>{escape(' '.join(name))}</h3>{_table(own)}"
    unable = [f"{engine}: {', '.join(names)}" for (engine, _), names in section.summary.unable().items()]
    yield _list("What an engine cannot run even undisturbed", unable)
    yield _list("Wrong answers", section.wrong)
    yield _list("Gates of the harness that did not hold", list(_gates(rows)))
    yield _list("Problems of the files", section.problems)


def _gates(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        where = f"{row.work_class}, {_pressure(row)}, {row.engine}"
        if row.disturbed:
            yield f"{where}: other programs used over 5 % of a CPU in {row.disturbed} of {row.runs} runs; do not cite"
        if row.late:
            yield f"{where}: a kill came more than 20 ms late in {row.late} runs"
        if row.survived:
            yield f"{where}: processes lived on for more than 100 ms after a kill in {row.survived} runs"


def _other_orders(found: Sequence[Section]) -> Iterator[str]:
    """The places where engines do not come in the same order in all sections, as they should at all scales."""
    orders = [_orders(section.summary.rows()) for section in found]
    for where in dict.fromkeys(where for one in orders for where in one):
        known = {number: one[where] for number, one in enumerate(orders, start=1) if where in one}
        common = set.intersection(*map(set, known.values()))
        shared = {number: tuple(name for name in order if name in common) for number, order in known.items()}
        if len(set(shared.values())) > 1:
            yield f"{where}: " + "; ".join(f"results {number}: {', '.join(order)}" for number, order in shared.items())


def _orders(rows: Sequence[Row]) -> Mapping[str, Sequence[str]]:
    """By class and pressure the engines that have a rank, the fastest first."""
    found: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        if row.faster is not None and row.is_ranked:
            found.setdefault(f"{row.work_class}, {_pressure(row)}", []).append((-row.faster.value, row.engine))
    return {where: [engine for _, engine in sorted(own)] for where, own in found.items()}


def _about(section: Section) -> str:
    settings, own = section.settings, section.settings["machine"]
    engines = ", ".join(f"{name} {value['version']}" for name, value in section.engines.items())
    return (
        f"Specification {settings['specification']}; {own['processor']}, {settings['cpus']} of {own['cpus']} CPUs, "
        f"{settings['memory'] / 1e9:g} GB; TPC-DS at scale {settings['data']['scale']}; seed {settings['seed']}; "
        f"{engines}; {len(section.summary.runs)} runs."
    )


def _pressure(row: Row) -> str:
    notice = f", notice {row.notice:g} s" if row.notice else ""
    return (f"pressure {row.pressure:g}" if row.pressure else "undisturbed") + notice


def _table(rows: Sequence[Row]) -> str:
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(cell))}</td>" for cell in _cells(row)) + "</tr>" for row in rows
    )
    return f"<table><tr>{heads}</tr>{body}</table>"


def _cells(row: Row) -> Sequence[object]:
    """Of a row, in the order of the heads."""
    name = row.engine if row.is_ranked else f"{row.engine} (wrong answers: no rank)"
    return (
        name, row.reference, row.own, row.credited, row.faster, _missing(row.price), _missing(row.work),
        f"{row.right:.1%}", row.losses, row.start, row.recovery, _busy(row.busy),
        _cell(row.waits), row.machine, row.durable / 1e6,
        "not measured" if row.durable_end is None else row.durable_end / 1e6, f"{row.disturbed} of {row.runs}",
    )  # fmt: skip


def _busy(seconds: Sequence[float | None]) -> str | None:
    """The median of those that are known, and how many they are."""
    known = [one for one in seconds if one is not None]
    if not seconds:
        return None
    return f"{median(known):.2f} ({len(known)} of {len(seconds)})" if known else f"(0 of {len(seconds)})"


def _missing(part: Ratio | None) -> Ratio | None:
    """The part that a ratio lacks to 1."""
    return None if part is None else Ratio(1 - part.value, 1 - part.high, 1 - part.low)


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_cell, value))
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _list(title: str, items: Sequence[str]) -> str:
    body = "".join(f"<li>{escape(item)}</li>" for item in items) or "<li>none</li>"
    return f"<h3>{title}</h3><ul>{body}</ul>"


_WIDTH, _HEIGHT, _EDGE = 560, 320, 44


def _plane(rows: Sequence[Row]) -> str:
    """Undisturbed stretch of the reference, and break-even discount: a line for each engine over the pressures."""
    calm = {row.engine: row.reference.value for row in rows if not row.pressure and row.reference}
    widest = max([1.5, *calm.values()]) * 1.15
    parts = [_axes(widest)]
    for place, (engine, across) in enumerate(calm.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        points = [(row.pressure, 1 - row.price.value) for row in rows if row.engine == engine and row.price]
        x = _EDGE + (_WIDTH - 2 * _EDGE) * across / widest
        drawn = [(pressure, _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * max(0.0, one)) for pressure, one in points]
        parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for _, y in drawn)}" stroke="{colour}"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" stroke="none"><title>{escape(engine)}, '
            f"{f'pressure {pressure:g}' if pressure else 'undisturbed'}</title></circle>"
            for pressure, y in drawn
        ]
        parts.append(_text(x + 6, min(y for _, y in drawn) - 6 - 11 * (place % 3), engine, colour))
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" font-size="11" fill="none">{"".join(parts)}</svg>'


def _axes(widest: float) -> str:
    low, right = _HEIGHT - _EDGE, _WIDTH - _EDGE
    lines = f'<path d="M{_EDGE} {_EDGE}V{low}H{right}" stroke="#999"/>'
    ticks = [_text(8, low - (_HEIGHT - 2 * _EDGE) * part + 4, f"{part:.0%}") for part in (0, 0.25, 0.5, 0.75, 1)]
    across = [
        _text(_EDGE + (_WIDTH - 2 * _EDGE) * one / widest - 3, low + 14, str(one)) for one in range(int(widest) + 1)
    ]
    names = _text(_EDGE, 16, "break-even discount") + _text(
        right - 190, low + 30, "undisturbed time over the reference's"
    )
    return lines + "".join([*ticks, *across]) + names


def _text(x: float, y: float, text: str, colour: str = "#555") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{escape(text)}</text>'


_HEAD = (
    "<h1>SQL engines under recorded spot markets</h1>"
    "<p>The cost of an answer on a machine that comes and goes. Time runs to the right answer, or to ten undisturbed "
    "times of the reference, which then count. The break-even discount is the discount from which on spot machines pay "
    "for this engine, against the engine that needs the fewest machine-seconds undisturbed. A point is a pressure: "
    "mean time between losses over the undisturbed time of the reference. Intervals: 95 %, bootstrap over tasks and "
    "windows.</p>"
)
