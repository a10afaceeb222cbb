"""``qoop bench report``: one page that holds what the suite measured, and its figures as files.

The page needs nothing else. It tells how faithful the simulator is first, since all that follows rests on it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.query.drawing.picture import page, write
from qoop.tpcds.results import read
from qoop.tpcds.suite.charts import Picture
from qoop.tpcds.suite.criteria import Criterion, criteria, reasons
from qoop.tpcds.suite.figures import FIGURES, Figure
from qoop.tpcds.suite.runner import Measured, known
from qoop.tpcds.suite.runs import RunRecord, Suite

PARTS = ("fidelity", "profiles", "toy", "micro", "ablation", "macro")


@dataclass(frozen=True)
class Found:
    """The parts of which there are results: their settings and values."""

    settings: Mapping[str, Mapping[str, Any]]
    measured: Mapping[str, Measured]

    def values(self, part: str) -> Mapping[str, Any]:
        """The values of one part; empty without measurements."""
        return self.measured[part].values if part in self.measured else {}

    def only(self, parts: Sequence[str]) -> Found:
        """Nothing but these parts."""
        kept = {part: one for part, one in self.measured.items() if part in parts}
        return Found({part: self.settings[part] for part in kept}, kept)

    def suite(self) -> Suite:
        """The results that the figures are drawn from."""
        single = ("micro", "ablation")
        micro, ablation = ([RunRecord.of(value) for value in self.values(part).values()] for part in single)
        return Suite(
            micro, ablation, macro=self.values("macro"), toy=self.values("toy"),
            fidelity=self.values("fidelity").get("fidelity", {}),
            profiles=self.values("profiles"),
        )  # fmt: skip


def load(folder: Path) -> Found:
    """The results in a folder. Raises ConfigError if there is nothing."""
    files = {part: folder / f"{part}.jsonl" for part in PARTS}
    kept = {part: read(path) for part, path in files.items() if path.exists()}
    if not kept:
        raise ConfigError(f"{folder} holds no results; `qoop bench suite DIR` makes some")
    return Found(
        {part: one.settings for part, one in kept.items()},
        {part: known(one.values) for part, one in kept.items()},
    )


def make(found: Found, target: Path) -> list[Criterion]:
    """Write the page ``report.html`` and the figures, as SVG and PNG, to a folder; return the table of criteria.

    Raises ConfigError if that cannot be written.
    """
    suite = found.suite()
    table = criteria(suite)
    try:
        (target / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write the report to {target}: {error.strerror}") from error
    sections = {figure.number: _drawn(figure, suite, target) for figure in FIGURES}
    first = sections.pop(FIGURES[0].number)
    parts = [
        _head(found),
        *_fidelity(found),
        first,
        _table(table),
        *(f"<p>{escape(why)}</p>" for why in reasons(suite)),
    ]
    parts += sections.values()
    write(page("qoop: the paper's evaluation", f"<style>{_STYLE}</style>", *parts), target / "report.html")
    return table


def lines(table: Iterable[Criterion]) -> Iterator[str]:
    """The table for a terminal."""
    for criterion in table:
        met = {True: "met", False: "NOT MET", None: ""}[criterion.met]
        yield f"{criterion.figure:5} {criterion.what:58} {criterion.paper:26} {criterion.ours:44} {met}".rstrip()


def _head(found: Found) -> str:
    rows = "".join(
        f"<tr><td>{escape(part)}</td><td class=n>{len(one.values):,}</td><td class=n>{len(one.failed):,}</td>"
        f"<td class=n>{one.cpu_seconds:,.0f}</td><td>{escape(_settings(found.settings[part]))}</td></tr>"
        for part, one in found.measured.items()
    )
    return (
        "<h1>The paper's evaluation</h1><p>All of it in virtual time, on the engine's own core: the simulator is a "
        "backend and a clock under the same run, cluster, scheduler and re-planner that run queries for real.</p>"
        "<table><tr><th>part</th><th>measured</th><th>failed</th><th>cpu s</th><th>settings</th></tr>"
        f"{rows}</table>"
    )


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _fidelity(found: Found) -> Iterator[str]:
    yield "<h2>How faithful the simulator is</h2>"
    if not found.values("fidelity"):
        yield "<p>Not measured here yet: <code>qoop bench suite DIR --parts fidelity</code>.</p>"
        return
    settings = _settings(found.settings["fidelity"])
    yield (
        "<p>Real runs of the queries at a small scale, and the same runs in the simulator. Every other figure rests on "
        f"this.{f' Measured with {escape(settings)}.' if settings else ''}</p>"
    )


def _table(table: Sequence[Criterion]) -> str:
    rows = "".join(
        f"<tr><td>{criterion.figure}</td><td>{escape(criterion.what)}</td><td>{escape(criterion.paper)}</td>"
        f"<td>{escape(criterion.ours)}</td>{_verdict(criterion.met)}</tr>"
        for criterion in table
    )
    return (
        f"<h2>Paper and ours</h2><p>{summary(table)}</p>"
        "<table><tr><th>figure</th><th>what</th><th>paper</th><th>ours</th><th>met</th></tr>"
        f"{rows}</table>"
    )


def summary(table: Sequence[Criterion]) -> str:
    """A sentence: how many of the criteria are met."""
    held = [criterion for criterion in table if criterion.met is not None]
    return f"{sum(bool(criterion.met) for criterion in held)} of {len(held)} things that must be shown are met."


def _verdict(met: bool | None) -> str:
    if met is None:
        return "<td></td>"
    return '<td class="met">met</td>' if met else '<td class="short">not met</td>'


def _drawn(figure: Figure, suite: Suite, target: Path) -> str:
    """The figure's section of the page; its files are written."""
    picture = figure.draw(suite)
    if picture is not None:
        write(picture.svg, target / "figures" / f"{figure.name}.svg")
        write(picture.png, target / "figures" / f"{figure.name}.png")
    return _section(figure, picture)


def _section(figure: Figure, picture: Picture | None) -> str:
    title = f"{'Figure ' if figure.number[0].isdigit() else ''}{figure.number}: {figure.title}"
    body = f"<h3>{escape(title)}</h3><p>Paper: {escape(figure.paper)}.</p>"
    if picture is None:
        return f"{body}<p>Not measured yet.</p>"
    data = b64encode(picture.svg).decode()
    return f'{body}<img src="data:image/svg+xml;base64,{data}" alt="{escape(title)}">'


_STYLE = (
    "img{max-width:100%}h3{margin-top:36px}td.met{color:#2e7d32}td.short{color:#c62828;font-weight:600}"
    "table{margin:12px 0}"
)
