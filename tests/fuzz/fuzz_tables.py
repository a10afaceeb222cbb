"""Random tables: all types, many NULLs, ties and duplicates, in all the ways a session can hold a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random

import duckdb
from fuzz_templates import COLOUR, EXTREMES, ODD, TYPES, UNION, kind_of

import qoop
from qoop.planner.algebra.expr import quote

PARQUET, ARROW, DATABASE = "parquet", "arrow", "database"
_UNKNOWN_TO_PARQUET = {UNION, COLOUR, "BIT", "HUGEINT", "UHUGEINT", "INTEGER[2]", "TIME WITH TIME ZONE", "INTERVAL",
                       "TIMESTAMP_S", "TIMESTAMP_NS"}  # fmt: skip
_UNKNOWN_TO_ARROW = {UNION, COLOUR, "TIMESTAMP_S"}
_NAMES = ("k", "s", "d", "v", "x", "y", "when", "Group", "K2", "total")
_SIZES = (0, 1, 7, 14, 30, 30, 60)


@dataclass(frozen=True)
class Table:
    """The rows as SQL values, and how a session holds them: as Parquet files, in Arrow or in a DuckDB file."""

    name: str
    held: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]

    def create(self) -> str:
        """The statements that make it in DuckDB."""
        columns = ", ".join(f"{quote(name)} {type_}" for name, type_ in self.columns)
        values = ",\n  ".join(f"({', '.join(row)})" for row in self.rows)
        insert = f";\nINSERT INTO {self.name} VALUES\n  {values}" if self.rows else ""
        return f"CREATE OR REPLACE TABLE {self.name} ({columns}){insert};"

    def kinds(self) -> list[tuple[str, str]]:
        return [(name, kind_of(type_)) for name, type_ in self.columns]


def random_tables(seed: str) -> tuple[Table, ...]:
    """The tables of a seed: four small ones, and one with more rows."""
    rng = Random(seed)
    small = [_table(rng, name, rng.choice(_SIZES)) for name in "abce"]
    return (*small, _table(rng, "wide", 150))


def _table(rng: Random, name: str, size: int) -> Table:
    held = rng.choice((PARQUET, PARQUET, ARROW, DATABASE, DATABASE))
    unknown = {PARQUET: _UNKNOWN_TO_PARQUET, ARROW: _UNKNOWN_TO_ARROW, DATABASE: set()}[held]
    usual = [type_ for type_ in TYPES if type_ not in unknown and type_ not in ODD]
    odd = [type_ for type_ in ODD if type_ not in unknown]
    whole = rng.choice(("INTEGER", "BIGINT", "SMALLINT", "DECIMAL(9,2)"))
    columns = [("id", rng.choice(("INTEGER", "BIGINT"))), ("k", whole), ("s", "VARCHAR")]
    for column in rng.sample(_NAMES[2:], rng.randint(1, 6)):
        columns.append((column, rng.choice(usual if rng.random() < 0.6 else odd)))
    values = [_values(rng, type_, size, unique=column == "id") for column, type_ in columns]
    return Table(name, held, tuple(columns), tuple(zip(*values, strict=True)) if size else ())


def _values(rng: Random, type_: str, size: int, unique: bool) -> list[str]:
    if unique:
        return [str(number) for number in range(size)]
    nulls = rng.choice((0.0, 0.15, 0.15, 0.4))
    known = (*TYPES[type_], *(EXTREMES.get(type_, ()) if rng.random() < 0.06 else ()))
    few = rng.sample(known, min(len(known), rng.choice((1, 3, 9))))
    return ["NULL" if rng.random() < nulls else rng.choice(few) for _ in range(size)]


class Hosts:
    """Sessions of qoop's and a DuckDB with the same tables. whole: may use DuckDB's own plan; staged: may not."""

    def __init__(self, folder: Path, tables: Sequence[Table]) -> None:
        self.folder = folder
        self.tables = tables
        self.whole = qoop.connect(slots=2, memory="500MB")
        self.staged = qoop.connect(slots=2, memory="500MB", staged=True)
        self.duckdb = _empty()
        for table in tables:
            self.duckdb.execute(table.create())
            self._hold(table)

    def renew(self) -> None:
        """Another DuckDB with the same tables: after some mistakes of its own one refuses all that is asked."""
        self.duckdb.close()
        self.duckdb = _empty()
        self.__dict__.pop("otherwise", None)
        for table in self.tables:
            self.duckdb.execute(table.create())
            if table.held == PARQUET:
                self._read_files(table)

    @cached_property
    def otherwise(self) -> Sequence[str]:
        """Schemas of the DuckDB in which the same rows lie in other orders, below views through which it knows less of
        them."""
        schemas = [f"otherwise{number}" for number in range(1, 4)]
        self.duckdb.execute("SELECT setseed(0.5)").fetchall()
        for schema in schemas:
            self.duckdb.execute(f"CREATE SCHEMA {schema}")
            for table in self.tables:
                names = [quote(name) for name, _ in table.columns]
                columns = ", ".join(f"struct_extract(struct_pack(v := {name}), 'v') AS {name}" for name in names)
                rows = f"{schema}.{table.name}_rows"
                self.duckdb.execute(f"CREATE TABLE {rows} AS FROM {table.name} ORDER BY random()")
                self.duckdb.execute(f"CREATE VIEW {schema}.{table.name} AS SELECT {columns} FROM {rows}")
        return schemas

    def _hold(self, table: Table) -> None:
        """Give the sessions what DuckDB has; DuckDB reads the same if types get lost there."""
        if table.held == ARROW:
            self.duckdb.execute("SET arrow_lossless_conversion = true")
            rows = self.duckdb.execute(f"FROM {table.name}").to_arrow_table()
            self.duckdb.execute("SET arrow_lossless_conversion = false")
            self._register(lambda session: session.register(table.name, rows))
        elif table.held == PARQUET:
            self._write(table, self.folder / table.name)
            files = self._read_files(table)
            self._register(lambda session: session.register(table.name, files))
        else:
            path = self.folder / f"{table.name}.duckdb"
            self.duckdb.execute(
                f"ATTACH '{path}' AS made; CREATE TABLE made.{table.name} AS FROM {table.name}; DETACH made"
            )
            self._register(lambda session: session.register_database(path))

    def _read_files(self, table: Table) -> str:
        files = f"{self.folder / table.name}/*.parquet"
        self.duckdb.execute(f"DROP TABLE {table.name}; CREATE VIEW {table.name} AS FROM read_parquet('{files}')")
        return files

    def _write(self, table: Table, folder: Path) -> None:
        folder.mkdir(parents=True)
        half = len(table.rows) // 2
        for number, part in enumerate((f"LIMIT {half}", f"OFFSET {half}") if half else ("",)):
            source = f"(FROM {table.name} {part})"
            self.duckdb.execute(f"COPY {source} TO '{folder}/{number}.parquet' (ROW_GROUP_SIZE 20)")

    def _register(self, register: Callable[[qoop.Session], None]) -> None:
        register(self.whole)
        register(self.staged)

    def close(self) -> None:
        self.whole.close()
        self.staged.close()
        self.duckdb.close()


def _empty() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1, "memory_limit": "500MB"})


def kinds_of(tables: Sequence[Table]) -> Mapping[str, list[tuple[str, str]]]:
    """The columns and kinds that a grammar writes its texts about."""
    return {table.name: table.kinds() for table in tables}


def without_rows(table: Table, first: int, last: int) -> Table:
    """The table without some of its rows."""
    return replace(table, rows=table.rows[:first] + table.rows[last:])
