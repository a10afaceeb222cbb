"""The cost of a refresh next to the same change written by hand in DuckDB: the sums of a new file, and an upsert.

The script by hand is given the name of the file, or has to find it: then it lists the folder and stamps each file, as
a refresh does, since a file may have been replaced. It knows of no replaced, late and removed files, and of no changed
dimensions. Both have one thread, the same files, and what they need of the dimensions in memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import duckdb

from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.views.days import Landing, split
from qoop.tpcds.views.load import SETTLED, LoadOptions, cpu_seconds, rounded
from qoop.tpcds.views.shapes import DIMENSIONS

_SALES = "store_sales"

_DAYS = 10
"""Days of a median."""


@dataclass(frozen=True, slots=True)
class Written:
    """A view that a script keeps as a table. keys: expressions of the groups, by name. sums: of sum and count."""

    name: str
    keys: dict[str, str]
    sums: dict[str, str]
    rest: str

    def query(self, sales: str = _SALES) -> str:
        """The view, or the same over other sales."""
        items = ", ".join(f"{sql} AS {name}" for name, sql in (self.keys | self.sums).items())
        return f"SELECT {items} FROM {sales} {self.rest} GROUP BY ALL"

    def upsert(self, file: Path) -> str:
        """Add the sums over a file to the table."""
        added = ", ".join(f"{one} = coalesce({one} + excluded.{one}, {one}, excluded.{one})" for one in self.sums)
        delta = self.query(f"read_parquet('{file}') AS {_SALES}")
        return f"INSERT INTO {self.name} {delta} ON CONFLICT DO UPDATE SET {added}"

    def all(self, folder: Path) -> str:
        """The view over the files of a folder."""
        return self.query(f"read_parquet('{folder}/*.parquet') AS {_SALES}")

    def table(self, folder: Path) -> list[str]:
        """Make the table."""
        keys = ", ".join(self.keys)
        return [
            f"CREATE TABLE {self.name} AS {self.all(folder)}",
            f"ALTER TABLE {self.name} ADD PRIMARY KEY ({keys})",
        ]


_SUMS = {"sales": "sum(ss_ext_sales_price)", "profit": "sum(ss_net_profit)", "c": "count(*)"}
WRITTEN = (
    Written(
        "star", {"category": "i_category", "year": "d_year"}, _SUMS,
        "JOIN item ON ss_item_sk = i_item_sk JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE i_category IS NOT NULL",
    ),
    Written("plain", {"size": "ss_quantity // 20"}, _SUMS, "WHERE ss_quantity IS NOT NULL"),
    Written("items", {"item": "ss_item_sk"}, _SUMS, ""),
)  # fmt: skip
"""A star join of few groups, few groups of one table, and many."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over days, as cpu seconds after one new file. refresh: of the view. upsert: by hand. find: to find the
    file by hand. files: in the folder afterwards."""

    refresh: float
    upsert: float
    find: float
    files: int


@dataclass(frozen=True, slots=True)
class Compared:
    """first, last: over the first and the last days. full: cpu seconds of a refresh from all rows. same: the view, the
    table by hand and DuckDB's answer over the files have the same rows."""

    name: str
    first: Cost
    last: Cost
    full: float
    same: bool


class _Script:
    """The change by hand."""

    def __init__(self, folder: Path, data: Path) -> None:
        self._folder = folder
        self._connection = duckdb.connect(config={"threads": 1})
        for table in DIMENSIONS:
            self._connection.execute(f"CREATE TABLE {table} AS FROM '{data / table}.parquet'")
        for one in WRITTEN:
            for statement in one.table(folder):
                self._connection.execute(statement)
        self._known = self._now = self._stamps()

    def _stamps(self) -> dict[str, tuple[int, int, int]]:
        with os.scandir(self._folder) as entries:
            stats = {entry.path: entry.stat() for entry in entries}
        return {path: (one.st_size, one.st_mtime_ns, one.st_ino) for path, one in stats.items()}

    def find(self) -> Path:
        """The file that is new."""
        self._now = self._stamps()
        [path] = [path for path, stamp in self._now.items() if self._known.get(path) != stamp]
        return Path(path)

    def know(self) -> None:
        """The files that `find` has seen are no longer new."""
        self._known = self._now

    def add(self, one: Written, file: Path) -> None:
        """Bring its table up to date."""
        self._connection.execute(one.upsert(file))

    def rows(self, one: Written) -> list[Counter[str]]:
        """Of its table, and of the view over all files."""
        return [
            rounded(self._connection.execute(sql).fetchall()) for sql in (f"FROM {one.name}", one.all(self._folder))
        ]


def compare(options: LoadOptions, days: int) -> list[Compared]:
    """The costs of each view while days land."""
    split(options.data, options.staged)
    live = Path(tempfile.mkdtemp(prefix="qoop-days-", dir=options.staged))
    try:
        landing = Landing(options.staged, live, 1, options.there)
        with connect(slots=1, memory=options.memory) as session:
            session.register(_SALES, live / _SALES)
            for table in DIMENSIONS:
                session.register(table, options.data / f"{table}.parquet")
            for one in WRITTEN:
                session.sql(f"CREATE MATERIALIZED VIEW {one.name} AS {one.query()}")
            script = _Script(live / _SALES, options.data)
            costs = [_costs(session, script, landing, live / _SALES) for _ in range(min(days, landing.left))]
            return [_compared(session, script, one, [day[one.name] for day in costs]) for one in WRITTEN]
    finally:
        shutil.rmtree(live, ignore_errors=True)


def _costs(session: Session, script: _Script, landing: Landing, folder: Path) -> dict[str, Cost]:
    """The costs of one more day, by name of the view."""
    landing.land(changes=False)
    time.sleep(SETTLED)
    file = script.find()  # the system knows the folder from now on, as it does when it is read next
    find = cpu_seconds(script.find)
    script.know()
    files = len(os.listdir(folder))
    found = {}
    for one in WRITTEN:
        refresh = cpu_seconds(partial(session.sql, f"REFRESH MATERIALIZED VIEW {one.name}"))
        found[one.name] = Cost(refresh, cpu_seconds(partial(script.add, one, file)), find, files)
    return found


def _compared(session: Session, script: _Script, one: Written, costs: Sequence[Cost]) -> Compared:
    view = rounded(session.sql(f"FROM {one.name}").fetchall())
    same = bool(view) and [view, view] == script.rows(one)
    full = cpu_seconds(partial(session.sql, f"REFRESH MATERIALIZED VIEW {one.name} FULL"))
    return Compared(one.name, _median(costs[:_DAYS]), _median(costs[-_DAYS:]), full, same)


def _median(costs: Sequence[Cost]) -> Cost:
    refresh, upsert, find = (median(getattr(one, name) for one in costs) for name in ("refresh", "upsert", "find"))
    return Cost(refresh, upsert, find, costs[-1].files)


def line(one: Compared) -> str:
    """The costs in milliseconds, and in terms of the script's."""
    cost = one.last
    return (
        f"{one.name:>8}: {cost.refresh * 1e3:.1f} ms of cpu with {cost.files:,} files "
        f"({one.first.refresh * 1e3:.1f} with {one.first.files:,}), {cost.refresh / one.full:.0%} of a full refresh; "
        f"by hand {cost.upsert * 1e3:.1f} ms and {cost.find * 1e3:.1f} to find the file: "
        f"{cost.refresh / (cost.upsert + cost.find):.1f} times that, {cost.refresh / cost.upsert:.1f} without "
        f"finding it; {'the same rows' if one.same else 'WRONG'}"
    )
