"""Stages of equal signature give equal rows: a witness of all outputs, which says where two do not agree.

What is promised:

* finished stages of one signature put out the same multiset of rows, over columns of the same names (the columns of
  a root are told by their places: the names there are those of the result);
* stages of one key (signature, layout, number of tasks and cut) put out the same rows task by task and partition by
  partition, be they finished or partial groups;
* finished stages of one `meaning` have equally many rows.

A stage that is made in a way that was seen before is not compared again, so every comparison is of two different ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from benchmark_plans import TASKS
from pyarrow import feather
from run_plan import Runner, narrowed, storage

from qoop.planner.plan import Plan, Signature, Stage
from qoop.planner.search.candidate import StageKey, stage_key
from qoop.tpcds.oracle import compare


@dataclass
class Witness:
    """The outputs of stages so far, one for each promise; on disk, as all plans together make gigabytes.

    compared: how many pairs of different ways were found to agree, by promise: finished or parts.
    """

    folder: Path
    finished: dict[Signature, str] = field(default_factory=dict)
    meant: dict[Signature, tuple[int, str]] = field(default_factory=dict)
    parts: dict[StageKey, str] = field(default_factory=dict)
    seen: set[tuple[StageKey, str]] = field(default_factory=set)
    compared: Counter[str] = field(default_factory=Counter)

    def see(self, query: str, plans: Sequence[Plan], runner: Runner) -> None:
        """Run plans of a query and compare every stage with those seen before."""
        for plan in plans:
            contents = runner.run(narrowed(plan, TASKS))
            for stage in plan.stages:
                way = (stage_key(stage), contents[stage.id])
                if stage.shareable and way not in self.seen:
                    self.seen.add(way)
                    root = stage.id == plan.root.id
                    self._check(stage, runner, contents[stage.id], f"{query} {stage.id}: {stage.label}", root)

    def _check(self, stage: Stage, runner: Runner, content: str, what: str, root: bool) -> None:
        self._check_parts(stage, runner, content, what)
        if not stage.meaning:
            return
        rows = by_place(runner.whole(content)) if root else runner.whole(content)
        count, other = self.meant.setdefault(stage.meaning, (rows.num_rows, what))
        assert count == rows.num_rows, f"{count} and {rows.num_rows} rows of one meaning\n{what}\n{other}"
        if stage.signature in self.finished:
            self._agree("finished", rows, self.finished[stage.signature], what)
        else:
            self.finished[stage.signature] = self._kept(rows, f"finished{len(self.finished)}", what)

    def _check_parts(self, stage: Stage, runner: Runner, content: str, what: str) -> None:
        """Compare by task and partition; the place of a row's part is one more column of it."""
        tables = [
            table.append_column("part", pa.repeat(f"{task} {part}", table.num_rows))
            for task, partitions in enumerate(runner.output(content))
            for part, table in enumerate(partitions)
        ]
        if len(tables) == 1:
            return
        rows, key = pa.concat_tables(tables), stage_key(stage)
        if key in self.parts:
            self._agree("parts", rows, self.parts[key], what)
        else:
            self.parts[key] = self._kept(rows, f"parts{len(self.parts)}", what)

    def _kept(self, rows: pa.Table, name: str, what: str) -> str:
        path = str(self.folder / name)
        feather.write_feather(rows.replace_schema_metadata({"what": what}), path, compression="uncompressed")
        return path

    def _agree(self, promise: str, rows: pa.Table, path: str, what: str) -> None:
        other = feather.read_table(path)
        told = f"{what}\n{(other.schema.metadata or {})[b'what'].decode()}"
        assert rows.num_rows == other.num_rows, f"{promise}: {rows.num_rows} and {other.num_rows} rows\n{told}"
        self.compared[promise] += 1
        rows, other = storage(rows), storage(other)
        difference = compare(rows, other)
        assert difference is None, f"{promise}: {difference}\n{told}"


def by_place(rows: pa.Table) -> pa.Table:
    """The rows under the numbers of their columns."""
    return rows.rename_columns([str(place) for place in range(rows.num_columns)])
