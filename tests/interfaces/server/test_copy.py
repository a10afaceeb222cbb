"""COPY TO STDOUT over PostgreSQL's protocol, with psycopg and psql; COPY FROM STDIN, which is refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pg_client import connected, needs_psql, psql, psycopg
from server_world import EVE, World

ODD = (
    "SELECT * FROM (VALUES (1, E'a\\tb\\nc\\\\d', 1.50::DECIMAL(5,2), true), (2, NULL, NULL, NULL), "
    "(3, '', -0.25, false), (4, 'say \"x\", y', 7, true), (5, '\\N', 8, true), (6, '\\.', 9, false)) v(n, t, d, b) "
    "ORDER BY n"
)
ROWS = [
    (1, "a\tb\nc\\d", Decimal("1.50"), True), (2, None, None, None), (3, "", Decimal("-0.25"), False),
    (4, 'say "x", y', Decimal(7), True), (5, "\\N", Decimal(8), True), (6, "\\.", Decimal(9), False),
]  # fmt: skip


@pytest.fixture(scope="module")
def ana(world: World) -> Iterator[Any]:
    with connected(world, autocommit=True) as connection:
        yield connection


def copied(connection: Any, text: str) -> bytes:
    with connection.cursor() as cursor, cursor.copy(text) as copy:
        return b"".join(copy)


@pytest.mark.parametrize("form", ["text", "binary"])
def test_values_come_as_they_are(ana: Any, form: str) -> None:
    with ana.cursor() as cursor, cursor.copy(f"COPY ({ODD}) TO STDOUT (FORMAT {form})") as copy:
        copy.set_types(["int4", "text", "numeric", "bool"])
        assert list(copy.rows()) == ROWS


@pytest.mark.parametrize(
    ("options", "theirs"),
    [
        ("(FORMAT csv, HEADER)", "header=true, quote='\"', escape='\"', nullstr=''"),
        ("CSV DELIMITER ';' QUOTE '''' NULL 'none'", "delim=';', quote='''', escape='''', nullstr='none'"),
        ("WITH (FORMAT csv, DELIMITER E'\\t')", "delim='\t', quote='\"', escape='\"', nullstr=''"),
    ],
)
def test_duckdb_reads_the_csv(ana: Any, tmp_path: Path, options: str, theirs: str) -> None:
    path = tmp_path / "copied.csv"
    path.write_bytes(copied(ana, f"COPY ({ODD}) TO STDOUT {options}"))
    types = "columns={n: 'INTEGER', t: 'VARCHAR', d: 'DECIMAL(5,2)', b: 'VARCHAR'}, allow_quoted_nulls=false"
    found = duckdb.sql(f"FROM read_csv('{path}', auto_detect=false, {theirs}, {types})").fetchall()
    assert found == [(*row, None if truth is None else "ft"[truth]) for *row, truth in ROWS]


def test_tables_columns_names_and_no_rows(ana: Any) -> None:
    lines = [b'"q""",3', b'"y, z",2', b"<b>,", b"x,1"]
    assert sorted(copied(ana, "COPY main.t (b, a) TO STDOUT CSV").splitlines()) == lines
    nothing = "COPY (SELECT 1 AS a WHERE false) TO STDOUT"
    assert copied(ana, f"{nothing} (FORMAT csv, HEADER true)") == b"a\n"
    assert copied(ana, f"{nothing} BINARY") == b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff"
    assert copied(ana, "COPY (SELECT relname FROM pg_class WHERE relname = 't') TO STDOUT") == b"t\n"
    assert sorted(map(int, copied(ana, "COPY big TO STDOUT").splitlines())) == list(range(60_000))


def test_limits_and_what_is_refused(ana: Any, world: World) -> None:
    with connected(world, "eve", EVE, autocommit=True) as eve, pytest.raises(psycopg.errors.ProgramLimitExceeded):
        copied(eve, "COPY big TO STDOUT")
    for text in ("COPY t FROM STDIN", "COPY t (a, b) FROM STDIN (FORMAT csv)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="takes no rows by COPY"):
            copied(ana, text)
    for text in (f"COPY t TO '{world.secret}'", f"COPY t FROM '{world.secret}'", "COPY t TO PROGRAM 'id'", "COPY"):
        with pytest.raises(psycopg.Error):
            ana.execute(text)
    for options, said in (
        ("(FORMAT parquet)", "no format parquet"), ("(DELIMITER 'ab')", "one character"), ("(COLOUR 1)", "no option"),
        ("(QUOTE 'x')", "CSV only"), ("(FORMAT binary, HEADER)", "no options"), ("(HEADER maybe)", "true or false"),
        ("(NULL)", "has no value"), ("(ENCODING latin1)", "UTF-8 only"),
    ):  # fmt: skip
        with pytest.raises(psycopg.Error, match=said):
            copied(ana, f"COPY t TO STDOUT {options}")
    with pytest.raises(psycopg.Error, match="nix"):
        copied(ana, "COPY nix TO STDOUT")
    assert world.secret.read_text() == "secret\nof the canary\n"
    assert ana.execute("SELECT 1").fetchone() == (1,)


@needs_psql
def test_copy_of_psql(world: World, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    told = psql(world, f"\\copy (SELECT a, b FROM t ORDER BY a) TO '{path}' WITH (FORMAT csv, HEADER)")
    assert told == "COPY 4\n" and path.read_text() == 'a,b\n1,x\n2,"y, z"\n3,"q"""\n,<b>\n'
    assert "takes no rows by COPY" in psql(world, "\\copy t FROM stdin", expect=1, given="1\tx\n")
