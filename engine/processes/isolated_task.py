"""A task for a child process, as a value that JSON can write: the text, and the SQL that reads its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from qoop.catalog.access import Places
from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.table import Columns, Footer, Range, Split, Table
from qoop.catalog.value import value
from qoop.catalog.written.codec import Codec
from qoop.engine.task import AttemptId, TaskId, TaskSpec, checkpoint_key
from qoop.planner.plan import ISOLATED, Estimate, Resources, Stage, TableInput


@value
class PlainSource:
    """The rows of a table as the parent reads them, which also checks them.

    sql: yields the columns that the task reads. attached: (alias, path) of the DuckDB file that it names. local,
    remote: the places that must be opened.
    """

    sql: str
    attached: tuple[str, str] | None = None
    local: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()

    rows = 0
    shared = True

    def digest(self) -> str:
        """Of the text alone."""
        return self.sql

    def pieces(self) -> tuple[Range, ...]:
        """None: a task reads all of it."""
        return ()

    def check(self, split: Split | None) -> None:
        """The parent does."""

    def scan(self, columns: Columns, split: Split | None) -> str:
        """The SQL."""
        return self.sql

    def sample(self, columns: Columns, one_in: int) -> str:
        """The SQL, of all rows."""
        return self.sql

    def extremes(self, names: Sequence[str]) -> dict[str, tuple[object, object]]:
        """None are known."""
        return {}

    def footers(self) -> Sequence[Footer]:
        """None are known."""
        return ()

    def places(self) -> Places:
        return Places(self.local, self.remote)

    def attach(self) -> tuple[str, str] | None:
        return self.attached


@value
class IsolatedTable:
    """A table of a task. file: of Arrow, with its rows, where the parent has them in memory; empty: see `source`."""

    name: str
    version: str
    columns: Columns
    source: PlainSource
    file: str = ""

    def as_table(self) -> Table:
        """The table as a kernel takes it."""
        if not self.file:
            return Table(self.name, self.columns, self.version, self.source, 0)
        rows = pa.ipc.open_file(pa.memory_map(self.file)).read_all()
        return Table(self.name, self.columns, self.version, ArrowSource(self.version, rows), rows.num_rows)


@value
class IsolatedTask:
    """A task of one text. cpu, memory: granted. row_bytes: of the output, as estimated. spill: a folder."""

    text: str
    settings: tuple[tuple[str, str], ...]
    cpu: float
    memory: float
    row_bytes: float
    locked: bool
    spill: str
    tables: tuple[IsolatedTable, ...]

    @classmethod
    def of(cls, spec: TaskSpec, folder: Path, spill: Path) -> IsolatedTask:
        """The task of a spec. Tables in memory are written to the folder; processes spill to one of their own each."""
        stage = spec.stage
        tables = tuple(
            _isolated(item.name, spec.tables[item.table], item.columns, folder / f"{number}.arrow")
            for number, item in enumerate(stage.table_inputs)
        )
        row_bytes = stage.estimate.bytes / max(1.0, stage.estimate.rows)
        cpu, memory = spec.resources.cpu, _COUNTED * spec.resources.memory
        return cls(stage.sql, spec.settings, cpu, memory, row_bytes, spec.locked, str(spill), tables)

    def as_spec(self) -> TaskSpec:
        """The spec for a kernel. Only its text, tables, options and resources are those of the parent's."""
        inputs = tuple(
            TableInput(table.name, table.name, table.version, tuple(name for name, _ in table.columns), split=False)
            for table in self.tables
        )
        estimate = Estimate(bytes=self.row_bytes)
        stage = Stage("s1", self.text, inputs, (), 1, "", estimate=estimate, opaque=ISOLATED, whole=True)
        return TaskSpec(
            AttemptId(TaskId("", stage.id, 0), 0), stage, checkpoint_key(stage, 0), (),
            {table.name: table.as_table() for table in self.tables}, Resources(self.cpu, self.memory), self.settings,
            locked=self.locked,
        )  # fmt: skip

    def written(self) -> Any:
        """It as JSON."""
        return _CODEC.write(self)


def read_task(data: Any) -> IsolatedTask:
    """The task that `written` wrote."""
    found: IsolatedTask = _CODEC.read(IsolatedTask, data)
    return found


_CODEC = Codec({})
_COUNTED = 0.75
"""The part of the memory of a task that is the limit of DuckDB; the rest is for what it does not count."""


def _isolated(name: str, table: Table, columns: Sequence[str], file: Path) -> IsolatedTable:
    types = dict(table.columns)
    known = tuple((column, types[column]) for column in columns) or table.columns[:1]
    rows = table.scan([column for column, _ in known])
    if isinstance(rows, str):
        places = table.source.places()
        source = PlainSource(rows, table.attach(), tuple(places.local), tuple(places.remote))
        return IsolatedTable(name, table.version, known, source)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return IsolatedTable(name, table.version, known, PlainSource(""), str(file))
