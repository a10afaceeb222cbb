"""A query whose plain SELECTs are merged has the rows, names and types of the original, by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import duckdb
import pytest
import sqlglot

from qoop.planner.sql.merged_selects import merged

TABLES = {
    "facts": "SELECT range % 7 AS g, nullif(range % 11, 3) AS V, range % 5 AS k, 'n' || range % 3 AS name "
    "FROM range(99)",
    "dim": "SELECT nullif(range, 2) AS k, 'd' || range % 4 AS name, range * 10 AS v FROM range(6)",
    "other": "SELECT range % 4 AS k, range AS h, {'Inner': range, 'b': 2} AS st FROM range(9)",
}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        for name, text in TABLES.items():
            made.execute(f"CREATE TABLE {name} AS {text}")
        yield made


def merge(connection: duckdb.DuckDBPyConnection, text: str) -> str | None:
    columns = {name: [one for one, *_ in connection.execute(f"DESCRIBE {name}").fetchall()] for name in TABLES}
    names = [name for name, *_ in connection.execute(f"DESCRIBE {text}").fetchall()]
    found = merged(sqlglot.parse_one(text, dialect="duckdb"), columns, names)
    return None if found is None else found.sql("duckdb")


def answer(connection: duckdb.DuckDBPyConnection, text: str) -> tuple[list[object], list[str]]:
    types = connection.execute(f"DESCRIBE {text}").fetchall()
    return [one[:2] for one in types], sorted(map(repr, connection.execute(text).fetchall()))


def check(connection: duckdb.DuckDBPyConnection, text: str) -> bool:
    """True if it was merged; then with the same answer."""
    found = merge(connection, text)
    if found is not None:
        assert answer(connection, found) == answer(connection, text), found
    return found is not None


@pytest.mark.parametrize(
    "text",
    [
        "WITH c AS (SELECT * FROM facts) SELECT g, sum(v) FROM c GROUP BY g",
        "WITH c AS (FROM facts WHERE v > 2), d AS (SELECT g + 1 AS h, V FROM c) SELECT H, sum(v) FROM D GROUP BY h",
        "SELECT q.h, count(*) FROM (SELECT g * 2 AS h FROM facts) q GROUP BY ALL ORDER BY count(*)",
        "WITH c AS (SELECT g, v FROM facts WHERE k < 3) SELECT a.g, sum(b.v) FROM c a, c b WHERE a.g = b.v GROUP BY 1",
        "WITH c AS (SELECT k, name n FROM dim WHERE v > 0) SELECT n, count(*) FROM facts JOIN c USING (k) GROUP BY n",
        "WITH facts AS (SELECT g, v FROM facts WHERE v > 3) SELECT sum(v) AS total FROM facts",
        "WITH c AS (SELECT f.g, d.name FROM facts f JOIN dim d ON f.k = d.k) SELECT name, max(g) FROM c GROUP BY name",
        "WITH c AS (SELECT k, name FROM dim) SELECT f.g, c.name FROM facts f LEFT JOIN c ON f.k = c.k",
        "WITH c AS (SELECT g + 1 AS g, v FROM facts) SELECT g + 1 AS g, sum(v) FILTER (g > 2) FROM c GROUP BY g",
        "WITH c AS (SELECT g + 1 AS x, v FROM facts) SELECT x, sum(v) FROM c GROUP BY x HAVING sum(v) > 10 ORDER BY x",
        "WITH c AS (SELECT st FROM other) SELECT sum(st.inner) FROM c",
    ],
)
def test_it_is_merged_and_means_the_same(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    assert check(connection, text)
    assert answer(connection, text)[1]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT g, sum(v) FROM facts GROUP BY g",
        "WITH c AS (SELECT g, max(v) AS m FROM facts GROUP BY g) SELECT sum(m) FROM c",
        "WITH c AS (SELECT histogram(v) AS m FROM facts) SELECT 1 AS one FROM c",
        "WITH c AS (SELECT DISTINCT g FROM facts) SELECT count(*) FROM c",
        "WITH c AS (SELECT g FROM facts LIMIT 3) SELECT count(*) FROM c",
        "WITH c AS (SELECT unnest([g, v]) AS u FROM facts) SELECT sum(u) FROM c",
        "WITH c AS (SELECT g, row_number() OVER (ORDER BY name) AS r FROM facts) SELECT sum(r) FROM c",
        "WITH c AS (SELECT k, 1 AS found FROM dim) SELECT found, count(*) FROM facts LEFT JOIN c USING (k) GROUP BY 1",
        "WITH b AS (SELECT k, 1 AS found FROM dim), c AS (SELECT * FROM b) "
        "SELECT found, count(*) FROM facts LEFT JOIN c USING (k) GROUP BY 1",
        "WITH c AS (SELECT k, name FROM dim) SELECT c.name, count(*) FROM c RIGHT JOIN facts USING (k) GROUP BY 1",
        "WITH c AS (SELECT h FROM other WHERE h > 4) SELECT f.g, c.h FROM facts f ASOF JOIN c ON f.g >= c.h",
        "WITH c AS (SELECT g FROM facts), v AS (WITH w AS (SELECT g FROM c) FROM w) SELECT count(*) FROM v",
    ],
)
def test_it_stays_where_its_meaning_might_change(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    assert answer(connection, text)[1]
    assert merge(connection, text) is None


@pytest.mark.parametrize("seed", range(4))
def test_random_queries_over_queries(connection: duckdb.DuckDBPyConnection, seed: int) -> None:
    draw, merged_ones = Random(seed), 0
    for _ in range(40):
        text = random_query(draw)
        try:
            connection.execute(f"DESCRIBE {text}")
        except duckdb.Error:
            continue  # a name of two sources
        merged_ones += check(connection, text)
    assert merged_ones > 8


def random_query(draw: Random) -> str:
    """A query with groups over plain SELECTs over each other, with names that tables, columns and answers share."""
    columns = {"facts": ["g", "v", "k", "name"], "dim": ["k", "name", "v"], "other": ["k", "h"]}
    parts = []
    for number in range(draw.randint(1, 3)):
        name = draw.choice([f"c{number}", f"c{number}", "Q"]) if number == 0 else f"c{number}"
        text, made = random_select(draw, columns)
        parts.append(f"{name} AS ({text})")
        columns = {**columns, name: made}
    last = list(columns)[-1]
    source, known = random_from(draw, columns, last)
    key, value = draw.choice(known), draw.choice(known)
    alias = draw.choice(["", " AS v", " AS x", " AS g"])
    clauses = draw.choice(["", f" WHERE {draw.choice(known)} IS NOT NULL", f" WHERE {value} IN (SELECT k FROM other)"])
    group = draw.choice(["ALL", "1", key])
    tail = draw.choice(["", " ORDER BY n", " ORDER BY 1", " HAVING count(*) > 2"])
    query = f"SELECT {key}{alias}, count({value}) AS n FROM {source}{clauses} GROUP BY {group}{tail}"
    return f"WITH {', '.join(parts)} {query}"


def random_select(draw: Random, columns: dict[str, list[str]]) -> tuple[str, list[str]]:
    source, known = random_from(draw, columns, draw.choice(list(columns)))
    items, made = [], []
    for one in draw.sample(known, min(len(known), draw.randint(1, 3))):
        name = draw.choice(["g", "v", "k", "name", "h", "x"])
        if name not in made:
            items.append(f"{draw.choice([one, one, f'{one} || 1', f'coalesce({one}, {one})'])} AS {name}")
            made.append(name)
    where = draw.choice(["", "", f" WHERE {draw.choice(known)} IS NOT NULL"])
    return f"SELECT {', '.join(items)} FROM {source}{where}", made


def random_from(draw: Random, columns: dict[str, list[str]], first: str) -> tuple[str, list[str]]:
    """A FROM, and the columns that it gives, with or without the names of their sources."""
    named = draw.choice(["", " AS a"])
    own = columns[first]
    qualifier = draw.choice(["", f"{'a' if named else first}."])
    if draw.random() < 0.6:
        return f"{first}{named}", [qualifier + one for one in own]
    second = draw.choice(list(columns))
    on = f"{'a' if named else first}.{draw.choice(own)}::VARCHAR = b.{draw.choice(columns[second])}::VARCHAR"
    kind = draw.choice(["JOIN", "JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"])
    others = [] if kind in ("SEMI JOIN", "ANTI JOIN") else [f"b.{one}" for one in columns[second]]
    return f"{first}{named} {kind} {second} AS b ON {on}", [qualifier + one for one in own] + others
