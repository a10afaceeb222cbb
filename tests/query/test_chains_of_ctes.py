"""Queries of a WITH that each read the one before twice are planned in about as many steps as there are queries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

import pyarrow as pa
import pytest

import qoop
from qoop.session.session import Session

SHORT, LONG = 5, 10
MOST = 20
"""The steps for the longer chain, at most: where they doubled with each query, it would be 32."""

READ_TWICE = {
    "joins": "SELECT x.a, x.n + y.n AS n FROM {0} x JOIN {0} y ON x.a = y.a",
    "left joins": "SELECT x.a, y.n FROM {0} x LEFT JOIN {0} y ON x.a = y.a",
    "IN": "SELECT * FROM {0} WHERE a IN (SELECT a FROM {0})",
    "EXISTS": "SELECT * FROM {0} x WHERE EXISTS (FROM {0} y WHERE y.a = x.a AND y.n > x.n - 1)",
    "unions": "SELECT * FROM {0} UNION ALL SELECT * FROM {0}",
    "computed columns": "SELECT a, CASE WHEN n > 3 THEN n - 1 ELSE n * 2 END AS n FROM {0}",
    "filters": "SELECT a, CASE WHEN n > 3 THEN n - 1 ELSE n * 2 END AS n FROM {0} WHERE n BETWEEN 1 AND 1000",
    "scalar queries": "SELECT a, n + (SELECT max(n) FROM {0}) AS n FROM {0}",
}


def chain(body: str, length: int) -> str:
    bodies = ["SELECT a, count(*) AS n FROM t GROUP BY a", *(body.format(f"c{i}") for i in range(length))]
    return f"WITH {', '.join(f'c{i} AS ({one})' for i, one in enumerate(bodies))} SELECT sum(n) FROM c{length}"


class TooMany(Exception):
    """A text takes more steps than it may."""


def steps(session: Session, text: str, most: int = sys.maxsize) -> int:
    """The calls of functions until a text is planned. Raises TooMany."""
    count = 0

    def counted(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"
        if count > most:
            raise TooMany(f"more than {most} calls")

    sys.setprofile(counted)
    try:
        session.explain(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with qoop.connect(slots=2, memory="1GB", staged=True) as opened:
        opened.register("t", pa.table({"a": [*range(100)] * 3}))
        opened.explain(chain(READ_TWICE["joins"], 1))  # loads what planning needs
        yield opened


@pytest.mark.parametrize("body", READ_TWICE.values(), ids=READ_TWICE)
def test_a_chain_of_twice_the_length_is_planned_in_a_few_times_the_steps(session: Session, body: str) -> None:
    steps(session, chain(body, LONG), MOST * steps(session, chain(body, SHORT)))
