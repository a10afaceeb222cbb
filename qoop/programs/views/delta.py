"""The sums of a query that can be computed by parts of a table's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.catalog.table import has_files
from qoop.catalog.value import value
from qoop.programs.approximate.eligibility import PIECES, Columns, growths
from qoop.programs.approximate.growth import NotGrowing
from qoop.programs.approximate.names import tables_of
from qoop.programs.views.distinct import without_distinct

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound
    from qoop.programs.approximate.growth import Growth


@value
class Delta:
    """growth: its sums. fact: the table whose files have partial groups, in lower case. others: the other tables that
    these groups are computed from. exact: the queries that the query around the sums reads, by name."""

    growth: Growth
    fact: str
    others: tuple[str, ...]
    exact: tuple[tuple[str, str], ...]

    @property
    def leaf_sql(self) -> str:
        """The query of a leaf, over `PIECES`."""
        return self.growth.rest_sql


def deltas_of(bound: Bound, tables: Mapping[str, Table], describe: Callable[[str], Columns]) -> list[Delta | str]:
    """The deltas of a query, those of the largest tables first; then the reasons why other sums have none.

    tables: by lower-case name. describe: the columns of a query over them."""
    if bound.ast is not None:
        bound = replace(bound, ast=without_distinct(bound.ast))
    found = [_delta(growth) for growth in growths(bound, tables, describe, all_rows=True)]
    deltas = [one for one in found if isinstance(one, Delta)]
    reasons = [one for one in found if isinstance(one, str)]
    return [*sorted(deltas, key=lambda delta: -delta.growth.fact.rows), *reasons]


_MERGED = ("count", "sum", "avg", "min", "max", "distinct")


def _delta(growth: Growth | NotGrowing) -> Delta | str:
    if isinstance(growth, NotGrowing):
        return growth.reason
    name = growth.fact.name
    apart = sorted({one.op.replace("_", " ") for one in growth.terms if one.op not in _MERGED})
    if apart:
        return f"its {', '.join(apart)} cannot be merged from parts"
    if not has_files(growth.fact.source):
        return f"{name}, the table of its sums, does not consist of files"
    others = tuple(one for one in tables_of([growth.rest_sql]) if one != PIECES)
    if name.lower() in others:
        return f"{name}, the table of its sums, is read twice for them"
    exact = growth.around.exact if growth.around is not None else ()
    return Delta(growth, name.lower(), others, tuple(exact))
