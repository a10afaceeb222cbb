"""From a step in SQL to its iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from qoop.catalog.errors import ConfigError
from qoop.programs.iterate.curves import Kind
from qoop.programs.iterate.iteration import Iteration
from qoop.programs.iterate.planning import StepPlanning
from qoop.programs.steps import Steps
from qoop.query.options import jobs, part

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog
    from qoop.query.job import Starts
    from qoop.query.planning import QueryPlanning
    from qoop.query.tables import SessionTables


def iterated(
    text: str,
    first: object,
    tables: SessionTables,
    planning: QueryPlanning,
    start: Starts,
    loss: str,
    until: float,
    most: int,
    former: str,
    curve: Kind | None,
    tell: MessageLog | None = None,
) -> Iteration:
    """See `Session.iterate`. first: the table that the first step reads. tell: see `Iteration`. Raises ConfigError."""
    part("until", until)
    jobs("most", most)
    if curve is not None and curve not in get_args(Kind):
        raise ConfigError(f"curve must be one of {', '.join(get_args(Kind))}, not {curve!r}")
    if not former.isidentifier():
        raise ConfigError(f"former must be a name that needs no quotes, not {former!r}")
    tables.look_again(text)
    if former.lower() in tables.named(text):
        raise ConfigError(f"there is a table {former} already: give another name as former")
    plans = StepPlanning(text, former, tables, planning.apart)
    try:
        return Iteration(first, plans, start, Steps(int(most), until), loss, curve, tell)
    except BaseException:
        plans.close()
        raise
