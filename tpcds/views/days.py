"""Sales by the day on which they arrive: most on the day of sale, some late; and days that are replaced or removed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import duckdb

from qoop.tpcds.views.shapes import CHANNELS

CHANGED = 50
"""One day in this number is replaced or removed later."""

_LATE = "hash(rowid) % 100 = 0, hash(rowid, 1) % 30, 0"


def split(data: Path, folder: Path) -> list[Path]:
    """The sales of a data set as a file for each day, in folders by table; returns the days, in order."""
    for table, prefix in CHANNELS.items():
        if (folder / table).is_dir():
            continue
        source = data / table if (data / table).is_dir() else data / f"{table}.parquet"
        files = f"{source}/**/*.parquet" if source.is_dir() else str(source)
        draft = folder / f".{table}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1; SET partitioned_write_max_open_files = 32")
            connection.execute(f"CREATE TABLE sales AS FROM read_parquet('{files}')")
            sold = f"{prefix}_sold_date_sk"
            query = f"SELECT *, {sold} + IF({_LATE}) AS day FROM sales WHERE {sold} IS NOT NULL ORDER BY day"
            connection.execute(f"COPY ({query}) TO '{draft}' (FORMAT parquet, PARTITION_BY (day))")
        os.replace(draft, folder / table)
    return sorted((folder / "store_sales").iterdir())


class Landing:
    """Days that land in the folders of tables, one after the other; after the last one they land again, under other
    names. live: the folders. there: the part of the days that is in them at the start, at least one. changed: one day
    in this number is replaced or removed later."""

    def __init__(self, staged: Path, live: Path, seed: int, there: float = 0.8, changed: int = CHANGED) -> None:
        self._staged, self._live, self._draw, self._changed = staged, live, Random(seed), changed
        days = {one.name for table in CHANNELS for one in (staged / table).iterdir()}
        self._days = sorted(days)
        self._next = max(1, int(len(self._days) * there))
        for table in CHANNELS:
            (live / table).mkdir(parents=True)
            for day in self._days[: self._next]:
                self._put(table, day, shutil.copyfile)

    @property
    def left(self) -> int:
        """Days that have not landed."""
        return max(0, len(self._days) - self._next)

    def land(self, changes: bool = True) -> set[str]:
        """Another day. changes: now and then an earlier day is replaced, or removed; returns the tables of these."""
        others = set[str]()
        again, place = divmod(self._next, len(self._days))
        day = self._days[place]
        for table in CHANNELS:
            self._put(table, day, shutil.copyfile, f"{_plain(day)}-again-{again}" if again else "")
            if changes and self._draw.randrange(self._changed) == 0:
                self._change(table)
                others.add(table)
        self._next += 1
        return others

    def _change(self, table: str) -> None:
        path = self._draw.choice(sorted((self._live / table).iterdir()))
        if self._draw.random() < 0.5:
            path.unlink()
        else:
            self._put(table, self._draw.choice(self._days[: self._next]), shutil.copyfile, path.stem)

    def _put(self, table: str, day: str, copy: Callable[[Path, Path], object], name: str = "") -> None:
        for number, source in enumerate(sorted((self._staged / table / day).glob("*.parquet"))):
            draft = self._live / f"draft-{table}"
            copy(source, draft)
            os.replace(draft, self._live / table / f"{name or f'{_plain(day)}-{number}'}.parquet")


def _plain(day: str) -> str:
    """The name of a folder of the split as part of a file name, where ``day=1`` would mean a column."""
    return day.partition("=")[2]
