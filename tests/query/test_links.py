"""Tables whose files are links to files elsewhere: tasks may open what the links lead to."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import qoop

QUERY = "SELECT count(*), sum(a.i) FROM t AS a JOIN t AS b USING (i)"


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A folder with nothing but links, one of them to a link."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    with duckdb.connect(str(there / "d.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT i FROM range(100) AS r(i)")
        made.execute(f"COPY t TO '{there}/x.parquet'; COPY t TO '{there}/x.csv'")
    (there / "link.parquet").symlink_to("x.parquet")
    (here / "a.parquet").symlink_to("../there/link.parquet")
    (here / "a.csv").symlink_to(there / "x.csv")
    (here / "d.duckdb").symlink_to(there / "d.duckdb")
    return here


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("name", ["a.parquet", "*.parquet", "a.csv", "d.duckdb"])
def test_staged_plans_read_what_links_lead_to(linked: Path, name: str, locked: bool) -> None:
    with qoop.connect(slots=2, staged=True, locked=locked) as session:
        if name == "d.duckdb":
            session.register_database(linked / name)
        else:
            session.register("t", linked / name)
        assert session.sql(QUERY).fetchall() == [(100, 4950)]
