"""The texts that are bound and run in the process of the session: those that cannot take much."""

import duckdb
import pytest

from qoop.planner.light import is_light
from qoop.tpcds import queries

TPCDS = """
    call_center catalog_page catalog_returns catalog_sales customer customer_address customer_demographics date_dim
    household_demographics income_band inventory item promotion reason ship_mode store store_returns store_sales
    time_dim warehouse web_page web_returns web_sales web_site
"""
TABLES = frozenset(["t", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier", *TPCDS.split()])

GROWING = """
    range generate_series repeat lpad rpad printf format list_transform list_resize bar list array_agg string_agg median
    mode quantile_cont histogram levenshtein list_reduce json_group_array list_concat array_to_string bitstring list_zip
    flatten apply max min
"""

HEAVY = [
    "SELECT len(range(300000000))",
    'SELECT len("range"(3))',
    "SELECT (3).range()",
    "SELECT main.range(3)",
    "SELECT range /* ( */ (3)",
    "SELECT '/*', range(3) -- */",
    "SELECT E'\\'', repeat('x', 9) || ''",
    "SELECT $$'$$, repeat('x', 9)",
    "SELECT a FROM t WHERE a = length(lpad('a', 9))",
    "SELECT [y FOR y IN [1, 2]]",
    "SELECT CAST(NULL AS INTEGER[100000])",
    "SELECT CAST(NULL AS INTEGER[50][50])",
    "SELECT max(a, 1000000000) FROM t",
    "SELECT median(a) FROM t",
    "SELECT list(a), string_agg(b, '') FROM t",
    "WITH RECURSIVE r AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM r) SELECT max(s) FROM r",
    "WITH a AS (SELECT 'x' AS s), " + ", ".join(f"a{n} AS (SELECT 'x' || 'x' AS s)" for n in range(20)) + " FROM a",
    "SELECT a LIKE '%a%a%a%a%a%' FROM t",
    "SELECT a LIKE '%' || a || '%' || a || '%' || a || '%' || a || '%' FROM t",
    "SELECT replace(replace(replace(a, 'a', '" + 99 * "a" + "'), 'a', '" + 99 * "b" + "'), 'b', 'cc') FROM t",
    "SELECT my_macro(a) FROM t",
    "SELECT " + 70 * "(" + "1" + 70 * ")",
    "FROM " + ", ".join(f"t t{n}" for n in range(100)),
    "WITH c(x) AS (FROM t) FROM " + ", ".join(f"c c{n}" for n in range(100)),
    "FROM (" + " UNION ALL ".join(f"SELECT {n}" for n in range(100)) + ")",
    "SELECT a FROM t WHERE a IN (" + ", ".join(map(str, range(9000))) + ")",
    "FROM range(9)",
    "SELECT COLUMNS(c -> c <> 'a') FROM t",
    "SELECT first(a ORDER BY b) FROM t",
    "",
]

LIGHT = [
    "SELECT 1",
    "FROM t",
    "SELECT upper(a) || '!', CAST(b AS DECIMAL(7, 2)) FROM t WHERE c IN (1, 2) AND d LIKE '%x%' GROUP BY ALL",
    "SELECT date_trunc('month', a), count(*) FILTER (b > 1), sum(c) OVER (PARTITION BY d ORDER BY e) FROM t GROUP BY 1",
    "WITH a AS (SELECT 1 AS x), b AS (FROM a) SELECT x[1], y FROM a, b AS c(y)",
    "SELECT 'range(300000000)', \"range\" FROM t -- repeat('x', 9)",
    "SELECT a.b.c, substring(d FROM 1 FOR 2), [1, 2, 3], {'a': 1} FROM t a",
    "SELECT regexp_matches(a, '(b|c)+'), replace(a, 'b', 'c') FROM t",
]


@pytest.mark.parametrize("text", HEAVY)
def test_a_text_that_may_take_much_is_not_light(text: str) -> None:
    assert not is_light(text, TABLES)


@pytest.mark.parametrize("text", LIGHT)
def test_a_usual_text_is_light(text: str) -> None:
    assert is_light(text, TABLES)


@pytest.mark.parametrize("suite", ["tpcds", "tpch"])
def test_the_queries_of_benchmarks_are_light(suite: str) -> None:
    heavy = [number for number, text in queries.texts(suite).items() if not is_light(text, TABLES)]
    assert heavy == ([8] if suite == "tpcds" else [])  # 400 zip codes, each on a line of its own: it is long


def test_a_function_is_heavy_unless_it_is_listed() -> None:
    names = [name for (name,) in duckdb.sql("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()]
    light = {name for name in names if name.isidentifier() and is_light(f"SELECT {name}(1, 2) FROM t", TABLES)}
    assert not light & frozenset(GROWING.split())
    assert {"upper", "sum", "date_trunc"} <= light
