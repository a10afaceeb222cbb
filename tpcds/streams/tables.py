"""A copy of generated data whose tables change: rows are appended, updated, or a file is replaced."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb

from qoop.catalog.sources.files import sql_string
from qoop.tpcds.oracle import tables_of

_UPDATED = {"item": "i_manager_id", "household_demographics": "hd_dep_count", "store": "s_number_employees"}
"""The tables that updates change, and a column of each."""
_GROWING = ("store_sales", "catalog_sales", "web_sales", "store_returns", "inventory")
_PART = 1_000  # rows of a table for each row of an append
_STEP, _VALUES = 7, 97  # an update moves each value by that distance, modulo the other


class ChangingTables:
    """A folder with a folder of Parquet files for each table. The files of the generated data are shared, not changed.

    directory: of the generated data. folder: an empty one.
    """

    def __init__(self, directory: Path, folder: Path) -> None:
        self.folder = folder
        self._files = {name: [Path(file) for file in files] for name, files in tables_of(directory).items()}
        for table, files in self._files.items():
            (folder / table).mkdir()
            for number, file in enumerate(files):
                # A hard link would change the times of the file, which other sessions may have registered.
                (folder / table / f"{number}.parquet").symlink_to(file.resolve())

    def change(self, number: int, chance: random.Random) -> str:
        """Change a table; returns what was done. number: of the change."""
        kind = ("append", "update", "replace")[number % 3]
        table = chance.choice(list(_UPDATED) if kind == "update" else _GROWING)
        added = sorted((self.folder / table).glob("added*.parquet"))
        if kind == "append" or (kind == "replace" and not added):
            self._write(self.folder / table / f"added{number}.parquet", self._some_rows(table, chance))
            return f"append to {table}"
        if kind == "replace":
            self._write(added[0], self._some_rows(table, chance))
            return f"replace a file of {table}"
        file, column = self.folder / table / "0.parquet", _UPDATED[table]
        self._write(file, f"SELECT * REPLACE (({column} + {_STEP}) % {_VALUES} AS {column}) FROM {_read(file)}")
        return f"update {table}"

    def _some_rows(self, table: str, chance: random.Random) -> str:
        some = f"hash(*COLUMNS(*)) % {_PART} = {chance.randrange(_PART)}"
        return f"SELECT * FROM {_read(self._files[table][0])} WHERE {some}"

    def _write(self, file: Path, text: str) -> None:
        made = file.with_suffix(".new")
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({text}) TO {sql_string(str(made))} (FORMAT parquet)")
        made.replace(file)


def _read(file: Path) -> str:
    return f"read_parquet({sql_string(str(file))})"
