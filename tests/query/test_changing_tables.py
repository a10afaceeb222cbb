"""Texts that are asked by many threads while their tables change, and while what is kept of them is dropped."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from itertools import product

import duckdb
import pyarrow as pa
import pytest

import qoop

SHAPES = (
    pa.table({"a": [1, 2, 3]}), pa.table({"a": [1], "b": ["x"]}),
    pa.table({"b": ["y", "z"], "c": [1.5, 2.5], "a": [7, 8]}),
)  # fmt: skip
"""A table comes back to what it was before, so that what is kept under its version is met again."""
TEXTS = (
    "SELECT 1", "SELECT * FROM t", "SELECT * FROM t, u", "SELECT count(*) AS n FROM t",
    "SELECT t.* FROM t JOIN u ON true", "SELECT u.a, max(t.a) AS m FROM t, u GROUP BY ALL",
)  # fmt: skip
ASKING, CHANGING, SECONDS, KEPT = 10, 2, 1.0, 4

Answer = tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]


def answer(names: list[str], rows: list[tuple[object, ...]]) -> Answer:
    return tuple(names), tuple(sorted(rows, key=repr))


def right_answers() -> dict[str, set[Answer]]:
    """DuckDB's over every pair of shapes."""
    found: dict[str, set[Answer]] = {text: set() for text in TEXTS}
    for t, u in product(SHAPES, SHAPES):
        with duckdb.connect() as connection:
            connection.register("t", t)
            connection.register("u", u)
            for text in TEXTS:
                rows = connection.execute(text).fetchall()
                found[text].add(answer([column[0] for column in connection.description or ()], rows))
    return found


@pytest.mark.parametrize("staged", [False, True])
def test_every_answer_is_of_tables_that_there_were(
    staged: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("qoop.query.duckdb_plans._REMEMBERED", KEPT)
    monkeypatch.setattr("qoop.query.tables._TEXTS", KEPT)
    right, faults, answered = right_answers(), list[object](), dict.fromkeys(TEXTS, 0)
    with qoop.connect(slots=2, memory="1GB", staged=staged) as session:
        monkeypatch.setattr(session.planning._plans._store, "_most", KEPT)
        for name in "tu":
            session.register(name, SHAPES[0])
        end = time.monotonic() + SECONDS

        def work(one: Callable[[random.Random], None], seed: int) -> None:
            draw = random.Random(seed)
            while time.monotonic() < end or min(answered.values()) < 2:
                try:
                    one(draw)
                except Exception as error:
                    faults.append(error)
                    return

        def change(draw: random.Random) -> None:
            session.register(draw.choice("tu"), draw.choice(SHAPES))
            time.sleep(draw.random() / 100)

        def ask(draw: random.Random) -> None:
            text = draw.choice(TEXTS)
            result = session.sql(f"{text} -- {draw.randrange(KEPT)}")
            if answer(result.columns, result.fetchall()) not in right[text]:
                faults.append((text, result.columns, result.fetchall()))
            answered[text] += 1

        threads = [threading.Thread(target=work, args=(ask, seed)) for seed in range(ASKING)]
        threads += [threading.Thread(target=work, args=(change, seed)) for seed in range(CHANGING)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert faults == [] and not caplog.records
    assert min(answered.values()) >= 2
