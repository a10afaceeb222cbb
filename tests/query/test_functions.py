"""Functions of Python in queries: what they compute, what they promise, and how they fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import qoop

ROWS = pa.table({"i": list(range(3000)), "s": [f"x{i}" for i in range(3000)], "n": [None, 1, 2] * 1000})
QUERY = """
    SELECT i % 3 AS k, sum(twice(i)) AS a, max(shout(s)) AS b, count(*) FROM t
    WHERE odd(i) AND twice(i) > 40 AND length(shout('ab')) = 3 GROUP BY k ORDER BY k
"""


def twice(number: int) -> int:
    return 2 * number


def shout(text: str) -> str:
    return text.upper() + "!"


def odd(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.equal(pc.bit_wise_and(numbers, 1), 1)


def register(session: qoop.Session) -> None:
    session.register("t", ROWS)
    session.register_function("twice", twice, ["BIGINT"], "BIGINT")
    session.register_function("shout", shout, ["VARCHAR"], "VARCHAR")
    session.register_function("odd", odd, ["BIGINT"], "BOOLEAN", vectorised=True)


@pytest.fixture(params=[True, False], ids=["staged", "whole"])
def session(request: pytest.FixtureRequest) -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="1GB", staged=request.param) as session:
        register(session)
        yield session


def oracle(text: str) -> list[tuple[object, ...]]:
    connection = duckdb.connect()
    connection.register("t", ROWS)
    connection.create_function("twice", twice, ["BIGINT"], "BIGINT")
    connection.create_function("shout", shout, ["VARCHAR"], "VARCHAR")
    connection.create_function("odd", odd, ["BIGINT"], "BOOLEAN", type="arrow")
    return connection.sql(text).fetchall()


def test_rows_and_names_are_those_of_duckdb(session: qoop.Session) -> None:
    assert session.sql(QUERY).fetchall() == oracle(QUERY) != []
    assert session.sql("SELECT twice(i) FROM t LIMIT 0").columns == ["twice(i)"]


def test_planned_stages_take_the_query_apart() -> None:
    with qoop.connect(slots=2, staged=True) as session:
        register(session)
        [*stages] = session.alternatives(QUERY).kept[0].plan.stages
        assert not any(stage.opaque for stage in stages)


def test_null_is_not_shown_to_a_function_that_does_not_ask_for_it(session: qoop.Session) -> None:
    session.register_function("plus", lambda n: n + 1, ["BIGINT"], "BIGINT")
    session.register_function("known", lambda n: n is not None, ["BIGINT"], "BOOLEAN", null_handling="special")
    text = "SELECT plus(n), known(n), count(*) FROM t GROUP BY ALL ORDER BY ALL"
    assert session.sql(text).fetchall() == [(2, True, 1000), (3, True, 1000), (None, False, 1000)]


def test_the_error_names_the_function_and_holds_its_cause(session: qoop.Session) -> None:
    def fails(number: int) -> int:
        raise KeyError("lost")

    session.register_function("fails", fails, ["BIGINT"], "BIGINT")
    with pytest.raises(qoop.FunctionFailed, match=r"fails\(BIGINT\) -> BIGINT failed with KeyError: 'lost'") as caught:
        session.sql("SELECT sum(fails(i)) FROM t")
    assert isinstance(caught.value.__cause__, KeyError)
    assert session.sql("SELECT twice(4)").fetchall() == [(8,)], "the session goes on"


@pytest.mark.parametrize(
    ("function", "vectorised", "message"),
    [
        (lambda _: "abc", False, "wrong.*another type"),
        (lambda _: None, False, "wrong.*null_handling='special'"),
        (lambda numbers: numbers.slice(1), True, "wrong.* values for .* rows"),
        (lambda numbers: pc.cast(numbers, pa.string()), True, "wrong.* array of string, where int64 was declared"),
        (lambda numbers: 3, True, "wrong.* returned int in place of an Arrow array"),
    ],
    ids=["type", "none", "length", "array", "scalar"],
)
def test_a_wrong_result_is_told_by_the_function(
    session: qoop.Session, function: object, vectorised: bool, message: str
) -> None:
    session.register_function("wrong", function, ["BIGINT"], "BIGINT", vectorised=vectorised)  # type: ignore[arg-type]
    with pytest.raises(qoop.FunctionFailed, match=message):
        session.sql("SELECT sum(wrong(i)) FROM t")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lower", len, ["VARCHAR"], "BIGINT"), "DuckDB has a scalar function lower already"),
        (("select", len, ["VARCHAR"], "BIGINT"), "a word of SQL"),
        (("coalesce", len, ["VARCHAR"], "BIGINT"), "means something to DuckDB already"),
        (("a b", len, ["VARCHAR"], "BIGINT"), "an ASCII word"),
        (("twice", len, ["VARCHAR"], "BIGINT"), r"twice\(BIGINT\) -> BIGINT already; replace=True"),
        (("f", len, ["STRING_"], "BIGINT"), "a parameter of f must be one of DuckDB's types"),
        (("f", len, ["VARCHAR"], ""), "the result of f must be one of DuckDB's types"),
        (("f", len, "VARCHAR", "BIGINT"), "a list of DuckDB's types"),
        (("f", 3, ["VARCHAR"], "BIGINT"), "something to call"),
    ],
)
def test_what_cannot_be_registered(arguments: tuple[object, ...], message: str) -> None:
    with qoop.connect(slots=1) as session:
        register(session)
        with pytest.raises(qoop.FunctionError, match=message):
            session.register_function(*arguments)  # type: ignore[arg-type]
        assert session.sql("SELECT twice(4)").fetchall() == [(8,)]


def test_replace_and_unregister(session: qoop.Session) -> None:
    session.register_function("twice", lambda n: n * 3, ["BIGINT"], "BIGINT", replace=True)
    assert session.sql("SELECT twice(4)").fetchall() == [(12,)]
    session.unregister_function("Twice")
    with pytest.raises(qoop.BindError, match=r"twice does not exist[\s\S]*Functions of Python here: odd, shout"):
        session.sql("SELECT twice(4)")
    with pytest.raises(qoop.UnknownFunction, match=r"no function twice is registered. Functions here: odd, shout"):
        session.unregister_function("twice")


def test_a_name_that_the_parser_believes_to_know(session: qoop.Session) -> None:
    session.register_function("initcap", str.title, ["VARCHAR"], "VARCHAR")
    assert session.sql("SELECT initcap('ab cd')").fetchall() == [("Ab Cd",)]


def test_a_locked_session_takes_none() -> None:
    with qoop.connect(slots=1, locked=True) as session, pytest.raises(qoop.Forbidden):
        session.register_function("twice", twice, ["BIGINT"], "BIGINT")


def test_what_is_not_deterministic_is_never_shared(tmp_path: Path) -> None:
    with qoop.connect(slots=1, staged=True, checkpoints=tmp_path) as session:
        session.register("t", ROWS)
        session.register_function("fixed", twice, ["BIGINT"], "BIGINT")
        session.register_function("moving", twice, ["BIGINT"], "BIGINT", deterministic=False)
        shareable = {
            name: [stage.shareable for stage in session.alternatives(f"SELECT {name}(i) FROM t").kept[0].plan.stages]
            for name in ("fixed", "moving")
        }
    assert shareable == {"fixed": [True], "moving": [False]}


def test_outputs_of_another_version_are_not_taken_over(tmp_path: Path) -> None:
    calls: list[int] = []
    rows = tmp_path / "t.parquet"
    duckdb.sql(f"COPY (SELECT range AS i FROM range(100)) TO '{os.fspath(rows)}'")

    def total(version: str) -> tuple[int, int]:
        def counted(number: int) -> int:
            calls.append(number)
            return number + len(version)

        calls.clear()
        with qoop.connect(slots=1, staged=True, checkpoints=tmp_path / "kept") as session:
            session.register("t", rows)
            session.register_function("counted", counted, ["BIGINT"], "BIGINT", version=version)
            [(made,)] = session.sql("SELECT sum(counted(i)) FROM t").fetchall()
        return made, len(calls)

    assert total("1") == (5050, 100)
    assert total("1") == (5050, 0), "taken over"
    assert total("22") == (5150, 100), "made again"
