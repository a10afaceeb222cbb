"""The way to refresh a view: by partial groups of new files, or from all rows, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from qoop.catalog.table import FilesSource
from qoop.catalog.value import value
from qoop.planner.sql.sources import tables_read
from qoop.programs.approximate.eligibility import PIECES, Columns, growths
from qoop.programs.approximate.growth import NotGrowing

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound
    from qoop.programs.approximate.growth import Growth


@value
class Delta:
    """growth: its sums. fact: the table whose files have partial groups. others: the other tables that these groups
    are computed from, by lower-case name; exact: those of the query around the sums."""

    growth: Growth
    fact: str
    others: tuple[str, ...]
    exact: tuple[str, ...]

    @property
    def leaf_sql(self) -> str:
        """The query of a leaf, over `PIECES`."""
        return self.growth.rest_sql


def delta_of(bound: Bound, tables: Mapping[str, Table], describe: Callable[[str], Columns]) -> Delta | str:
    """The delta of a query, by its largest table that has one; or the reason why there is none.

    tables: by lower-case name. describe: the columns of a query over them."""
    found = [_delta(growth) for growth in growths(bound, tables, describe, all_rows=True)]
    deltas = [one for one in found if isinstance(one, Delta)]
    if deltas:
        return max(deltas, key=lambda delta: delta.growth.fact.rows)
    return next((one for one in found if isinstance(one, str)), "it has no aggregates")


def _delta(growth: Growth | NotGrowing) -> Delta | str:
    if isinstance(growth, NotGrowing):
        return growth.reason
    name = growth.fact.name
    apart = sorted({one.op.replace("_", " ") for one in growth.terms if one.is_of_values or one.z is not None})
    if apart:
        return f"its {', '.join(apart)} cannot be merged from parts"
    if not isinstance(growth.fact.source, FilesSource):
        return f"{name}, the table of its sums, does not consist of files"
    others = _read([growth.rest_sql]) - {PIECES}
    exact = _read(text for _, text in growth.around.exact) if growth.around is not None else set()
    if name.lower() in others | exact:
        return f"{name}, the table of its sums, is read in another part of the query as well"
    return Delta(growth, name.lower(), tuple(sorted(others)), tuple(sorted(exact)))


def _read(texts: Iterable[str]) -> set[str]:
    return {name.lower() for text in texts for name in tables_read(text)}
