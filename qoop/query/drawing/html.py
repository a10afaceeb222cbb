"""Results and jobs as HTML, as notebooks show them."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from qoop.catalog.sizes import span
from qoop.engine.history import Decided
from qoop.query.drawing.table_text import shown_rows

if TYPE_CHECKING:
    from qoop.adaptive.cluster.job_status import JobStatus
    from qoop.query.job import Job
    from qoop.query.result import Result

SHOWN_ROWS = 40
GREY = ' style="color: #888"'
BAR = '<progress max="1" value="{fraction:.3f}" style="width: 12em"></progress>'


def result_html(result: Result) -> str:
    """The first and the last rows of a result as a table."""
    head, tail = shown_rows(len(result), SHOWN_ROWS)
    first = [_row(row) for row in islice(result.slice(0, head).text_rows(), head)]
    last = [_row(row) for row in result.slice(len(result) - tail, tail).text_rows()] if tail else []
    dots = [f'<tr><td colspan="{len(result.columns)}"{GREY}>⋮</td></tr>'] if tail else []
    names = "".join(
        f"<th>{escape(name)}<br><small{GREY}>{escape(type_.lower())}</small></th>"
        for name, type_ in zip(result.columns, result.types, strict=True)
    )
    total = f"{len(result):,} row{'' if len(result) == 1 else 's'}" + (f", {head + tail} of them shown" if tail else "")
    rows = "\n".join([*first, *dots, *last])
    return f"<table><thead><tr>{names}</tr></thead><tbody>\n{rows}\n</tbody></table><small{GREY}>{total}</small>"


def _row(row: tuple[str | None, ...]) -> str:
    cells = (f"<td{GREY}>NULL</td>" if value is None else f"<td>{escape(value)}</td>" for value in row)
    return f"<tr>{''.join(cells)}</tr>"


def job_html(job: Job) -> str:
    """The status of a job as HTML: stage by stage, with the switches of its plan."""
    status = job.status()
    decided = [record for record in job.history() if isinstance(record, Decided) and record.switched]
    switches = "".join(f"<li>{escape(str(record))}</li>" for record in decided)
    return _headline(job, status) + _stages(status) + (f"<ul>{switches}</ul>" if switches else "")


def _headline(job: Job, status: JobStatus) -> str:
    from qoop.query.drawing.view import ends

    parts = [
        job.id,
        job.state.lower(),
        ends(status.left),
        f"{status.progress.fraction:.0%}",
        span(status.elapsed),
    ]
    return f"<div><b>{escape(' · '.join(filter(None, parts)))}</b></div>"


def _stages(status: JobStatus) -> str:
    rows = "".join(
        f"<tr><td>{escape(stage.stage)}</td><td>{escape(stage.label)}</td>"
        f"<td>{BAR.format(fraction=stage.fraction)}</td>"
        f"<td>{stage.done}/{stage.total}</td><td>{stage.rows:,} rows</td></tr>"
        for stage in status.progress.stages
    )
    return f"<table>{rows}</table>"
