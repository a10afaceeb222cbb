"""Names in scope while a query block is built: FROM items, outer blocks, CTEs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column
from qoop.planner.algebra.relation import Relation


class Unsupported(Exception):
    """The planner cannot take this construct apart; the block that holds it runs as an opaque fragment.

    Never leaves the planner (law 11: EXPLAIN shows the reason).
    """


def refuse(node: exp.Expr, known: Collection[str]) -> None:
    """Raise Unsupported if the node has a part that is not among the `known` ones."""
    for key in parts_of(node):
        if key not in known:
            raise Unsupported(f"{key} in {type(node).__name__}")


def parts_of(node: exp.Expr) -> Iterator[str]:
    """The names of the parts that a node has."""
    return (key for key, part in node.args.items() if part)


@value
class FromItem:
    """One FROM item: its alias, what its columns are called, in order (names may repeat), and its rows."""

    alias: str
    columns: tuple[tuple[str, Column], ...]
    relation: Relation

    def find(self, name: str) -> Column | None:
        """The first column of that (lower-case) name."""
        return next((expr for own, expr in self.columns if own.lower() == name), None)

    def own_name(self, name: str) -> str | None:
        """That name as the item itself writes it, None where it has no such column."""
        return next((own for own, _ in self.columns if own.lower() == name), None)


def named_item(alias: str, names: Sequence[str], columns: Sequence[Column], relation: Relation) -> FromItem:
    """A FROM item whose first columns have new names. Raises Unsupported if there are more names than columns."""
    if len(names) > len(columns):
        raise Unsupported(f"more names than columns in {alias}")
    every = [*names, *(column.name for column in columns[len(names) :])]
    return FromItem(alias, tuple(zip(unlike_names(every), columns, strict=True)), relation)


def unlike_names(names: Sequence[str]) -> list[str]:
    """The names of the columns of a FROM item, of which no two are alike in lower case: DuckDB numbers them.

    >>> unlike_names(["a", "b", "a", "A"])
    ['a', 'b', 'a_1', 'A_2']
    """
    times: dict[str, int] = {}
    made = []
    for name in names:
        unlike = name
        while unlike.lower() in times:
            unlike = f"{name}_{times[name.lower()]}"
            times[name.lower()] += 1
        times[unlike.lower()] = 1
        made.append(unlike)
    return made


@dataclass
class Scope:
    """The FROM items of one block, and the scope around it.

    merged: columns that USING made one, by lower-case name. same: by merged column, the column that represents
    it.
    outer: columns of outer scopes that this block (or a block in it) refers to.
    """

    parent: Scope | None
    sources: list[FromItem] = field(default_factory=list)
    merged: dict[str, Column] = field(default_factory=dict)
    same: dict[Column, Column] = field(default_factory=dict)
    outer: set[Column] = field(default_factory=set)

    def merge(self, name: str, ours: Column, theirs: Column, shown: Column) -> None:
        """Make two columns of a name one, which `shown` stands for; each may already stand for others."""
        for column, before in list(self.same.items()):
            if before in (ours, theirs):
                self.same[column] = shown
        self.same |= dict.fromkeys((ours, theirs, shown), shown)
        self.merged[name] = shown

    def star(self, table: str | None) -> Iterator[tuple[str, str, Column]]:
        """Alias, name and column of each that ``*`` or ``table.*`` stands for, in order. A ``*`` has columns that USING
        made one where the first of them is."""
        merged_columns: set[Column] = set()
        for source in self.sources:
            for name, column in source.columns if table is None or source.alias.lower() == table else ():
                shown = self.same.get(column, column) if table is None else column
                if table is not None or shown not in merged_columns:
                    yield source.alias, name, shown
                merged_columns.update((shown,) if shown in self.same else ())

    def local(self, name: str, table: str | None) -> Column | None:
        """The column of this block's own FROM items, or None."""
        if table is None and name in self.merged:
            return self.merged[name]
        for source in self.sources:
            if table is None or source.alias.lower() == table:
                found = source.find(name)
                if found is not None:
                    return found
        return None

    def has_source(self, name: str) -> bool:
        """True if a FROM item of this block has the name, which means its row where no column has it."""
        return any(source.alias.lower() == name for source in self.sources)

    def own_name(self, name: str, table: str | None) -> str | None:
        """The name of a column as its FROM item of this block writes it, None where no item has such a column."""
        items = (source for source in self.sources if table is None or source.alias.lower() == table)
        return next((own for source in items if (own := source.own_name(name)) is not None), None)

    def resolve(self, name: str, table: str | None) -> Column | None:
        """The column here or in the nearest outer block; remembers that an outer one was used."""
        found = self.local(name, table)
        if found is not None or self.parent is None:
            return found
        found = self.parent.resolve(name, table)
        if found is not None:
            self.outer.add(found)
        return found


@dataclass
class Cte:
    """A WITH item as it is written, and its relation once it was built to be shared.

    inlined: it says NOT MATERIALIZED, so that every use is computed again. recursive: it reads itself.
    """

    name: str
    item: exp.CTE
    columns: tuple[str, ...]
    visible: dict[str, Cte]
    uses: int
    inlined: bool = False
    recursive: bool = False
    shared: tuple[Relation, tuple[str, ...]] | None = None

    @property
    def query(self) -> exp.Expression:
        """Its definition."""
        return self.item.this  # type: ignore[no-any-return]


def count_uses(root: exp.Expression) -> dict[str, int]:
    """The number of times that each unqualified table name occurs in the statement."""
    uses: dict[str, int] = {}
    for table in root.find_all(exp.Table):
        if not table.args.get("db"):
            name = table.name.lower()
            uses[name] = uses.get(name, 0) + 1
    return uses


class Names:
    """Hands out column names that are unique in the query."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def fresh(self, wish: str, type_: str) -> Column:
        """A column called `wish`, or `wish_2`, `wish_3` … where that is taken."""
        base = "".join(c if c.isalnum() and c.isascii() else "_" for c in wish.lower())[:48] or "expr"
        number = self._used.get(base, 0) + 1
        name = base if number == 1 else f"{base}_{number}"
        while number > 1 and name in self._used:
            number += 1
            name = f"{base}_{number}"
        self._used[base] = number
        self._used.setdefault(name, 1)
        return Column(name, type_)
