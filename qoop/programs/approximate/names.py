"""The names in a SELECT: the column, or the column of the answer, that one means; the keys of the groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from qoop.planner.sql.sources import tables_read


class Refused(Exception):
    """The query cannot grow, for the reason in the message."""


def sources_of(select: exp.Select) -> list[exp.Expression]:
    """The sources in the FROM, in order."""
    source = select.args.get("from_")
    joins = select.args.get("joins") or []
    return [] if source is None else [source.this, *(join.this for join in joins)]


def tables_of(texts: Iterable[str]) -> tuple[str, ...]:
    """The tables that queries read, in lower case."""
    return tuple(sorted({name.lower() for text in texts for name in tables_read(text)}))


def has_aggregates(expr: exp.Expression) -> bool:
    """True if an expression has aggregates, apart from those over windows."""
    return any(
        not isinstance(one, exp.Grouping) and not isinstance(one.parent, exp.Window | exp.IgnoreNulls)
        for one in expr.find_all(exp.AggFunc)
    )


SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def _within_sets(node: exp.Expression) -> Iterator[exp.Expression]:
    """The expressions in a GROUP BY with grouping sets."""
    for one in node.expressions:
        if isinstance(one, exp.Paren):
            yield one.this
        elif isinstance(one, (*SETS, exp.Tuple)):
            yield from _within_sets(one)
        else:
            yield one


class Names:
    """The names of a SELECT. select: a copy; its columns get the names of their tables. columns: of tables, by name."""

    def __init__(self, select: exp.Select, columns: Mapping[str, Sequence[str]]) -> None:
        self.select = select
        source = select.args.get("from_") or select.args.get("from")
        self._sources = [
            *([] if source is None else [source.this]),
            *(join.this for join in select.args.get("joins") or []),
        ]
        self._columns = {
            table.alias_or_name.lower(): {name.lower() for name in columns.get(table.name.lower(), ())}
            for table in self._sources
            if isinstance(table, exp.Table)
        }
        self._all_known = all(isinstance(one, exp.Table) and one.name.lower() in columns for one in self._sources)
        self._aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}

    def value_of(self, item: exp.Expression) -> exp.Expression:
        """An item of the SELECT without its name."""
        value: exp.Expression = item.this if isinstance(item, exp.Alias) else item
        return value

    def keys(self) -> list[exp.Expression]:
        """The expressions of the GROUP BY; with grouping sets, the last is the number of the set."""
        group = self.select.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            return [self.value_of(item) for item in self.select.expressions if item.find(exp.AggFunc) is None]
        if not group.find(*SETS):
            return [self._key(one) for one in group.expressions]
        self._resolve_sets(group)
        found = {self.same(one): one for one in _within_sets(group)}
        return [*found.values(), exp.Grouping(expressions=[one.copy() for one in found.values()])]

    def _resolve_sets(self, group: exp.Expression) -> None:
        """Replace the names and numbers of results by their expressions."""
        for one in list(_within_sets(group)):
            key = self._key(one)
            if key is not one:
                one.replace(key.copy())

    def _key(self, key: exp.Expression) -> exp.Expression:
        if isinstance(key, exp.Column) and key.name.lower() == "all" and not key.this.quoted:
            raise Refused("it groups by ALL and more")
        return self.item_at(key) or self._meant(key, prefer_columns=True) or key

    def item_at(self, place: exp.Expression) -> exp.Expression | None:
        """The item that a number refers to."""
        if isinstance(place, exp.Literal) and not place.is_string:
            item: exp.Expression = self.select.expressions[int(place.name) - 1]
            return self.value_of(item)
        return None

    def resolved(self, expr: exp.Expression, prefer_columns: bool) -> exp.Expression:
        """An expression with items in place of their names."""
        return expr.copy().transform(lambda node: _copied(self._meant(node, prefer_columns)) or node)

    def _meant(self, node: exp.Expression, prefer_columns: bool) -> exp.Expression | None:
        if not isinstance(node, exp.Column) or node.table:
            return None
        item: exp.Expression | None = self._aliases.get(node.name.lower())
        if item is None or (isinstance(item, exp.Column) and item.name.lower() == node.name.lower()):
            return item
        if not prefer_columns:
            return item
        if not self._all_known:
            raise Refused(f"{node.name} may be a column or the name of a result")
        return None if any(node.name.lower() in columns for columns in self._columns.values()) else item

    def owners(self, name: str) -> list[str]:
        """The tables in the FROM that have a column of that name, in lower case, by their names there."""
        return [alias for alias, columns in self._columns.items() if name in columns]

    def column_of(self, expr: exp.Expression) -> tuple[str, str] | None:
        """The source and column that an expression names, in lower case; None: it is no column, or unresolved."""
        found = self._qualified(expr.unnest())
        return (found.table, found.name) if isinstance(found, exp.Column) and found.table else None

    def same(self, expr: exp.Expression) -> str:
        """A text that is equal for expressions over the same columns."""
        return expr.copy().transform(self._qualified).sql("duckdb")

    def _qualified(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        name, table = node.name.lower(), node.table.lower()
        if not table:
            having = self.owners(name)
            table = having[0] if len(having) == 1 and self._all_known else ""
        return exp.column(name, table or None, quoted=True)


def _copied(node: exp.Expression | None) -> exp.Expression | None:
    return None if node is None else exp.paren(node.copy())
