"""Notebooks: results and jobs as HTML, and ``%%qoop``, a cell of SQL that is shown while it runs.

In IPython: ``%load_ext qoop``, then ``%qoop DIR`` opens data, and a cell that begins with ``%%qoop`` runs SQL. Its
answer is the result of the cell; ``%%qoop name`` also assigns it to a variable. ``%qoop SELECT …`` runs a line of SQL.
``%%qoop --approximate`` shows an answer that grows, with bars for its intervals. ``%%qoop --tenant reports`` names the
tenant. ``%qoop session`` uses an existing session. ``%%qoop --detach name`` runs a query in a process that outlives the
kernel; the same cell run again, or ``%qoop --attach name``, shows its progress, and takes its answer. ``%%qoop --sweep
options`` runs the cell as the step of a sweep, whose other arguments are in the variable `options`.
"""

from __future__ import annotations

import re
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import ConfigError, QueryError
from qoop.query.drawing.html import BAR, GREY, SHOWN_ROWS, job_html

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qoop.interfaces.detached import DetachedRun
    from qoop.programs.approximate.edition import Edition
    from qoop.programs.sweeps.study import Study
    from qoop.query.job import Job
    from qoop.query.result import Result
    from qoop.session.session import Session

_BAR_WIDTH = 160
_GROWS = "--approximate"
_TERMS = {
    "--tenant": ("tenant", "the tenant of the queries"),
    "--deadline": ("deadline", "the seconds in which answers are needed"),
    "--priority": ("priority", "the urgency of answers, from 1 to 10"),
}
_DETACH = "--detach"
_SWEEP = "--sweep"
_AT_ONCE = 2.0
"""Seconds for which a cell waits for the answer of a query that it detaches."""
_OPTION = re.compile(r"(?<!\S)--[a-z]")


def edition_html(edition: Edition) -> str:
    """An edition of a growing answer: its first rows, and a bar for each interval; a column has one scale."""
    result = edition.result
    rows = result.slice(0, SHOWN_ROWS).fetchall()
    texts = list(result.slice(0, SHOWN_ROWS).text_rows())
    heads, columns = [], []
    for at, bounded in edition.places():
        heads.append(f"<th>{escape(result.columns[at])}</th>")
        columns.append([f"<td>{escape(text[at] or ('NULL' if text[at] is None else ''))}</td>" for text in texts])
        if bounded:
            heads.append("<th></th>")
            columns.append(_bars([(row[at + 1], row[at + 2]) for row in rows]))
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*columns, strict=True))
    notes = "".join(f"<div{GREY}>{escape(note)}</div>" for note in edition.notes)
    head = f"{BAR.format(fraction=edition.share)} {escape(str(edition))}"
    return f"<div>{head}</div><table><thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _bars(intervals: Sequence[tuple[float | None, float | None]]) -> list[str]:
    ends = [end for pair in intervals for end in pair if end is not None]
    least, most = min([0.0, *ends]), max([0.0, *ends])
    scale = _BAR_WIDTH / (most - least) if most > least else 0.0
    return [f"<td>{_bar((low - least) * scale, (high - least) * scale) if low is not None and high is not None else ''}"
            "</td>" for low, high in intervals]  # fmt: skip


def _bar(low: float, high: float) -> str:
    middle, width = (low + high) / 2, max(1.0, high - low)
    return (
        f'<svg width="{_BAR_WIDTH}" height="12"><rect x="0" y="4" width="{middle:.1f}" height="4" fill="#bbb"/>'
        f'<rect x="{low:.1f}" y="1" width="{width:.1f}" height="10" fill="#36c" fill-opacity="0.6"/></svg>'
    )


def _taken(words: list[str], flag: str) -> tuple[list[str], str]:
    """The words without a flag and its value, and that value."""
    place = words.index(flag)
    if place + 1 == len(words):
        what = _TERMS[flag][1] if flag in _TERMS else "a variable with the arguments of session.sweep, such as params"
        raise ConfigError(f"{flag} needs a value: {what}")
    return words[:place] + words[place + 2 :], words[place + 1]


class Magic:
    """``%qoop`` and ``%%qoop`` of one notebook. shell: IPython's."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The session of the notebook's cells, opened when it is first used."""
        if self._session is None:
            from qoop.session.opening import connect

            self._session = connect()
        return self._session

    def line(self, line: str) -> Session | Result | None:
        """``%qoop``: the session; ``%qoop PATH``: open data; ``%qoop name``: use the session of that name; ``%qoop
        SELECT …``: run SQL; ``%qoop --attach name``, ``%qoop --cancel name``: a detached query."""
        from qoop.session.session import Session

        text = line.strip()
        flag, _, name = text.partition(" ")
        if flag == "--attach":
            return self._attached(name.strip())
        if flag == "--cancel":
            self._cancel(name.strip())
            return None
        named = self._shell.user_ns.get(text)
        if isinstance(named, Session):
            self._session = named
        elif _OPTION.search(text):
            raise ConfigError(
                "%qoop takes --attach, --cancel, no options: write session = qoop.connect(slots=…), then %qoop session"
            )
        elif " " in text and not Path(text).exists():
            return self.session.sql(text, watch=_show)
        elif text:
            self.session.register_path(text)
        return self.session

    def cell(self, line: str, cell: str) -> Result | Study | None:
        """Run the statements of a cell, and show them while they run: ``%%qoop [--approximate | --detach | --sweep
        OPTIONS] [--tenant NAME] [--deadline SECONDS] [--priority 1-10] [name]``. Tenant, deadline and priority stay
        those of the cells to come. --detach: see :mod:`qoop.interfaces.detached`."""
        words = line.split()
        for flag, (option, _) in _TERMS.items():
            if flag in words:
                words, value = _taken(words, flag)
                self.session.set(option, value)
        swept = ""
        if _SWEEP in words:
            words, swept = _taken(words, _SWEEP)
        grows, detached = _GROWS in words, _DETACH in words
        name = " ".join(word for word in words if word not in (_GROWS, _DETACH))
        if name and not name.isidentifier():
            flags = ", ".join([_GROWS, _DETACH, _SWEEP, *_TERMS])
            raise ConfigError(f"%%qoop takes {flags}, and the name that the answer is to have, not {name!r}")
        if detached:
            if grows or not name:
                raise ConfigError(f"{_DETACH} needs a name, as in %%qoop {_DETACH} report, and no {_GROWS}")
            return self._detached(name, cell)
        if swept and grows:
            raise ConfigError(f"{_SWEEP} and {_GROWS} exclude each other")
        result: Result | Study
        if swept:
            result = self._swept(cell, swept)
        else:
            result = self._grown(cell) if grows else self.session.sql(cell, watch=_show)
        if name:
            self._shell.user_ns[name] = result
        return result

    def _detached(self, name: str, cell: str) -> Result | None:
        """Attach to the detached query, or begin it, and wait for a moment."""
        from qoop.interfaces.detached import detach, detached_runs

        found = next((run for run in detached_runs() if run.name == name), None)
        if found is None:
            run = detach(self.session, cell, name)
            if run.wait(_AT_ONCE) and run.ended:
                return self._taken(run)
            print(f"{_goes_on(run)}. qoop runs {run.record.checkpoints} lists it")
            return None
        if found.record.text.strip() != cell.strip():
            raise ConfigError(f"{name} is another detached query. Take another name, or end it: %qoop --cancel {name}")
        return self._attached(name)

    def _attached(self, name: str) -> Result | None:
        """The answer of a detached query, whose progress is shown until then; None if Ctrl-C ends the wait."""
        from qoop.interfaces.detached import DetachedRun

        run = DetachedRun(name)
        if run.attach():
            print(f"the process of {name} had ended: another one goes on")
        page: Any = import_module("IPython.display")
        shown = page.display(page.HTML(run.progress_html()), display_id=True)
        try:
            while not run.wait(0.3):
                shown.update(page.HTML(run.progress_html()))
        except KeyboardInterrupt:
            print(_goes_on(run))
            return None
        shown.update(page.HTML(run.progress_html()))
        return self._taken(run)

    def _taken(self, run: DetachedRun) -> Result:
        result = self._shell.user_ns[run.name] = run.result()
        return result

    def _cancel(self, name: str) -> None:
        from qoop.interfaces.detached import DetachedRun

        DetachedRun(name).cancel()

    def _swept(self, cell: str, name: str) -> Study:
        """The study of a sweep whose step is the cell, which is shown while it runs; Ctrl-C stops the sweep."""
        options = self._shell.user_ns.get(name)
        if not isinstance(options, dict):
            raise ConfigError(f"{_SWEEP} {name}: there must be a variable {name} = dict(params={{…}}, metric=…)")
        from qoop.programs.sweeps.report import study_html

        study = self.session.sweep(cell, **options)
        page: Any = import_module("IPython.display")
        shown = page.display(page.HTML(study_html(study)), display_id=True)
        try:
            while not study.wait(0.3):
                shown.update(page.HTML(study_html(study)))
        except KeyboardInterrupt:
            study.stop()
        shown.update(page.HTML(""))  # the study is the answer of the cell, which shows it
        return study

    def _grown(self, cell: str) -> Result:
        """The last edition of the answer to a query, which is shown while it grows."""
        from qoop.query.statements.statement import Approximate, statements

        statement, *others = statements(f"APPROXIMATE {cell}")
        if others:
            raise QueryError(f"a cell with {_GROWS} holds one query, not {1 + len(others)} statements")
        assert isinstance(statement, Approximate)
        answer = self.session.approximate(
            statement.text, statement.error, statement.confidence, if_busy=statement.if_busy
        )
        page: Any = import_module("IPython.display")
        shown = None
        try:
            for edition in answer.editions():
                html = page.HTML(edition_html(edition))
                if shown is None:
                    shown = page.display(html, display_id=True)
                else:
                    shown.update(html)
        except KeyboardInterrupt:
            if answer.stop() is None:
                raise
        return answer.last().result


def _goes_on(run: DetachedRun) -> str:
    return (
        f"{run.name} goes on in process {run.process}, without this notebook. Its answer: this cell again, or "
        f"%qoop --attach {run.name}; its end: %qoop --cancel {run.name}"
    )


def _show(job: Job) -> None:
    """Show a job that runs for longer than a moment, until it has ended."""
    if job.wait(0.3):
        return
    page: Any = import_module("IPython.display")  # partly typed
    shown = page.display(page.HTML(job_html(job)), display_id=True)
    while not job.wait(0.2):
        shown.update(page.HTML(job_html(job)))
    shown.update(page.HTML(job_html(job)))


def load_ipython_extension(shell: Any) -> None:
    """Do the work of ``%load_ext qoop``."""
    magic = Magic(shell)

    def qoop(line: str, cell: str | None = None) -> Session | Result | Study | None:
        """SQL in a notebook.

        %qoop PATH       open a file, a folder or a database
        %qoop NAME       take a session of that name
        %qoop SELECT …   run SQL
        %qoop --attach NAME, %qoop --cancel NAME
                         take the answer of a detached query, or end it
        %%qoop [--approximate | --detach | --sweep OPTIONS] [--tenant NAME] [--deadline SECONDS] [--priority 1-10]
               [NAME]
                         run the SQL of the cell; NAME is a variable that gets the answer.
                         --detach runs it in a process that goes on after the kernel.
                         --sweep runs it with many settings; OPTIONS is a variable with the arguments of session.sweep
        """
        return magic.line(line) if cell is None else magic.cell(line, cell)

    shell.register_magic_function(qoop, magic_kind="line_cell", magic_name="qoop")
