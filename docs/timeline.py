"""Draw what a query did: its tasks as bars over time on the slots, its stages as EXPLAIN names them (`make picture`).

The picture is plain SVG and shows one real run, the shortest of some: others may use the machine, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import qoop
from qoop.engine.history import Record, Started, Succeeded
from qoop.job import StageReport
from qoop.tpcds.data import generate
from qoop.tpcds.queries import text

WIDTH, MARGIN, LANE, LINE = 900, 64, 30, 19
COLOURS = ("#3b6fb6", "#e08a2c", "#4f9d57", "#c2504f", "#8466b0", "#8a6552", "#d279b1", "#7c7c7c", "#b0a52c", "#35a5b5")
LABEL_LENGTH, RUNS = 76, 7
AXIS_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Bar:
    """A task that put out its rows: when, and on which slots."""

    stage: str
    begun: float
    ended: float
    first_slot: int
    slots: int


def bars(history: Sequence[Record]) -> list[Bar]:
    """Give every task the lowest slots that were free when it started."""
    ends = {record.attempt: record.at for record in history if isinstance(record, Succeeded)}
    busy_until: list[float] = []
    found = []
    for record in history:
        if isinstance(record, Started) and record.attempt in ends:
            slots, end = round(record.resources.cpu), ends[record.attempt]
            first = _free(busy_until, record.at, slots)
            busy_until[first : first + slots] = [end] * slots
            found.append(Bar(record.attempt.task.stage, record.at, end, first, slots))
    return found


def _free(busy_until: list[float], at: float, slots: int) -> int:
    """The lowest slot from which so many are free; grows the list if none are."""
    first = 0
    while any(end > at for end in busy_until[first : first + slots]):
        first += 1
    busy_until.extend([0.0] * (first + slots - len(busy_until)))
    return first


def draw(title: str, reports: Sequence[StageReport], tasks: Sequence[Bar]) -> str:
    """The picture as SVG."""
    lanes = max(bar.first_slot + bar.slots for bar in tasks)
    end = max(bar.ended for bar in tasks)
    colours = {report.stage.id: COLOURS[index % len(COLOURS)] for index, report in enumerate(reports)}
    axis = 44 + lanes * LANE
    height = axis + 46 + len(reports) * LINE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        ' font-size="12" fill="#333">',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>',
        f'<text x="16" y="25" font-size="14" font-weight="bold">{escape(title)}</text>',
        *_lanes(lanes),
        *_axis(end, axis),
        *(_bar(bar, end, colours[bar.stage]) for bar in tasks),
        *_legend(reports, colours, axis + 46),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(at: float, end: float) -> float:
    return MARGIN + at / end * (WIDTH - MARGIN - 24)


def _lanes(lanes: int) -> Iterator[str]:
    for lane in range(lanes):
        yield f'<text x="16" y="{44 + lane * LANE + 18}" fill="#777">slot {lane + 1}</text>'


def _axis(end: float, y: int) -> Iterator[str]:
    step = next((step for step in AXIS_STEPS if end / step <= 10), AXIS_STEPS[-1])
    for tick in range(int(end / step) + 1):
        x = _x(tick * step, end)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="40" y2="{y + 4}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{y + 17}" text-anchor="middle" fill="#777">{tick * step * 1000:g} ms</text>'


def _bar(bar: Bar, end: float, colour: str) -> str:
    left, right = _x(bar.begun, end), _x(bar.ended, end)
    width, height = max(right - left - 1, 1), bar.slots * LANE - 4
    top = 44 + bar.first_slot * LANE + 2
    shape = f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{height}" rx="2" fill="{colour}"/>'
    if width < 20:
        return shape
    middle = f'x="{left + width / 2:.1f}" y="{top + height / 2 + 4:.0f}"'
    return f'{shape}<text {middle} text-anchor="middle" fill="#fff">{bar.stage}</text>'


def _legend(reports: Sequence[StageReport], colours: dict[str, str], y: int) -> Iterator[str]:
    for index, report in enumerate(reports):
        stage, top = report.stage, y + index * LINE
        label = stage.label if len(stage.label) <= LABEL_LENGTH else stage.label[: LABEL_LENGTH - 1] + "…"
        tasks = f"{report.tasks} task{'s' if report.tasks > 1 else ''}"
        threads = f" of {stage.slots} threads" if stage.slots > 1 else ""
        yield f'<rect x="16" y="{top - 10}" width="12" height="12" rx="2" fill="{colours[stage.id]}"/>'
        yield f'<text x="36" y="{top}">{stage.id}</text><text x="{MARGIN}" y="{top}">{escape(label)}</text>'
        yield (
            f'<text x="{WIDTH - 24}" y="{top}" text-anchor="end" fill="#777">{tasks}{threads},'
            f" {report.rows:,} row{'s' if report.rows != 1 else ''}</text>"
        )


def run(session: qoop.Session, query: str) -> qoop.Job:
    """The job at its end."""
    job = session.submit(query)
    job.result()
    return job


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("picture", type=Path, metavar="FILE.svg")
    options.add_argument("--data", type=Path, default=Path.home() / ".cache" / "qoop" / "data")
    options.add_argument("--query", type=int, default=14, metavar="N", help="of TPC-DS (14)")
    options.add_argument("--slots", type=int, default=2, metavar="N")
    arguments = options.parse_args()
    data = arguments.data / "tpcds-sf1"
    generate(1, data)
    with qoop.connect(slots=arguments.slots) as session:
        session.register_folder(data)
        job = min((run(session, text(arguments.query)) for _ in range(RUNS)), key=lambda job: job.history()[-1].at)
    title = f"TPC-DS query {arguments.query}, scale 1, {arguments.slots} slots"
    arguments.picture.write_text(draw(title, job.stage_reports(), bars(job.history())))


if __name__ == "__main__":
    main()
