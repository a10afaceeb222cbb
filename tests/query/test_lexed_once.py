"""DuckDB's lexer reads the text of a statement once, whatever is done with it, and no part of it again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import qoop

QUERY = "SELECT b, sum(a) AS s FROM t WHERE a > {} GROUP BY b ORDER BY b"


@pytest.fixture
def session() -> Iterator[qoop.Session]:
    """A new one for each test: the search for better plans of an earlier text would take the place of a long one."""
    with qoop.connect(slots=2, memory="500MB") as session:
        session.sql("CREATE TABLE t AS SELECT range AS a, range % 7 AS b FROM range(1000)")
        session.sql("CREATE TABLE u AS FROM t")
        yield session


@pytest.fixture
def lexed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that DuckDB's lexer reads for this thread: on a busy machine plans for earlier texts are still searched
    in another one."""
    texts: list[str] = []
    tokenize = duckdb.tokenize

    def counting(text: str) -> object:
        if threading.current_thread() is threading.main_thread():
            texts.append(text)
        return tokenize(text)

    monkeypatch.setattr(duckdb, "tokenize", counting)
    return texts


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "\n {};\n",
        "/* all */ {} ; -- end",
        "{} -- end",
        "EXPLAIN {};",
        "EXPLAIN ANALYZE {}",
        "EXPLAIN ALTERNATIVES {};",
        "EXPLAIN HISTORY {}",
        "APPROXIMATE WITHIN 1 PERCENT {};",
        "CREATE OR REPLACE TABLE made AS {};",
        "CREATE OR REPLACE VIEW shown AS {};",
        "PREPARE p AS {};",
    ],
)
@pytest.mark.parametrize("bound", ["5", f"length('{'x' * 20_000}') - 19995"], ids=["short", "long"])
def test_a_statement_is_lexed_once(session: qoop.Session, lexed: list[str], form: str, bound: str) -> None:
    text = form.format(QUERY.format(f"{len(form)} * {bound}"))
    assert session.sql(text) is not None
    assert len(lexed) == 1, [text[:60] for text in lexed]


def test_a_copied_query_and_the_values_of_an_execute_are_lexed_once(
    session: qoop.Session, lexed: list[str], tmp_path: Path
) -> None:
    session.sql(f"COPY ({QUERY.format(41)}) TO '{tmp_path}/rows.csv';")
    assert len(lexed) == 1 and len((tmp_path / "rows.csv").read_text().splitlines()) == 8
    session.sql("PREPARE above AS SELECT count(*) FROM t WHERE a > $1 + $2")
    assert session.sql("EXECUTE above(990 + 4, 2);").fetchall() == [(3,)]
    assert lexed[2:] == ["EXECUTE above(990 + 4, 2);", "SELECT count(*) FROM t WHERE a > (990 + 4) + (2)"]


def test_an_insert_and_its_query_are_lexed_once(session: qoop.Session, lexed: list[str]) -> None:
    assert session.sql("INSERT INTO u SELECT a, b FROM t WHERE a < 11;").fetchall() == [(11,)]
    assert [text for text in lexed if "11" in text] == ["INSERT INTO u SELECT a, b FROM t WHERE a < 11;"]


def test_each_statement_of_a_text_is_lexed_once(session: qoop.Session, lexed: list[str]) -> None:
    assert session.sql("SELECT 71 FROM t LIMIT 1; APPROXIMATE SELECT count(*) FROM t;").fetchall() == [(1000, 1.0)]
    assert len(lexed) == 1


def test_jobs_programs_and_cursors_lex_a_query_once(session: qoop.Session, lexed: list[str]) -> None:
    assert len(session.submit(QUERY.format(31)).result()) == 7
    assert len(session.approximate(QUERY.format(32)).result()) == 7
    assert len(session.cursor().execute(QUERY.format(33)).fetchall()) == 7
    session.iterate("SELECT x / 2 AS x, x AS loss FROM former", session.sql("SELECT 1.0 AS x"), most=3).result()
    assert len(lexed) == len(set(lexed)) == 5
