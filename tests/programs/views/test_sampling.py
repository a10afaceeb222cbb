"""Views that permit an error: estimates of new files from some of their row groups, and exact rows afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from waits import until

import qoop
from qoop.catalog.errors import ConfigError, QueryError
from qoop.programs.approximate.estimators.interim import Interim, Sizes
from qoop.programs.approximate.estimators.moments import Moments
from qoop.programs.parts import Part
from qoop.programs.views import owner
from qoop.programs.views.edition import Definition
from qoop.programs.views.freshness import Allotted
from qoop.programs.views.incremental import Incremental
from qoop.programs.views.sampling import estimated
from qoop.programs.views.views import ViewStatus
from qoop.query.statements.materialized import ViewOptions

QUERY = """SELECT k, sum(v) AS s, count(*) AS c, avg(p) AS a, sum(v) / sum(w) AS r, 2 * sum(p) - sum(w) AS d
           FROM sales WHERE v > 5 GROUP BY k"""
GROUP = 50  # rows of a row group
_SURELY = 2.0  # intervals hold with 95 %, those of twice the width nearly always; which rows are read differs by run


def rows(seed: int, groups: int) -> pa.Table:
    """Values that are alike within a row group."""
    draw, count = np.random.default_rng(seed), groups * GROUP
    level = np.repeat(draw.uniform(1.0, 2.0, groups), GROUP)
    return pa.table({
        "k": np.arange(count) % 3, "v": 20 * level * draw.random(count) + 3,
        "w": draw.integers(1, 40, count), "p": draw.random(count) * 100,
    })  # fmt: skip


def put(folder: Path, name: str, seed: int, groups: int) -> None:
    draft = folder.parent / "draft"
    pq.write_table(rows(seed, groups), draft, row_group_size=GROUP)
    os.replace(draft, folder / f"{name}.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "sales"
    place.mkdir()
    put(place, "first", 1, 40)
    return place


@pytest.fixture
def session(folder: Path) -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="500MB") as opened:
        opened.register("sales", str(folder))
        yield opened


def create(session: qoop.Session, query: str = QUERY, options: str = "max_error = '20 %'") -> None:
    session.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {query}")


def sampled(session: qoop.Session, one_in: int = 2) -> ViewStatus:
    session.materialized.refresh_view("v", one_in=one_in)
    [status] = session.materialized_views()
    return status


def errors(session: qoop.Session, folder: Path, query: str = QUERY) -> list[float]:
    """The relative differences of all figures from DuckDB's."""
    session_rows = session.sql("FROM v ORDER BY ALL").fetchall()
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW sales AS FROM '{folder}/*.parquet'")
        theirs = connection.execute(f"FROM ({query}) ORDER BY ALL").fetchall()
    assert len(session_rows) == len(theirs) > 0
    pairs = [pair for mine, exact in zip(session_rows, theirs, strict=True) for pair in zip(mine, exact, strict=True)]
    return [abs(mine - exact) / max(abs(exact), 1e-9) for mine, exact in pairs]


def test_an_edition_is_estimated_within_its_error_and_then_exact(session: qoop.Session, folder: Path) -> None:
    create(session)
    put(folder, "second", 2, 160)
    status = sampled(session)
    assert status.sampled and 0 < status.sampling_error <= status.max_error == 0.2
    assert 0.3 * 160 * GROUP < status.rows_read < 0.7 * 160 * GROUP
    assert 1e-6 < max(errors(session, folder)) <= _SURELY * status.sampling_error
    shown = session.sql("SHOW MATERIALIZED VIEWS")
    columns = dict(zip(shown.columns, shown.fetchall()[0], strict=True))
    assert (columns["max_error"], columns["sampled"]) == (0.2, True)
    session.sql("REFRESH MATERIALIZED VIEW v")
    [status] = session.materialized_views()
    assert not status.sampled and status.sampling_error == 0.0
    assert max(errors(session, folder)) < 1e-9


def test_samples_of_several_refreshes_add_up(session: qoop.Session, folder: Path) -> None:
    create(session)
    put(folder, "second", 2, 160)
    first = sampled(session)
    put(folder, "third", 3, 160)
    second = sampled(session)
    assert first.sampled and second.sampled and second.rows_read < 0.7 * 160 * GROUP
    assert max(errors(session, folder)) <= _SURELY * second.sampling_error
    put(folder, "second", 4, 160)
    third = sampled(session)
    assert third.sampled and max(errors(session, folder)) <= _SURELY * third.sampling_error


@pytest.mark.parametrize(
    ("groups", "query", "permitted"),
    [
        (16, QUERY, "20 %"),
        (160, QUERY, "0.0001"),
        (160, "SELECT k * 1000 + v::INTEGER AS k, count(*) AS c FROM sales GROUP BY 1", "20 %"),
    ],
    ids=["few row groups", "a wide interval", "small groups"],
)
def test_what_has_no_narrow_interval_is_exact(
    groups: int, query: str, permitted: str, session: qoop.Session, folder: Path
) -> None:
    create(session, query, f"max_error = '{permitted}'")
    put(folder, "second", 2, groups)
    assert not sampled(session).sampled
    assert max(errors(session, folder, query)) < 1e-9


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("SELECT k, min(v) AS low FROM sales GROUP BY k", "low cannot be estimated"),
        ("SELECT k, count(DISTINCT v) AS d FROM sales GROUP BY k", "d cannot be estimated"),
        ("SELECT k, sum(v) AS s FROM sales GROUP BY k HAVING sum(v) > 9", "HAVING or LIMIT"),
        ("SELECT k, sum(v) AS s FROM sales GROUP BY k ORDER BY k LIMIT 1", "HAVING or LIMIT"),
        ("SELECT k, sum(v) * sum(v) AS s FROM sales GROUP BY k", "s cannot be estimated"),
        ("SELECT DISTINCT k FROM sales", "around its sums"),
        ("SELECT k, median(v) AS m FROM sales GROUP BY k", "computed from all rows"),
        ("SELECT max(s) AS m FROM (SELECT k, sum(v) AS s FROM sales GROUP BY k)", "around its sums"),
    ],
)
def test_create_refuses_an_error_where_no_interval_holds(query: str, part: str, session: qoop.Session) -> None:
    with pytest.raises(QueryError, match=f"view v cannot have max_error: .*{part}"):
        create(session, query)
    assert session.materialized_views() == []
    create(session, query, "refresh_mode = 'auto'")


def test_options_out_of_range_and_exact_views_over_estimates_are_refused(session: qoop.Session) -> None:
    for text in ("'5'", "'-1 %'", "'much'", "1"):
        with pytest.raises(ConfigError, match="max_error is a part from 0 to less than 1"):
            create(session, QUERY, f"max_error = {text}")
    create(session, QUERY, "max_error = 0.05")
    with pytest.raises(QueryError, match="w would be exact over v, which permits errors"):
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(s) AS s FROM v")
    session.sql("ALTER MATERIALIZED VIEW v SET (max_error = 0)")
    session.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(s) AS s FROM v")
    with pytest.raises(QueryError, match="w reads it"):
        session.sql("ALTER MATERIALIZED VIEW v SET (max_error = '5 %')")


def test_an_estimated_edition_is_one_in_another_session(folder: Path, tmp_path: Path) -> None:
    def opened() -> qoop.Session:
        made = qoop.connect(slots=1, memory="500MB", tables=tmp_path / "tables")
        made.register("sales", str(folder))
        return made

    with opened() as first:
        create(first)
        put(folder, "second", 2, 160)
        before = sampled(first)
    with opened() as second:
        [after] = second.materialized_views()
        assert after.sampled and (after.sampling_error, after.max_error) == (before.sampling_error, 0.2)
        second.sql("REFRESH MATERIALIZED VIEW v")
        assert max(errors(second, folder)) < 1e-9


def test_the_thread_samples_as_its_share_says_and_makes_it_exact_later(
    session: qoop.Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = [Allotted(one_in=2)]
    monkeypatch.setattr(owner, "shares", lambda loads, *_: dict.fromkeys(loads, share[0]))
    monkeypatch.setattr(owner, "_SHARE_SECONDS", 0.0)
    create(session, QUERY, "target_lag = '0.2 s', max_error = '20 %'")
    status = lambda: session.materialized_views()[0]  # noqa: E731
    programs = session.materialized._owner._programs
    until(lambda: "v" in programs and programs["v"].state.share == share[0])
    put(folder, "second", 2, 160)
    until(lambda: status().sampled)
    assert max(errors(session, folder)) <= _SURELY * status().sampling_error
    share[0] = Allotted()
    until(lambda: not status().sampled)
    assert max(errors(session, folder)) < 1e-9


def number(cell: float | bytes) -> float:
    """The value of a measure; a HUGEINT is 16 bytes."""
    return float(int.from_bytes(cell, "little") if isinstance(cell, bytes) else cell)


def test_the_errors_of_editions_hold(session: qoop.Session, folder: Path) -> None:
    """Of many populations of row groups, estimates are within the error of their edition as often as is said."""
    refreshing = session.materialized._refreshing(Definition("v", QUERY, ViewOptions()))
    way, planning = refreshing.way(), refreshing._planning
    assert isinstance(way, Incremental) and planning is not None
    growth, types = way.delta.growth, way._merging.types
    held, widths = [], []
    for seed in range(40):
        made, chosen = rows(seed, 160), sorted(Random(seed).sample(range(160), 40))
        with duckdb.connect() as connection:
            piece = f"(row_number() OVER () - 1)::INTEGER // {GROUP}"
            connection.register("data", made)
            connection.execute(f"CREATE TABLE all_pieces AS SELECT *, {piece} AS qoop_piece FROM data")
            connection.execute(
                f"CREATE OR REPLACE VIEW qoop_pieces AS FROM all_pieces WHERE qoop_piece IN {tuple(chosen)}"
            )
            text = growth.round_sql.replace("qoop_piece_rows", str(GROUP))
            columns = tuple((row[0], row[1]) for row in connection.execute(f"DESCRIBE {text}").fetchall())
            part = Part(connection.sql(text).to_arrow_table(), columns)
            connection.execute("CREATE OR REPLACE VIEW qoop_pieces AS FROM all_pieces")
            exact = connection.sql(growth.rest_sql).to_arrow_table()
        interim = Interim(40, 160, 0.05, Sizes(160.0 * GROUP, Moments.of(np.full(40, float(GROUP)))))
        found = estimated(growth, interim, [part], exact, types, planning.settings)
        if found is None:
            continue
        ours, theirs = ({row["k0"]: row for row in one.to_pylist()} for one in (found.rows, exact))
        off = []
        for k, true in theirs.items():
            whole = {name: float(true[name]) + number(ours[k][name]) for name in true}
            for figure in growth.figures:
                y, x = f"t{figure.y}", f"t{figure.x}"
                value = whole[y] if figure.x is None else whole[y] / whole[x]
                exactly = 2 * float(true[y]) if figure.x is None else float(true[y]) / float(true[x])
                off.append(abs(value - exactly) / abs(value))
        held.append(max(off) <= found.error)
        widths.append(max(off) / found.error)
    refreshing.close()
    assert len(held) > 25 and sum(held) >= 0.95 * len(held)
    assert max(widths) > 0.3, "intervals are not so wide that any estimate would hold"
