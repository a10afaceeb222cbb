"""The queries that can grow: those whose figures are sums over the rows of one large table, in groups.

The largest table of the query is read by pieces, so it must stand once in the query, in the FROM of its only SELECT,
where each of its rows gives what it gives alone: joined to others, which are read whole, and never as the side of an
outer join that is filled up with NULLs. What is grouped is then a sum over its pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from qoop.growing.figures import Reading, figure_of, has_aggregates
from qoop.growing.growth import Growth, NotGrowing
from qoop.growing.names import Names, sources_of
from qoop.growing.refused import Refused
from qoop.growing.round_sql import rest_sql, round_sql, tail_sql
from qoop.plan_cache import is_steady

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound

_NOT_GROWN = {
    exp.Distinct: "it has DISTINCT",
    exp.Window: "it has window functions",
    exp.TableSample: "it draws a sample itself",
    exp.Pivot: "it has a PIVOT",
    exp.Qualify: "it has QUALIFY",
}


def growth_of(bound: Bound, tables: Mapping[str, Table]) -> Growth | NotGrowing:
    """The sums that a query grows by, or the reason why it does not grow. tables: by lower-case name."""
    try:
        return _growth(bound, tables)
    except Refused as refused:
        return NotGrowing(str(refused))


def _growth(bound: Bound, tables: Mapping[str, Table]) -> Growth:
    select = _select(bound)
    if not any(map(has_aggregates, select.expressions)):
        raise Refused("it has no aggregates")
    fact = _fact(select, tables)
    names = Names(select, {name: [column for column, _ in table.columns] for name, table in tables.items()})
    keys = names.keys()
    reading = Reading(names, keys)
    values = [names.value_of(item) for item in select.expressions]
    figures = {place: figure_of(reading, place, one) for place, one in enumerate(values) if has_aggregates(one)}
    items = [
        reading.final(one, place in figures and figures[place].kind == "ratio") for place, one in enumerate(values)
    ]
    tail = tail_sql(select, reading, names)
    text = round_sql(select, fact[1], keys, reading.measures, {(f.y, f.x) for f in figures.values() if f.x is not None})
    limited = select.args.get("limit") is not None or select.args.get("offset") is not None
    return Growth(fact[0], tuple(key.sql("duckdb") for key in keys), tuple(reading.measures), tuple(reading.terms),
                  tuple(figures.values()), tuple(items), tail, limited, bound.columns, text,
                  rest_sql(select, keys, reading.measures))  # fmt: skip


def _select(bound: Bound) -> exp.Select:
    """The one SELECT of the query, if it is of the form that can grow."""
    ast = bound.ast
    if ast is None:
        raise Refused("only DuckDB can read the text as it is meant")
    if not isinstance(ast, exp.Select):
        raise Refused("it is not one SELECT with aggregates")
    if bound.functions:
        raise Refused(f"it calls functions of Python: {', '.join(bound.functions)}")
    if not is_steady(bound.text):
        raise Refused("it calls what differs from run to run")
    select = ast.copy()
    if any(isinstance(one, exp.Star) or one.is_star for one in select.expressions):
        raise Refused("it has no list of columns")
    for node in own_nodes(select):
        for kind, reason in _NOT_GROWN.items():
            if isinstance(node, kind):
                raise Refused("it has DISTINCT aggregates" if isinstance(node.parent, exp.AggFunc) else reason)
    return select


def own_nodes(select: exp.Expression) -> Iterator[exp.Expression]:
    """The nodes of a SELECT that are not in another SELECT within it."""
    for node in select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query)):
        if isinstance(node, exp.Expression):
            yield node


def _fact(select: exp.Select, tables: Mapping[str, Table]) -> tuple[Table, str]:
    """The table to be read by pieces, and its name in the SELECT."""
    with_ = select.args.get("with_")
    own = {cte.alias.lower() for cte in with_.expressions} if with_ is not None else set()
    mentions = Counter(table.name.lower() for table in select.find_all(exp.Table))
    known = {name: table for name, table in tables.items() if name not in own}
    if not known:
        raise Refused("it reads no table")
    name, table = max(known.items(), key=lambda item: item[1].rows)
    if mentions[name] != 1:
        raise Refused(f"it reads {table.name}, its largest table, {mentions[name]} times")
    for place, source in enumerate(sources_of(select)):
        if isinstance(source, exp.Table) and source.name.lower() == name and not source.args.get("db"):
            _check_joins(select, place, name)
            return table, source.alias_or_name
    raise Refused(f"it reads {table.name}, its largest table, in a subquery")


def _check_joins(select: exp.Select, place: int, name: str) -> None:
    """place: of the table that is read by pieces, among what stands in the FROM."""
    if any(source.args.get("joins") for source in sources_of(select)):
        raise Refused("its joins are nested")
    for number, join in enumerate(select.args.get("joins") or [], 1):
        method, side, kind = (str(join.args.get(part) or "").upper() for part in ("method", "side", "kind"))
        if method not in ("", "NATURAL") or side in ("RIGHT", "FULL"):
            raise Refused(f"it has a {method or side} JOIN")
        if number == place and (side == "LEFT" or kind in ("SEMI", "ANTI")):
            raise Refused(f"{name}, its largest table, is the other side of a {side or kind} JOIN")
