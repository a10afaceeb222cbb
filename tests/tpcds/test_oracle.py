"""The comparison of answers must catch every wrong answer and accept every right one."""

from __future__ import annotations

import math
import time
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from qoop.catalog.errors import SourceError
from qoop.tpcds.oracle import Oracle, compare, is_empty_answer
from qoop.tpcds.ordering import ordering

RIGHT = pa.table(
    {
        "name": ["a", "b", "b", None],
        "money": pa.array([Decimal("1.10"), Decimal("2.20"), Decimal("2.20"), None], pa.decimal128(7, 2)),
        "share": [0.1, 0.2, float("nan"), None],
        "list": [[1], [2], [2], None],
    }
)


def shuffled(table: pa.Table, seed: int = 1) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


def replaced(table: pa.Table, name: str, values: list[object]) -> pa.Table:
    index = table.column_names.index(name)
    return table.set_column(index, table.schema.field(name), pa.array(values, table.schema.field(name).type))


def test_an_answer_equals_itself_in_any_order() -> None:
    for seed in range(5):
        assert compare(shuffled(RIGHT, seed), RIGHT) is None


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        pytest.param(RIGHT.slice(1), "rows", id="row missing"),
        pytest.param(pa.concat_tables([RIGHT, RIGHT.slice(0, 1)]), "rows", id="row twice"),
        pytest.param(pa.concat_tables([RIGHT.slice(0, 3), RIGHT.slice(0, 1)]), "rows", id="row in place of another"),
        pytest.param(replaced(RIGHT, "name", ["a", "b", "c", None]), "rows", id="text changed"),
        pytest.param(replaced(RIGHT, "name", ["a", "b", "b", ""]), "rows", id="NULL became empty"),
        pytest.param(replaced(RIGHT, "share", [0.1, 0.2000001, math.nan, None]), "rows", id="float changed"),
        pytest.param(replaced(RIGHT, "share", [0.1, 0.2, math.nan, 0.0]), "rows", id="NULL became 0"),
        pytest.param(replaced(RIGHT, "share", [0.1, 0.2, None, math.nan]), "rows", id="NaN and NULL swapped"),
        pytest.param(replaced(RIGHT, "share", [0.1, 0.2, math.inf, None]), "rows", id="NaN became infinite"),
        pytest.param(replaced(RIGHT, "list", [[1], [2], [2, 2], None]), "rows", id="list changed"),
        pytest.param(
            replaced(RIGHT, "money", [Decimal("1.11"), Decimal("2.20"), Decimal("2.20"), None]), "rows", id="cent lost"
        ),
        pytest.param(RIGHT.select([1, 0, 2, 3]), "columns", id="columns swapped"),
        pytest.param(RIGHT.rename_columns(["name", "money", "Share", "list"]), "columns", id="column renamed"),
        pytest.param(RIGHT.drop_columns(["list"]), "columns", id="column missing"),
        pytest.param(
            RIGHT.set_column(1, "money", RIGHT["money"].cast(pa.float64())), "types", id="decimal became float"
        ),
        pytest.param(
            RIGHT.set_column(1, "money", RIGHT["money"].cast(pa.decimal128(8, 2))), "types", id="precision changed"
        ),
    ],
)
def test_a_wrong_answer_is_caught(wrong: pa.Table, kind: str) -> None:
    difference = compare(wrong, RIGHT)
    assert difference is not None
    assert difference.kind == kind
    if kind == "rows":
        assert compare(RIGHT, wrong) is not None


def test_the_message_shows_the_rows() -> None:
    difference = compare(replaced(RIGHT, "name", ["z", "b", "b", None]), RIGHT)
    assert "missing:\n  ('a', Decimal('1.10'), 0.1, [1])" in str(difference)
    assert "too much:\n  ('z', Decimal('1.10'), 0.1, [1])" in str(difference)


def test_values_of_two_swapped_columns_are_caught() -> None:
    right = pa.table({"a": [1, 2], "b": [2, 1], "c": ["x", "y"]})
    assert compare(pa.table({"a": [2, 1], "b": [1, 2], "c": ["x", "y"]}), right) is not None


def test_floats_agree_within_the_tolerance_and_no_further() -> None:
    right = pa.table({"x": [1e9 / 3, 0.1 + 0.2]})
    assert compare(pa.table({"x": [1e9 / 3 * (1 + 1e-12), 0.3]}), right) is None
    assert compare(pa.table({"x": [1e9 / 3 * (1 + 1e-7), 0.3]}), right) is not None


def test_single_floats_have_a_tolerance_of_their_own() -> None:
    right = pa.table({"x": pa.array([1.0, 2.0], pa.float32())})
    assert compare(pa.table({"x": pa.array([1.000001, 2.0], pa.float32())}), right) is None
    assert compare(pa.table({"x": pa.array([1.001, 2.0], pa.float32())}), right) is not None


def test_floats_are_matched_even_if_near_equal_values_cross() -> None:
    """Sorting by the first float puts these rows in different orders on the two sides."""
    right = pa.table({"x": [1.0, 1.0 + 1e-13], "y": [5.0, 7.0]})
    ours = pa.table({"x": [1.0 + 1e-13, 1.0], "y": [5.0, 7.0]})
    assert compare(ours, right) is None
    assert compare(pa.table({"x": [1.0, 1.0], "y": [5.0, 5.0]}), right) is not None


def test_an_empty_answer_needs_the_right_columns_too() -> None:
    none = RIGHT.slice(0, 0)
    assert compare(none, none) is None
    assert compare(none, RIGHT) is not None
    assert compare(RIGHT, none) is not None
    assert compare(none, none.select([0])) is not None


def test_columns_may_have_the_same_name() -> None:
    def table(*columns: list[int]) -> pa.Table:
        return pa.Table.from_arrays([pa.array(column) for column in columns], names=["x"] * len(columns))

    assert compare(table([1, 2], [3, 4]), table([2, 1], [4, 3])) is None
    assert compare(table([1, 2], [3, 4]), table([1, 2], [4, 3])) is not None


def judged(text: str, ours: pa.Table) -> object:
    """Judge an answer to a text on the table t(k, v, x): k has ties, v tells rows apart, x is a float."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i // 3 AS k, i AS v, i / 7 AS x FROM range(12) AS r(i); SET threads = 1"
        )
        theirs = connection.sql(text).to_arrow_table()
        order = ordering(text, theirs.column_names)
        return compare(
            ours.cast(theirs.schema), theirs, order=order,
            unlimited=lambda: connection.sql(order.unlimited or "").to_arrow_table(),
        )  # fmt: skip


CUT = "SELECT k, v FROM t ORDER BY k LIMIT 5"


def test_rows_that_tie_at_the_cut_may_differ() -> None:
    assert judged(CUT, pa.table({"k": [0, 0, 0, 1, 1], "v": [2, 0, 1, 5, 3]})) is None


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        pytest.param([0, 0, 0, 1, 1], [0, 1, 2, 3, 9], id="not a row of the whole answer"),
        pytest.param([0, 0, 0, 1, 1], [0, 1, 2, 3, 3], id="the same tied row twice"),
        pytest.param([0, 0, 1, 1, 1], [0, 1, 3, 4, 5], id="a row before the tie is missing"),
        pytest.param([0, 0, 1, 0, 1], [0, 1, 3, 2, 4], id="out of order"),
        pytest.param([0, 0, 0, 1, 2], [0, 1, 2, 3, 6], id="a row from behind the tie"),
        pytest.param([0, 0, 0, 1], [0, 1, 2, 3], id="too few rows"),
    ],
)
def test_wrong_answers_at_a_cut_are_caught(keys: list[int], values: list[int]) -> None:
    assert judged(CUT, pa.table({"k": keys, "v": values})) is not None


def test_ties_at_an_offset_may_differ() -> None:
    text = "SELECT k, v FROM t ORDER BY k LIMIT 3 OFFSET 1"
    assert judged(text, pa.table({"k": [0, 0, 1], "v": [0, 1, 5]})) is None
    assert judged(text, pa.table({"k": [0, 1, 1], "v": [0, 3, 4]})) is not None
    assert judged(text, pa.table({"k": [0, 0, 2], "v": [0, 1, 6]})) is not None


def test_keys_that_are_no_columns_count_at_the_cut() -> None:
    text = "SELECT v FROM t ORDER BY k + 1 DESC LIMIT 4"
    assert judged(text, pa.table({"v": [10, 9, 11, 6]})) is None
    assert judged(text, pa.table({"v": [9, 10, 11, 5]})) is not None
    assert judged(text, pa.table({"v": [9, 10, 7, 6]})) is not None


def test_keys_that_are_no_columns_count_in_the_order() -> None:
    text = "SELECT v FROM t WHERE v < 5 ORDER BY k % 2 DESC"
    assert judged(text, pa.table({"v": [4, 3, 1, 0, 2]})) is None
    assert judged(text, pa.table({"v": [4, 1, 3, 0, 2]})) is not None
    assert (
        judged("SELECT * FROM t ORDER BY k + 0 LIMIT 2", pa.table({"k": [0, 0], "v": [2, 1], "x": [2 / 7, 1 / 7]}))
        is None
    )


def test_keys_by_number_by_alias_and_all() -> None:
    for keys in ("1", "a", "ALL", "t.k", "k"):
        text = f"SELECT k AS a, v FROM t ORDER BY {keys} LIMIT 3"
        assert judged(text, pa.table({"a": [0, 0, 0], "v": [0, 1, 2]})) is None, keys
        assert judged(text, pa.table({"a": [0, 0, 1], "v": [0, 1, 3]})) is not None, keys


def test_an_alias_goes_before_a_column_of_the_same_name() -> None:
    text = "SELECT v % 2 AS k, t.* EXCLUDE (k) FROM t ORDER BY k LIMIT 2"
    rows = {"k": [0, 0], "v": [8, 10], "x": [8 / 7, 10 / 7]}
    assert judged(text, pa.table(rows)) is None
    assert judged(text, pa.table(rows | {"k": [1, 1], "v": [1, 3], "x": [1 / 7, 3 / 7]})) is not None


def test_dates_beyond_those_of_python_are_compared() -> None:
    with duckdb.connect() as connection:
        one, other = (connection.sql(f"SELECT [{day}::DATE] AS d").to_arrow_table() for day in ("'infinity'", "NULL"))
    assert compare(one, one) is None
    assert "[infinity]" in str(compare(one, other))


def test_a_limit_without_order_allows_any_rows() -> None:
    assert judged("SELECT v FROM t LIMIT 2", pa.table({"v": [7, 3]})) is None
    assert judged("SELECT v FROM t LIMIT 2", pa.table({"v": [7, 77]})) is not None


def test_a_union_may_be_cut_too() -> None:
    text = "SELECT k FROM t UNION ALL SELECT v FROM t ORDER BY k LIMIT 2"
    assert judged(text, pa.table({"k": [0, 0]})) is None
    assert judged(text, pa.table({"k": [0, 1]})) is not None


def test_order_is_checked_on_the_keys_alone() -> None:
    text = "SELECT k, v FROM t WHERE v < 4 ORDER BY k DESC"
    assert judged(text, pa.table({"k": [1, 0, 0, 0], "v": [3, 1, 0, 2]})) is None
    assert judged(text, pa.table({"k": [0, 0, 0, 1], "v": [1, 0, 2, 3]})) is not None


def test_order_behind_a_float_key() -> None:
    right = pa.table({"x": [1.0, 1.0, 2.0], "y": [1, 2, 3]})
    order = ordering("SELECT x, y FROM t ORDER BY x, y", ["x", "y"])
    assert order.keys == (0, 1)
    moved = pa.table({"x": [1.0, 1.0 + 1e-15, 2.0], "y": [2, 1, 3]})
    assert compare(moved, right, order=order) is None, "near-equal floats may swap"
    swapped = pa.table({"x": [1.0, 1.0, 2.0], "y": [2, 1, 3]})
    assert compare(swapped, right, order=order) is not None, "equal floats may not"


def test_the_order_of_a_text_that_only_duckdb_can_parse() -> None:
    text = "SELECT x IS UNKNOWN AS u, x FROM t ORDER BY x DESC LIMIT 1"
    order = ordering(text, ["u", "x"])
    assert (order.keys, order.cut) == ((1,), True)
    assert ordering("no text", ["x"]).keys == ()


def test_empty_answers() -> None:
    def table(*values: object) -> pa.Table:
        return pa.table({f"c{index}": [value] for index, value in enumerate(values)})

    assert is_empty_answer(RIGHT.slice(0, 0))
    assert is_empty_answer(table(None, 0, 0.0, Decimal("0.00")))
    assert not is_empty_answer(table(None, 1))
    assert not is_empty_answer(table(""))
    assert not is_empty_answer(pa.table({"c": [0, 0]}))


@pytest.mark.parametrize("groups", [1, 100, 100_000])
def test_large_answers_are_compared_fast(groups: int) -> None:
    random = np.random.default_rng(0)
    size = 200_000
    values = random.random(size)
    right = pa.table(
        {"k": random.integers(0, groups, size), "s": [f"name {i % 1000}" for i in range(size)], "x": values}
    )
    ours = shuffled(right.set_column(2, "x", pa.array(values * (1 + 1e-14 * random.random(size)))))
    wrong = ours.set_column(2, "x", pa.array(np.r_[ours["x"].to_numpy()[:-1], 2.0]))
    begun = time.process_time()
    assert compare(ours, right) is None
    difference = compare(wrong, right)
    assert time.process_time() - begun < 8
    assert difference is not None
    assert "1 missing, 1 that should not be" in difference.message


def test_the_oracle_reads_both_layouts_and_judges(tmp_path: object) -> None:
    from pathlib import Path

    import pyarrow.parquet as parquet

    folder = Path(str(tmp_path))
    (folder / "big").mkdir()
    parquet.write_table(pa.table({"a": [1, 2]}), folder / "big" / "big.1.parquet")
    parquet.write_table(pa.table({"a": [3]}), folder / "big" / "big.2.parquet")
    parquet.write_table(pa.table({"b": [1]}), folder / "small.parquet")
    with Oracle(folder, threads=1) as oracle:
        text = "SELECT a FROM big ORDER BY a % 2 LIMIT 2"
        assert oracle.answer("SELECT sum(a) + max(b) AS s FROM big, small")["s"].to_pylist() == [7]
        assert oracle.judge(text, pa.table({"a": [2, 3]})) is None
        assert oracle.judge(text, pa.table({"a": [1, 3]})) is not None


def test_a_folder_without_tables_is_refused(tmp_path: object) -> None:
    with pytest.raises(SourceError, match="no table"):
        Oracle(str(tmp_path))
