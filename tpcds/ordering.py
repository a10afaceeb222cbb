"""The order of a query's answer and where it is cut, as its text says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from qoop.catalog.duckdb_introspection import ask


@dataclass(frozen=True, slots=True)
class Ordering:
    """The order of an answer, as its text says.

    keys: the output column of each ORDER BY key, as far as the first key that is not an output column.
    complete: all keys are output columns.
    cut: there is a LIMIT or OFFSET; offset: rows left out before the answer.
    unlimited: the text without LIMIT and OFFSET, with its keys that are no output columns appended as columns;
        None if that cannot be written.
    unlimited_keys: the columns of that answer that order it.
    """

    keys: tuple[int, ...] = ()
    complete: bool = True
    cut: bool = False
    offset: int = 0
    unlimited: str | None = None
    unlimited_keys: tuple[int, ...] = ()


def ordering(text: str, columns: Sequence[str]) -> Ordering:
    """Read the outermost ORDER BY, LIMIT and OFFSET of a text whose answer has these columns.

    What sqlglot cannot parse, even as DuckDB writes it again, counts as unordered and uncut.
    """
    try:
        tree = _parsed(text)
    except (SqlglotError, duckdb.Error):
        return Ordering()
    if not isinstance(tree, exp.Query):
        return Ordering()
    terms = _order_terms(tree, len(columns))
    found = [_output_column(term, tree, columns) for term in terms]
    keys = _known_prefix(found)
    complete = None not in found
    cut = bool(tree.args.get("limit") or tree.args.get("offset"))
    offset = _number(tree.args.get("offset"))
    if offset is None or (complete and not cut):
        return Ordering(keys, complete, cut)
    tree.set("limit", None)
    tree.set("offset", None)
    whole_keys = _append_hidden_keys(tree, terms, found, len(columns))
    return Ordering(keys, complete, cut, offset, tree.sql(dialect="duckdb"), whole_keys)


def _parsed(text: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(text, read="duckdb")
    except SqlglotError:
        ((again,),) = ask(f"SELECT json_deserialize_sql(json_serialize_sql('{text.replace(chr(39), chr(39) * 2)}'))")
        return sqlglot.parse_one(str(again), read="duckdb")


def _order_terms(tree: exp.Query, width: int) -> list[exp.Expression]:
    order = tree.args.get("order")
    terms = [term.this if isinstance(term, exp.Ordered) else term for term in order.expressions] if order else []
    if len(terms) == 1 and terms[0].sql("duckdb").upper() == "ALL":
        return [exp.Literal.number(position) for position in range(1, width + 1)]
    return terms


def _output_column(term: exp.Expression, tree: exp.Query, columns: Sequence[str]) -> int | None:
    """The output column that an ORDER BY term names: by number, by name, or as the same expression."""
    if isinstance(term, exp.Literal) and not term.is_string:
        position = int(term.name) - 1
        return position if 0 <= position < len(columns) else None
    if isinstance(term, exp.Column) and not term.table:
        named = [index for index, name in enumerate(columns) if name.lower() == term.name.lower()]
        if named and (len(named) == 1 or not isinstance(tree, exp.Select)):
            return named[0]
        if named and len(tree.selects) == len(columns):
            aliases = [index for index in named if isinstance(tree.selects[index], exp.Alias)]
            if aliases:
                return aliases[-1]  # of several aliases of a block the last one, of a union the first
    items = tree.selects if isinstance(tree, exp.Select) else []
    if len(items) != len(columns):  # a star among them: positions are not known
        return None
    same = [index for index, item in enumerate(items) if item.unalias() == term]
    return same[0] if same else None


def _known_prefix(found: Sequence[int | None]) -> tuple[int, ...]:
    known = []
    for column in found:
        if column is None:
            break
        known.append(column)
    return tuple(known)


def _append_hidden_keys(
    tree: exp.Query, terms: Sequence[exp.Expression], found: Sequence[int | None], width: int
) -> tuple[int, ...]:
    """Select the keys that are no output columns as further columns, where the grammar lets us."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct"):
        return _known_prefix(found)
    keys: list[int] = []
    for term, column in zip(terms, found, strict=True):
        if column is None:
            key = _meant(term, tree).copy()
            tree.append("expressions", exp.alias_(key, f"order key {len(keys)}", quoted=True))
            column = width
            width += 1
        keys.append(column)
    return tuple(keys)


def _meant(term: exp.Expression, tree: exp.Select) -> exp.Expression:
    """The expression that an ORDER BY term stands for: an alias goes before a column there, and after it elsewhere."""
    if isinstance(term, exp.Column) and not term.table:
        named = [
            item for item in tree.selects if isinstance(item, exp.Alias) and item.alias.lower() == term.name.lower()
        ]
        return named[-1].this if named else term
    return term


def _number(offset: exp.Expression | None) -> int | None:
    """The value of an OFFSET clause, 0 without one, None if it is not a plain number."""
    if offset is None:
        return 0
    value = offset.expression
    return int(value.name) if isinstance(value, exp.Literal) and not value.is_string else None
