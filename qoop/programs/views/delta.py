"""The sums of a query that can be computed by parts of a table's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from qoop.catalog.table import has_files
from qoop.catalog.value import value
from qoop.programs.approximate.core import with_needed
from qoop.programs.approximate.eligibility import PIECES, Columns, check_joins, growths
from qoop.programs.approximate.growth import NotGrowing
from qoop.programs.approximate.names import Refused, has_aggregates, sources_of, tables_of
from qoop.programs.views.distinct import without_distinct

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound
    from qoop.programs.approximate.growth import Growth


_BRANCH = "qoop_branch"


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
    words = {"quantile_cont": "median or quantile", "quantile_disc": "quantile"}
    apart = sorted({words.get(one.op, one.op.replace("_", " ")) for one in growth.terms if one.op not in _MERGED})
    if apart:
        return f"its {', '.join(apart)} cannot be merged from parts"
    if not has_files(growth.fact.source):
        return f"{name}, the table of its sums, does not consist of files"
    others = tuple(one for one in tables_of([growth.rest_sql]) if one != PIECES)
    if name.lower() in others:
        return f"{name}, the table of its sums, is read twice for them"
    exact = growth.around.exact if growth.around is not None else ()
    return Delta(growth, name.lower(), others, tuple(exact))


@value
class Branch:
    """A query over one branch of a UNION ALL in place of all. tables: that the branch reads, in lower case."""

    bound: Bound
    tables: tuple[str, ...]


def branches_of(bound: Bound, describe: Callable[[str], Columns]) -> list[Branch]:
    """The query over each branch of the UNION ALL in the FROM of its sums: merged, the sums over the branches are those
    over all rows. Empty: there is none. Raises Refused, QueryError.

    describe: the columns of a query."""
    if bound.ast is None:
        return []
    query = without_distinct(bound.ast)
    sums = [one for one in query.find_all(exp.Select) if any(map(has_aggregates, one.expressions))]
    unions = [
        (select, place, union)
        for select in sums
        for place, source in enumerate(sources_of(select))
        if (union := _union_in(source, query)) is not None
    ]
    if not unions:
        return []
    if len(sums) > 1:
        raise Refused("it has other sums besides those over a UNION ALL")
    [(select, place, holder), *others] = unions
    if others:
        raise Refused("its sums are over two UNION ALLs")
    check_joins(select, place, "a UNION ALL")
    columns = describe(_whole(holder.this, query).sql("duckdb"))
    found = []
    for arm in _arms(holder.this):
        text = _whole(arm, query).sql("duckdb")
        holder.set("this", _cast(arm, describe(text), columns))
        found.append(Branch(replace(bound, ast=query.copy()), tables_of([text])))
    return found


def _union_in(source: exp.Expression, query: exp.Expression) -> exp.Expression | None:
    """The subquery or the part of the WITH that is the UNION ALL of a source, and of no other; None: there is none."""
    holder: exp.Expression | None = source if isinstance(source, exp.Subquery) else None
    if isinstance(source, exp.Table) and not source.args.get("db"):
        name = source.name.lower()
        named = [one for one in query.find_all(exp.Table) if one.name.lower() == name]
        defined = [one for one in query.find_all(exp.CTE) if one.alias.lower() == name]
        holder = defined[0] if len(named) == len(defined) == 1 else None
    return holder if holder is not None and isinstance(holder.this, exp.Union) and len(_arms(holder.this)) > 1 else None


def _arms(node: exp.Expression) -> list[exp.Expression]:
    """The branches of a UNION ALL; another query is its own."""
    if isinstance(node, exp.Subquery) and not node.alias:
        return _arms(node.this)
    if isinstance(node, exp.Union) and {key for key, one in node.args.items() if one} == {"this", "expression"}:
        return [*_arms(node.this), *_arms(node.expression)]
    return [node]


def _whole(arm: exp.Expression, query: exp.Expression) -> exp.Expression:
    """A branch with the parts of the WITH that it needs."""
    found = arm.copy()
    with_needed(found, query)
    return found


def _cast(arm: exp.Expression, own: Columns, columns: Columns) -> exp.Expression:
    """A branch with names and types of the columns of all. own: its columns. Raises Refused."""
    if [(name.lower(), type_) for name, type_ in own] == [(name.lower(), type_) for name, type_ in columns]:
        return arm.copy()
    if len({name.lower() for name, _ in own}) < len(own):
        raise Refused("two columns of a branch of its UNION ALL have one name")
    arm, items = arm.copy(), []
    for place, ((mine, is_), (name, type_)) in enumerate(zip(own, columns, strict=True)):
        value = exp.column(_named(arm, place, len(own)) or mine, quoted=True)
        items.append(exp.alias_(value if is_ == type_ else exp.cast(value, type_, dialect="duckdb"), name, quoted=True))
    return exp.select(*items).from_(exp.alias_(exp.Subquery(this=arm), _BRANCH, table=True))


def _named(arm: exp.Expression, place: int, width: int) -> str:
    """Give an item of a branch that is an expression a name, and return it; empty: it has one. width: of its rows."""
    items = arm.expressions if isinstance(arm, exp.Select) else []
    if len(items) != width or any(one.is_star for one in items) or isinstance(items[place], exp.Alias | exp.Column):
        return ""
    name = f"{_BRANCH}_{place}"
    items[place].replace(exp.alias_(items[place].copy(), name, quoted=True))
    return name
