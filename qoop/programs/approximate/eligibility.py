"""The queries that can grow: those in which there are sums over the rows of a large table, in groups.

One table is read by pieces: the largest in the FROM of the SELECT with the sums whose rows contribute independently of
each other. It is joined to other tables, which are read whole. It is never the side of an outer join that is filled
with NULLs. The groups are then sums over its pieces. Other mentions of the table are read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from qoop.catalog.errors import QueryError
from qoop.catalog.table import FilesSource
from qoop.planner.sql.merged_selects import merged
from qoop.programs.approximate.core import Core, around_of, cores
from qoop.programs.approximate.figures import Reading, figure_of
from qoop.programs.approximate.growth import UNBOUNDED, Growth, NotGrowing, pairs, totals, triples
from qoop.programs.approximate.names import Names, Refused, has_aggregates, sources_of
from qoop.programs.approximate.round_sql import rest_sql, round_sql, tail_sql
from qoop.programs.approximate.universe import universes
from qoop.query.statements.normal_text import is_steady

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound
    from qoop.programs.approximate.growth import Figure

PIECES = "qoop_pieces"
"""The name of the table of pieces in the query of a round."""

_NOT_GROWN = {
    exp.Distinct: "it has DISTINCT",
    exp.TableSample: "it draws a sample itself",
    exp.Pivot: "it has a PIVOT",
    exp.Qualify: "it has QUALIFY",
}

Columns = tuple[tuple[str, str], ...]


def growth_of(bound: Bound, tables: Mapping[str, Table], describe: Callable[[str], Columns]) -> Growth | NotGrowing:
    """The sums by which a query grows, or the reason why it does not grow.

    tables: by lower-case name. describe: the columns of a text over them."""
    refused = None
    for found in growths(bound, tables, describe):
        if isinstance(found, Growth):
            return found
        refused = refused or found
    return refused or NotGrowing("it has no aggregates")


def growths(
    bound: Bound, tables: Mapping[str, Table], describe: Callable[[str], Columns], *, all_rows: bool = False
) -> Iterator[Growth | NotGrowing]:
    """For each SELECT with sums: how the query grows by these, or why it does not. all_rows: the sums are to be exact:
    also by the number of all rows of a table, which is known without a sum, and with distinct values, not hashes."""
    try:
        query = _read(bound)
    except Refused as refused:
        yield NotGrowing(str(refused))
        return
    for found in filter(None, (_merged(query, bound, tables, describe), query)):
        one = found.transform(_basic)
        assert isinstance(one, exp.Expression)
        try:
            known = _known(one, tables)
            selects = list(cores(one, known))
        except Refused as refused:
            yield NotGrowing(str(refused))
            return
        for core in selects:
            try:
                yield _growth(bound, core, known, describe, all_rows)
            except Refused as refused:
                yield NotGrowing(str(refused))


def _merged(
    query: exp.Expression, bound: Bound, tables: Mapping[str, Table], describe: Callable[[str], Columns]
) -> exp.Expression | None:
    """The query over tables in place of one over views of them; None if it is none, or not certain to be the same."""
    columns = {name: [column for column, _ in table.columns] for name, table in tables.items()}
    found = merged(query, columns, [name for name, _ in bound.columns])
    if found is None:
        return None
    try:
        same = describe(found.sql("duckdb")) == bound.columns
    except QueryError:
        return None
    return found if same else None


def _read(bound: Bound) -> exp.Expression:
    """The tree of a query with one meaning at any time and place."""
    if bound.ast is None:
        raise Refused("only DuckDB can parse the text")
    if bound.functions:
        raise Refused(f"it calls functions of Python: {', '.join(bound.functions)}")
    if not is_steady(bound.text):
        raise Refused("it calls what differs from run to run")
    with_ = bound.ast.args.get("with_")
    if with_ is not None and with_.args.get("recursive"):
        raise Refused("it has WITH RECURSIVE")
    return bound.ast.copy()


def _basic(node: exp.Expr) -> exp.Expr:
    """An aggregate of conditions as the count or extreme that it is equal to: these merge."""
    if isinstance(node.parent, exp.Window) or isinstance(node.this, exp.Distinct):
        return node
    if isinstance(node, exp.LogicalOr | exp.LogicalAnd):
        extreme = exp.Max if isinstance(node, exp.LogicalOr) else exp.Min
        return extreme(this=exp.cast(node.this, "BOOLEAN"))
    filtered = node if isinstance(node, exp.Filter) else None
    call = filtered.this if filtered is not None else node
    if not isinstance(call, exp.CountIf) or (filtered is None and isinstance(node.parent, exp.Filter)):
        return node
    conditions = [call.this] if filtered is None else [call.this, filtered.expression.this]
    return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=exp.and_(*conditions)))


def _known(query: exp.Expression, tables: Mapping[str, Table]) -> Mapping[str, Table]:
    """The tables whose names no part of a WITH has."""
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    found = {name: table for name, table in tables.items() if name not in own}
    if not found:
        raise Refused("it reads no table")
    return found


def _growth(
    bound: Bound, core: Core, tables: Mapping[str, Table], describe: Callable[[str], Columns], all_rows: bool
) -> Growth:
    select = core.select
    _check(select, all_rows)
    own = bound.columns if core.around is None else _described(select, describe)
    fact, alias = _take_pieces(select, tables, all_rows)
    columns = {name: [column for column, _ in table.columns] for name, table in tables.items()}
    names = Names(select, {**columns, PIECES: [column for column, _ in fact.columns]})
    keys = names.keys()
    reading = Reading(names, keys, hashed=not all_rows)
    values = [names.value_of(item) for item in select.expressions]
    figures = {place: figure_of(reading, place, one) for place, one in enumerate(values) if _is_estimated(one)}
    if not keys and _is_of_all_rows(select):
        figures = {place: _known_by_footers(one, reading) for place, one in figures.items()}
        if figures and not all_rows and all(one.kind == "rows" for one in figures.values()):
            raise Refused("the number of its rows is known")
    items = [
        reading.final(one, place in figures and figures[place].kind == "ratio") for place, one in enumerate(values)
    ]
    tail = tail_sql(select, reading, names)
    named = {own[place][0].lower(): place for place in figures}
    around = None if core.around is None else around_of(core, tables, named)
    needed = pairs(figures.values()), triples(figures.values()), totals(figures.values(), all_rows)
    text = round_sql(select, alias, keys, reading.measures, *needed)
    limited = select.args.get("limit") is not None or select.args.get("offset") is not None
    return Growth(
        fact, tuple(key.sql("duckdb") for key in keys), tuple(reading.measures), tuple(reading.terms),
        tuple(figures.values()), tuple(items), tail, limited, bound.columns,
        text, rest_sql(select, keys, reading.measures),
        own, around, _ranked(select, names, figures), universes(select, (fact, alias), tables, names, describe),
        around is not None or _is_chosen(select, names),
    )  # fmt: skip


def _described(select: exp.Select, describe: Callable[[str], Columns]) -> Columns:
    try:
        found = describe(select.sql("duckdb"))
    except QueryError as error:
        raise Refused(f"its sums cannot be taken apart: {str(error).splitlines()[0]}") from error
    if len({name.lower() for name, _ in found}) < len(found):
        raise Refused("two of its sums have one name")
    return found


def _is_estimated(value: exp.Expression) -> bool:
    return has_aggregates(value) or value.find(exp.Window) is not None


def _is_of_all_rows(select: exp.Select) -> bool:
    """True if the sums are over each row of the table, once."""
    [source, *others] = sources_of(select)
    return not others and isinstance(source, exp.Table) and not any(select.args.get(one) for one in _LEAVES_OUT)


_LEAVES_OUT = ("where", "group", "having", "laterals", "joins", "limit", "offset", "connect", "match", "prewhere")


def _known_by_footers(figure: Figure, reading: Reading) -> Figure:
    """The same figure, with the kind "rows" if it is the number of rows."""
    counted = figure.kind == "total" and reading.measures[figure.y].sql in ("COUNT(*)", "COUNT(1)", "COUNT()")
    return replace(figure, kind="rows") if counted else figure


def _ranked(select: exp.Select, names: Names, figures: Mapping[int, Figure]) -> tuple[int, bool] | None:
    """The first figure of the ORDER BY, and whether the greatest comes first."""
    order = select.args.get("order")
    if order is None or select.args.get("having") is not None or select.args.get("offset") is not None:
        return None
    first = order.expressions[0]
    ordered_by = names.same(names.item_at(first.this) or names.resolved(first.this, prefer_columns=False))
    for place, figure in figures.items():
        value = names.value_of(select.expressions[place])
        if figure.kind not in UNBOUNDED and ordered_by in (names.same(value), names.same(exp.paren(value.copy()))):
            return place, bool(first.args.get("desc"))
    return None


def _is_chosen(select: exp.Select, names: Names) -> bool:
    """True if estimates decide which groups are shown: by HAVING, or as the first ones by an estimate."""
    order, having = select.args.get("order"), select.args.get("having")
    if having is not None or order is None or not (select.args.get("limit") or select.args.get("offset")):
        return having is not None
    items = (names.item_at(one.this) or names.resolved(one.this, prefer_columns=False) for one in order.expressions)
    return any(map(_is_estimated, items))


def _check(select: exp.Select, all_rows: bool) -> None:
    """Raise Refused for a SELECT whose form cannot grow. all_rows: see `growths`."""
    if any(isinstance(one, exp.Star) or one.is_star for one in select.expressions):
        raise Refused("it has no list of columns")
    for node in own_nodes(select):
        for kind, reason in _NOT_GROWN.items():
            if all_rows and kind is exp.Qualify:
                continue
            if isinstance(node, kind) and not (kind is exp.Distinct and isinstance(node.parent, exp.Count)):
                raise Refused("it has DISTINCT aggregates" if isinstance(node.parent, exp.AggFunc) else reason)


def own_nodes(select: exp.Expression) -> Iterator[exp.Expression]:
    """The nodes of a SELECT outside the SELECTs within it."""
    for node in select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query)):
        if isinstance(node, exp.Expression):
            yield node


def _take_pieces(select: exp.Select, tables: Mapping[str, Table], to_grow: bool) -> tuple[Table, str]:
    """Put pieces in place of the largest possible table; returns the table and its name in the SELECT.

    to_grow: a table that is registered as one file comes after those that new files may join."""
    sources = sources_of(select)
    named = [(tables[one.name.lower()], place) for place, one in enumerate(sources)
             if isinstance(one, exp.Table) and one.name.lower() in tables and not one.args.get("db")]  # fmt: skip
    if not named:
        raise Refused("the FROM of its sums names no table")
    reasons = []
    named.sort(key=lambda item: (to_grow and _is_one_file(item[0]), -item[0].rows))
    for table, place in named:
        try:
            check_joins(select, place, table.name)
        except Refused as refused:
            reasons.append(refused)
            continue
        if reasons and table.rows * 4 < named[0][0].rows:
            break
        source = sources[place]
        alias = source.alias_or_name
        source.set("this", exp.to_identifier(PIECES))
        source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        return table, str(alias)
    raise reasons[0]


def _is_one_file(table: Table) -> bool:
    files = table.source.identities() if isinstance(table.source, FilesSource) else {}
    return table.origin is not None and list(files) == [table.origin.place]


def check_joins(select: exp.Select, place: int, name: str) -> None:
    """Raise Refused for joins that do not allow pieces of a table. place: of the table in the FROM."""
    if any(source.args.get("joins") for source in sources_of(select)):
        raise Refused("its joins are nested")
    for number, join in enumerate(select.args.get("joins") or [], 1):
        method, side, kind = (str(join.args.get(part) or "").upper() for part in ("method", "side", "kind"))
        if method not in ("", "NATURAL") or side in ("RIGHT", "FULL"):
            raise Refused(f"it has a {method or side} JOIN")
        if number == place and (side == "LEFT" or kind in ("SEMI", "ANTI")):
            raise Refused(f"{name} is the other side of a {side or kind} JOIN")
