"""The joins of a view that may be above its partial groups, by the number of groups.

Columns by which groups are made have at most as many values as their extremes allow, or as the table has rows with
which an equality joins them. The values of a table that is joined below the groups are counted: it is small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from itertools import combinations
from math import inf, prod
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one

from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import quoted
from qoop.catalog.value import value
from qoop.programs.approximate.core import with_needed
from qoop.programs.approximate.eligibility import PIECES, Columns
from qoop.programs.approximate.names import Refused, sources_of, tables_of
from qoop.programs.views.below.cut import GROUPS, Column, Cut, SumsQuery, is_pieces

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.programs.approximate.growth import Growth

LEAST_REDUCTION = 4
"""Rows of the fact for each group, in the mean: with fewer, groups cost as much as rows."""

FEW_GROUPS = 10_000
"""Groups that are few for any table, also for one whose rows are still to come."""

_MOST_COUNTED = 200_000
"""Rows of a table whose values are counted."""

_MOST_CUTS = 32
"""Cuts that are compared."""


@value
class Chosen:
    """cut: the query of the sums, taken apart. groups: the most that there should be. below: the tables that groups
    are computed from, besides the fact. joined: those that they are joined with."""

    cut: Cut
    groups: int
    below: tuple[str, ...]
    joined: tuple[str, ...]

    @property
    def above(self) -> tuple[str, ...]:
        """The tables whose changes read no files of the fact."""
        return tuple(one for one in self.joined if one not in self.below)


def choices(
    growth: Growth, tables: Mapping[str, Table], describe: Callable[[str], Columns], count: Callable[[str], int]
) -> tuple[Chosen, ...] | str:
    """The cuts with few groups, those with the most tables above first; or the reason why there is none. A cut whose
    tables are all above another one is left out.

    tables: by lower-case name. describe: the columns of a query over them. count: the number that a query gives."""
    try:
        columns = _columns(growth, tables, describe)
        query = SumsQuery(growth.rest_sql, growth.measures, columns)
        counting = _Counting(query, growth, tables, count)
    except (Refused, QueryError) as error:
        return str(error).splitlines()[0]
    others = [source for source in columns if source != query.fact]
    few, many, reasons = list[Chosen](), list[Chosen](), list[str]()
    for below in (one for size in range(len(others) + 1) for one in combinations(others, size)):
        if len(few) + len(many) + len(reasons) > _MOST_CUTS or any({*one.cut.below} <= {*below} for one in few):
            continue
        try:
            found = counting.chosen(query.cut(below))
        except Refused as refused:
            reasons.append(str(refused))
            continue
        is_few = found.groups <= max(FEW_GROUPS, growth.fact.rows // LEAST_REDUCTION)
        if found.above:
            (few if is_few else many).append(found)
    if few:
        few.sort(key=lambda one: (-len(one.above), one.groups))
        return tuple(one for place, one in enumerate(few) if not any({*one.above} <= {*a.above} for a in few[:place]))
    if many:
        least = min(many, key=lambda one: one.groups)
        by = ", ".join(column.name for column in least.cut.columns)
        reasons.insert(0, f"by {by} there may be {least.groups:,} groups, of {growth.fact.rows:,} rows")
    return reasons[0] if reasons else "all tables are below"


def _columns(growth: Growth, tables: Mapping[str, Table], describe: Callable[[str], Columns]) -> Mapping[str, Columns]:
    """The columns of each source of the sums, by its name there."""
    query = parse_one(growth.rest_sql, read="duckdb")
    assert isinstance(query, exp.Select)
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    found: dict[str, Columns] = {}
    for source in sources_of(query):
        alias = source.alias_or_name.lower()
        if not alias or alias in found:
            raise Refused("its tables have no names, or the same")
        table = tables.get(source.name.lower()) if isinstance(source, exp.Table) else None
        if is_pieces(source):
            found[alias] = growth.fact.columns
        elif table is not None and table.name.lower() not in own and not source.alias_column_names:
            found[alias] = table.columns
        else:
            rows = exp.select("*").from_(source.copy())
            with_needed(rows, query)
            found[alias] = describe(rows.sql("duckdb"))
    return found


class _Counting:
    """Counts the groups of cuts."""

    def __init__(
        self, query: SumsQuery, growth: Growth, tables: Mapping[str, Table], count: Callable[[str], int]
    ) -> None:
        self._fact, self._count = query.fact, count
        self._tables = {query.fact: growth.fact, **_tables_by_source(growth, tables)}
        self._equal = list(query.equalities())

    def chosen(self, cut: Cut) -> Chosen:
        """A cut with its number of groups. Raises Refused where it is not known."""
        own = [column for column in cut.columns if column.source == self._fact]
        found = prod(map(self._values, own))
        for source in cut.below:
            found *= self._values_below(source, [column for column in cut.columns if column.source == source])
        below = tuple(one for one in tables_of([cut.groups_sql]) if one != PIECES)
        joined = tuple(one for one in tables_of([cut.joined_sql]) if one != GROUPS)
        return Chosen(cut, found, below, joined)

    def _values(self, column: Column) -> int:
        """The most values of a column of the fact that matter."""
        joined = [other.source for one, other in self._equal if one == column and other.source != self._fact]
        rows = [self._tables[one].rows for one in joined if one in self._tables]
        found = min([*rows, self._width(column)])
        if found == inf:
            raise Refused(f"the number of values of {column.name} is not known")
        return int(found)

    def _width(self, column: Column) -> float:
        low, high = self._extremes(column)
        if column.type == "BOOLEAN":
            return 3
        if isinstance(low, int) and isinstance(high, int):
            return high - low + 2
        return (
            (high - low).days + 2 if column.type == "DATE" and isinstance(low, date) and isinstance(high, date) else inf
        )

    def _extremes(self, column: Column) -> tuple[object, object]:
        table = self._tables[column.source]
        return table.source.extremes([column.name]).get(column.name, (None, None))

    def _values_below(self, source: str, columns: list[Column]) -> int:
        """The values of columns of a table that is joined below the groups, among its rows that the fact can have."""
        table = self._tables.get(source)
        if table is None or table.rows > _MOST_COUNTED:
            raise Refused(f"{source} is large, or no table")
        if not columns:
            return 1
        where = [
            f"{quoted(one.name)} BETWEEN {low} AND {high}"
            for one, other in self._equal
            if one.source == source and other.source == self._fact
            for low, high in [self._extremes(other)]
            if isinstance(low, int) and isinstance(high, int)
        ]
        names = ", ".join(quoted(one.name) for one in columns)
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        return max(
            1, self._count(f"SELECT count(*) FROM (SELECT DISTINCT {names} FROM {quoted(table.name)}{condition})")
        )


def _tables_by_source(growth: Growth, tables: Mapping[str, Table]) -> Mapping[str, Table]:
    query = parse_one(growth.rest_sql, read="duckdb")
    assert isinstance(query, exp.Select)
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    return {
        one.alias_or_name.lower(): tables[one.name.lower()]
        for one in sources_of(query)
        if isinstance(one, exp.Table) and one.name.lower() in tables and one.name.lower() not in own
    }
