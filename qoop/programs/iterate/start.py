"""From a step in SQL to its iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from qoop.catalog.errors import ConfigError
from qoop.programs.iterate.curves import Kind
from qoop.programs.iterate.iteration import Iteration
from qoop.programs.iterate.planning import StepPlanning, read_former
from qoop.programs.steps import Steps
from qoop.query.options import jobs, part

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog
    from qoop.programs.iterate.iteration import StepOptions
    from qoop.query.job import Starts
    from qoop.query.planning import QueryPlanning
    from qoop.query.tables import SessionTables


def iterated(
    text: str,
    first: object,
    tables: SessionTables,
    planning: QueryPlanning,
    options: StepOptions,
    start: Starts,
    log: MessageLog | None = None,
) -> Iteration:
    """See `Session.iterate`. first: what the first step reads. log: see `Iteration`.

    Raises ConfigError, QueryError, SourceError."""
    _check(options)
    former = read_former(text, options.former, first, tables)
    with tables.knowing([] if former is None else [former]):
        plans = StepPlanning(tables.as_read(text), options.former, tables, planning.apart)
    try:
        return Iteration(former, plans, start, Steps(int(options.most), options.until), options, log)
    except BaseException:
        plans.close()
        raise


def _check(options: StepOptions) -> None:
    part("until", options.until)
    jobs("most", options.most)
    if options.curve is not None and options.curve not in get_args(Kind):
        raise ConfigError(f"curve must be one of {', '.join(get_args(Kind))}, not {options.curve!r}")
    if not options.former.isidentifier():
        raise ConfigError(f"former must be a name that needs no quotes, not {options.former!r}")
