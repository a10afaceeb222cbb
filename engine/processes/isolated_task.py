"""A task for a child process, as a value that JSON can write: its text, the SQL that reads its tables, and files with
the outputs that it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from qoop.catalog.access import Places
from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.table import Columns, Footer, Range, Split, Table
from qoop.catalog.value import value
from qoop.catalog.written.codec import Codec
from qoop.engine.task import AttemptId, ResolvedInput, TaskId, TaskSpec, checkpoint_key
from qoop.planner.plan import Estimate, Layout, Resources, Stage, StageInput, TableInput


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
    """A table of a task. name: in its text. table: its own. file: of Arrow, with its rows, where the parent has them in
    memory; empty: see `source`."""

    name: str
    table: str
    version: str
    columns: Columns
    source: PlainSource
    file: str = ""

    def as_table(self) -> Table:
        """The table as a kernel takes it."""
        if not self.file:
            return Table(self.name, self.columns, self.version, self.source, 0)
        rows = read_rows(self.file)
        return Table(self.name, self.columns, self.version, ArrowSource(self.version, rows), rows.num_rows)


@value
class IsolatedTask:
    """A task of one text. row_bytes: of the output, as estimated. spill: a folder. outputs: of other stages, each with
    its name in the text and a file of Arrow. columns, layout: of the output. opaque, whole, join_filters: as in
    `Stage`. most: as in `TaskSpec`.
    """

    text: str
    settings: tuple[tuple[str, str], ...]
    resources: Resources
    row_bytes: float
    locked: bool
    spill: str
    tables: tuple[IsolatedTable, ...]
    outputs: tuple[tuple[str, str], ...] = ()
    columns: Columns = ()
    layout: Layout = Layout()
    opaque: str | None = None
    whole: bool = False
    join_filters: bool = True
    most: int = 0

    @classmethod
    def of(cls, spec: TaskSpec, folder: Path, spill: Path, read: Callable[[str], pa.Table]) -> IsolatedTask:
        """The task of a spec. What is in memory is written to the folder, which is made then; processes spill to one of
        their own each. read: the rows of a stage input."""
        stage = spec.stage
        tables = tuple(
            _isolated(spec, item, folder / f"table-{number}.arrow") for number, item in enumerate(stage.table_inputs)
        )
        outputs = tuple(
            (item.name, _written(read(item.name), folder / f"input-{number}.arrow"))
            for number, item in enumerate(stage.stage_inputs)
        )
        row_bytes = stage.estimate.bytes / max(1.0, stage.estimate.rows)
        return cls(
            stage.sql, spec.settings, spec.resources, row_bytes, spec.locked, str(spill), tables, outputs,
            stage.columns, stage.layout, stage.opaque, stage.whole, stage.join_filters, spec.most,
        )  # fmt: skip

    def as_spec(self) -> TaskSpec:
        """The spec for a kernel. Its tables are plain ones, and its inputs have no keys."""
        tables = tuple(
            TableInput(table.name, table.name, table.version, tuple(name for name, _ in table.columns), split=False)
            for table in self.tables
        )
        outputs = tuple(StageInput(name, "s0", "all") for name, _ in self.outputs)
        stage = Stage(
            "s1", self.text, (*tables, *outputs), self.columns, 1, "", layout=self.layout,
            estimate=Estimate(bytes=self.row_bytes), opaque=self.opaque, whole=self.whole,
            join_filters=self.join_filters,
        )  # fmt: skip
        return TaskSpec(
            AttemptId(TaskId("", stage.id, 0), 0), stage, checkpoint_key(stage, 0),
            tuple(ResolvedInput(name, ()) for name, _ in self.outputs),
            {table.name: table.as_table() for table in self.tables}, self.resources, self.settings,
            locked=self.locked, most=self.most,
        )  # fmt: skip

    def written(self) -> Any:
        """It as JSON."""
        return CODEC.write(self)


def read_task(data: Any) -> IsolatedTask:
    """The task that `written` wrote."""
    found: IsolatedTask = CODEC.read(IsolatedTask, data)
    return found


def read_rows(file: str) -> pa.Table:
    """The rows of a file of Arrow, which stay in the file."""
    return pa.ipc.open_file(pa.memory_map(file)).read_all()


CODEC = Codec({})


def _isolated(spec: TaskSpec, item: TableInput, file: Path) -> IsolatedTable:
    """The rows of a table that a task reads. file: for those in memory."""
    table = spec.tables[item.table]
    types = dict(table.columns)
    known = tuple((column, types[column]) for column in item.columns) or table.columns[:1]
    rows = table.scan([column for column, _ in known], spec.split(item))
    if isinstance(rows, str):
        places = table.source.places()
        source = PlainSource(rows, table.attach(), tuple(places.local), tuple(places.remote))
        return IsolatedTable(item.name, item.table, table.version, known, source)
    return IsolatedTable(item.name, item.table, table.version, known, PlainSource(""), _written(rows, file))


def _written(rows: pa.Table, file: Path) -> str:
    """The path of a file with these rows."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return str(file)
