"""Parts of FROM and WITH beyond tables and subqueries: PIVOT, UNPIVOT, positional joins, recursion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuzz_templates import NUMBER, TEXT
from fuzz_tree import items, node, optional
from fuzz_values import Named, Names, Values

from qoop.planner.algebra.expr import quote

Columns = list[tuple[str, str]]
Tables = Mapping[str, Sequence[tuple[str, str]]]
_PIVOTED = (("sum({n})", NUMBER), ("count(*)", NUMBER), ("max({t})", TEXT), ("count(DISTINCT {any})", NUMBER))


class Sources(Values):
    """Sources of one text over base tables; the grammar has the rest."""

    tables: Tables

    def _base(self, names: Names, least: int, kind: str) -> tuple[str, Columns, list[str]] | None:
        """A table that no WITH hides and that has columns enough of a kind: its name, all columns, and those."""
        fitting = [
            (name, list(columns), own)
            for name, columns in self.tables.items()
            if name not in names.ctes and len(own := [quote(column) for column, its in columns if its == kind]) >= least
        ]
        return self.rng.choice(fitting) if fitting else None

    def positional(self, names: Names, alias: str) -> str:
        """Two tables row by row, each in a total order."""
        sides, columns = [], []
        for number in range(2):
            name, own, _ = self._base(names, 1, NUMBER) or ("", [], [])
            if not name:
                return ""
            heads = [f"p{number}{place}" for place in range(len(own))]
            order = items(", ", [f"{place + 1}{self.direction()}" for place in range(len(own))])
            limit = optional(f" LIMIT {self.rng.choice((0, 3, 9))}")
            ordered = f"SELECT * FROM {name} AS {self.fresh('r')} ORDER BY {order}{limit}"
            if "LIMIT" not in ordered and self.chance(0.1):
                ordered = f"SELECT * FROM {name} AS {self.fresh('r')}"
            sides.append(f"({ordered}) AS q{number}({', '.join(heads)})")
            columns += [Named(f"{alias}.{head}", kind) for head, (_, kind) in zip(heads, own, strict=True)]
        names.columns += columns
        return f"(SELECT * FROM {sides[0]} POSITIONAL JOIN {sides[1]}) AS {alias}"

    def unpivoted(self, names: Names, alias: str) -> str:
        """Columns of numbers as rows."""
        found = self._base(names, 2, NUMBER)
        if found is None:
            return ""
        name, _, numbers = found
        chosen = self.rng.sample(numbers, min(len(numbers), self.rng.choice((2, 2, 3))))
        casts = items(", ", [f"{column}::DOUBLE AS u{place}" for place, column in enumerate(chosen)])
        inner = f"SELECT id AS kept, {casts} FROM {name} AS {self.fresh('r')}"
        names.columns += [Named(f"{alias}.{head}", kind) for head, kind in
                          (("kept", NUMBER), ("head", TEXT), ("cell", NUMBER))]  # fmt: skip
        if self.chance(0.4):
            heads = ", ".join(f"u{place}" for place in range(len(chosen)))
            return f"(FROM ({inner}) UNPIVOT INCLUDE NULLS (cell FOR head IN ({heads}))) AS {alias}"
        over = self.rng.choice(("COLUMNS('^u')", "COLUMNS(* EXCLUDE (kept))"))
        return f"(FROM (UNPIVOT ({inner}) ON {over} INTO NAME head VALUE cell)) AS {alias}"

    def pivoted(self, names: Names, alias: str) -> str:
        """Texts as columns, with an aggregate or two for each."""
        found = self._base(names, 1, TEXT)
        if found is None:
            return ""
        name, columns, texts = found
        inside = Names([Named(quote(column), kind) for column, kind in columns])
        picked = self.rng.sample(_PIVOTED, self.rng.choice((1, 2)))
        used = [(self.filled(sql, kind, inside), kind, f"g{place}") for place, (sql, kind) in enumerate(picked)]
        values = self.rng.sample(("a", "ab", "x%", "", "NULL", "zoë"), 2)
        heads = [(f"{value}_{head}", kind) for value in values for _, kind, head in used]
        listed = ", ".join(f"'{value}'" for value in values)
        aggregates = ", ".join(f"{sql} AS {head}" for sql, _, head in used)
        inner = f"FROM {name} AS {self.fresh('r')}{optional(f' WHERE {self.comparison(inside)}')}"
        names.columns += [Named(f"{alias}.kept", NUMBER), *(Named(f"{alias}.{quote(head)}", k) for head, k in heads)]
        key = self.rng.choice([column for column, kind in columns if kind == NUMBER])
        query = f"PIVOT ({inner}) ON {self.rng.choice(texts)} IN ({listed}) USING {aggregates} GROUP BY {quote(key)}"
        rest = ", ".join(quote(head) for head, _ in heads)
        return f"(SELECT {quote(key)} AS kept, {rest} FROM ({query})) AS {alias}"

    def free_pivot(self, query: str, columns: Columns) -> str:
        """A statement that takes its columns from the data."""
        inside = Names([Named(quote(column), kind) for column, kind in columns])
        on, kind = self.rng.choice(columns)
        text = "PIVOT" if kind == TEXT else "PIVOT_WIDER"
        aggregate = self.filled(self.rng.choice(_PIVOTED)[0], kind, inside)
        return node("query", f"{text} ({query}) ON {quote(on)}{optional(f' USING {aggregate}')}")

    def recurring(self, inside: Names, name: str) -> tuple[str, Columns]:
        """A query of WITH RECURSIVE over a table: its text, and its columns."""
        table, _, _ = self._base(inside, 1, NUMBER) or ("a", [], [])
        word = self.rng.choice(("UNION", "UNION ALL"))
        columns: Columns = [("n", NUMBER), ("m", NUMBER)]
        joined = f", {table} AS {self.fresh('r')}x" if self.chance(0.2) else ""
        first = f"SELECT id, 1 FROM {table} AS {self.fresh('r')} WHERE id < {self.rng.randint(0, 9)}"
        step = f"SELECT n + {self.rng.randint(0, 2)}, m + 1 FROM {name}{joined} WHERE m < {self.rng.randint(1, 3)}"
        return f"{name}(n, m) AS ({first} {word} {step})", columns
