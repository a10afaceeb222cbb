"""Slots and memory that come and go while queries run: the answers stay DuckDB's, and nothing is left behind."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.errors import ConfigError, NoCapacity, SessionClosed

FOREVER = "SELECT sum(a.i * b.i % 7) AS s FROM big a, big b WHERE a.i + b.i > 5"
COUNT = "SELECT i % 3 AS d, count(*) AS n FROM big GROUP BY ALL ORDER BY d"


def connect(**options: float) -> qoop.Session:
    session = qoop.connect(slots=2, memory="1GB", **options)  # type: ignore[arg-type]
    session.register("big", pa.table({"i": np.arange(300_000)}))
    return session


def test_a_session_is_resized_while_a_query_runs() -> None:
    with connect() as session:
        before = session.sql(COUNT).fetchall()
        for_ever = session.submit(FOREVER)
        session.resize(slots=0)
        assert session.available.cpu == 0
        waiting = session.submit(COUNT)
        assert not waiting.wait(0.1)
        session.resize(slots=1, memory="500MB")
        assert session.available.cpu == 1
        for_ever.cancel()
        assert waiting.result(60).fetchall() == before == [(d, 100_000) for d in range(3)]


def test_without_slots_a_query_fails_after_the_time_it_may_wait() -> None:
    with connect(wait_for_capacity=0.2) as session:
        job = session.submit(FOREVER)
        began = time.monotonic()
        session.resize(slots=0)
        with pytest.raises(NoCapacity, match=r"no slot for 0\.2 seconds"):
            job.result(60)
        assert time.monotonic() - began >= 0.19
        session.resize(slots=2)
        assert len(session.sql(COUNT).fetchall()) == 3


def test_sizes_that_cannot_be_are_refused() -> None:
    session = connect()
    for slots, memory in ((-1, None), (1.5, None), (None, "1MB"), (None, "much")):
        with pytest.raises(ConfigError):
            session.resize(slots, memory)  # type: ignore[arg-type]
    assert session.available.cpu == 2
    session.close()
    with pytest.raises(SessionClosed):
        session.resize(slots=1)
