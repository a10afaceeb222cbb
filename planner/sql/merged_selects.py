"""Merges plain SELECTs in FROM and WITH, projections and filters alone, into the SELECT that reads them.

``WITH c AS (SELECT g + 1 AS h, v FROM t WHERE v > 2) SELECT h, sum(v) FROM c GROUP BY h`` becomes
``SELECT t.g + 1 AS h, sum(t.v) FROM t WHERE t.v > 2 GROUP BY t.g + 1``: a query over views has the form of one over
their tables. sqlglot does it, where the query holds nothing that only DuckDB knows.

Source: Pirahesh, Hellerstein and Hasan, "Extensible/Rule Based Query Rewrite Optimization in Starburst" (SIGMOD 1992),
the rule SELMERGE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import SqlglotError

from qoop.planner.algebra.types import unnesting_names
from qoop.planner.sql.parts import has_aggregate, is_aggregate

if TYPE_CHECKING:
    from sqlglot.schema import Schema

_PLAIN = ("kind", "expressions", "from_", "joins", "where")
_OF_NAMES = (exp.Columns, exp.Lambda, exp.Comprehension, exp.Pivot, exp.Values, exp.Lateral, exp.TableSample)


def merged(query: exp.Expression, columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> exp.Expression | None:
    """The query with its plain SELECTs merged; None if there are none, or if the meaning may change.

    columns: of the tables, by lower-case name. names: of the answer. The caller compares its types: the names of a
    struct's fields become lower-case.
    """
    selects = len(list(query.find_all(exp.Select)))
    if selects == 1 or not isinstance(query, exp.Select) or not _is_known(query):
        return None
    found: exp.Expression = query.copy()
    _name(found, names)
    _inline(found)
    if not all(map(_keeps_rows, found.find_all(exp.Join))):
        return None
    _lower(found)
    try:
        found = _merged(found, columns)
    except SqlglotError:
        return None
    if len(list(found.find_all(exp.Select))) == selects or not _is_certain(found, columns):
        return None
    _name(found, names)
    return found


def _merged(query: exp.Expression, columns: Mapping[str, Sequence[str]]) -> exp.Expression:
    from sqlglot.optimizer.merge_subqueries import merge_subqueries  # few queries need it
    from sqlglot.optimizer.qualify_columns import qualify_columns, quote_identifiers
    from sqlglot.optimizer.qualify_tables import qualify_tables
    from sqlglot.schema import MappingSchema

    types: dict[str, object] = {
        name: {column.lower(): "unknown" for column in found} for name, found in columns.items()
    }
    schema = MappingSchema(types, dialect="duckdb", normalize=False)
    named = qualify_tables(query, dialect="duckdb")
    _qualify_having(named, schema)
    qualified = qualify_columns(named, schema, expand_alias_refs=False, allow_partial_qualification=True)
    return quote_identifiers(merge_subqueries(qualified), dialect="duckdb")


def _qualify_having(query: exp.Expression, schema: Schema) -> None:
    """Name the tables of columns in a HAVING, which sqlglot leaves alone."""
    from sqlglot.optimizer.resolver import Resolver
    from sqlglot.optimizer.scope import traverse_scope

    for scope in traverse_scope(query):
        having = scope.expression.args.get("having")
        answers = {item.alias_or_name for item in scope.expression.expressions}
        for column in having.find_all(exp.Column) if having is not None else ():
            if not column.table and column.name not in answers:
                column.set("table", Resolver(scope, schema).get_table(column))


def _is_known(query: exp.Expression) -> bool:
    """True if the query has no node with names that sqlglot does not resolve, or with rows that only DuckDB counts."""
    clause = query.args.get("with_")
    if any(one is not clause or one.args.get("recursive") for one in query.find_all(exp.With)):
        return False
    if any(map(_is_special, query.find_all(exp.Join))):
        return False
    calls = query.find_all(exp.Anonymous)
    return query.find(*_OF_NAMES) is None and not any(
        is_aggregate(one) or one.name.lower() in unnesting_names() for one in calls
    )


def _is_special(join: exp.Join) -> bool:
    """True for a join whose left side may miss rows, or whose right side has no columns outside."""
    return bool(join.method) or join.side in ("RIGHT", "FULL") or join.kind in ("SEMI", "ANTI")


def _name(query: exp.Expression, names: Sequence[str]) -> None:
    """Give the items of the answer their names."""
    if any(one.is_star for one in query.expressions):
        return
    for item, name in zip(list(query.expressions), names, strict=True):
        named = exp.alias_(item.unalias().copy(), name, quoted=True)
        item.replace(named)


def _inline(query: exp.Expression) -> None:
    """Put plain parts of the WITH in the place of their names."""
    clause = query.args.get("with_")
    for cte in list(clause.expressions) if clause is not None else ():
        if not _is_plain(cte.this) or cte.args["alias"].args.get("columns"):
            continue
        for table in [one for one in query.find_all(exp.Table) if one.name.lower() == cte.alias.lower()]:
            if table.find_ancestor(exp.CTE) is cte:
                continue  # a table of its name
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
            others = {part: one for part, one in table.args.items() if part not in ("this", "alias")}
            table.replace(exp.Subquery(this=cte.this.copy(), alias=alias, **others))
        cte.pop()
    if clause is not None and not clause.expressions:
        query.set("with_", None)


def _is_plain(body: exp.Expression) -> bool:
    return (
        isinstance(body, exp.Select)
        and not any(one for part, one in body.args.items() if part not in _PLAIN)
        and not any(map(has_aggregate, body.expressions))
    )


def _keeps_rows(join: exp.Join) -> bool:
    """True unless values of its right side may be NULL for want of a row: an expression would have a value there."""
    return not join.side or _has_columns_alone(join.this)


def _has_columns_alone(source: exp.Expression) -> bool:
    if not isinstance(source, exp.Subquery):
        return True
    body = source.this
    items = [one.this if isinstance(one, exp.Alias) else one for one in body.expressions]
    sources = [body.args["from_"].this] if body.args.get("from_") else []
    return all(isinstance(one, exp.Column | exp.Star) for one in items) and all(map(_has_columns_alone, sources))


def _lower(query: exp.Expression) -> None:
    """Names without regard to case, as DuckDB has them; those of tables may be paths, and stay."""
    for table in query.find_all(exp.Table):
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    for name in query.find_all(exp.Identifier):
        if not (isinstance(name.parent, exp.Table) and name.arg_key == "this"):
            name.set("this", name.name.lower())


def _is_certain(query: exp.Expression, columns: Mapping[str, Sequence[str]]) -> bool:
    """True if each column is known to be one of a source, or is the name of an answer which no table has as well."""
    answers = {item.alias.lower() for item in query.find_all(exp.Alias)}
    names = {name.lower() for found in columns.values() for name in found}
    sources = {one.alias_or_name for one in query.find_all(exp.Table, exp.Subquery)}
    return all(
        column.table in sources if column.table else column.name in answers and column.name not in names
        for column in query.find_all(exp.Column)
        if not column.is_star
    )
