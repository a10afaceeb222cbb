"""Two sessions, of which one runs queries in stages only, and a DuckDB, all over the same small tables.

The tables have NULLs, ties, duplicates, names in other cases, a struct and a list; one is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

import qoop
from qoop.tpcds.oracle import compare
from qoop.tpcds.ordering import ordering

TABLES = {
    "t": """SELECT i::INTEGER AS i, (i * 7) % 5 AS k, CASE WHEN i % 4 > 0 THEN i % 3 END AS n, 'x' || (i % 6) AS S,
                   (i % 10) / 4.0 AS f FROM range(40) AS r(i)""",
    "u": """SELECT CASE WHEN i < 10 THEN i % 6 END::BIGINT AS k, i::INTEGER AS j, DATE '2020-01-01' + i::INTEGER AS d
            FROM range(12) AS r(i)""",
    "w": """SELECT i::INTEGER AS k, {'a': i % 2, 'b': 'z' || i} AS st, CASE i WHEN 2 THEN NULL WHEN 3 THEN [] ELSE
                   [i, i + 1, NULL] END AS l FROM range(6) AS r(i)""",
    "nothing": "SELECT 1::INTEGER AS k, 'a' AS S, 2.5::DOUBLE AS f, [1] AS l WHERE false",
}  # fmt: skip


class Both:
    """The sessions and the DuckDB."""

    def __init__(self) -> None:
        self.usual, self.staged = qoop.connect(slots=2), qoop.connect(slots=2, staged=True)
        self.duckdb = duckdb.connect(config={"threads": 1})
        for name, text in TABLES.items():
            self.duckdb.execute(f"CREATE TABLE {name} AS {text}")
            rows = self.duckdb.sql(f"FROM {name}").to_arrow_table()
            for session in (self.usual, self.staged):
                session.register(name, rows)

    def check(self, text: str) -> None:
        """Assert that names, types and rows are DuckDB's, in stages and not."""
        theirs = self.duckdb.sql(text).to_arrow_table()
        for session in (self.usual, self.staged):
            ours = session.sql(text).arrow()
            difference = compare(ours, theirs, order=ordering(text, theirs.column_names))
            assert ours.column_names == theirs.column_names, text
            assert difference is None, f"{difference}\n\n{text}\n\n{session.explain(text)}"

    def reasons(self, text: str) -> list[str]:
        """The reasons for which parts of a query run whole."""
        lines = self.staged.explain(text).splitlines()
        return [line.split("runs whole: ")[1] for line in lines if "runs whole: " in line]

    def close(self) -> None:
        self.usual.close()
        self.staged.close()
        self.duckdb.close()


@contextmanager
def both() -> Iterator[Both]:
    """The sessions and the DuckDB, closed at the end."""
    made = Both()
    try:
        yield made
    finally:
        made.close()
