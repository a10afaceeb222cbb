"""Runs a Plan with plain DuckDB and nothing of the engine: what a plan means, in sixty lines.

Stages run in order, their tasks one after the other; a task's output is cut by ``hash(keys) % parts``; splits of a
table are slices of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from qoop.planner.alternatives import StageKey, stage_key
from qoop.planner.expr import quote
from qoop.planner.plan import Plan, Stage, StageId, StageInput, TableInput

Outputs = dict[StageId, list[list[pa.Table]]]  # by stage, task and partition
Kept = dict[StageKey, list[list[pa.Table]]]


def run_plan(plan: Plan, tables: Mapping[str, pa.Table], kept: Kept | None = None) -> pa.Table:
    """The rows of the root stage, under the plan's column names.

    kept: outputs of earlier runs, which are taken where the plan has a stage of their key; new ones are added.
    """
    outputs: Outputs = {}
    kept = {} if kept is None else kept
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        for stage in plan.stages:
            key = stage_key(stage)
            outputs[stage.id] = kept.get(key) or [
                run_task(connection, stage, inputs(stage, part, tables, outputs)) for part in range(stage.width)
            ]
            kept[key] = outputs[stage.id]
    result = pa.concat_tables(partitions[0] for partitions in outputs[plan.root.id])
    return result.rename_columns([name for name, _ in plan.columns])


def inputs(stage: Stage, part: int, tables: Mapping[str, pa.Table], outputs: Outputs) -> dict[str, pa.Table]:
    """What one task reads, by input name."""
    return {
        item.name: share(tables[item.table], item, part, stage.width)
        if isinstance(item, TableInput)
        else pa.concat_tables(read(item, part, outputs))
        for item in stage.inputs
    }


def run_task(connection: duckdb.DuckDBPyConnection, stage: Stage, rows: Mapping[str, pa.Table]) -> list[pa.Table]:
    """The partitions that one task puts out."""
    for name, table in rows.items():
        connection.register(quote(name), table)
    described = connection.execute(f"DESCRIBE {stage.sql}").fetchall()
    assert tuple((name, type_) for name, type_, *_ in described) == stage.columns, stage.sql
    output = connection.sql(stage.sql).to_arrow_table()
    for name in rows:
        connection.unregister(quote(name))
    return [output] if stage.layout.parts == 1 else partitions_of(connection, stage, output)


def partitions_of(connection: duckdb.DuckDBPyConnection, stage: Stage, output: pa.Table) -> list[pa.Table]:
    """The output cut by ``hash(keys) % parts``."""
    connection.register("task_output", output)
    hashed = f"hash({', '.join(stage.layout.keys)}) % {stage.layout.parts}"
    numbers = range(stage.layout.parts)
    texts = (f"SELECT * FROM task_output WHERE {hashed} = {number}" for number in numbers)
    cut = [connection.sql(text).to_arrow_table() for text in texts]
    connection.unregister("task_output")
    return cut


def share(table: pa.Table, item: TableInput, part: int, width: int) -> pa.Table:
    """The rows of a base table that a task reads, and only the columns that the stage names."""
    table = table.select(list(item.columns)) if item.columns else table.select([0])
    if not item.split:
        return table
    first, end = table.num_rows * part // width, table.num_rows * (part + 1) // width
    return table.slice(first, end - first)


def read(item: StageInput, part: int, outputs: Outputs) -> list[pa.Table]:
    """The tables of a stage input that a task reads."""
    parts = outputs[item.stage]
    if item.mode == "forward":
        return parts[part]
    if item.mode == "partition":
        return [partitions[part] for partitions in parts]
    return [table for partitions in parts for table in partitions]
