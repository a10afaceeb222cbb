"""Runs a Plan with plain DuckDB and nothing of the engine: what a plan means, in sixty lines.

Stages run in order, their tasks one after the other, each in a DuckDB connection of its own; a task's output
is cut by ``hash(keys) % parts``; splits of a table are slices of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from qoop.planner.expr import quote
from qoop.planner.plan import Plan, Stage, StageId, StageInput, TableInput

Outputs = dict[StageId, list[list[pa.Table]]]  # by stage, task and partition


def run_plan(plan: Plan, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of the root stage, under the plan's column names."""
    outputs: Outputs = {}
    for stage in plan.stages:
        outputs[stage.id] = [run_task(stage, part, tables, outputs) for part in range(stage.width)]
    result = pa.concat_tables(part[0] for part in outputs[plan.root.id])
    return result.rename_columns([name for name, _ in plan.columns])


def run_task(stage: Stage, part: int, tables: Mapping[str, pa.Table], outputs: Outputs) -> list[pa.Table]:
    """The partitions that one task puts out."""
    with duckdb.connect(config={"threads": stage.slots}) as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        for item in stage.inputs:
            if isinstance(item, TableInput):
                connection.register(quote(item.name), share(tables[item.table], item, part, stage.width))
            else:
                connection.register(quote(item.name), pa.concat_tables(read(item, part, outputs)))
        described = connection.execute(f"DESCRIBE {stage.sql}").fetchall()
        types = tuple(type_ for _, type_, *_ in described)
        assert types == tuple(type_ for _, type_ in stage.columns), (stage.sql, types, stage.columns)
        rows = connection.sql(stage.sql).to_arrow_table()
        if stage.layout.parts == 1:
            return [rows]
        hashed = f"hash({', '.join(stage.layout.keys)}) % {stage.layout.parts}"
        return [
            connection.sql(f"SELECT * FROM rows WHERE {hashed} = {number}").to_arrow_table()
            for number in range(stage.layout.parts)
        ]


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
