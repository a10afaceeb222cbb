"""Whole tables over PostgreSQL's protocol, as SQLAlchemy's inspector, pandas and psql find them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import duckdb
import pytest
from pg_client import connected, needs_psql, psql
from server_world import ANA, World

import qoop
from qoop.interfaces.server.audit import AuditLog
from qoop.interfaces.server.postgres.server import PostgresServer
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.timeouts import ClientLimits, Place

sqlalchemy = pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
pytest.importorskip("psycopg", reason="psycopg is not installed")

TYPES = {
    "id": ("1::INTEGER", "INTEGER"), "name": ("'x'", "TEXT"), "price": ("1.5::DECIMAL(7,2)", "NUMERIC(7, 2)"),
    "tags": ("[1, 2]", "ARRAY"), "made": ("{'a': 1}", "TEXT"), "good": ("true", "BOOLEAN"),
    "day": ("DATE '2026-01-02'", "DATE"), "seen": ("TIMESTAMP '2026-01-02 03:04:05'", "TIMESTAMP"),
    "at": ("TIMESTAMPTZ '2026-01-02 03:04:05+00'", "TIMESTAMP"), "data": ("'a'::BLOB", "BYTEA"),
    "small": ("1::UTINYINT", "SMALLINT"), "large": ("1::HUGEINT", "NUMERIC(38, 0)"),
    "share": ("0.5::DOUBLE", "DOUBLE PRECISION"),
}  # fmt: skip
"""Columns: a value of each, and the type that SQLAlchemy finds."""


@pytest.fixture(scope="module")
def engine(world: World) -> Iterator[Any]:
    with ExitStack() as around:
        session = around.enter_context(qoop.connect(slots=1, memory="1GB", locked=True))
        values = ", ".join(f'{value} AS "{name}"' for name, (value, _) in TYPES.items())
        session.register("items", duckdb.sql(f"SELECT {values}").to_arrow_table())
        session.register("Odd name", duckdb.sql('SELECT 7 AS "a b", 8 AS "from"').to_arrow_table())
        session.sql("CREATE VIEW cheap AS SELECT id, price FROM items").arrow()
        service = Service(session, world.service.users, AuditLog(io.StringIO()))
        server = around.enter_context(PostgresServer(service, Place(), ClientLimits()))
        url = sqlalchemy.make_url(server.address).set(drivername="postgresql+psycopg", username="ana", password=ANA)
        engine = sqlalchemy.create_engine(url)
        around.callback(engine.dispose)
        yield engine


def test_whole_tables_and_views_are_reflected_and_read(engine: Any) -> None:
    found = sqlalchemy.MetaData()
    found.reflect(engine, views=True)
    tables = {table.name: table for table in found.tables.values()}
    assert tables.keys() == {"items", "Odd name", "cheap"}
    assert {column.name: str(column.type) for column in tables["items"].columns} == {
        name: told for name, (_, told) in TYPES.items()
    }
    assert [column.name for column in tables["Odd name"].columns] == ["a b", "from"]
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.select(tables["Odd name"])).all() == [(7, 8)]
        cheap = tables["cheap"]
        assert connection.execute(sqlalchemy.select(cheap.c.price).where(cheap.c.id == 1)).scalar_one() == 1.5


def test_there_are_no_keys_indexes_and_constraints(engine: Any) -> None:
    looked = sqlalchemy.inspect(engine)
    for found in (looked.get_indexes, looked.get_foreign_keys, looked.get_unique_constraints):
        assert found("items") == []
    assert looked.get_check_constraints("items") == [] and looked.get_domains() == [] and looked.get_enums() == []
    assert looked.get_pk_constraint("items")["constrained_columns"] == []
    assert looked.get_view_names() == ["cheap"] and looked.get_view_definition("cheap") == ""
    assert looked.has_table("items") and not looked.has_table("nix")
    assert looked.get_schema_names() == ["information_schema", "public"]


def test_pandas_reads_a_whole_table(engine: Any) -> None:
    import pandas as pd

    assert pd.read_sql_table("cheap", engine).astype(float).values.tolist() == [[1.0, 1.5]]


OF_JDBC = (
    (
        """SELECT typinput='pg_catalog.array_in'::regproc AS is_array, typname FROM pg_catalog.pg_type
        LEFT JOIN (select ns.oid as nspoid, ns.nspname, r.r from pg_namespace as ns join (
            select s.r, (current_schemas(false))[s.r] as nspname
            from generate_series(1, array_upper(current_schemas(false), 1)) as s(r)) as r using (nspname)
        ) as sp ON sp.nspoid = typnamespace WHERE typname IN ('int8', '_int8') ORDER BY sp.r, pg_type.oid""",
        [(False, "int8"), (True, "_int8")],
    ),
    (
        """SELECT (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, a.attname FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_index i ON (a.attrelid = i.indrelid) WHERE i.indisprimary""",
        [],
    ),
    (
        """SELECT word FROM pg_catalog.pg_get_keywords()
        WHERE word IN ('select', 'unpivot') AND word <> ALL ('{a,select}'::text[])""",
        [("unpivot",)],
    ),
    ("SELECT setting FROM pg_catalog.pg_settings WHERE name='max_index_keys'", [("32",)]),
    (
        """SELECT t.typlen FROM pg_catalog.pg_type t, pg_catalog.pg_namespace n
        WHERE t.typnamespace=n.oid AND t.typname='name' AND n.nspname='pg_catalog'""",
        [(64,)],
    ),
)
"""Questions that PostgreSQL's driver of JDBC asks of its own accord, and their rows."""


OF_TOOLS = (
    (
        "SELECT relname FROM pg_class WHERE relkind = ANY('{r,p,f}') AND relnamespace = 'public' ORDER BY 1",
        [("big",), ("t",)],
    ),
    ("SELECT relname FROM pg_class WHERE relkind = ANY('{}') OR relname = ANY('{x,\"t\"}')", [("t",)]),
    (
        """SELECT relname FROM pg_class WHERE relkind = ANY(CAST('{r}' AS "char"[])) AND oid = ANY('{1,16384,16385}')
        AND relnamespace <> 'pg_catalog'::regnamespace AND oid = 'public.t'::regclass""",
        [("t",)],
    ),
    (
        """SELECT n.nspname, c.relname, stat.n_live_tup FROM pg_catalog.pg_class c
        INNER JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
        LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.classoid = 'pg_class'::regclass
        LEFT JOIN pg_stat_user_tables stat ON n.nspname = stat.schemaname AND c.relname = stat.relname
        WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relkind in ('r', 'v') ORDER BY 1, 2""",
        [("public", "big", None), ("public", "t", None)],
    ),
    (
        """SELECT nspname, relname, attname, attnum FROM (SELECT n.nspname, c.relname, a.attname, a.attnotnull OR
        (t.typtype = 'd' AND t.typnotnull) AS attnotnull, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum)
        AS attnum, pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc FROM pg_catalog.pg_namespace n
        JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid) JOIN pg_catalog.pg_attribute a ON (a.attrelid = c.oid)
        JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid)
        LEFT JOIN pg_catalog.pg_attrdef def ON (a.attrelid = def.adrelid AND a.attnum = def.adnum)
        WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relname LIKE 't') c ORDER BY attnum""",
        [("public", "t", "a", 1), ("public", "t", "b", 2)],
    ),
    ("SELECT trim(both '\"' from relname) FROM \"pg_catalog\".\"pg_class\" WHERE relname = 't'", [("t",)]),
    ("SELECT current_setting('temp_directory'), pg_catalog.current_setting('max_index_keys')", [(None, "32")]),
)  # fmt: skip
"""Questions in the manner of psql, DBeaver, Metabase and JDBC's metadata, and their rows."""


@pytest.mark.parametrize(("asked", "wanted"), OF_TOOLS, ids=range(len(OF_TOOLS)))
def test_questions_that_tools_ask(world: World, asked: str, wanted: list[Any]) -> None:
    with connected(world, autocommit=True) as connection:
        assert connection.execute(asked).fetchall() == wanted


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT name, value FROM pg_catalog.pg_class, duckdb_settings()",
        "WITH s AS (FROM duckdb_settings()) SELECT s.* FROM pg_class, s",
        "SELECT (SELECT max(value) FROM duckdb_settings()), relname FROM pg_class",
        "SELECT path FROM pg_class, duckdb_databases", "SELECT * FROM pg_class, duckdb_extensions()",
        "SELECT * FROM pg_class, pragma_database_list", "SELECT * FROM system.pg_catalog.pg_settings",
        "SELECT system.main.current_setting('temp_directory'), version()",
        "SELECT system.main.version(), relname FROM pg_class",
        "SELECT relname FROM pg_class, (SHOW DATABASES)",
        "SELECT current_query(), version()", "SELECT getenv('HOME'), version()",
    ],
)  # fmt: skip
def test_nothing_beside_the_catalog_tells_of_the_server(world: World, asked: str) -> None:
    with (
        connected(world, autocommit=True) as connection,
        pytest.raises(Exception, match=r"would tell of the server|does not call it"),
    ):
        connection.execute(asked)


def test_after_an_error_the_next_question_is_answered(world: World) -> None:
    with connected(world, autocommit=True) as connection:
        for wrong in ("SELECT nix FROM pg_class", "SELECT relname FROM pg_class JOIN nix USING (oid)"):
            with pytest.raises(Exception, match="nix"):
                connection.execute(wrong)
            assert connection.execute("SELECT c.relname FROM pg_class JOIN pg_class c USING (oid)").fetchall()


@pytest.mark.parametrize(("asked", "wanted"), OF_JDBC, ids=range(len(OF_JDBC)))
def test_questions_that_jdbc_asks(world: World, asked: str, wanted: list[Any]) -> None:
    with connected(world, autocommit=True) as connection:
        assert connection.execute(asked).fetchall() == wanted


@needs_psql
def test_psql_lists_whatever_is_asked(world: World) -> None:
    asked = (
        "\\d", "\\d+", "\\d+ t", "\\d t*", "\\dt *.*", "\\dv+", "\\dm", "\\di+", "\\ds", "\\df+", "\\da", "\\dT+",
        "\\du+", "\\dx", "\\l+", "\\dn+", "\\dp", "\\db+", "\\dD", "\\dP",
    )  # fmt: skip
    told = psql(world, *asked)
    assert (
        "ERROR" not in told and re.search(r" a +\| bigint +\|", told) and re.search(r" public +\| big +\| table", told)
    )
