"""Texts that are taken for the same are the same to DuckDB."""

from __future__ import annotations

import json

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.catalog.errors import ParseError
from qoop.planner.algebra.types import parse_tree
from qoop.query.statements.normal_text import normal_text

SAME = [
    ("SELECT a FROM t", "select  a\nfrom t;"),
    ("SELECT a FROM t", "select a -- the 'first'\n FROM/* all */t"),
    ("SELECT a+b FROM t", "SELECT a + b FROM t"),
    ("SELECT t . a FROM t", "SELECT t.a FROM t"),
    ("SELECT 1 AS x WHERE true", "select 1 as x where TRUE"),
    ("SELECT 'a''b'", "select 'a''b' -- b"),
    ("SELECT 1 /* /* */ + 1 -- */", "SELECT 1"),  # comments nest
    (r"SELECT E'\'' + $$a$$", r"select /* /* */ */ E'\''   +   $$a$$ -- $$"),
    ("FROM t LEFT JOIN u ON a IS NULL GROUP BY a", "from t left join u on a is null group by a"),
]
OTHER = [
    ("SELECT a FROM t", "SELECT A FROM t"),  # the result's column has the name as written
    ("SELECT 1 AS Select", "SELECT 1 AS select"),
    ("SELECT Year FROM t", "SELECT year FROM t"),
    ("SELECT 'a b'", "SELECT 'a  b'"),
    ("SELECT struct_pack(Left := 1)", "SELECT struct_pack(left := 1)"),
    ("SELECT t.Left", "SELECT t.left"),
    ("SELECT 'A'", "SELECT 'a'"),
    ("SELECT 'a' 'b'", "SELECT 'a'\n'b'"),  # an error, and one text
    ("SELECT '/* a */'", "SELECT ''"),
    ("SELECT 1 -1", "SELECT 1 --1"),
    ("SELECT a.b", "SELECT ab"),
    ("SELECT 1 .5", "SELECT 1.5"),
    ("SELECT . 5", "SELECT .5"),
    ("SELECT 1e-5", "SELECT 1e -5"),
    ('SELECT "a b"', "SELECT a b"),
    ('SELECT "a"', "SELECT a"),
    ("SELECT $$a  b$$", "SELECT $$a b$$"),
    (r"SELECT E'\'  a'", r"SELECT E'\' a'"),
    ("SELECT 1 /* /* */ + 1 -- */ + 1", "SELECT 1"),
    (r"SELECT E'a\' -- b'", r"SELECT E'a\' -- c'"),
    ("SELECT $$ -- a $$", "SELECT $$ -- b $$"),
    ("SELECT 'a' -- 1\n'b'", "SELECT 'a'"),
    ("SELECT {Left: 1}", "SELECT {left: 1}"),
    ("SELECT x < = 1", "SELECT x <= 1"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_comments_space_and_the_case_of_keywords_do_not_count(one: str, other: str) -> None:
    assert normal_text(one).digest == normal_text(other).digest


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_all_else_counts(one: str, other: str) -> None:
    assert normal_text(one).digest != normal_text(other).digest


def test_only_literals_are_left_open_in_a_pattern() -> None:
    normal = normal_text("SELECT a FROM t WHERE a = 1 AND b = 'x'")
    assert normal_text("SELECT a FROM t WHERE a = 2.5e-3 AND b = 'it''s'").pattern == normal.pattern
    assert normal_text("SELECT a FROM t WHERE a = 1 AND b = c").pattern != normal.pattern
    assert normal_text("SELECT a FROM t WHERE a = 1 AND b > 'x'").pattern != normal.pattern


def test_all_that_may_be_a_name_is_among_the_words() -> None:
    words = normal_text("""SELECT * FROM "My Table" JOIN 'other' USING (K) -- note""").words
    assert {"my", "table", "other", "k"} <= words


PIECES = st.sampled_from(
    ["SELECT", "select", "a", "A", "FROM", "t", '"t"', "''", "'x'", "'x  y'", "'--'", "1", "1.5", ".5", "1e3", "-",
     "--",
     "+", "*", "/", "/*", "*/", "(", ")", ",", ".", ";", "AS", "as", "Year", "Left", "GROUP", "by", "WHERE",
     "=", "<", "<>", "::", "E'", "'",
     "$1", "DATE", "\\", "|| ", "#", "not", "NULL", "in", "\n", "\t", " "]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(PIECES, st.sampled_from(["", " ", "\n", "/* c */", "-- c\n"])), max_size=9), st.data())
def test_equal_digests_mean_equal_parse_trees(pieces: list[tuple[str, str]], data: st.DataObject) -> None:
    """Random texts, and the same with other gaps and case: if they are taken for the same, DuckDB must agree."""
    one = "SELECT " + "".join(piece + gap for piece, gap in pieces)
    gaps = st.sampled_from(["", " ", "\n", "/* c */", "-- c\n"])
    other = "select " + "".join(
        (piece.swapcase() if data.draw(st.booleans()) else piece) + data.draw(gaps) for piece, _ in pieces
    )
    if normal_text(one).digest == normal_text(other).digest:
        assert tree(one) == tree(other)


def tree(text: str) -> object:
    """DuckDB's parse tree without places in the text; None where it has none."""
    try:
        return without_places(json.loads(parse_tree(text)))
    except (duckdb.Error, ParseError):
        return None


def without_places(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_places(item) for name, item in value.items() if name != "query_location"}
    return [without_places(item) for item in value] if isinstance(value, list) else value


def test_the_benchmarks_texts_are_all_taken_apart(benchmark_texts: None) -> None:
    from qoop.tpcds.queries import texts

    for text in texts().values():
        shouted = text.replace("select", "SELECT").replace("\n", "  \n -- more\n")
        assert normal_text(text).digest == normal_text(shouted).digest
