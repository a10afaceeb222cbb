"""Materialized views in a folder of tables, whose processes are killed while files come, change and go.

Two processes refresh the views of one folder. Both are killed with SIGKILL at a random moment, and others take their
place. After each pair of kills the rows of every view are read as they lie there. They must be DuckDB's answer over
exactly the files that the edition names: each version of each file is copied to an archive under its identity before
it counts.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import duckdb

import qoop
from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import CatalogError, QoopError
from qoop.catalog.sources.created import manifest_of
from qoop.catalog.user_key import user_key
from qoop.programs.views import edition as editions
from qoop.programs.views.edition import Base, Edition
from qoop.query.statements.created.folder import noted

DIM = "SELECT i AS k, 'n' || i % 4 AS name FROM range(6) t(i)"
VIEWS = {
    "groups": "SELECT k, sum(p) AS s, count(*) AS c, min(v) AS low, count(DISTINCT v % 5) AS d FROM sales GROUP BY k",
    "joined": "SELECT name, sum(p) AS s, avg(v) AS a FROM sales JOIN dim USING (k) WHERE v % 3 > 0 GROUP BY name",
    "net": """WITH sold AS (SELECT k, sum(p) AS s FROM sales GROUP BY k),
                   back AS (SELECT k, sum(p) AS s FROM returned GROUP BY k)
              SELECT k, sold.s - coalesce(back.s, 0) AS net FROM sold LEFT JOIN back USING (k)""",
    "shown": "SELECT DISTINCT k, v % 7 AS m FROM sales",
    "whole": "SELECT k, median(v) AS m FROM sales GROUP BY k",
}
TABLES = ("sales", "returned")


@dataclass
class Report:
    """The counts of a run. wrong: descriptions of faults."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report."""
        counts = ", ".join(f"{number:,} {name}" for name, number in sorted(self.counts.items()))
        return [counts, f"{len(self.wrong)} wrong", *self.wrong[:10]]

    def check(self) -> None:
        """Raise AssertionError for anything wrong, and for a run that compared nothing."""
        assert not self.wrong, "\n".join(self.wrong[:10])
        assert self.counts["kills"] and self.counts["new editions"], self.counts


class Files:
    """The files of the tables, and an archive of all their versions by identity."""

    def __init__(self, place: Path, draw: Random) -> None:
        self.place, self._draw, self._number = place, draw, 0
        self._archive: dict[tuple[str, str], Path] = {}
        (place / "archive").mkdir()
        for name in TABLES:
            (place / name).mkdir()
            for _ in range(3):
                self._put(name, f"f{self._number}")

    def change(self) -> None:
        """A file comes, is replaced, renamed or removed."""
        name = self._draw.choice(TABLES)
        there = sorted((self.place / name).iterdir())
        kind = self._draw.choice(["add", "add", "replace", "remove", "rename"] if len(there) > 2 else ["add"])
        if kind in ("add", "replace"):
            self._put(name, f"f{self._number}" if kind == "add" else self._draw.choice(there).stem)
        elif kind == "remove":
            self._draw.choice(there).unlink()
        else:
            self._number += 1
            moved = self._draw.choice(there).rename(self.place / name / f"moved{self._number}.parquet")
            self._note(moved, moved)

    def archived(self, base: Base) -> list[Path]:
        """The archived versions of the files of an edition. Raises KeyError for a file that never was."""
        return [self._archive[path, identity] for path, identity in base.files.items()]

    def _put(self, name: str, stem: str) -> None:
        self._number += 1
        draft, target = self.place / "draft", self.place / name / f"{stem}.parquet"
        first, rows = self._draw.randrange(5000), self._draw.randrange(1, 200)
        duckdb.sql(f"""COPY (SELECT CASE WHEN i % 11 > 0 THEN i % 7 END AS k, i AS v, (i * 1.5)::DECIMAL(10, 2) AS p
                       FROM range({first}, {first + rows}) t(i)) TO '{draft}' (FORMAT parquet)""")
        os.replace(draft, target)
        self._note(target, target)

    def _note(self, path: Path, content: Path) -> None:
        copy = self.place / "archive" / f"{len(self._archive)}.parquet"
        shutil.copyfile(content, copy)
        catalog = Catalog()
        try:
            [(known, identity)] = Base.of(catalog.register("one", str(path))).files.items()
        finally:
            catalog.close()
        self._archive[known, identity] = copy


@dataclass(frozen=True)
class Views:
    """A run. place: an empty folder."""

    place: Path
    rounds: int
    seed: int = 1

    @property
    def tables(self) -> Path:
        """The folder of tables."""
        return self.place / "tables"


def perform(run: Views, say: Callable[[str], None] = lambda _: None) -> Report:
    """The run."""
    draw, report, last = Random(run.seed), Report(), dict[str, float]()
    files = Files(run.place, draw)
    with _opened(run.place) as session:
        session.sql(f"CREATE TABLE dim AS {DIM}")
        for name, query in VIEWS.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["soak_views"])
    workers = [_begun(context, run.place) for _ in range(2)]
    try:
        for number in range(run.rounds):
            for _ in range(draw.randrange(1, 4)):
                files.change()
                time.sleep(draw.random() * 0.1)
            _wait_for_editions(run.tables, 2)
            time.sleep(draw.random() * 0.5)
            for worker in workers:
                worker.kill()
                worker.join()
                report.counts["kills"] += 1
            _compare(run, files, report, last)
            workers = [_begun(context, run.place) for _ in range(2)]
            if number % 10 == 9:
                say("\n".join(report.lines()))
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    _finish(run, files, report, last)
    return report


def _wait_for_editions(tables: Path, number: int) -> None:
    """Wait until the workers have made some editions; not for ever, as they may have none to make."""
    turns, seen = range(250), set[str]()
    for _ in turns:
        if len(seen) >= len(VIEWS) + number:
            return
        seen |= {f"{name} {noted(tables, name)}" for name in VIEWS}
        time.sleep(0.02)


def _begun(
    context: multiprocessing.context.ForkServerContext, place: Path
) -> multiprocessing.context.ForkServerProcess:
    worker = context.Process(target=_refresh, args=(place,), daemon=True)
    worker.start()
    return worker


def _opened(place: Path) -> qoop.Session:
    session = qoop.connect(slots=1, memory="500MB", tables=place / "tables")
    for name in TABLES:
        session.register(name, str(place / name))
    return session


def _refresh(place: Path) -> None:
    """Refresh all views until the process is killed; another process may be at one of them."""
    draw = Random(os.getpid())
    with _opened(place) as session:
        while True:
            name = draw.choice(list(VIEWS))
            try:
                session.sql(f"REFRESH MATERIALIZED VIEW {name}{' FULL' if draw.random() < 0.1 else ''}")
            except QoopError:  # a file is gone while it is read, or the other process is at the view
                time.sleep(0.01)


def _compare(run: Views, files: Files, report: Report, last: dict[str, float]) -> None:
    """Compare the rows of each view with DuckDB's over the files that its edition names."""
    for name, query in VIEWS.items():
        found = editions.read(noted(run.tables, name).encode(), name, user_key())
        if found is None:
            report.wrong.append(f"{name} has no edition")
            continue
        report.counts["editions compared"] += 1
        report.counts["new editions"] += last.get(name) != found[1].at
        if found[1].at < last.get(name, 0.0):
            report.wrong.append(f"{name} has an older edition than before")
        last[name] = found[1].at
        try:
            right = _answer(query, files, found[1])
        except KeyError as error:
            report.wrong.append(f"{name} names a file that never was: {error}")
            continue
        pieces = [str(run.tables / name / piece) for piece in manifest_of(run.tables / name).pieces]
        rows = duckdb.read_parquet(pieces).fetchall()
        if _rounded(rows) != right:
            report.wrong.append(f"{name} is not DuckDB's answer over its files: {rows} for {right}")


def _answer(query: str, files: Files, made: Edition) -> Counter[str]:
    """DuckDB's rows over the files of an edition."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE dim AS {DIM}")
        for name in TABLES:
            if name in made.bases:
                paths = ", ".join(f"'{path}'" for path in files.archived(made.bases[name]))
                connection.execute(f"CREATE VIEW {name} AS FROM read_parquet([{paths}])")
        return _rounded(connection.execute(query).fetchall())


def _rounded(rows: list[tuple[object, ...]]) -> Counter[str]:
    return Counter(repr(tuple(f"{one:.9g}" if isinstance(one, float) else one for one in row)) for row in rows)


def _finish(run: Views, files: Files, report: Report, last: dict[str, float]) -> None:
    """After the last kill each view can be refreshed, and has the present files."""
    with _opened(run.place) as session:
        there = {view.name for view in session.materialized_views()}
        report.wrong += [f"{name} is lost" for name in VIEWS if name not in there]
        for name in VIEWS:
            try:
                session.sql(f"REFRESH MATERIALIZED VIEW {name}")
            except CatalogError as error:
                report.wrong.append(f"{name} cannot be refreshed: {error}")
        numbers: Mapping[str, int] = {name: len(list((run.place / name).iterdir())) for name in TABLES}
        for view in session.materialized_views():
            expected = sum(number for name, number in numbers.items() if name in VIEWS[view.name])
            files_of_dim = 1 if "dim" in VIEWS[view.name] else 0
            if view.files != expected + files_of_dim:
                report.wrong.append(f"{view.name} is of {view.files} files, not of {expected + files_of_dim}")
    _compare(run, files, report, last)
