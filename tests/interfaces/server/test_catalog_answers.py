"""Answers of the catalog: types that DuckDB lacks, names of numbers, regular expressions, settings, connections."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pg_client import psycopg
from server_world import BEN
from shop import Shop, open_shop

from qoop.catalog.by_text import LONG
from qoop.interfaces.server.postgres.catalog.text_functions import with_duckdb_calls


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop() as found:
        yield found


@pytest.fixture
def ana(shop: Shop) -> Iterator[Any]:
    with psycopg.connect(shop.url, autocommit=True) as connection:
        yield connection


def test_columns_have_the_types_of_postgresql(ana: Any) -> None:
    text = (
        "SELECT c.oid, c.relkind, c.relnatts, c.relpages, c.reltuples, c.relhasindex, array_agg(a.atttypid) AS types, "
        "c.oid::regclass, count(*) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relname = 'sales' "
        "GROUP BY ALL"
    )
    for binary in (False, True):
        found = ana.execute(text, binary=binary)
        assert [column.type_code for column in found.description] == [26, 18, 21, 23, 700, 16, 1028, 25, 20]
        [row] = found.fetchall()
        assert row[2:6] == (6, 0, -1.0, False) and row[7:] == ("sales", 6)
        assert sorted(row[6]) == [16, 23, 25, 1082, 1114, 1700]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT oid::regclass, oid::regclass::text FROM pg_class WHERE relname = 'pg_am'", [("pg_am", "pg_am")]),
        (
            "SELECT 'pg_class'::regclass::oid, 'information_schema.tables'::regclass::text",
            [(1259, "information_schema.tables")],
        ),
        (
            "SELECT format_type(t.oid, NULL), format_type(oid, -1) FROM pg_type t WHERE typname = 'int4'",
            [("integer", "integer")],
        ),
        ("SELECT s.typname, s.typinput FROM pg_type s WHERE s.typreceive = 'int8recv'::regproc", [("int8", "int8in")]),
        ("SELECT nspname::regnamespace FROM pg_namespace n WHERE n.oid = 'public'::regnamespace", [("public",)]),
        ("SELECT typname FROM pg_type WHERE typname ~ 'imestam' AND typname !~* '^_|TZ$'", [("timestamp",)]),
        (
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pg\\_cat%' OR nspname LIKE 'publi\\_'",
            [("pg_catalog",)],
        ),
        ("SELECT relname FROM pg_class WHERE relkind = ANY (ARRAY['v']) AND relnamespace = 2200", [("cheap",)]),
        ("SELECT a[1] FROM string_to_array(current_setting('search_path'), ', ') a", [('"$user"',)]),
        ("SELECT has_table_privilege('sales', 'SELECT'), has_table_privilege('sales', 'INSERT')", [(True, False)]),
        (
            "SELECT parse_ident('Public.\"Odd\"\"x\"'), quote_ident('Odd'), quote_ident('plain')",
            [(["public", 'Odd"x'], '"Odd"', "plain")],
        ),
        ("SELECT EXISTS (SELECT FROM pg_class c JOIN LATERAL (SELECT c.oid AS o) y ON true)", [(True,)]),
        ("SELECT substring(relname from '[aeiou]+'), to_regclass('sales')::text FROM pg_class WHERE relname = 'sales'",
         [("a", "sales")]),
        ("SELECT relname FROM pg_class WHERE relkind = ANY('{\"v\", \"f\"}') AND relnamespace = 2200", [("cheap",)]),
        ("SELECT quote_literal(region), to_char(day, 'DD.MM.YYYY') FROM public.sales WHERE id = 31",
         [("'r1'", "01.02.2026")]),
        ("SELECT count(*) FROM sales WHERE sold >= TO_TIMESTAMP('2026-01-05 00:00:00.000', 'YYYY-MM-DD HH24:MI:SS.US')",
         [(4,)]),
        ("SELECT id, s.ctid FROM public.sales s WHERE id < 1", [(0, None)]),
        ('SELECT "ctid",id FROM sales LIMIT 0', []),
        ("SELECT xmin::text::bigint, s.tableoid::regclass AS t, id FROM sales s WHERE id < 1", [(None, None, 0)]),
        ("SELECT id, xmin, tableoid::text AS t FROM (SELECT id, 1 xmin, 2 AS tableoid FROM sales) x WHERE id < 1",
         [(0, 1, "2")]),
        ("SELECT xmax::text FROM public.sales AS x(xmax) WHERE xmax = 0", [("0",)]),
        ("SELECT width_bucket(x, 0, 1, 100), width_bucket(x, 5, 0, 4) FROM (VALUES (0.29), (-1), (1), (NULL)) t(x)",
         [(30, 4), (0, 5), (101, 4), (None, None)]),
        ("SELECT to_number(' -1,234.56', '9G999D9'), to_number('12', '099'), encode('a'::bytea, 'hex')",
         [(Decimal("-1234.5"), 12, "61")]),
        ("SELECT generate_series(1, 3)::int AS n, id FROM sales WHERE id = 7", [(1, 7), (2, 7), (3, 7)]),
        ("SELECT n FROM generate_series(1, 2) AS g(n) WHERE len(generate_series(1, 3)) = 3", [(1,), (2,)]),
        (
            """SELECT doc #> '{a}' #>> '{1}', (doc)::json #> '{a}', doc #>> '{b,c}'::text[] = 'y' FROM (SELECT """
            """'{"a": [1, "x"], "b": {"c": "y"}}'::json AS doc FROM sales WHERE id = 1)""",
            [("x", [1, "x"], True)],
        ),
        ("SELECT format('%I.%L, %1$s: %s%%', relname, relnatts) FROM pg_class WHERE relname = 'sales'",
         [("sales.'6', sales: 6%",)]),
        ("SELECT format('%s-%I', id, 'Odd'), format('{} %s', id) FROM sales WHERE id = 7", [('7-"Odd"', "7 %s")]),
        ("SELECT id FROM sales s WHERE id IN (SELECT id FROM customers FOR KEY SHARE) ORDER BY id LIMIT 2 "
         "FOR UPDATE OF s SKIP LOCKED", [(1,), (2,)]),
        ("SELECT s.id, e, k FROM sales s, jsonb_array_elements_text('[\"x\"]'::jsonb) e, "
         "LATERAL string_to_table(s.region || ',z', ',') AS k WHERE s.id = 1 ORDER BY k",
         [(1, "x", "r1"), (1, "x", "z")]),
        ("SELECT value->>'a', jsonb_typeof(value), jsonb_array_length('[1]') FROM json_array_elements('[{\"a\": 1}]')",
         [("1", "object", 1)]),
        ("SELECT g::date FROM generate_series(DATE '2026-01-30', DATE '2026-02-01', '1 day') g ORDER BY 1 DESC LIMIT 1",
         [(date(2026, 2, 1),)]),
        ("SELECT div(-7, 2), (regexp_match('ab', 'a(b)'))[1], regexp_match('ab', 'c'), array_remove(ARRAY[1, 2], 1), "
         "date_bin('15 minutes', sold, TIMESTAMP '2001-01-01') FROM sales WHERE region SIMILAR TO '%1' AND id < 2",
         [(-3, "b", None, [2], datetime(2026, 1, 1, 1))]),
        ("SELECT overlay('Txxxxas' placing region from 2 for 4), num_nulls(1, NULL), num_nonnulls(1, id), "
         "make_interval(1, days => 2, secs := 1.5)::text FROM sales WHERE id = 1",
         [("Tr1as", 1, 2, "1 year 2 days 00:00:01.5")]),
        (
            '''SELECT s.id, x.a, "B", c, k, v FROM sales s, json_to_recordset('[{"a": 1, "c": {}}, {"B": 2.345}]') '''
            '''AS x(a int, "B" numeric(10,2), c jsonb), json_each_text('{"z": 1}') e(k, v) WHERE s.id = 1 ORDER BY a''',
            [(1, 1, None, {}, "z", "1"), (1, None, Decimal("2.35"), None, "z", "1")],
        ),
        ("SELECT justify_interval(INTERVAL '35 days 30 hours')::text, count(*) FROM sales TABLESAMPLE SYSTEM (100)",
         [("1 month 6 days 06:00:00", 100)]),
        ("SELECT to_char(1234.5, 'FM$999,990.00'), to_char(-0.5, '9,999.99'), to_char(id * 1e4, 'FM0000'), "
         "to_char(id / 4.0, 'FM990.99%'), to_char(NULL::numeric, '9') FROM sales WHERE id = 6",
         [("$1,234.50", "     -.50", "####", "1.5%", None)]),
        ("SELECT justify_days(INTERVAL '14 mons -31 days 26 hours')::text, id, "
         "justify_hours(INTERVAL '1 mon -1 days 50 hours')::text FROM sales WHERE id = 1",
         [("1 year 29 days 26:00:00", 1, "1 month 1 day 02:00:00")]),
        (
            '''SELECT id, d ? 'a', d ?| array['z', 'k'], d ?& '{a,b}', d @> '{"b": {"c": "x"}}'::jsonb, '''
            "d #>> '{b,c}', jsonb_extract_path_text(d, 't', '1') FROM sales, "
            '''(VALUES ('{"a": 1, "b": {"c": "x"}, "t": [1, 2]}'::jsonb), ('["k"]'), (NULL)) v(d) '''
            "WHERE id = 1 ORDER BY d",
            [(1, False, True, False, False, None, None), (1, True, False, True, True, "x", "2"), (1, *[None] * 6)],
        ),
        ("SELECT jsonb_pretty('{\"a\": [], \"b\": 1}'), id FROM sales WHERE id = 1",
         [('{\n    "a": [\n    ],\n    "b": 1\n}', 1)]),
        ("SELECT array_lower(conkey, 1) FROM pg_constraint", []), ("SELECT * FROM pg_partition_ancestors(16384)", []),
        (
            "SELECT data_type, udt_name FROM information_schema.columns WHERE column_name = 'sold'",
            [("timestamp without time zone", "timestamp")],
        ),
        ("SELECT p.proargnames, pg_get_functiondef(p.oid) FROM pg_proc p WHERE proname = 'version'", [(None, None)]),
    ],
)  # fmt: skip
def test_questions_are_answered_as_postgresql_does(ana: Any, text: str, rows: list[Any]) -> None:
    assert ana.execute(text).fetchall() == rows


@pytest.mark.parametrize(
    "call",
    [
        "width_bucket({}, 0, 10, 5)",
        "format('%1$I%1$I', {})",
        "div({0}, {0})",
        "overlay({} PLACING 'a' FROM 1)",
        "date_bin('1 day', {0}, {0})",
        "({} ? 'x')",
    ],
)
def test_calls_within_calls_do_not_double_a_text(call: str) -> None:
    text = "a"
    for _ in range(8):
        text = call.format(text)
    assert len(with_duckdb_calls(f"SELECT {text} FROM t")) <= LONG + len(text)


def test_a_format_of_duckdbs_is_refused_in_a_question(ana: Any) -> None:
    for pattern in ("'{:>1000000000}'", "'%s' || '{:>1000000000}'"):
        with pytest.raises(psycopg.Error, match="refused"):
            ana.execute(f"SELECT length(format({pattern}, relname)) FROM pg_class")


def test_the_current_schema_is_the_first_of_the_search_path(ana: Any) -> None:
    text = "SELECT current_schema(), current_schemas(true)"
    for path, expected in (
        ('"$user", public', ("public", ["pg_catalog", "public"])),
        ("nowhere", (None, ["pg_catalog"])),
        ("pg_catalog, public", ("pg_catalog", ["pg_catalog", "public"])),
    ):
        ana.execute(f"SET search_path = {path}")
        assert ana.execute(text).fetchone() == expected


def test_columns_have_the_names_of_postgresql(ana: Any) -> None:
    text = (
        "SELECT version(), current_schema, oid::text, 'x'::name, 1 + 1, CASE WHEN true THEN 1 END, "
        "(SELECT max(oid) FROM pg_class), coalesce(relname, ''), relname r FROM pg_class LIMIT 1"
    )
    of_data = {
        "SELECT count(*), id::text, price * 2, name AS n FROM sales JOIN customers USING (id) GROUP BY ALL": [
            "count", "id", "?column?", "n"
        ],
        "SELECT sum(id) FILTER (WHERE id > 1), mode() WITHIN GROUP (ORDER BY id), max(id) + 1 FROM sales": [
            "sum", "mode", "?column?"
        ],
        "SELECT lag(id) OVER (ORDER BY id), count(*) OVER w FROM sales WINDOW w AS (ORDER BY id)": ["lag", "count"],
    }  # fmt: skip
    for query, names in of_data.items():
        assert [column.name for column in ana.execute(query).description] == names
    assert [column.name for column in ana.execute(text).description] == [
        "version", "current_schema", "oid", "name", "?column?", "case", "max", "coalesce", "r",
    ]  # fmt: skip


def test_every_relation_of_postgresql_is_there_with_all_its_columns(ana: Any) -> None:
    names = ana.execute(
        "SELECT n.nspname, c.relname, c.relnatts FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname <> 'public'"
    ).fetchall()
    assert len(names) > 190
    for schema, name, count in names:
        assert len(ana.execute(f'SELECT * FROM {schema}."{name}" LIMIT 1').description) == count, name


def test_what_does_not_exist_is_said(ana: Any) -> None:
    for text, words in (
        ("SELECT 'nix'::regclass", 'relation "nix" does not exist'), ("SELECT nix FROM pg_class", "nix"),
        ("SELECT pg_reload_conf()", "refused"), ("FETCH 1 FROM nix", 'no cursor "nix"'),
        ("SELECT qoop_end_backend(1, 2, true), version()", "refused"), (f"SET my.own = '{'x' * 5000}'", "at most"),
        ("SHOW nix", 'no setting "nix"'), ("SET nix = 1", "SET nix"), ("FETCH SIDEWAYS FROM c", "direction"),
    ):  # fmt: skip
        with pytest.raises(psycopg.Error, match=words):
            ana.execute(text)


def test_settings_last_as_long_as_their_transaction(ana: Any) -> None:
    ana.execute("SET application_name = 'first'")
    assert ana.execute("SELECT set_config('my.own', 'x', false), current_setting('application_name')").fetchone() == (
        "x",
        "first",
    )
    for end, application in (("COMMIT", "second"), ("ROLLBACK", "second")):
        ana.execute("BEGIN")
        ana.execute(f"SET application_name = '{'second' if end == 'COMMIT' else 'third'}'")
        ana.execute("SET LOCAL work_mem = '64MB'")
        assert ana.execute("SHOW work_mem").fetchone() == ("64MB",)
        ana.execute(end)
        assert ana.execute("SHOW application_name").fetchone() == (application,)
        assert ana.execute("SHOW work_mem").fetchone() == ("4096",)
    assert ana.info.parameter_status("application_name") == "second"
    ana.execute("RESET ALL")
    assert ana.execute("SELECT current_setting('my.own', true)").fetchone() == (None,)
    with pytest.raises(psycopg.Error, match="it stays"):
        ana.execute("SELECT set_config('client_encoding', 'latin1', false)")


def test_a_client_has_so_many_settings(ana: Any) -> None:
    with pytest.raises(psycopg.Error, match="at most 400 settings"):
        for number in range(400):
            ana.execute(f"SET my.own{number} = 'x'")
    ana.execute("DISCARD ALL")
    ana.execute("SET my.own = 'x'")


def test_a_user_finds_and_ends_own_connections_alone(shop: Shop, ana: Any) -> None:
    as_ben = {"host": "127.0.0.1", "port": shop.port, "user": "ben", "password": BEN}
    with (
        psycopg.connect(shop.url, autocommit=True, application_name="other") as other,
        psycopg.connect(**as_ben, autocommit=True) as ben,
    ):
        of_other, of_ben = (one.execute("SELECT pg_backend_pid()").fetchone()[0] for one in (other, ben))
        ben.execute("SELECT 'private'")
        found = dict(ana.execute("SELECT pid, query FROM pg_stat_activity").fetchall())
        assert found[of_other] == "SELECT pg_backend_pid()" and "private" not in found[of_ben]
        assert ana.execute("SELECT pg_cancel_backend(%s)", [of_ben]).fetchone() == (False,)
        assert ana.execute("SELECT pg_terminate_backend(%s)", [of_other]).fetchone() == (True,)
        with pytest.raises(psycopg.OperationalError):
            other.execute("SELECT 1")
        assert ben.execute("SELECT 1").fetchone() == (1,)


def test_a_plan_as_json(ana: Any) -> None:
    [plans] = ana.execute("EXPLAIN (FORMAT JSON) SELECT region, sum(price) FROM public.sales GROUP BY 1").fetchone()
    assert {"Node Type", "Total Cost", "Plan Rows"} <= plans[0]["Plan"].keys()
    [[line], *_] = ana.execute("EXPLAIN (COSTS, FORMAT text) SELECT * FROM shop.public.sales").fetchall()
    assert "(cost=0.00.." in line
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="ANALYZE"):
        ana.execute("EXPLAIN (ANALYZE, FORMAT JSON) SELECT 1")


def test_statements_are_prepared_in_sql(ana: Any) -> None:
    """As psql, and poolers of connections, send them; those of a client's library have the same names."""
    ana.execute(
        "PREPARE one (int, text) AS SELECT id + $1, $2 || '!' FROM public.sales WHERE id < $1 ORDER BY 1 LIMIT 1"
    )
    assert ana.execute("EXECUTE one (2, 'it''s')").fetchall() == [(2, "it's!")]
    assert ana.execute("EXECUTE one (1 + 0, NULL);", prepare=True).fetchall() == [(1, None)]
    ana.execute("PREPARE classes AS SELECT count(*) FROM pg_class WHERE relname = $1")
    assert ana.execute("EXECUTE classes ('sales')").fetchall() == [(1,)]
    for text, message in (
        ("PREPARE one AS SELECT 1", "already"),
        ("EXECUTE one (2)", "has 2 parameters, and there are 1 values"),
        ("EXECUTE classes", "no value"),
        ("PREPARE two AS DELETE FROM sales", "only reads"),
        ("PREPARE two AS BEGIN", "takes a query"),
        ("PREPARE two (int)", "PREPARE name"),
        ("PREPARE TRANSACTION 'x'", "only reads"),
        ("EXECUTE two", "no prepared statement"),
    ):
        with pytest.raises(psycopg.Error, match=message):
            ana.execute(text)
    ana.execute("DEALLOCATE one")
    with pytest.raises(psycopg.Error, match="no prepared statement 'one'"):
        ana.execute("EXECUTE one (2, 'a')")
    ana.execute("DISCARD ALL")
    with pytest.raises(psycopg.Error, match="no prepared statement 'classes'"):
        ana.execute("EXECUTE classes ('sales')")
