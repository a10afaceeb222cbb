"""Early steps of a sweep over a share of a table's pieces (`fidelity="pieces"`).

The first third of a trial's steps read a tenth of the largest table, the same pieces for all trials. So their metrics
are estimates that compare fairly, and a poor trial costs a tenth. All later steps read the whole table. Where measured
seconds say that early steps do not pay, the sweep goes on without them (`Probe` of :mod:`qoop.programs.sweeps.sweep`).
The same idea: `resource="n_samples"` of scikit-learn's `HalvingGridSearchCV`.

Recorded curves, replayed in 12 orders with 2 slots, take this part of the time to the target with `pop`: logistic
regression over 1,000,000 rows 0.50 where the first 5 of 60 steps are early, 0.42 with 10, 0.33 with 15, 0.29 with 20;
k-means, of 30 steps, 0.56 with 5, 0.34 with 10, 0.29 with 15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.catalog.lexer import quoted
from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.sources.pieces import Pieces, cut
from qoop.catalog.value import value
from qoop.programs.approximate.names import Refused
from qoop.programs.iterate.planning import StepPlanning, table_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from qoop.catalog.table import Table
    from qoop.query.job import Job, Planned
    from qoop.query.planning import QueryPlanning
    from qoop.query.tables import SessionTables

SHARE = 0.1
"""The part of the pieces that early steps read."""
_PART = 3
"""Early steps are the first of this number of equal parts of a trial's steps."""
_PIECES, _FEWEST = 100, 40
"""The pieces of a table that is not read by row groups. Of fewer than these, a tenth is not spread over the table."""
_BYTES, _MOST_LOADED = 8, 1 / 16
"""The bytes of a value, and the part of the memory that pieces may take."""


@value
class EarlySteps:
    """count: the first steps of each trial, which read `table`, some pieces, in place of the whole table of its
    name. columns: that they read."""

    count: int
    table: Table
    columns: tuple[str, ...]


def early_count(every: int, most: int) -> int:
    """The number of early steps: at least those before the first decision about a trial.

    every: steps to that decision. most: steps of a trial, of which the last reads all rows.

    >>> early_count(5, 60), early_count(10, 20), early_count(3, 3)
    (20, 10, 2)
    """
    return min(max(every, most // _PART), most - 1)


def early_steps(texts: Collection[str], tables: SessionTables, seed: int, count: int) -> EarlySteps:
    """The early steps of a sweep. texts: a step, and the metric if that is a query, as the session reads them. seed:
    draws the pieces.

    Raises ConfigError where a text's answer over some pieces would not estimate that over all."""
    from qoop.programs.approximate.schedule import schedule  # few sweeps have early steps

    if count < 1:
        raise ConfigError('fidelity="pieces" needs most to be at least 2: the last step reads all rows')
    found = {table.name: table for text in texts for table in tables.named(text).values()}
    if not found:
        raise _refused("the step reads no table but its own former rows")
    table = max(found.values(), key=lambda one: one.rows)
    columns = _columns(texts, table)
    pieces = cut(table, _PIECES)
    if pieces is None:
        raise _refused(f"{table.name}, the largest table, cannot be read by pieces")
    if pieces.count < _FEWEST:
        raise _refused(f"{table.name}, the largest table, has only {table.rows:,} rows")
    order = schedule(pieces.count, seed, pieces.in_row_groups).order
    chosen = pieces.of(sorted(order[: ceil(SHARE * pieces.count)]), numbered=False)
    return EarlySteps(count, replace(chosen, name=table.name), columns)


def loaded(
    early: EarlySteps, tables: SessionTables, planning: QueryPlanning, start: Callable[[Planned], Job]
) -> EarlySteps:
    """The same steps over pieces in memory, if these are parts of the row groups of files: to read them takes nearly as
    long as to read the whole table. Raises as the job that reads them."""
    source = early.table.source
    assert isinstance(source, Pieces)
    row_groups = any(run.borders for run in source.runs)
    size = early.table.rows * len(early.columns) * _BYTES
    if isinstance(source.base, ArrowSource) or row_groups or size > _MOST_LOADED * planning.usable.memory:
        return early
    text = f"SELECT {', '.join(map(quoted, early.columns))} FROM {quoted(early.table.name)}"
    with closing(tables.only(text, early.table)) as apart:
        rows = start(planning.apart(apart).plan(text)).result()
        return replace(early, table=table_of(early.table.name, rows, apart.catalog))


def _columns(texts: Iterable[str], table: Table) -> tuple[str, ...]:
    """The columns of the table that queries read. Raises ConfigError where a part of its rows does not estimate an
    answer."""
    from sqlglot import exp, parse_one

    from qoop.programs.sweeps.scale_free import shape_of

    names = set()
    for text in texts:
        query = parse_one(text, read="duckdb")
        try:
            shape = shape_of(query, table.name.lower())
        except Refused as refused:
            raise _refused(f"{table.name}, the largest table: {refused}") from None
        if shape not in ("apart", "fixed"):
            raise _refused(f"the rows of an answer depend on which rows of {table.name}, the largest table, are read")
        if any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)):
            names |= {name.lower() for name, _ in table.columns}
        names |= {one.name.lower() for one in query.find_all(exp.Identifier)}
    columns = [name for name, _ in table.columns]
    return tuple(name for name in columns if name.lower() in names) or tuple(columns[:1])


def _refused(reason: str) -> ConfigError:
    return ConfigError(f'fidelity="pieces" is not for this sweep: {reason}')


class StepPlans:
    """The plannings of a sweep's steps. The arguments are as for `StepPlanning`. early: None: all steps read whole
    tables."""

    def __init__(
        self,
        text: str,
        former: str,
        tables: SessionTables,
        early: EarlySteps | None,
        planning: Callable[[SessionTables], QueryPlanning],
    ) -> None:
        self._whole = StepPlanning(text, former, tables, planning)
        self._early = self._whole
        if early is not None:
            with closing(tables.only(text, early.table)) as apart:
                self._early = StepPlanning(text, former, apart, planning)

    def of(self, early: bool) -> StepPlanning:
        """The planning of early steps, or of others, of all trials."""
        return self._early if early else self._whole

    def close(self) -> None:
        """Release the tables."""
        self._whole.close()
        if self._early is not self._whole:
            self._early.close()
