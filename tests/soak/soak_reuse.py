"""Statements that repeat while all that they read changes, in a session that reuses outputs and in DuckDB."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import qoop
from qoop.engine.notices import Continued
from qoop.query.job import Job

ROWS = 500
FILE_TEXTS = (
    "SELECT k, count(*) AS n, sum(v) AS s FROM f GROUP BY k ORDER BY k",
    "SELECT max(v), min(v) FROM f WHERE k = 3",
    "SELECT count(*) FROM '{file}'",
    "SELECT k, count(*) AS n FROM f GROUP BY k ORDER BY k",
    "SELECT count(*) FROM (SELECT DISTINCT * FROM f) WHERE k < 3",
    "SELECT sum(x) FROM read_csv('{csv}')",
    "SELECT sum(x), count(*) FROM '{csv}'",
)
TABLE_TEXTS = (
    "SELECT r.k, sum(r.v + c.v) AS s FROM r JOIN c ON r.k = c.k GROUP BY r.k ORDER BY 1",
    "SELECT count(*), sum(v) FROM c WHERE v > 50",
    "SELECT k, v FROM r ORDER BY v, k LIMIT 5",
    "SELECT f.k, count(*) FROM f, c WHERE f.k = c.k AND c.v < 40 GROUP BY 1 ORDER BY 1",
)
NAME_TEXTS = (
    "SELECT count(*), sum(v) FROM w",
    "SELECT k, twice(v) AS t FROM r ORDER BY 1, 2 LIMIT 7",
    "SELECT sum(v) + getvariable('x') AS s FROM c",
    "SELECT sum(add_some(k)) AS s FROM r",
)
SETTING_TEXTS = (
    "SELECT TIMESTAMPTZ '2024-03-01 00:00:00+00'::VARCHAR AS t, count(*) FROM r",
    "SELECT CASE WHEN k > 2 THEN k END AS o FROM r ORDER BY o LIMIT 3",
)
TEXTS = FILE_TEXTS + TABLE_TEXTS + NAME_TEXTS + SETTING_TEXTS
ZONES = ("UTC", "Asia/Tokyo", "America/New_York")


@dataclass
class Report:
    """The statements by what became of them, and the answers that differ from DuckDB's."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raise AssertionError if an answer was wrong, or hardly any was reused."""
        assert not self.wrong, "\n".join(self.wrong[:5])
        assert self.counts["answers"] > self.counts["answers there"] > 0.1 * self.counts["answers"], self.counts

    def lines(self) -> Iterator[str]:
        """The counts, and the first wrong answers."""
        yield ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))
        yield from self.wrong[:20]


class Pair:
    """A session and a connection of DuckDB with the same tables. Every change is made on both."""

    def __init__(self, folder: Path, session: qoop.Session, theirs: duckdb.DuckDBPyConnection, seed: int) -> None:
        self.chance = random.Random(seed)
        self.session, self.theirs, self.report = session, theirs, Report()
        self._folder, self._files, self._numbers = folder / "f", 0, 0
        self._folder.mkdir()
        self._csv = folder / "x.csv"
        self._append()
        self.write_csv()
        session.register("f", str(self._folder / "*.parquet"))
        theirs.execute(f"CREATE VIEW f AS FROM read_parquet('{self._folder}/*.parquet')")
        for change in (self._register, self._create, self._define, self._define_macro, self._assign, self._function):
            change()

    def step(self) -> None:
        """One statement: a change, or a query whose answers are compared."""
        if self.chance.random() < 0.2:
            name, change = self.chance.choice(self._changes())
            change()
            self.report.counts[f"changes: {name}"] += 1
            return
        text = self.chance.choice(TEXTS).format(file=f"{self._folder}/0.parquet", csv=self._csv)
        jobs: list[Job] = []
        ours = self.session.sql(text, watch=jobs.append).fetchall()
        theirs = self.theirs.execute(text).fetchall()
        self.report.counts["answers"] += 1
        self.report.counts["answers there"] += any(map(_was_there, jobs))
        if ours != theirs:
            self.report.wrong.append(f"{text}: {ours[:3]}, not {theirs[:3]}, after {self.report.counts.total()}")

    def _changes(self) -> Sequence[tuple[str, Callable[[], None]]]:
        return (
            ("append", self._append), ("replace", self._replace), ("rewrite", self._rewrite), ("csv", self.write_csv),
            ("register", self._register), ("insert", self._insert), ("update", self._update),
            ("delete", self._delete), ("create", self._create), ("view", self._define),
            ("macro", self._define_macro), ("variable", self._assign), ("zone", self._set_zone),
            ("nulls", self._set_nulls), ("function", self._function),
        )  # fmt: skip

    def _both(self, text: str) -> None:
        self.session.sql(text)
        self.theirs.execute(text)

    def _rows(self) -> pa.Table:
        draw = self.chance.randrange
        return pa.table({name: pa.array([draw(most) for _ in range(ROWS)], pa.int64()) for name, most in _COLUMNS})

    def _append(self) -> None:
        if self._files < 8:
            self._write(self._folder / f"{self._files}.parquet")
            self._files += 1
        else:
            self._replace()

    def _replace(self) -> None:
        self._write(self._folder / f"{self.chance.randrange(self._files)}.parquet")

    def _rewrite(self) -> None:
        """A file with other values in one column, or in none."""
        file = self._folder / f"{self.chance.randrange(self._files)}.parquet"
        before, other = pq.read_table(file), self._rows()
        name = self.chance.choice([*before.column_names, ""])
        self._write(file, pa.table({one: (other if one == name else before)[one] for one in before.column_names}))

    def _write(self, file: Path, rows: pa.Table | None = None) -> None:
        made = file.with_suffix(".new")
        pq.write_table(self._rows() if rows is None else rows, made)
        os.replace(made, file)

    def write_csv(self) -> None:
        """In place, with the same size: only the times of the file say that it is another."""
        self._csv.write_text("x\n" + "".join(f"{self.chance.randrange(10, 99)}\n" for _ in range(20)))

    def _register(self) -> None:
        rows = self._rows()
        self.session.register("r", rows)
        self.theirs.register("r", rows)

    def _create(self) -> None:
        self._both(f"CREATE OR REPLACE TABLE c AS SELECT i % 7 AS k, i % {self._number(90)} AS v FROM range(300) t(i)")

    def _insert(self) -> None:
        self._both(f"INSERT INTO c VALUES ({self._number(7)}, {self._number(100)})")

    def _update(self) -> None:
        self._both(f"UPDATE c SET v = v + {self._number(5)} WHERE k = {self._number(7)}")

    def _delete(self) -> None:
        self._both(f"DELETE FROM c WHERE v = {self._number(100)}")

    def _define(self) -> None:
        self._both(f"CREATE OR REPLACE VIEW w AS SELECT k, v FROM c WHERE v > {self._number(60)}")

    def _define_macro(self) -> None:
        self._both(f"CREATE OR REPLACE MACRO twice(x) AS x * {self._number(9)}")

    def _assign(self) -> None:
        self._both(f"SET VARIABLE x = {self._number(1000)}")

    def _set_zone(self) -> None:
        self._both(f"SET TimeZone = '{self.chance.choice(ZONES)}'")

    def _set_nulls(self) -> None:
        self._both(f"SET default_null_order = '{self.chance.choice(['nulls_first', 'nulls_last'])}'")

    def _function(self) -> None:
        more = self._number(50)

        def add_some(k: int) -> int:
            return k + more

        self.session.register_function("add_some", add_some, ["BIGINT"], "BIGINT", replace=True)
        if self._numbers:
            self.theirs.remove_function("add_some")
        self._numbers += 1
        self.theirs.create_function("add_some", add_some, ["BIGINT"], "BIGINT")

    def _number(self, most: int) -> int:
        return self.chance.randrange(1, most)


_COLUMNS = (("k", 7), ("v", 100))


def _was_there(job: Job) -> bool:
    return any(isinstance(record, Continued) and record.left == 0 for record in job.history())


@contextmanager
def pair(folder: Path, seed: int, staged: bool = False) -> Iterator[Pair]:
    """Both sides with their first tables."""
    with qoop.connect(slots=2, memory="500MB", staged=staged, reuse=True) as session, duckdb.connect() as theirs:
        theirs.execute("SET threads = 1")
        yield Pair(folder, session, theirs, seed)


def perform(folder: Path, statements: int, seed: int, staged: bool = False) -> Report:
    """That many statements."""
    with pair(folder, seed, staged) as both:
        for _ in range(statements):
            both.step()
        return both.report
