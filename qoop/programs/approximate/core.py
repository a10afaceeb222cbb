"""The SELECTs of a query whose sums may grow, and the query around each.

The core is one SELECT with aggregates: the query itself, or one in its FROM or WITH. The query around it is computed
again for each edition, over a table of the core's estimates. Its other inputs are exact: parts of the query that do not
depend on the core run first, and small tables are read whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from qoop.catalog.value import value
from qoop.programs.approximate.names import Refused, has_aggregates, sources_of

if TYPE_CHECKING:
    from qoop.catalog.table import Table

CORE = "qoop_core"
"""The table of the core's estimates, in the query around it."""

_EXACT = "qoop_exact"

MOST_ROWS = 2_000_000
"""The most rows of a table that is read whole for the query around the core."""

_PLACES = (exp.From, exp.Join, exp.CTE, exp.SetOperation)


@value
class Around:
    """The query around a core. text: over `CORE` and exact tables. exact: the queries of these, by name.

    shown: the columns of the query that show a column of the core unchanged, by place, with its name in the text.
    """

    text: str
    exact: tuple[tuple[str, str], ...]
    shown: tuple[tuple[int, str], ...]


@value
class Core:
    """select: with the parts of the WITH that it needs. around: None: the core is the whole query."""

    select: exp.Select
    around: exp.Expression | None


def cores(query: exp.Expression, tables: Mapping[str, Table]) -> Iterator[Core]:
    """The SELECTs that may be the core: the query itself, then those over the largest tables."""
    if isinstance(query, exp.Select) and any(map(has_aggregates, query.expressions)):
        yield Core(query.copy(), None)
    inner = [node for node in query.find_all(exp.Select) if node is not query and _stands_apart(node)]
    for node in sorted(inner, key=lambda node: -_rows(node, tables)):
        if any(map(has_aggregates, node.expressions)) and not node.args.get("with_"):
            yield _within(query, node)


def _stands_apart(node: exp.Expression) -> bool:
    """True for a SELECT in FROM or WITH, which does not refer to the query around it."""
    at = node.parent
    while isinstance(at, exp.Subquery | exp.SetOperation | exp.Paren):
        if isinstance(at, exp.Subquery) and isinstance(at.parent, exp.From | exp.Join):
            return not _is_in_expression(at)
        at = at.parent
    return isinstance(at, exp.CTE) and not _is_in_expression(at)


def _is_in_expression(node: exp.Expression) -> bool:
    """True within a subquery that is a value or a condition of another query."""
    at: exp.Expr | None = node
    while at is not None and at.parent is not None:
        if isinstance(at, exp.Subquery | exp.Select | exp.SetOperation) and not isinstance(
            at.parent, (*_PLACES, exp.Subquery, exp.With)
        ):
            return True
        at = at.parent
    return False


def _rows(select: exp.Expression, tables: Mapping[str, Table]) -> int:
    assert isinstance(select, exp.Select)
    names = [source.name.lower() for source in sources_of(select) if isinstance(source, exp.Table)]
    return max((tables[name].rows for name in names if name in tables), default=0)


def _within(query: exp.Expression, node: exp.Select) -> Core:
    """The core of a SELECT in a WITH or a FROM of the query."""
    place = next(number for number, one in enumerate(query.find_all(exp.Select)) if one is node)
    around = query.copy()
    mine = list(around.find_all(exp.Select))[place]
    select = mine.copy()
    with_needed(select, query)
    mine.replace(_from(CORE))
    return Core(select, around)


def with_needed(select: exp.Expression, query: exp.Expression) -> None:
    """Add to a part of a query the parts of the WITH that it names."""
    defined = {one.alias.lower(): one for one in _ctes(query)}
    needed: set[str] = set()
    named = _names(select)
    while named:
        needed |= named & defined.keys()
        named = {name for one in needed for name in _names(defined[one].this)} & defined.keys() - needed
    if needed:
        kept = [one.copy() for name, one in defined.items() if name in needed]
        select.set("with_", exp.With(expressions=kept))


def around_of(core: Core, tables: Mapping[str, Table], figures: Mapping[str, int]) -> Around:
    """The query around a core. figures: the estimated columns of the core. Raises Refused."""
    assert core.around is not None
    query = core.around.copy()
    _drop_unused(query)
    shown = _shown(query, figures)
    exact = _exact_parts(query)
    own = {one.alias.lower() for one in _ctes(query)} | {CORE, *(name for name, _ in exact)}
    columns = {column.name.lower() for column in query.find_all(exp.Column)}
    stars = any(True for one in query.find_all(exp.Star) if not isinstance(one.parent, exp.Count))
    for name in sorted(_names(query) - own):
        if name not in tables:
            continue
        table = tables[name]
        if table.rows > MOST_ROWS:
            raise Refused(f"the query around its sums reads {table.name}, which is large")
        kept = [one for one, _ in table.columns if stars or one.lower() in columns] or [table.columns[0][0]]
        items = ", ".join(exp.to_identifier(one, quoted=True).sql("duckdb") for one in kept)
        exact.append((name, f"SELECT {items} FROM {exp.to_identifier(table.name, quoted=True).sql('duckdb')}"))
    return Around(query.sql("duckdb"), tuple(exact), tuple(shown.items()))


def _exact_parts(query: exp.Expression) -> list[tuple[str, str]]:
    """Replace the parts of a query that do not depend on its core; returns the queries that run first."""
    dependent = {CORE}
    for cte in _ctes(query):
        if _names(cte.this) & dependent:
            dependent.add(cte.alias.lower())
    found: list[tuple[str, str]] = []
    original = query.copy()
    for node in list(_parts(query, dependent)):
        name = f"{_EXACT}_{len(found)}"
        part = node.copy()
        with_needed(part, original)
        found.append((name, part.sql("duckdb")))
        node.replace(_from(name))
    _drop_unused(query)
    return found


def _parts(query: exp.Expression, dependent: set[str]) -> Iterator[exp.Expression]:
    """The largest parts in WITH and FROM that do not depend on the core, and read a table."""
    for cte in _ctes(query):
        yield from _apart(cte.this, dependent)
    yield from _apart(query, dependent, is_top=True)


def _apart(node: exp.Expression, dependent: set[str], is_top: bool = False) -> Iterator[exp.Expression]:
    if isinstance(node, exp.Subquery):
        yield from _apart(node.this, dependent)
    elif isinstance(node, exp.SetOperation):
        if not is_top and not _names(node) & dependent:
            yield node
            return
        for arm in (node.this, node.expression):
            yield from _apart(arm, dependent)
    elif isinstance(node, exp.Select):
        if not is_top and not _names(node) & dependent:
            if _names(node):
                yield node
            return
        for source in sources_of(node):
            if isinstance(source, exp.Subquery):
                yield from _apart(source, dependent)


def _shown(query: exp.Expression, figures: Mapping[str, int]) -> dict[int, str]:
    """Columns that show a figure of the core unchanged: place, and the name of the figure."""
    if not isinstance(query, exp.Select) or query.args.get("group") or query.args.get("distinct"):
        return {}
    if any(map(has_aggregates, query.expressions)):
        return {}
    alias = _alias_of_core(query)
    if alias is None:
        return {}
    if len(query.expressions) == 1 and isinstance(query.expressions[0], exp.Star) and len(sources_of(query)) == 1:
        return {-1: alias}
    found = {}
    for place, item in enumerate(query.expressions):
        column = item.this if isinstance(item, exp.Alias) else item
        if isinstance(column, exp.Star) or (isinstance(column, exp.Column) and column.is_star):
            return {}
        if isinstance(column, exp.Column) and column.name.lower() in figures and column.table.lower() in ("", alias):
            found[place] = f"{alias}.{column.name.lower()}"
    return found


def _alias_of_core(query: exp.Select) -> str | None:
    """The alias of the rows of the core in the FROM of the query; None: they are not in it, or not alone."""
    direct = {cte.alias.lower() for cte in _ctes(query) if _is_core(cte.this) and not cte.args["alias"].columns}
    found = []
    for source in sources_of(query):
        if isinstance(source, exp.Subquery) and _is_core(source.this) and not source.alias_column_names:
            found.append(source.alias.lower())
        elif isinstance(source, exp.Table) and source.name.lower() in direct:
            found.append(source.alias_or_name.lower())
    return found[0] if len(found) == 1 and found[0] else None


def _is_core(node: exp.Expression) -> bool:
    return isinstance(node, exp.Select) and [one.name for one in sources_of(node)] == [CORE]


def _drop_unused(query: exp.Expression) -> None:
    """Remove the parts of the WITH that no part of the query names."""
    while True:
        unused = [one for one in _ctes(query) if one.alias.lower() not in _names(query)]
        if not unused:
            return
        for one in unused:
            one.pop()
        with_ = query.args.get("with_")
        if with_ is not None and not with_.expressions:
            query.set("with_", None)


def _ctes(query: exp.Expression) -> list[exp.CTE]:
    with_ = query.args.get("with_")
    return list(with_.expressions) if with_ is not None else []


def _names(node: exp.Expression) -> set[str]:
    """The tables that a query names."""
    return {table.name.lower() for table in node.find_all(exp.Table)}


def _from(name: str) -> exp.Expression:
    return exp.select("*").from_(name)
