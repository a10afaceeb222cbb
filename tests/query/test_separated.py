"""CSV as DuckDB's COPY writes it, of few rows and of many."""

from __future__ import annotations

import io
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.query.drawing.formats import write
from qoop.query.drawing.separated import FEW

TEXTS = """
    SELECT n, CASE n % 17 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a,b' WHEN 3 THEN 'say "x"' WHEN 4 THEN 'a#b'
        WHEN 5 THEN chr(13) WHEN 6 THEN 'a' || chr(10) || 'b' WHEN 7 THEN chr(9) || 't' WHEN 8 THEN ' a '
        WHEN 9 THEN 'ä' WHEN 10 THEN 'NULL' WHEN 11 THEN '''' WHEN 12 THEN '\\' ELSE 'plain' END AS "a,text",
        n / 7 AS d, (n % 90)::DECIMAL(9, 2) AS money, n::HUGEINT * 10**18::HUGEINT AS huge,
        DATE '2020-01-01' + n::INT AS day,
        TIMESTAMP '2020-01-01 10:00:00.5' AS at, n % 3 = 0 AS yes, [n, NULL] AS list, {'k': n, 'l': 'x,y'} AS pair,
        CASE WHEN n % 5 > 0 THEN n END AS some, 'NaN'::DOUBLE AS nan, encode('b,c') AS bytes
    FROM range(ROWS) t(n) ORDER BY n
"""


@pytest.mark.parametrize("rows", [40, FEW + 11_000])
@pytest.mark.parametrize(("form", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_it_is_what_copy_writes(tmp_path: Path, rows: int, form: str, delimiter: str) -> None:
    text = TEXTS.replace("ROWS", str(rows))
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({text}) TO '{tmp_path}/x' (FORMAT csv, HEADER, DELIMITER '{delimiter}')")
    written = io.StringIO()
    with qoop.connect(slots=1, memory="1GB") as session:
        write(session.sql(text), form, written)
    assert written.getvalue() == (tmp_path / "x").read_bytes().decode()
    assert written.getvalue().count("\n") > rows
