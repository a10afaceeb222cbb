"""Stars: ``*``, ``t.*`` and ``COLUMNS(…)`` with EXCLUDE, REPLACE, RENAME and LIKE, spelt out as DuckDB's binder does.

A column that a star stands for is named once it was found: :func:`found` is a node of sqlglot's tree for it, which the
converter takes as it is. So no name has to be resolved again, which may be ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column
from qoop.planner.algebra.types import names_that, text_between
from qoop.planner.sql.query_block import without_parentheses
from qoop.planner.sql.scope import Scope, Unsupported

_GROUP = re.compile(r"\\(\d)")
_UNPACKED_IN = (exp.Coalesce, exp.Greatest, exp.Least)
_FILTERS = (exp.Like, exp.ILike, exp.SimilarTo, exp.Glob)


@value
class Match:
    """One column that a star stands for: what it is called, and its expression.

    node: the column itself, or the expression that REPLACE gives. named: other clauses may use the name for it.
    """

    name: str
    node: exp.Expression | Column
    named: bool = False


def found(column: Column) -> exp.Column:
    """A node that stands for this very column."""
    node = exp.column(exp.to_identifier(column.name))
    node.meta["found"] = column
    return node


def is_star(node: exp.Expression) -> bool:
    """True for ``*``, ``t.*`` and one of these with LIKE."""
    if isinstance(node, _FILTERS):
        return is_star(node.this)
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def star(node: exp.Expression, scope: Scope) -> list[Match]:
    """The columns of a star. Raises Unsupported where there are none."""
    if isinstance(node, _FILTERS):
        return _like(node, star(node.this, scope))
    inner = node if isinstance(node, exp.Star) else node.this
    table = node.table.lower() if isinstance(node, exp.Column) else None
    matches = _renamed(inner, _kept(inner, scope, table))
    if not matches:
        raise Unsupported("a star over nothing")
    return matches


def has_columns(node: exp.Expression) -> bool:
    """True if the expression holds a COLUMNS of the same block."""
    return next(_columns(node), None) is not None


def expanded(node: exp.Expression, scope: Scope) -> list[tuple[Match, exp.Expression]]:
    """The expressions that one with COLUMNS stands for, each with the column that it was made for."""
    calls = list(_columns(node))
    if any(call != calls[0] for call in calls):
        raise Unsupported("several different COLUMNS in one expression")
    matches = _matches(calls[0], scope)
    if calls[0].args.get("unpack"):
        return [(matches[0], _unpacked(node, matches))]
    return [(match, _with(node, match)) for match in matches]


def output_name(alias: str, columns: exp.Columns, match: Match) -> str:
    r"""The name of an output: its alias, in which ``\1`` is what the first group of the pattern found."""
    if not _GROUP.search(alias):
        return alias
    pattern = columns.this
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise Unsupported("groups in the name of COLUMNS without a pattern")
    return _GROUP.sub(lambda group: text_between(match.name, pattern.this, int(group[1])), alias)


def columns_in(node: exp.Expression) -> exp.Columns:
    """The first COLUMNS of an expression that has one."""
    return next(_columns(node))


def _columns(node: exp.Expression) -> Iterator[exp.Columns]:
    for child in node.walk(prune=lambda inner: isinstance(inner, exp.Query | exp.Columns)):
        if isinstance(child, exp.Columns):
            yield child


def _kept(node: exp.Star, scope: Scope, table: str | None) -> list[Match]:
    """The columns without those that EXCLUDE names."""
    excluded = [*(node.args.get("except_") or node.args.get("except") or ())]
    gone = {item.name.lower() for item in excluded if not _qualifier(item)}
    qualified = {(_qualifier(item), item.name.lower()) for item in excluded if _qualifier(item)}
    if scope.merged.keys() & {name for _, name in qualified}:
        raise Unsupported("EXCLUDE of one of the columns that USING made one")
    return [
        Match(name, column)
        for alias, name, column in scope.star(table)
        if name.lower() not in gone and (alias.lower(), name.lower()) not in qualified
    ]


def _qualifier(item: exp.Expression) -> str:
    return item.table.lower() if isinstance(item, exp.Column) else ""


def _renamed(node: exp.Star, matches: Sequence[Match]) -> list[Match]:
    """The columns with what REPLACE puts in their place, and the names that RENAME gives."""
    replaced = _by_name((item.alias, item) for item in node.args.get("replace") or ())
    renamed = _by_name((item.this.name, item) for item in node.args.get("rename") or ())
    if any(_qualifier(item.this) for item in renamed.values()):
        raise Unsupported("RENAME of a qualified name")
    made = []
    for match in matches:
        key = match.name.lower()
        if key in replaced:
            match = Match(replaced[key].alias, replaced[key].this, named=True)
        elif key in renamed:
            match = Match(renamed[key].alias, match.node, named=True)
        made.append(match)
    return made


def _by_name(items: Iterable[tuple[str, exp.Expression]]) -> Mapping[str, exp.Expression]:
    return {name.lower(): item for name, item in items}


def _like(node: exp.Expression, matches: Sequence[Match]) -> list[Match]:
    condition = node.copy()
    condition.set("this", exp.to_identifier("c"))
    kept = names_that([match.name for match in matches], f"lambda c: {condition.sql(dialect='duckdb')}")
    return [match for match in matches if match.name in kept]


def _matches(call: exp.Columns, scope: Scope) -> list[Match]:
    what = without_parentheses(call.this)
    if is_star(what):
        return star(what, scope)
    matches = [Match(name, column) for _, name, column in scope.star(None)]
    chosen = _chosen(what, [match.name for match in matches])
    return [match for match in matches if match.name in chosen]


def _chosen(what: exp.Expression, names: Sequence[str]) -> frozenset[str]:
    match what:
        case exp.Literal(is_string=True):
            return names_that(names, f"lambda c: regexp_matches(c, {what.sql(dialect='duckdb')})")
        case exp.Lambda():
            return names_that(names, what.sql(dialect="duckdb"))
        case exp.Array() if all(isinstance(item, exp.Literal) for item in what.expressions):
            listed = {item.name.lower() for item in what.expressions}
            return frozenset(name for name in names if name.lower() in listed)
    raise Unsupported(f"COLUMNS({what.sql(dialect='duckdb')[:60]})")


def _node(match: Match) -> exp.Expression:
    return found(match.node) if isinstance(match.node, Column) else exp.paren(match.node.copy())


def _with(node: exp.Expression, match: Match) -> exp.Expression:
    """The expression with the column in the place of each COLUMNS."""
    tree = exp.paren(node.copy(), copy=False)
    for call in list(_columns(tree)):
        call.replace(_node(match))
    return without_parentheses(tree)


def _unpacked(node: exp.Expression, matches: Sequence[Match]) -> exp.Expression:
    """``coalesce(*COLUMNS(…))``: all columns as arguments of one call."""
    tree = exp.paren(node.copy(), copy=False)
    for call in list(_columns(tree)):
        around = call.parent
        if not isinstance(around, _UNPACKED_IN) or not call.args.get("unpack"):
            raise Unsupported(f"*COLUMNS in {around.sql(dialect='duckdb')[:60]}" if around else "*COLUMNS")
        old = [around.this, *around.expressions]
        new = [one for item in old for one in (map(_node, matches) if item is call else (item,))]
        around.set("this", new[0])
        around.set("expressions", new[1:])
    return without_parentheses(tree)
