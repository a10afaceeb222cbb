"""Statements that users of DuckDB write: each SELECT that it accepts gets its answer, all others a clear QueryError.

Each statement runs as it is planned and with everything split or hashed that can be. Tables: see :mod:`fuzz_data`;
besides them `wide` (200 columns), `odd` (names that need quotes) and `rich` (every other type).
"""

# ruff: noqa: E501  (a statement a line)

from __future__ import annotations

import re

import duckdb
import pyarrow as pa
import pytest
from fuzz_world import World

import qoop

FORMS = ("usual", "split", "hash")

RICH = """
SELECT i::INTEGER AS i, (i * 1000000000000000000000)::HUGEINT AS huge, ('00000000-0000-0000-0000-00000000000' || i % 7)::UUID AS uuid,
       (CASE i % 3 WHEN 0 THEN 'red' WHEN 1 THEN 'green' END)::ENUM('green', 'red', 'blue') AS colour,
       INTERVAL (i % 5) DAY AS span, TIME '10:00:00' + INTERVAL (i % 4) HOUR AS clock, ('b' || i % 4)::BLOB AS bytes,
       [i % 3, NULL, i % 2] AS list, {'a': i % 4, 'b': 'x' || i % 2} AS pair, MAP {'k': i % 3, 'l': NULL} AS map,
       (i % 200)::UTINYINT AS small, i::FLOAT / 4 AS single, TIMESTAMPTZ '2020-01-01 00:00:00+00' + INTERVAL (i % 3) DAY AS moment,
       [{'n': i % 2}] AS nested, (i % 2)::UBIGINT AS big, '{"a": ' || i % 3 || '}' AS json
FROM range(40) AS r(i)
"""
ODD = pa.table({"Group": [1, 2, 2, None], "order by": ["a", "b", None, "b"], "naïve ☃": [1.5, 2.5, None, 0.0],
                'quo"te': [1, 1, 2, 2], "lower": [1, 2, 3, 4], "UPPER": [4, 3, 2, 1]})  # fmt: skip
WIDE = pa.table({f"c{i}": [i, i + 1, None if i % 3 else 0] for i in range(200)})


@pytest.fixture(scope="module")
def everything(world: World) -> World:
    """The shared tables and three more."""
    world.duckdb.execute("SET arrow_lossless_conversion = true")
    rich = world.duckdb.sql(RICH).to_arrow_table()
    world.duckdb.execute("SET arrow_lossless_conversion = false")
    for name, table in (("rich", rich), ("odd", ODD), ("wide", WIDE)):
        world.session.register(name, table)
        world.duckdb.register("arrow_rows", table)
        world.duckdb.execute(f"CREATE OR REPLACE TABLE {name} AS FROM arrow_rows")
    return world


ACCEPTED = [
    # short forms
    "FROM t3",
    "FROM t3 SELECT id, k WHERE id < 5",
    "FROM t3 WHERE id < 3",
    "SELECT 1",
    "SELECT 1 AS a, 'x' AS b, NULL AS c, 1.5, true",
    "VALUES (1, 'a'), (2, NULL)",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(a, b)",
    "SELECT g, count(*) FROM t3 GROUP BY ALL",
    "SELECT g, s, max(k), count(*) + 1 FROM t3 GROUP BY ALL ORDER BY ALL",
    "SELECT g, s FROM t3 ORDER BY ALL DESC",
    "SELECT * EXCLUDE (k, s) FROM t3",
    "SELECT * EXCLUDE k FROM t3 JOIN t4 USING (k)",
    "SELECT * REPLACE (id + 1 AS id, upper(s) AS s) FROM t3",
    "SELECT * RENAME (id AS identifier) FROM t3",
    "SELECT COLUMNS('k|id') FROM t3",
    "SELECT max(COLUMNS(*)) FROM t3",
    "SELECT COLUMNS(lambda c: c LIKE 'c%') FROM t1",
    "SELECT COLUMNS(* EXCLUDE (s)) + 0 FROM (SELECT id, k, s FROM t3)",
    "SELECT t3.* FROM t3, t4",
    "SELECT t3.*, t4.k AS other FROM t3 JOIN t4 ON t3.k = t4.k",
    "SELECT * LIKE '%d%' FROM t3",
    "TABLE t4",
    "SELECT * FROM t4;",
    "SELECT 1; ;",
    "-- a comment\nSELECT 1 /* another */ AS a -- the end",
    "/* SELECT 2 */ FROM t4 -- ; SELECT 3",
    "  \n SELECT\n\t1\n ; -- done",
    "SELECT id FROM t3 LIMIT 0",
    "SELECT id FROM t3 ORDER BY id LIMIT 10%",
    "SELECT id FROM t3 ORDER BY id LIMIT (SELECT 2)",
    "SELECT id FROM t3 ORDER BY id LIMIT 3 OFFSET 58",
    "SELECT id FROM t3 ORDER BY id OFFSET 55",
    "SELECT id FROM t3 ORDER BY id FETCH FIRST 3 ROWS ONLY",
    "SELECT id x FROM t3 ORDER BY x LIMIT 1 + 1",
    "SELECT id: id + 1 FROM t3",
    # names
    'SELECT "Group", "order by", "naïve ☃" FROM odd WHERE "quo""te" = 1',
    'SELECT "GROUP", "Lower", upper FROM odd',
    'SELECT o."naïve ☃" AS "Größe", "order by" AS "SELECT" FROM odd AS "o" ORDER BY "Größe" NULLS FIRST, 2',
    'SELECT "order by", count(*) FROM odd GROUP BY "order by"',
    'SELECT "Group" + 1, max("quo""te") FROM odd GROUP BY "Group" + 1',
    "SELECT * FROM odd",
    "SELECT id AS a, k AS a, s AS A FROM t3",
    "SELECT id, id FROM t3",
    "SELECT * FROM t3 AS a JOIN t3 AS b ON a.id = b.id",
    "SELECT * FROM (SELECT id, id AS id2, k FROM t3) AS q(a, b)",
    "SELECT a FROM (SELECT id FROM t3) AS q(a) WHERE a > 3",
    "SELECT count(*), sum(k), max(s) FROM t3",
    'SELECT "count_star()" FROM (SELECT count(*) FROM t3)',
    'SELECT "max(k)" + 1 FROM (SELECT max(k) FROM t3)',
    "SELECT q.id FROM (SELECT id + 1 AS id FROM t3) q ORDER BY q.id",
    "SELECT id + 1 AS id FROM t3 ORDER BY id",
    "SELECT -id AS id FROM t3 ORDER BY id",
    "SELECT -id AS id FROM t3 ORDER BY t3.id",
    "SELECT -id AS id, s FROM t3 ORDER BY id + 0, s",
    "SELECT k AS s, count(*) FROM t3 GROUP BY s, k",
    "SELECT g + 1 AS g, count(*) FROM t3 GROUP BY g",
    "SELECT g + 1 AS h, count(*) FROM t3 GROUP BY h HAVING h > 2",
    "SELECT id + 1 AS x, x * 2 AS y FROM t3 WHERE y > 10",
    "SELECT id AS k, k AS z FROM t3",
    "SELECT max(k) AS m FROM t3 GROUP BY g HAVING m > 1",
    "SELECT max(k) AS m, m + 1 AS n FROM t3",
    "SELECT t3 FROM t3 WHERE id < 3",
    "SELECT t3.s, main.t3.id FROM main.t3",
    "SELECT memory.main.t4.k FROM memory.main.t4",
    "WITH t3 AS (SELECT 1 AS one) SELECT * FROM t3",
    "WITH t3 AS (SELECT id FROM t3 WHERE id < 3) SELECT * FROM t3",
    "WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a), a2 AS (SELECT * FROM a, b) FROM a2",
    "WITH a AS (SELECT id FROM t3), b AS (WITH a AS (SELECT 7 AS id) SELECT * FROM a) SELECT * FROM a JOIN b USING (id)",
    "WITH A AS (SELECT id FROM t3) SELECT x.id, y.id FROM a x, a y WHERE x.id + 1 = y.id",
    "WITH a(x) AS (SELECT id FROM t3 GROUP BY id) SELECT * FROM a WHERE x IN (SELECT x + 1 FROM a)",
    # joins
    "SELECT * FROM t3 JOIN t4 USING (k)",
    "SELECT * FROM t3 JOIN t4 USING (k, s)",
    "SELECT * FROM t3 LEFT JOIN t4 USING (k)",
    "SELECT k, t3.k, t4.k FROM t3 FULL JOIN t4 USING (k)",
    "SELECT * FROM t3 FULL JOIN t4 USING (k)",
    "SELECT * FROM t3 RIGHT JOIN t4 USING (k)",
    "SELECT k FROM t3 RIGHT JOIN t4 USING (k) WHERE k > 2",
    "SELECT * FROM t3 NATURAL JOIN t4",
    "SELECT count(*) FROM t1 NATURAL LEFT JOIN t3",
    "SELECT * FROM t3 JOIN t4 USING (k) JOIN t2 USING (id)",
    "SELECT * FROM t3 POSITIONAL JOIN t4",
    "SELECT t3.id, t4.v FROM t3 ASOF JOIN t4 ON t3.s = t4.s AND t3.id >= t4.v",
    "SELECT t3.id, (SELECT max(t4.v) FROM t4 WHERE t4.k <= t3.k) FROM t3",
    "SELECT t3.id, l.m FROM t3, LATERAL (SELECT max(v) AS m FROM t4 WHERE t4.k = t3.k) l",
    "SELECT t3.id, l.v FROM t3 LEFT JOIN LATERAL (SELECT v FROM t4 WHERE t4.k = t3.k) l ON true",
    "SELECT t3.id, x FROM t3, (SELECT t3.id + 1 AS x)",
    "SELECT * FROM t4 a CROSS JOIN t4 b",
    "SELECT * FROM t4 a, t4 b WHERE a.k < b.k AND a.v + b.v = 5",
    "SELECT * FROM t4 a LEFT JOIN (t3 JOIN t2 ON t3.id = t2.id) ON a.k = t3.k AND t2.k = 1",
    "SELECT * FROM (t3 JOIN t4 ON t3.k = t4.k) JOIN nothing n ON true",
    "SELECT a.id FROM t3 a SEMI JOIN t4 USING (k)",
    "SELECT a.id FROM t3 a ANTI JOIN t4 ON a.k = t4.k AND t4.v > 1",
    "SELECT * FROM t4 LEFT JOIN nothing ON t4.k = nothing.k",
    "SELECT * FROM nothing FULL JOIN t4 ON t4.k = nothing.k",
    "SELECT t1.id FROM t1 JOIN t4 ON t1.dt = t4.dt",
    "SELECT t1.id, t4.k FROM t1 JOIN t4 ON t1.s = t4.s COLLATE NOCASE",
    "SELECT t3.id FROM t3 JOIN t4 ON t3.k = t4.k OR t3.s = t4.s",
    "SELECT t3.id FROM t3 JOIN t4 ON t3.k BETWEEN t4.k AND t4.v",
    # aggregates
    "SELECT arg_max(id, (k, id)), arg_min(id, (k, id)) FROM t3",
    "SELECT g, max_by(s, id), min_by(s, id) FROM t3 GROUP BY g",
    "SELECT quantile_cont(e, 0.5), quantile_disc(id, [0.25, 0.75]), median(b) FROM t1",
    "SELECT k, quantile_cont(id, 0.9) FROM t1 GROUP BY k",
    "SELECT approx_count_distinct(id) > 300 FROM t1",
    "SELECT first(id ORDER BY id), last(id ORDER BY id), any_value(id ORDER BY id) FROM t1",
    "SELECT list(id ORDER BY id DESC) FROM t1",
    "SELECT k, list(DISTINCT c ORDER BY c), array_agg(s ORDER BY id) FROM t1 GROUP BY k",
    "SELECT string_agg(s, '|' ORDER BY id) FROM t1",
    "SELECT string_agg(DISTINCT s, '|' ORDER BY s), group_concat(s, '' ORDER BY id) FROM t1",
    "SELECT histogram(c) FROM t1",
    "SELECT k, histogram(s) FROM t1 GROUP BY k",
    "SELECT count(DISTINCT (k, c)), count(DISTINCT s), sum(DISTINCT d), avg(DISTINCT e) FROM t1",
    "SELECT sum(b), avg(b), sum(d), avg(d), sum(e), avg(c), sum(c::HUGEINT) FROM t1",
    "SELECT sum(f), sum(f::INT), bool_and(f), bool_or(f), bit_and(id), bit_or(id), bit_xor(id) FROM t1",
    "SELECT product(1 + c % 2), geomean(abs(e) + 1), favg(e), fsum(e), sumkahan(e) FROM t1",
    "SELECT stddev(e), stddev_pop(e), var_samp(e), corr(e, id), covar_pop(e, id), regr_slope(e, id), skewness(e) FROM t1",
    "SELECT k, stddev(e), kurtosis(e), entropy(c) FROM t1 GROUP BY k",
    "SELECT avg(dt), avg(ts) FROM t1",
    "SELECT min(s), max(s), min(dt), max(ts), min(f), max(f) FROM t1",
    "SELECT max(id, 3), min(id, 2) FROM t1",
    "SELECT max(s, 3), arg_max(id, id, 2) FROM t1",
    "SELECT count(*) FILTER (WHERE k > 1), sum(id) FILTER (k IS NULL) FROM t1",
    "SELECT k, c, grouping(k), grouping_id(k, c), count(*) FROM t1 GROUP BY ROLLUP (k, c)",
    "SELECT k, c, sum(id) FROM t1 GROUP BY CUBE (k, c) HAVING grouping(k) = 0",
    "SELECT k, c, count(*) FROM t1 GROUP BY GROUPING SETS ((k), (c), (k, c), ())",
    "SELECT k, c, f, count(*) FROM t1 GROUP BY k, ROLLUP (c), CUBE (f)",
    "SELECT k + 1, count(*) FROM t1 GROUP BY ROLLUP (k + 1)",
    "SELECT k, count(*) FROM nothing GROUP BY ROLLUP (k)",
    "SELECT count(*), sum(k), max(s) FROM nothing",
    "SELECT k, count(*) FROM nothing GROUP BY k",
    "SELECT 1 FROM t1 HAVING count(*) > 1",
    "SELECT 1 FROM nothing HAVING count(*) = 0",
    "SELECT count(*) FROM t1 GROUP BY ()",
    "SELECT k FROM t1 GROUP BY k HAVING count(*) > avg(c)",
    "SELECT sum(k) OVER () + sum(sum(k)) OVER () FROM t1 GROUP BY k",
    "SELECT DISTINCT ON (k) k, id FROM t1 ORDER BY k, id",
    "SELECT DISTINCT k, c FROM t1 ORDER BY 1, 2",
    "SELECT DISTINCT k IS NULL FROM t1",
    "SELECT count(*) FROM (SELECT DISTINCT * FROM t1)",
    # windows
    "SELECT id, sum(k) OVER w, rank() OVER w FROM t1 WINDOW w AS (PARTITION BY c ORDER BY id)",
    "SELECT id, sum(k) OVER (w ROWS 1 PRECEDING) FROM t1 WINDOW w AS (ORDER BY id)",
    "SELECT id, lag(s) OVER (ORDER BY id), lead(s, 2, 'none') OVER (PARTITION BY k ORDER BY id DESC) FROM t1",
    "SELECT id, first_value(s IGNORE NULLS) OVER (PARTITION BY k ORDER BY id) FROM t1",
    "SELECT id, nth_value(s, 2) OVER (PARTITION BY k ORDER BY id), ntile(3) OVER (ORDER BY id) FROM t1",
    "SELECT id, percent_rank() OVER (ORDER BY k), cume_dist() OVER (PARTITION BY c ORDER BY k) FROM t1",
    "SELECT id, sum(k) OVER (ORDER BY dt RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) FROM t1",
    "SELECT id, sum(id) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM t1",
    "SELECT id, count(DISTINCT s) OVER (PARTITION BY k) FROM t1",
    "SELECT id, sum(k) FILTER (WHERE f) OVER (PARTITION BY c) FROM t1",
    "SELECT id FROM t1 QUALIFY row_number() OVER (PARTITION BY k ORDER BY id) = 1",
    "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM t1 QUALIFY n <= 2",
    "SELECT k, count(*), rank() OVER (ORDER BY count(*) DESC, k) FROM t1 GROUP BY k QUALIFY rank() OVER (ORDER BY k) < 4",
    "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY id) AS n FROM t1)",
    "SELECT k, sum(count(*)) OVER (ORDER BY k) FROM t1 GROUP BY k",
    "SELECT list(id) OVER (ORDER BY id ROWS 2 PRECEDING) FROM t4 POSITIONAL JOIN (SELECT id FROM t3 LIMIT 0)",
    # set operations
    "SELECT id FROM t3 UNION SELECT id FROM t1 EXCEPT SELECT id FROM t2",
    "SELECT 1 UNION ALL SELECT 2.5 UNION ALL SELECT NULL",
    "SELECT k FROM t1 UNION ALL BY NAME SELECT s, k FROM t2",
    "SELECT k, s FROM t1 INTERSECT ALL SELECT k, s FROM t2",
    "SELECT k FROM t1 EXCEPT ALL SELECT k FROM t3",
    "(SELECT id FROM t1 ORDER BY id LIMIT 3) UNION ALL (SELECT id FROM t2 ORDER BY id DESC LIMIT 2)",
    "SELECT id FROM t1 UNION ALL SELECT id FROM t2 ORDER BY 1 LIMIT 7",
    "SELECT dt FROM t1 UNION SELECT ts FROM t1",
    "SELECT 'a' UNION SELECT 1::VARCHAR",
    "SELECT id FROM nothing UNION ALL SELECT k FROM nothing",
    "SELECT * FROM t4 UNION SELECT * FROM t4 INTERSECT SELECT * FROM t4 WHERE k > 1",
    # subqueries
    "SELECT (SELECT 1), (SELECT max(k) FROM t1), EXISTS (SELECT 1 FROM nothing), 1 IN (SELECT k FROM t1)",
    "SELECT id FROM t3 WHERE k NOT IN (SELECT k FROM t4)",
    "SELECT id FROM t3 WHERE k NOT IN (SELECT k FROM t4 WHERE k IS NOT NULL)",
    "SELECT id FROM t3 WHERE k NOT IN (SELECT k FROM nothing)",
    "SELECT id FROM t3 WHERE NULL IN (SELECT k FROM nothing)",
    "SELECT id, k IN (SELECT k FROM t4) FROM t3",
    "SELECT id, EXISTS (SELECT 1 FROM t4 WHERE t4.k = t3.k) AS e FROM t3",
    "SELECT id FROM t3 WHERE EXISTS (SELECT 1 FROM t4 WHERE t4.k = t3.k) OR s = 'a'",
    "SELECT id FROM t3 WHERE NOT EXISTS (SELECT 1 FROM t4 WHERE t4.k = t3.k AND t4.s <> t3.s)",
    "SELECT id FROM t3 WHERE (k, s) IN (SELECT k, s FROM t4)",
    "SELECT id FROM t3 WHERE k > ALL (SELECT k FROM t4 WHERE k IS NOT NULL)",
    "SELECT id FROM t3 WHERE k = ANY (SELECT k FROM t4)",
    "SELECT id FROM t3 WHERE k > (SELECT avg(k) FROM t4 WHERE t4.s = t3.s)",
    "SELECT id, (SELECT count(*) FROM t4 WHERE t4.k = t3.k) FROM t3",
    "SELECT id, (SELECT s FROM t4 WHERE t4.k = t3.k ORDER BY v, s LIMIT 1) FROM t3",
    "SELECT id, (SELECT list(v ORDER BY v) FROM t4 WHERE t4.k = t3.k) FROM t3",
    "SELECT g, (SELECT count(*) FROM t4 WHERE t4.k = g) FROM t3 GROUP BY g",
    "SELECT g, count(*) FROM t3 GROUP BY g HAVING count(*) > (SELECT count(*) FROM t4) / 3",
    "SELECT id FROM t3 WHERE id = (SELECT max(id) FROM t1 WHERE k = (SELECT min(k) FROM t4 WHERE t4.s = t1.s))",
    "SELECT id, ARRAY(SELECT v FROM t4 WHERE t4.k = t3.k ORDER BY v) FROM t3",
    "SELECT id FROM t3 ORDER BY (SELECT max(v) FROM t4 WHERE t4.k = t3.k) NULLS FIRST, id",
    "SELECT CASE WHEN id IN (SELECT id FROM t1 WHERE k = 1) THEN 'x' ELSE s END FROM t3",
    "SELECT sum((SELECT max(v) FROM t4 WHERE t4.k = t3.k)) FROM t3",
    # recursion, sampling, table functions, pivots
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT sum(n) FROM r",
    "WITH RECURSIVE r AS (SELECT id, k FROM t3 WHERE id < 3 UNION SELECT t3.id, t3.k FROM t3, r WHERE t3.id = r.id + 7)"
    " SELECT * FROM r",
    "SELECT count(*) FROM t1 TABLESAMPLE 100%",
    "SELECT count(*) FROM t1 USING SAMPLE 100%",
    "SELECT count(*) < 300 FROM t1 TABLESAMPLE reservoir(20 ROWS) REPEATABLE (1)",
    "FROM range(5)",
    "SELECT * FROM generate_series(1, 3) AS g(x), t4 WHERE t4.k = x",
    "SELECT i, unnest(list) FROM rich",
    "SELECT unnest([1, 2, 3])",
    "SELECT * FROM unnest([1, 2, 3]) AS u(x)",
    "SELECT i, x FROM rich, unnest(list) AS u(x)",
    "SELECT unnest(pair) FROM rich",
    "SELECT unnest({'a': 1, 'b': [2]}, recursive := true)",
    "PIVOT (SELECT k, f, id FROM t1) ON f IN (true, false) USING sum(id) GROUP BY k",
    "SELECT * FROM (SELECT k, s, id FROM t1) PIVOT (count(id) FOR s IN ('a', 'b') GROUP BY k)",
    "UNPIVOT (SELECT id, k::INT AS k, g::INT AS g FROM t3) ON k, g INTO NAME n VALUE v",
    "SELECT * FROM (SELECT id, k::INT AS k, g::INT AS g FROM t3) UNPIVOT (v FOR n IN (k, g))",
    "DESCRIBE t3",
    "DESCRIBE t3 -- its columns",
    "SUMMARIZE SELECT id FROM t4 JOIN t3 ON t4.k = t3.g;",
    "SELECT column_name FROM (DESCRIBE SELECT 1 AS a, 'x' AS b)",
    # lists, structs, maps, lambdas, JSON
    "SELECT [1, 2, NULL], {'a': 1, 'b': 'x'}, MAP {'k': 1}, [[1], []], {'a': {'b': [1]}}",
    "SELECT list_transform(list, lambda x: x + 1), list_filter(list, lambda x: x > 0) FROM rich",
    "SELECT [x * 2 FOR x IN list IF x > 0] FROM rich",
    "SELECT list_reduce([1, 2, 3], lambda a, b: a + b), list_sort([3, 1, NULL]), list_distinct([1, 1])",
    "SELECT list[1], list[-1], list[1:2], len(list), list_contains(list, 1), 2 IN list FROM rich",
    "SELECT pair.a, pair['b'], struct_extract(pair, 'a') FROM rich",
    "SELECT rich.pair.a + 1 AS x FROM rich WHERE pair.b = 'x1'",
    "SELECT map['k'], map_keys(map), cardinality(map), map_extract(map, 'z') FROM rich",
    "SELECT json->>'a', json->'$.a', json_extract(json, '$.a')::INT + 1 FROM rich",
    "SELECT to_json(pair), json_object('a', i) FROM rich",
    "SELECT json_group_object(i, i + 1) FROM (SELECT i FROM rich WHERE i = 3)",
    "SELECT struct_pack(a := i, b := list) FROM rich",
    "SELECT flatten([[1], [2]]), range(3), array_value(1, 2)",
    "SELECT list_aggregate(list, 'sum'), list_sum(list) FROM rich",
    "SELECT pair, count(*) FROM rich GROUP BY pair",
    "SELECT list, count(*), max(i) FROM rich GROUP BY list",
    "SELECT a.i, b.i FROM rich a JOIN rich b ON a.pair = b.pair AND a.list = b.list",
    "SELECT DISTINCT nested, map FROM rich",
    "SELECT nested[1].n + 1 FROM rich",
    # other types
    "SELECT * FROM rich",
    "SELECT uuid, colour, count(*), sum(huge), max(bytes), min(clock), max(span), sum(big) FROM rich GROUP BY uuid, colour",
    "SELECT a.i, b.i FROM rich a JOIN rich b ON a.uuid = b.uuid AND a.colour = b.colour",
    "SELECT a.i FROM rich a JOIN rich b ON a.huge = b.huge AND a.bytes = b.bytes AND a.clock = b.clock",
    "SELECT max(span), sum(huge), avg(huge), avg(small), sum(single), avg(single) FROM rich",
    "SELECT colour, i FROM rich ORDER BY colour NULLS FIRST, i",
    "SELECT colour = 'red', colour < 'red', colour::VARCHAR FROM rich",
    "SELECT moment, moment::DATE, date_trunc('day', moment), moment + span FROM rich",
    "SELECT bytes, bytes::VARCHAR, hex(bytes), octet_length(bytes) FROM rich",
    "SELECT span, span * 2, extract(day FROM span), to_days(3), INTERVAL '1 year 2 months 3 days' FROM rich",
    "SELECT max(moment) - min(moment), clock + INTERVAL 1 MINUTE FROM rich GROUP BY clock",
    "SELECT 170141183460469231731687303715884105727, -1::HUGEINT, 1::UHUGEINT, 1e400::VARCHAR, 'inf'::DOUBLE, 'nan'::FLOAT",
    "SELECT single, count(*) FROM (SELECT 'nan'::FLOAT AS single UNION ALL SELECT 'nan' UNION ALL SELECT 1) GROUP BY single",
    "SELECT 0.1 + 0.2, 1 / 3, 10 // 3, 10 % 3, 2 ** 10, -7 // 2, -7 % 3, 1.10 * 2.20, 1::DECIMAL(18,3) / 3",
    "SELECT DATE '2020-01-31' + INTERVAL 1 MONTH, DATE '2020-03-01' - DATE '2020-02-01', age(TIMESTAMP '2020-01-01', TIMESTAMP '2019-01-05')",
    "SELECT TIMESTAMP '2020-01-01 12:00:00.123456', TIMESTAMP_NS '2020-01-01 00:00:00.123456789', TIME '12:00', TIMESTAMP_S '2020-01-01'",
    "SELECT 1::BIT, '101'::BIT, 'happy'::ENUM('sad', 'happy'), union_value(a := 1)",
    "SELECT 1 = 1.0, 'a' = 'A', 'a' COLLATE NOCASE = 'A', NULL = NULL, NULL IS NOT DISTINCT FROM NULL",
    "SELECT count(*) FROM t1 GROUP BY s COLLATE NOCASE",
    "SELECT lower(min(s COLLATE NOCASE)) FROM t1 WHERE s COLLATE NOCASE = 'a'",
    "SELECT id FROM t1 WHERE s ILIKE 'A%' OR s SIMILAR TO 'x.*' OR s GLOB 'ab*' OR regexp_matches(s, '^b$')",
    "SELECT id FROM t1 WHERE s LIKE 'x!%' ESCAPE '!' OR s NOT LIKE '%' OR s ^@ 'ab'",
    "SELECT id FROM t1 WHERE dt BETWEEN '2020-02-28' AND '2020-03-01' AND ts > '2020-02-28 06:00'",
    "SELECT id FROM t1 WHERE dt = '2020-02-28' OR ts = DATE '2020-02-29'",
    "SELECT id FROM t1 WHERE k IN (1, 2.0, NULL, 3.5) AND c NOT IN (1, 2)",
    "SELECT CASE k WHEN 1 THEN 'one' WHEN NULL THEN 'none' ELSE s END, if(f, 1, 2), ifnull(k, 0), nullif(k, 1) FROM t1",
    "SELECT TRY_CAST(s AS INTEGER), TRY(1 / 0), s::VARCHAR, CAST(e AS INTEGER), e::DECIMAL(5,1) FROM t1",
    "SELECT greatest(k, c), least(d, e), coalesce(NULL, k, 1), k IS TRUE, f IS UNKNOWN FROM t1",
    "SELECT extract(dow FROM dt), date_part('week', ts), dayname(dt), epoch(ts), strftime(ts, '%d'), make_date(2020, 2, c) FROM t1 WHERE c > 0",
    "SELECT substring(s, 1, 1), s[1], s[1:2], left(s, -1), reverse(s), repeat(s, 2), lpad(s, 3, '*'), position('b' IN s) FROM t1",
    "SELECT trim(BOTH ' ' FROM s), split_part(s, '_', 1), ascii(s), chr(65), md5(s) FROM t1",
    "SELECT x'41', 0xFF, 0b11, 1_000, .5, 1e3, 12345678901234567890, 1.23456789012345678901234567890",
    # size
    "SELECT id FROM t1 WHERE id IN (" + ", ".join(map(str, range(0, 6000, 2))) + ")",
    "SELECT " + "(" * 60 + "1" + ")" * 60,
    "SELECT " + " + ".join(["id"] * 150) + " FROM t3",
    "SELECT id FROM t3 WHERE " + " OR ".join(f"(id = {i} AND k > {i % 3})" for i in range(60)),
    "SELECT * FROM " + "(SELECT * FROM " * 25 + "t4" + ")" * 25,
    "SELECT * FROM wide",
    "SELECT c7 + c199 FROM wide WHERE c0 > 0",
    "SELECT " + ", ".join(f"sum(c{i}) AS c{i}" for i in range(200)) + " FROM wide",
    "SELECT * FROM wide AS a JOIN wide AS b USING (c3)",
    " UNION ALL ".join(f"SELECT {i} AS n" for i in range(60)),
    "WITH " + ", ".join(f"w{i} AS (SELECT id + {i} AS id FROM {'t3' if i == 0 else f'w{i - 1}'})" for i in range(20))
    + " SELECT sum(id) FROM w19",
]  # fmt: skip

FAILING = [
    "SELECT DATE 'tomorrow'",
    "SELECT CAST(s AS INTEGER) FROM t1",
    "SELECT (SELECT k FROM t1)",
    "SELECT error('on purpose') FROM t3",
    "SELECT 9223372036854775807 + id FROM t3",
    "SELECT sum(9223372036854775807::HUGEINT * 18446744073709551615 * id) FROM t3",
    "SELECT CAST(1000 AS TINYINT)",
    "SELECT s::DATE FROM t2 WHERE id > 5",
    "SELECT e::SMALLINT * 30000::SMALLINT FROM t1",
]
if duckdb.__version__.startswith("1."):  # later: an error, and bits
    ACCEPTED += [
        "SELECT e / 0, 1 // 0, 1 % 0, 0.0 / 0, -e / 0 FROM t1",
        "SELECT b'\\xAA', '\\x41'::BLOB, 'a' || NULL, concat('a', NULL), 'it''s', E'a\\nb', $$dollar$$",
    ]

REJECTED = [
    "SELECT",
    "SELEC 1",
    "SELECT FROM WHERE",
    "SELECT nope FROM t3",
    "SELECT id FROM t33",
    "SELECT t4.id FROM t3",
    "SELECT k FROM t3, t4",
    "SELECT k, count(*) FROM t3",
    "SELECT max(max(k)) FROM t3",
    "SELECT id FROM t3 WHERE count(*) > 1",
    "SELECT nofunction(id) FROM t3",
    "SELECT s + 1 FROM t3 WHERE s - true",
    "SELECT id FROM t3 UNION SELECT id, k FROM t3",
    "SELECT * FROM t3 ORDER BY 99",
    "SELECT id FROM t3 GROUP BY 5",
    "SELECT (SELECT id, k FROM t3)",
    "SELECT 1 FROM t3 JOIN t4 USING (nope)",
    "SELECT * EXCLUDE (nope) FROM t3",
    "WITH a AS (SELECT 1) SELECT * FROM b",
    "SELECT 'unfinished",
    "SELECT (1",
    "SELECT id FROM t3 WHERE id IN (SELECT id, k FROM t3)",
    "SELECT id FROM t3 LIMIT -1",
    "SELECT id FROM t3 LIMIT 'x'",
    "SELECT row_number() FROM t3",
    "CREATE TABLE x (a INTEGER PRIMARY KEY)",
    "SELECT ?",
    "SELECT $1",
    "",
    "-- nothing",
    ";",
]


OFTEN = 3
"""One statement in that number is among the fast tests."""


@pytest.mark.parametrize(
    "text",
    [text if place % OFTEN == 0 else pytest.param(text, marks=pytest.mark.slow) for place, text in enumerate(ACCEPTED)],
    ids=lambda text: text[:70].replace("\n", " "),
)
def test_accepted(everything: World, text: str) -> None:
    theirs = everything.theirs(text)
    assert not isinstance(theirs, duckdb.Error), theirs
    assert everything.check(text, FORMS)


@pytest.mark.parametrize(
    "text",
    ["SELECT row(i, 'x') AS r, i FROM rich", "SELECT list_zip([1, 2], ['a', 'b'])", "SELECT (k, s) AS r FROM t4",
     "SELECT r FROM (SELECT row(k, v) AS r, k FROM t4) JOIN (SELECT k FROM t3) USING (k)"],
)  # fmt: skip
def test_structs_without_names(everything: World, text: str) -> None:
    """Their type is one that SQL cannot name."""
    result = everything.session.sql(text)
    theirs = everything.duckdb.sql(text)
    assert result.types == [str(type_) for type_ in theirs.types]
    assert sorted(map(repr, result.fetchall())) == sorted(map(repr, theirs.fetchall()))
    assert result.arrow().schema == theirs.to_arrow_table().schema


@pytest.mark.parametrize("text", FAILING)
def test_failing(everything: World, text: str) -> None:
    """A text that fails over its rows raises an error that says so in DuckDB's words."""
    theirs = everything.theirs(text)
    assert isinstance(theirs, duckdb.Error)
    with pytest.raises(qoop.ExecutionError, match=re.escape(str(theirs).split("\n")[0][:60])):
        everything.session.sql(text)


@pytest.mark.parametrize("text", REJECTED, ids=lambda text: text[:70] or "empty")
def test_rejected(everything: World, text: str) -> None:
    with pytest.raises(qoop.QueryError) as raised:
        everything.session.sql(text)
    assert str(raised.value).strip()
