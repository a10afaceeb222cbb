"""Runs Plans with plain DuckDB and nothing of the engine: what a plan means, in a hundred lines.

Stages run in order, their tasks one after the other; a task's output is cut by ``hash(keys) % parts``; splits of a
table are slices of its rows. :func:`narrowed` makes a plan for hundreds of slots cheap enough to be run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate
from types import TracebackType

import duckdb
import pyarrow as pa

from qoop.planner.algebra.expr import quote
from qoop.planner.plan import Plan, Stage, StageId, StageInput, TableInput
from qoop.planner.search.candidate import StageKey, stage_key

_DISABLED = "join_order,build_side_probe_side,join_filter_pushdown"  # as the engine does for such inputs

Output = list[list[pa.Table]]  # by task and partition
Kept = dict[StageKey, Output]
Content = str  # digest of all that an output is made of


def run_plan(plan: Plan, tables: Mapping[str, pa.Table], kept: Kept | None = None) -> pa.Table:
    """The rows of the root stage, under the plan's column names.

    kept: outputs of earlier runs, which are taken where the plan has a stage of their key; new ones are added.
    """
    with Runner(tables, kept) as runner:
        return runner.answer(plan)


def narrowed(plan: Plan, most: int) -> Plan:
    """The plan with at most that many tasks and partitions a stage.

    Numbers that were equal stay equal, so partitions still meet the tasks that read them; one task stays one.
    """
    return replace(plan, stages=tuple(_narrowed(stage, most) for stage in plan.stages))


def _narrowed(stage: Stage, most: int) -> Stage:
    layout = replace(stage.layout, parts=min(stage.layout.parts, most))
    return replace(stage, width=min(stage.width, most), layout=layout)


class Runner:
    """Runs plans over the same tables; what two of them make in the same way is made once, until `forget`.

    kept: outputs that serve every stage of their key, however it is made; None: only the same way is the same.
    """

    def __init__(self, tables: Mapping[str, pa.Table], kept: Kept | None = None) -> None:
        self._kept = kept
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET arrow_lossless_conversion = true")
        self._connection.execute("SET produce_arrow_string_view = false")
        self._connection.execute(f"SET disabled_optimizers = '{_DISABLED}'")
        self._connection.execute("CREATE SCHEMA base")
        self._rows = {name.lower(): table.num_rows for name, table in tables.items()}
        for name, table in tables.items():
            self._connection.register("base_rows", table)
            self._connection.execute(f"CREATE TABLE base.{quote(name.lower())} AS FROM base_rows")
            self._connection.unregister("base_rows")
        self._made: dict[Content, Output] = {}
        self.tasks = 0

    def answer(self, plan: Plan) -> pa.Table:
        """The rows of the root stage, under the plan's column names."""
        contents = self.run(plan)
        result = self.whole(contents[plan.root.id])
        return result.rename_columns([name for name, _ in plan.columns])

    def run(self, plan: Plan) -> dict[StageId, Content]:
        """Run all stages; what each of them put out is found under its content."""
        for name, value in plan.settings:
            self._connection.execute(f"SET {name} = '{value}'")
        contents: dict[StageId, Content] = {}
        for stage in plan.stages:
            contents[stage.id] = self._run(stage, contents, plan.settings)
        for name, _ in plan.settings:
            self._connection.execute(f"RESET {name}")
        return contents

    def _run(self, stage: Stage, contents: Mapping[StageId, Content], settings: Sequence[tuple[str, str]]) -> Content:
        if self._kept is None:
            content = _content(stage, contents, settings)
            if content not in self._made:
                self._made[content] = self._stage(stage, contents)
            return content
        key = stage_key(stage)
        if key not in self._kept:
            self._kept[key] = self._stage(stage, contents)
        self._made[repr(key)] = self._kept[key]
        return repr(key)

    def output(self, content: Content) -> Output:
        """The output of a stage, by task and partition."""
        return self._made[content]

    def whole(self, content: Content) -> pa.Table:
        """The output of a stage, of all its tasks."""
        return pa.concat_tables(table for partitions in self._made[content] for table in partitions)

    def forget(self) -> None:
        """Free what was made so far."""
        self._made.clear()

    def _stage(self, stage: Stage, contents: Mapping[StageId, Content]) -> Output:
        return [self._task(stage, part, contents) for part in range(stage.width)]

    def _task(self, stage: Stage, part: int, contents: Mapping[StageId, Content]) -> list[pa.Table]:
        """The partitions that one task puts out."""
        self.tasks += 1
        names = [self._bind(item, part, stage.width, contents) for item in stage.inputs]
        if part == 0:
            described = self._connection.execute(f"DESCRIBE {stage.sql}").fetchall()
            assert tuple((name, type_) for name, type_, *_ in described) == stage.columns, stage.sql
        output = self._connection.sql(stage.sql).to_arrow_table()
        for name in names:
            self._connection.execute(f"DROP VIEW {name}")
        return [output] if stage.layout.parts == 1 else self._partitions(stage, output)

    def _bind(self, item: TableInput | StageInput, part: int, width: int, contents: Mapping[StageId, Content]) -> str:
        """Make what a task reads known under its name, which is returned as SQL."""
        name = quote(item.name)
        if isinstance(item, StageInput):
            self._connection.register(item.name, pa.concat_tables(read(item, part, self._made[contents[item.stage]])))
        else:
            self._connection.execute(f"CREATE VIEW {name} AS {self._share(item, part, width)}")
        return name

    def _share(self, item: TableInput, part: int, width: int) -> str:
        """The rows of a base table that a task reads, and only the columns that the stage names."""
        rows = self._rows[item.table.lower()]
        text = f"SELECT {', '.join(map(quote, item.columns)) or '1'} FROM base.{quote(item.table.lower())}"
        if not item.split:
            return text
        return f"{text} WHERE rowid >= {rows * part // width} AND rowid < {rows * (part + 1) // width}"

    def _partitions(self, stage: Stage, output: pa.Table) -> list[pa.Table]:
        """The output cut by ``hash(keys) % parts``."""
        parts = stage.layout.parts
        if not output.num_rows:
            return [output] * parts
        number = f"hash({', '.join(stage.layout.keys)}) % {parts}"
        self._connection.register("task_output", output)
        ordered = self._connection.sql(f"SELECT *, {number} FROM task_output ORDER BY {number}").to_arrow_table()
        counts = self._connection.sql(f"SELECT {number} AS part, count(*) FROM task_output GROUP BY part").fetchall()
        self._connection.unregister("task_output")
        return _sliced(ordered, dict(counts), parts)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._connection.close()


def _sliced(ordered: pa.Table, rows: Mapping[int, int], parts: int) -> list[pa.Table]:
    """Runs of rows; the column that numbers them is left out. rows: of each run that is not empty."""
    kept = ordered.select(range(ordered.num_columns - 1))
    ends = accumulate(rows.get(part, 0) for part in range(parts))
    return [kept.slice(end - rows.get(part, 0), rows.get(part, 0)) for part, end in enumerate(ends)]


def _content(stage: Stage, contents: Mapping[StageId, Content], settings: Sequence[tuple[str, str]]) -> Content:
    """Digest of the stage's text, of what it reads and of how it is cut; ids of stages do not count."""
    names = {item.name: contents[item.stage] for item in stage.stage_inputs}
    sql = re.sub(r"\bs\d+(_\d+)?\b", lambda found: names.get(found[0], found[0]), stage.sql)
    sources = [(contents[item.stage], item.mode) for item in stage.stage_inputs]
    what = (sql, sources, stage.table_inputs, stage.width, stage.layout, settings)
    return blake2b(repr(what).encode(), digest_size=16).hexdigest()


def read(item: StageInput, part: int, output: Output) -> list[pa.Table]:
    """The tables of a stage input that a task reads."""
    if item.mode == "forward":
        return output[part]
    if item.mode == "partition":
        return [partitions[part] for partitions in output]
    return [table for partitions in output for table in partitions]


def storage(table: pa.Table) -> pa.Table:
    """The table with DuckDB's own types (HUGEINT, a boolean of a byte …) as the bytes they are kept in."""
    columns = [
        pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        if isinstance(column.type, pa.BaseExtensionType)
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)
