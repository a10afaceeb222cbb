"""A short run of jobs that go on after a kill of the server. `make soak-restart` has twenty long ones."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed")
from soak_restart import FILES, PROTOCOLS, Job, Restart, perform, user_of, users

PARTS = 6
"""Parts of a query, of a task each."""


def text(number: int) -> str:
    """A query of many tasks. No output of it serves a query of another number."""
    part = (
        "SELECT {m} AS m, g, count(*) OVER (ORDER BY g) AS place, n, s FROM (SELECT a.k % {m} AS g, count(*) AS n, "
        "sum(a.v + b.v)::HUGEINT AS s FROM big a JOIN big b USING (k) WHERE a.k <> {number} GROUP BY ALL)"
    )
    return " UNION ALL ".join(part.format(m=m, number=number) for m in range(3, 3 + PARTS))


@pytest.mark.timeout(300)
def test_jobs_of_three_protocols_go_on_after_the_server_was_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    names = [f"user{number} {number}" for number in range(len(PROTOCOLS))]
    with duckdb.connect() as connection:
        rows = "SELECT i % 10000 AS k, i AS v FROM range(300000) t(i)"
        connection.execute(f"COPY ({rows}) TO '{data}/big.parquet' (ROW_GROUP_SIZE 20000)")
        connection.execute(f"CREATE VIEW big AS FROM '{data}/big.parquet'")
        expected = {name: connection.sql(text(number)).to_arrow_table() for number, name in enumerate(names)}
    (tmp_path / "my.toml").write_text("slots = 2\nstaged = true\n")
    tokens = users(tmp_path, [user_of(name) for name in names])
    jobs = [
        Job(name, protocol, tokens[user_of(name)], f"SELECT '{name}' AS client, q.* FROM ({text(number)}) AS q")
        for number, (name, protocol) in enumerate(zip(names, PROTOCOLS, strict=True))
    ]
    words = ["data", "--config", "my.toml", "--users", "users.toml", *FILES]
    half = PARTS * len(jobs) // 2
    report = perform(Restart(tmp_path, words, jobs, lambda _, outputs: len(outputs) >= half))
    report.check(expected, most_again=4 / half)  # of the two slots, with what waits to be written
    assert len(report.after) >= len(jobs)
