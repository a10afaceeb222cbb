"""Expressions: random ones with few parentheses, and DuckDB's own examples of its functions.

sqlglot parses the text and prints what it understood; what it misunderstands must not become a wrong answer.
"""

from __future__ import annotations

import os
from random import Random

import duckdb
import pyarrow as pa
import pytest
from fuzz_world import World

ROWS = pa.table({
    "a": [1, 2, 3, None, -7], "b": [2, 0, 5, 3, 1], "c": [7, 3, None, 2, -2], "x": [1.5, 2.5, -0.5, None, 3.0],
    "s": ["a", "ab", "b", None, "x%"], "f": [True, False, None, True, False],
})  # fmt: skip
BINARY = ("+", "-", "*", "/", "//", "%", "**", "^", "&", "|", "<<", ">>", "||", "=", "<>", "<", ">=", "==", "!=",
          "AND", "OR", "LIKE", "NOT LIKE", "ILIKE", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "~~", "!~~", "~~*",
          "SIMILAR TO", "GLOB", "~", "!~", "^@")  # fmt: skip
PREFIX = ("NOT ", "- ", "~", "+", "NOT NOT ", "@")
SUFFIX = (" IS NULL", " IS NOT NULL", "::INT", "::VARCHAR", " IS TRUE", " ISNULL", " NOTNULL", " IN (1, 2)",
          " NOT IN (1, 3)", " BETWEEN 1 AND 3", " NOT BETWEEN 0 AND 1", " IS NOT FALSE", "::DOUBLE", "[1]", "!",
          " LIKE 'a%'", "::BOOLEAN")  # fmt: skip
ATOMS = ("a", "b", "c", "x", "s", "f", "1", "2", "3", "'a'", "1.5", "true", "NULL", "(a+b)", "(a<b)", "abs(a)")
# Examples of functions whose value is another at each call, or in each process.
MOMENTARY = (
    "random",
    "now(",
    "uuid",
    "current",
    "today(",
    "transaction_timestamp",
    "txid",
    "nextval",
    "version(",
    "hash",
)


@pytest.fixture(scope="module")
def values(world: World) -> World:
    world.session.register("numbers", ROWS)
    world.duckdb.register("numbers", ROWS)
    return world


def expression(rng: Random) -> str:
    """Up to four values and the operators between and around them."""
    parts = []
    for number in range(rng.randint(1, 4)):
        parts.append(f" {rng.choice(BINARY)} " if number else "")
        parts.append(rng.choice(PREFIX) if rng.random() < 0.25 else "")
        parts.append(rng.choice(ATOMS))
        parts.append(rng.choice(SUFFIX) if rng.random() < 0.25 else "")
    return "".join(parts)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_operators_bind_as_in_duckdb(values: World, seed: int) -> None:
    rng, accepted = Random(seed), 0
    for _ in range(250 * int(os.environ.get("QOOP_FUZZ_TIMES", "1"))):
        text = f"SELECT {expression(rng)} AS r FROM numbers"
        if not isinstance(values.theirs(text), duckdb.Error):
            accepted += values.check(text, ("usual",))
    assert accepted > 50


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_functions_mean_what_duckdb_says(values: World, part: int) -> None:
    """Every example in DuckDB's catalogue that can be evaluated alone, in three parts."""
    rows = values.duckdb.execute("SELECT DISTINCT unnest(examples) FROM duckdb_functions() ORDER BY 1").fetchall()
    evaluated = 0
    for (example,) in rows[part::3]:
        text = f"SELECT {example} AS r, i FROM range(2) AS t(i)"
        if any(word in example.lower() for word in MOMENTARY):
            continue
        theirs = values.theirs(text)
        if not isinstance(theirs, duckdb.Error) and "struct<:" not in str(theirs.schema):  # has no names to compare by
            evaluated += values.check(text, ("usual",))
    assert evaluated > 100


@pytest.mark.parametrize("terms", [150, 450, pytest.param(900, marks=pytest.mark.slow)])
def test_a_sum_of_many_terms(values: World, terms: int) -> None:  # of the most, DuckDB thinks for ten seconds
    values.check(f"SELECT {' + '.join(['a'] * terms)} AS r FROM numbers", ("usual",))


def test_a_condition_of_many_terms(values: World) -> None:
    for terms in (150, 450):
        values.check(
            f"SELECT a FROM numbers WHERE {' OR '.join(f'(a = {i} AND b < {i})' for i in range(terms))}", ("usual",)
        )


def test_misread_texts_run_as_they_were_written(values: World) -> None:
    for text in ("SELECT ~a // b AS r FROM numbers", "SELECT a BETWEEN 1 AND 3 == b AS r FROM numbers",
                 "SELECT 2! IS NOT DISTINCT FROM 1.5", "SELECT decode('\\xA0'::BLOB, 'replace')"):  # fmt: skip
        values.check(text, ("usual",))  # of some, DuckDB 2 thinks otherwise than DuckDB 1
    assert "only DuckDB can parse" in values.session.explain("SELECT ~a // b AS r FROM numbers")
