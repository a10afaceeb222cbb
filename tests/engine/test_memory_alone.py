"""The memory of DuckDB's own plan, which keeps no outputs on the way."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.sizes import parse_bytes
from qoop.engine.backends.local import LocalBackend

LIMIT = "SELECT current_setting('memory_limit') AS had, count(*) AS n FROM t"


def limit(session: qoop.Session) -> float:
    """Bytes of memory that DuckDB has for a query by its own plan."""
    [(had, rows)] = session.sql(LIMIT).fetchall()
    assert rows == 3
    return parse_bytes(str(had).replace(" ", "").replace("GiB", "Gi").replace("MiB", "Mi"))


def test_it_has_what_outputs_leave_free() -> None:
    with qoop.connect(slots=2, memory="1GB", staged=False) as session:
        session.register("t", pa.table({"a": [1, 2, 3]}))
        assert limit(session) == pytest.approx(900e6, rel=0.01)


def test_the_outputs_that_are_held_are_left_out() -> None:
    with qoop.connect(slots=2, memory="1GB", staged=False, reuse=True) as session:
        session.register("t", pa.table({"a": [1, 2, 3]}))
        session.register("many", pa.table({"i": np.arange(2_000_000)}))
        kept = session.submit("SELECT i, i * 2 AS j FROM many").result()
        assert kept.arrow().num_rows == 2_000_000
        assert limit(session) == pytest.approx(900e6 - 32e6, rel=0.01)


@pytest.mark.parametrize(("memory", "most"), [("1GB", 500e6), ("4GB", 2_808e6)])
def test_a_server_keeps_room_for_short_tasks(memory: str, most: float) -> None:
    with qoop.connect(slots=2, memory=memory, staged=False) as session:
        session.register("t", pa.table({"a": [1, 2, 3]}))
        assert isinstance(session.backend, LocalBackend)
        session.backend.let_short_go_first()
        assert 0.95 * most <= limit(session) <= 1.01 * most
