"""The meaning of names and expressions: rows, their order, column names and types are DuckDB's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import duckdb
import pytest

import qoop

TABLES = {
    "t": """FROM (VALUES (1, 'b', 2.5, 10, true), (2, 'a', NULL, 9, false), (10, 'C', 'nan'::DOUBLE, 8, NULL),
        (9, NULL, -1.5, 7, true), (NULL, 'b', 0.0, 6, false), (2, 'B', 3.25, 5, true), (-3, 'a', 'inf'::DOUBLE, 4, NULL)
        ) AS v(i, s, x, k, b)""",
    "u": "FROM (VALUES (1, 'b', 5), (2, 'q', 6), (2, 'a', 7), (NULL, NULL, 8), (9, 'zz', 9)) AS v(i, s, w)",
}

TABLES["n"] = "SELECT {'a': i, 'B': {'c': x}} AS st, k FROM t"


class Both:
    """A session and a DuckDB over the same tables."""

    def __init__(self) -> None:
        self.session = qoop.connect(slots=2, memory="1GB", staged=True)
        self.duckdb = duckdb.connect(config={"threads": 1})
        for name, query in TABLES.items():
            self.duckdb.execute(f"CREATE TABLE {name} AS {query}")
            self.session.register(name, self.duckdb.sql(f"FROM {name}"))

    def check(self, text: str) -> None:
        """Both give the same, in the same order, and something."""
        described = self.duckdb.execute(f"DESCRIBE {text}").fetchall()
        theirs, ours = self.duckdb.execute(text).fetchall(), self.session.sql(text)
        assert list(zip(ours.columns, ours.types, strict=True)) == [column[:2] for column in described]
        assert theirs
        assert [_plain(row) for row in ours.fetchall()] == [_plain(row) for row in theirs]


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    both = Both()
    with both.session:
        yield both


def _plain(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else value


SORTED = {
    "an expression without AS gives no name": "SELECT i::VARCHAR FROM t ORDER BY i LIMIT 4",
    "TRY_CAST": "SELECT TRY_CAST(i AS VARCHAR) FROM t ORDER BY i, k LIMIT 4",
    "a cast in parentheses": "SELECT (i::VARCHAR) FROM t ORDER BY i, k LIMIT 4",
    "a cast of a key": "SELECT i::VARCHAR, count(*) FROM t GROUP BY i ORDER BY i LIMIT 4",
    "a cast and DISTINCT": "SELECT DISTINCT i::VARCHAR FROM t ORDER BY i LIMIT 4",
    "a key in parentheses names an output": "SELECT -k AS k, i FROM t ORDER BY (k) LIMIT 4",
    "a place in parentheses": "SELECT -k, i FROM t ORDER BY ((1)) LIMIT 4",
    "a column in another case is an alias": "SELECT -i AS i, I FROM t ORDER BY i, k LIMIT 4",
    "also of a text": "SELECT -k AS s, S FROM t ORDER BY s, k LIMIT 4",
    "a column as it is called is none": "SELECT -k AS s, s FROM t ORDER BY s, k LIMIT 4",
    "names that DuckDB makes": """
        SELECT "CAST(i AS VARCHAR)" AS c, "(i + k)" FROM (SELECT i::VARCHAR, i + k FROM t) ORDER BY 2, 1""",
    "names that DuckDB makes, in a CTE": """
        WITH q AS (SELECT count(*), max(K) FROM t) SELECT "count_star()", "max(K)" FROM q""",
}


@pytest.mark.parametrize("name", SORTED)
def test_sorted(both: Both, name: str) -> None:
    both.check(SORTED[name])


def test_names_that_duckdb_makes_are_taken_apart(both: Both) -> None:
    assert "runs whole" not in both.session.explain(SORTED["names that DuckDB makes, in a CTE"])


MEANT = {
    "numbers that begin with a point": "SELECT typeof(.34), typeof(k * .5), typeof(2.5), .5 - 1.25 FROM t",
    "a number with and without its zero": "SELECT typeof(.34), typeof(0.34)",
    "VALUES of strings and numbers": "SELECT x, typeof(x) FROM (VALUES (1), (2.5), ('3')) AS v(x)",
    "VALUES of lists": "SELECT x, typeof(x) FROM (VALUES ([]), ([2.5]), (NULL)) AS v(x)",
    "VALUES of structs": "SELECT x FROM (VALUES ({'a': 1}), ({'b': 2.5})) AS v(x)",
    "a histogram of VALUES": "SELECT histogram(x) FROM (VALUES (1), ('2'), (NULL)) AS v(x)",
    "the name of an expression": "SELECT alias(i + 1) AS a, alias(k) FROM t LIMIT 1",
    "the name of a column of a subquery": "SELECT alias(c) FROM (SELECT i AS c FROM t) LIMIT 1",
    "a table macro": "FROM histogram(t, i)",
    "a table macro and a name as a text": "SELECT sum(count) FROM histogram_values('T', k, bin_count := 3)",
    "known bounds": "SELECT b, bitstring_agg(k) FROM t GROUP BY b ORDER BY b",
    "bounds from statistics and a filter": "SELECT bitstring_agg(w + 1) FROM u WHERE w > 5",
    "a field in another case, compared": "SELECT k FROM n WHERE st.A > 1 AND St.b.C IS NOT NULL ORDER BY k",
    "enumerations in arrays and lists of lists": """
        SELECT ['a'::ENUM('b', 'a')]::ENUM('b', 'a')[1] AS a, [['a'::ENUM('b', 'a')]] AS l,
               MAP {'k': [{'f': 'b'::ENUM('b', 'a')}]} AS m FROM t""",
    "arrays in structs between stages": """
        SELECT v, count(*) FROM (SELECT {'a': [i, k]::INTEGER[2]} AS v FROM t) GROUP BY v ORDER BY v""",
    "a NaN is greater than a number": "SELECT k FROM t WHERE x > .25 ORDER BY k",
    "a NULL is not less than a NaN": "SELECT k FROM t WHERE x <= 'nan'::DOUBLE ORDER BY k",
    "a NaN in a field": "SELECT k FROM n WHERE st.b.c > 2.5 ORDER BY k",
    "a NaN between stages": """
        SELECT b, m FROM (SELECT b, max(x) AS m FROM t GROUP BY b) AS q WHERE m > 0.5 ORDER BY b""",
}

PIVOTED = {
    "a column": "PIVOT t ON s USING sum(k) GROUP BY b ORDER BY b",
    "numbers, sorted as texts": "PIVOT t ON i ORDER BY k",
    "several, of which one has values": "PIVOT t ON s, b IN (true) USING max(x), max(x) GROUP BY i ORDER BY i",
    "expressions": "PIVOT t ON s || k, (i, b) GROUP BY b ORDER BY b",
    "values of a query": "PIVOT t ON s IN (SELECT s FROM u WHERE w < 6) USING sum(k) GROUP BY b ORDER BY b",
    "in a subquery": "SELECT q.a + 1 FROM (PIVOT t ON lower(s) USING sum(k) GROUP BY b) AS q ORDER BY ALL",
    "over a CTE": "WITH r AS (FROM t WHERE s <> 'a') PIVOT r ON s USING sum(k) GROUP BY b ORDER BY b",
    "in a CTE": "WITH p AS (PIVOT t ON s USING sum(k) GROUP BY b) FROM p ORDER BY ALL",
    "twice": """
        FROM (PIVOT (PIVOT t ON s USING sum(k) GROUP BY b) ON b) JOIN (PIVOT u ON s GROUP BY i) ON true ORDER BY ALL""",
}


@pytest.mark.parametrize("name", PIVOTED)
def test_pivot_takes_its_values_from_the_data(both: Both, name: str) -> None:
    both.check(PIVOTED[name])


def test_statements_with_pivots(both: Both) -> None:
    both.session.sql("CREATE TABLE p AS PIVOT t ON k; SELECT 1")
    assert both.session.sql('PIVOT u ON s; SELECT "10" FROM p ORDER BY ALL DESC LIMIT 1; -- the end').fetchall() == [
        (1,)
    ]
    assert "runs whole" in both.session.sql("EXPLAIN PIVOT t ON s").fetchall()[0][1]
    with pytest.raises(qoop.QueryError, match="finds no values"):
        both.session.sql("PIVOT (FROM t WHERE false) ON s")


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO p PIVOT t ON c USING sum(v)",
        "INSERT INTO p (PIVOT t ON c USING sum(v))",
        "INSERT INTO p WITH q AS (PIVOT t ON c USING sum(v)) FROM q",
        "WITH q AS (PIVOT t ON c USING sum(v)) INSERT INTO p FROM q",
        'UPDATE p SET a = q."1" FROM (PIVOT t ON c USING sum(v)) AS q WHERE q.k = p.k',
        "DELETE FROM p USING (PIVOT t ON c USING sum(v)) AS q WHERE q.k = p.k",
        "MERGE INTO p USING (PIVOT t ON c USING sum(v)) q ON q.k = p.k WHEN NOT MATCHED THEN INSERT VALUES (k, 1, 2)",
    ],
)
def test_changes_by_pivots(change: str) -> None:
    make = """CREATE TABLE t AS SELECT i % 3 AS k, i % 2 AS c, i AS v FROM range(12) AS r(i);
        CREATE TABLE p AS SELECT 1::BIGINT AS k, 5::HUGEINT AS a, 6::HUGEINT AS b"""
    with qoop.connect(slots=1, memory="300MB") as session, duckdb.connect() as oracle:
        found, expected = (
            [ask(text) for text in (make, change, "FROM p ORDER BY k, a")][-1].fetchall()
            for ask in (session.sql, oracle.execute)
        )
    assert found == expected != [(1, 5, 6)]


@pytest.mark.parametrize("name", MEANT)
def test_meant(both: Both, name: str) -> None:
    both.check(MEANT[name])


def test_what_tells_of_a_task_is_refused(both: Both) -> None:
    with pytest.raises(qoop.BindError, match="current_query"):
        both.session.sql("SELECT current_query() FROM t")
