"""A Result must be what DuckDB itself would have given, whatever form the root stage left the rows in."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import polars
import pyarrow as pa
import pytest

from qoop.catalog.errors import ExecutionError, PlanError
from qoop.catalog.lexer import quoted
from qoop.query.drawing.value_text import json_objects
from qoop.query.result import Result, _database
from qoop.query.writing import as_json

UUID = "('00000000-0000-0000-0000-00000000000' || i)::UUID"
EVERY_TYPE = '''
SELECT i::HUGEINT * 10000000000000000000000 AS huge, i::UHUGEINT AS uhuge, uuid_of(i) AS id, '101'::BIT AS bits,
       '12:00:00+01'::TIMETZ AS timetz, (CASE i WHEN 1 THEN 'b' END)::ENUM('a', 'b') AS enum, i = 1 AS truth,
       '{"k": 1}'::JSON AS json, [i::HUGEINT] AS huges, {'x y': i::HUGEINT, 'z': [uuid_of(i)]} AS nested,
       TIMESTAMPTZ '2020-06-01 10:00:00+00' AS instant, 'é' || i AS text, 'x'::BLOB AS blob,
       INTERVAL 1 DAY AS span, MAP {i: 2} AS map, 1.25::DECIMAL(7,2) AS decimal, NULL AS nothing,
       TIME '10:00:00' AS clock, TIMESTAMP_NS '2020-01-01' AS nanos, 1.5::FLOAT AS float,
       [1, 2]::INTEGER[2] AS array, DATE '2020-01-01' AS day, i AS "twice ""quoted""", i AS "twice ""quoted"""
FROM range(3) t(i) ORDER BY i
'''.replace("uuid_of(i)", UUID)


def as_the_root_leaves_it(text: str, settings: tuple[tuple[str, str], ...] = ()) -> Result:
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        for name, value in settings:
            connection.execute(f"SET {name} = '{value}'")
        types = [str(type_) for type_ in connection.sql(text).types]
        table = connection.sql(text).to_arrow_table()
    return Result(table, tuple(zip(table.schema.names, types, strict=True)), settings)


def test_arrow_equals_duckdbs_for_every_type() -> None:
    with duckdb.connect() as connection:
        expected = connection.sql(EVERY_TYPE).to_arrow_table()
    got = as_the_root_leaves_it(EVERY_TYPE).arrow()
    assert got.schema.equals(expected.schema, check_metadata=True)
    assert got.equals(expected)


def test_a_struct_without_names_of_its_fields_comes_as_from_duckdb() -> None:
    text = "SELECT row(true, 1::HUGEINT, [row('101'::BIT)]) AS r, 1::HUGEINT AS h UNION ALL SELECT NULL, NULL"
    with duckdb.connect() as connection:
        expected = connection.sql(text).to_arrow_table()
        values = connection.sql(text).fetchall()
    got = as_the_root_leaves_it(text)
    assert got.arrow().equals(expected) and sorted(got.fetchall(), key=str) == sorted(values, key=str)
    assert got.batches().read_all().equals(expected)


def test_python_values_equal_duckdbs_for_every_type() -> None:
    with duckdb.connect() as connection:
        assert as_the_root_leaves_it(EVERY_TYPE).fetchall() == connection.execute(EVERY_TYPE).fetchall()


def test_pandas_and_polars_equal_duckdbs() -> None:
    text = "SELECT sum(i) AS s, avg(i) AS a, 'x' AS t, 'x' AS t, i = 1 AS b FROM range(5) t(i) GROUP BY i ORDER BY i"
    result = as_the_root_leaves_it(text)
    with duckdb.connect() as connection:
        assert result.df().equals(connection.sql(text).df())
        assert result.pl().equals(connection.sql(text).pl())


def test_nothing_is_copied_when_nothing_must_be_converted() -> None:
    column = pa.chunked_array([pa.array(["a", "b"]), pa.array(["c"])])
    got = Result(pa.table({"x": column}), (("renamed", "VARCHAR"),)).arrow()
    assert got.schema.names == ["renamed"]
    for mine, original in zip(got.column(0).chunks, column.chunks, strict=True):
        assert mine.buffers()[2].address == original.buffers()[2].address


def test_columns_next_to_a_converted_one_keep_their_rows() -> None:
    got = as_the_root_leaves_it("SELECT i AS plain, i::HUGEINT AS huge FROM range(300000) t(i)").arrow()
    assert got.column("plain").cast(pa.int64()).equals(got.column("huge").cast(pa.int64()))


def test_instants_are_shown_in_the_time_zone_of_the_query() -> None:
    text = "SELECT TIMESTAMPTZ '2020-06-01 10:00:00+00' AS instant"
    result = as_the_root_leaves_it(text, (("TimeZone", "Asia/Tokyo"),))
    assert str(result.arrow().schema.field(0).type) == "timestamp[us, tz=Asia/Tokyo]"
    row = result.fetchone()
    assert row is not None and row[0].isoformat() == "2020-06-01T19:00:00+09:00"


def test_fetchone_goes_through_the_rows() -> None:
    result = as_the_root_leaves_it("SELECT i FROM range(2) t(i)")
    assert [result.fetchone(), result.fetchone(), result.fetchone()] == [(0,), (1,), None]
    assert result.fetchall() == [(0,), (1,)]


def test_other_arrow_libraries_can_read_it() -> None:
    assert polars.DataFrame(as_the_root_leaves_it("SELECT 7 AS seven")).to_dicts() == [{"seven": 7}]


def test_it_prints_as_a_table_that_names_columns_and_types() -> None:
    text = repr(as_the_root_leaves_it("SELECT 7 AS seven"))
    assert "seven" in text and "int32" in text and "│" in text


def test_a_large_one_prints_its_head_and_its_length() -> None:
    text = repr(as_the_root_leaves_it("SELECT i FROM range(25000) t(i)"))
    assert "25,000 rows in all" in text and len(text.splitlines()) < 60


def test_show_prints(capsys: pytest.CaptureFixture[str]) -> None:
    as_the_root_leaves_it("SELECT i FROM range(100) t(i)").show(max_rows=4)
    assert "100 rows" in capsys.readouterr().out


def test_an_empty_result_keeps_names_and_types() -> None:
    result = as_the_root_leaves_it("SELECT 1::HUGEINT AS h WHERE false")
    assert (len(result), result.columns, result.types, result.fetchall()) == (0, ["h"], ["HUGEINT"], [])
    assert result.arrow().schema.field("h").type == pa.decimal128(38, 0)


def test_a_root_of_another_width_is_refused() -> None:
    with pytest.raises(PlanError, match="2 columns"):
        Result(pa.table({"a": [1], "b": [2]}), (("a", "BIGINT"),))


@pytest.mark.parametrize("ask", [Result.fetchall, Result.fetchone, Result.df, lambda result: list(result.text_rows())])
def test_what_duckdb_does_not_convert_is_a_clear_error(ask: Callable[[Result], object]) -> None:
    result = as_the_root_leaves_it("SELECT histogram(u) AS h FROM (SELECT union_value(n := NULL::INTEGER) AS u)")
    with pytest.raises(ExecutionError, match=r"cannot be converted: .*NULL as map key"):
        ask(result)


def test_a_value_that_python_has_no_room_for_is_a_clear_error() -> None:
    result = as_the_root_leaves_it("SELECT to_days(-2147483648) AS d")
    with pytest.raises(ExecutionError, match="cannot be converted: days=-2147483648"):
        result.fetchall()


def test_lists_of_enums_that_begin_without_an_item() -> None:
    """DuckDB 1.5.5 ends in an internal error where the first rows that it reads have none."""
    colours = "['red', 'green']::ENUM('green', 'red')[]"
    for rows, last in ((3000, (["red", "green"],)), (3001, (None,))):
        result = as_the_root_leaves_it(
            f"SELECT CASE WHEN i = 2999 AND {rows} = 3000 THEN {colours} END AS l FROM range({rows}) AS r(i)"
        )
        assert result.fetchall()[-1] == last
        assert [row[0] for row in result.text_rows()][-1] == (None if last[0] is None else "[red, green]")


def test_a_result_that_breaks_duckdb_leaves_others_whole() -> None:
    good, broken = (as_the_root_leaves_it("SELECT 1 AS a") for _ in range(2))

    def fatal(_: object) -> None:
        raise duckdb.InternalException("INTERNAL Error: a mistake")

    used = _database(broken._settings)
    with pytest.raises(ExecutionError, match="a mistake"):
        broken._convert(fatal)
    assert good.fetchall() == [(1,)] and _database(good._settings) is not used


PRINTED = """
SELECT (i - 2)::HUGEINT * 170141183460469231731687303715884 AS huge, (i - 2)::DECIMAL(18,10) / 3 AS deep,
       (i - 2)::DECIMAL(38,10) AS wide, (i / 10)::DECIMAL(3,3) AS edge, exp((i - 2) * 17.5) AS double,
       -0.0::DOUBLE AS minus, 'nan'::DOUBLE AS "nan", '-inf'::DOUBLE AS inf, DATE '0001-01-01' + i::INT * 900000 AS day,
       DATE '-infinity' AS never, DATE '0001-01-01' - i::INT AS before, i > 2 AS truth, 'a ''b' AS text,
       i::UTINYINT AS tiny, CASE i WHEN 1 THEN NULL ELSE 1.5::DECIMAL(4,1) END AS null_too
FROM range(5) t(i) ORDER BY i
"""


def test_values_are_printed_as_duckdb_casts_them_to_text() -> None:
    result = as_the_root_leaves_it(PRINTED)
    with duckdb.connect() as connection:
        expected = connection.execute(f"SELECT COLUMNS(*)::VARCHAR FROM ({PRINTED})").fetchall()
    assert list(result.text_rows()) == expected
    for place, name in enumerate(result.columns):  # alone, since one that only DuckDB can write is next to the others
        alone = as_the_root_leaves_it(f'SELECT "{name}" FROM ({PRINTED})')
        assert list(alone.text_rows()) == [(row[place],) for row in expected], name


def test_few_rows_are_the_json_that_duckdb_makes_of_them() -> None:
    """Those that a DuckDB of the answers would have to make are the others, as of `PRINTED`."""
    strange = 'SELECT chr(i::INT) AS text, exp(i - 60) AS d, i::DOUBLE AS whole, i AS "a ""name" FROM range(130) t(i)'
    with duckdb.connect() as connection:
        for text in (PRINTED, strange):
            for name in connection.sql(text).columns:
                one = f"SELECT {quoted(name)} FROM ({text})"
                [*expected] = connection.execute(f"SELECT to_json(t)::VARCHAR FROM ({one}) t").fetchall()
                assert list(as_the_root_leaves_it(one).json_rows()) == [as_json(row) for (row,) in expected], name
    assert json_objects(("n",), as_the_root_leaves_it("SELECT 1 AS n").arrow().columns, ("INTEGER",)) is not None


def test_few_rows_are_the_values_and_the_arrow_types_that_duckdb_gives_column_by_column() -> None:
    plain = "SELECT i::TINYINT AS a, -i::HUGEINT AS b, i::USMALLINT AS c, -i::BIGINT AS d, i::UBIGINT AS e, "
    plain += "TIMESTAMP '0001-01-01 00:00:00.000001' + INTERVAL (i * 4000) YEAR AS f, TIMESTAMP 'infinity' AS g, "
    plain += "'170141183460469231731687303715884105727'::HUGEINT - i AS h FROM range(3) t(i) ORDER BY i"
    with duckdb.connect() as connection:
        for text in (PRINTED, plain, EVERY_TYPE.replace(', i AS "twice ""quoted"""', "")):
            for name in connection.sql(text).columns:
                one = f'SELECT "{name}" FROM ({text})'
                alone = as_the_root_leaves_it(one)
                assert repr(alone.fetchall()) == repr(connection.execute(one).fetchall()), name
                expected = connection.sql(one).to_arrow_table()
                assert alone.arrow().schema.equals(expected.schema, check_metadata=True), name
                assert alone.arrow().column(0).chunk(0).equals(expected.column(0).chunk(0)) or name == "nan"
