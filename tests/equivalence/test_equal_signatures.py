"""Stages of equal signature give equal rows, over all pairs of plans of the 99 queries.

All plans of all pools are run, kept or not, on the grid of this machine and on that of a cluster. What is promised:

* finished stages of one signature put out the same multiset of rows, over columns of the same names;
* stages of one key (signature, layout, number of tasks and cut) put out the same rows task by task and partition by
  partition, be they finished or partial groups;
* finished stages of one `meaning` have equally many rows, and agree in the columns that both have.

A stage that is made in a way that was seen before is not run again, so every comparison is of two different ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from benchmark_plans import TASKS, candidates, running
from pyarrow import feather
from run_plan import Runner, narrowed, storage

from qoop.planner.alternatives import StageKey, stage_key
from qoop.planner.plan import Plan, Signature, Stage
from qoop.session import Session
from qoop.tpcds.oracle import compare

SAMPLE = (31, 59, 95)


@dataclass
class Witness:
    """What stages have put out so far, one output for each promise; on disk, as all plans together make gigabytes.

    compared: how many pairs of different ways were found to agree.
    """

    folder: Path
    finished: dict[Signature, str] = field(default_factory=dict)
    meant: dict[Signature, list[str]] = field(default_factory=dict)
    parts: dict[StageKey, str] = field(default_factory=dict)
    seen: set[tuple[StageKey, str]] = field(default_factory=set)
    compared: int = 0

    def see(self, number: int, plans: Sequence[Plan], runner: Runner) -> None:
        """Run plans of one query and compare every stage with those seen before."""
        for plan in plans:
            contents = runner.run(narrowed(plan, TASKS))
            for stage in plan.stages:
                way = (stage_key(stage), contents[stage.id])
                if stage.shareable and way not in self.seen:
                    self.seen.add(way)
                    self._check(stage, runner, contents[stage.id], f"query {number} {stage.id}: {stage.label}")

    def _check(self, stage: Stage, runner: Runner, content: str, what: str) -> None:
        self._check_parts(stage, runner, content, what)
        if not stage.meaning:
            return
        rows = runner.whole(content)
        if stage.signature in self.finished:
            self._agree(rows, self.finished[stage.signature], what)
            return
        self.finished[stage.signature] = path = self._kept(rows, f"finished{len(self.finished)}", what)
        for other in self.meant.setdefault(stage.meaning, []):
            self._agree(rows, other, what, common=True)
        self.meant[stage.meaning].append(path)

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
            self._agree(rows, self.parts[key], what)
        else:
            self.parts[key] = self._kept(rows, f"parts{len(self.parts)}", what)

    def _kept(self, rows: pa.Table, name: str, what: str) -> str:
        path = str(self.folder / name)
        feather.write_feather(rows.replace_schema_metadata({"what": what}), path, compression="uncompressed")
        return path

    def _agree(self, rows: pa.Table, path: str, what: str, common: bool = False) -> None:
        other = feather.read_table(path)
        told = f"{what}\n{(other.schema.metadata or {})[b'what'].decode()}"
        assert rows.num_rows == other.num_rows, f"{rows.num_rows} and {other.num_rows} rows\n{told}"
        self.compared += 1
        rows, other = storage(rows), storage(other)
        if common:
            names = [name for name in rows.column_names if name in other.column_names]
            rows, other = rows.select(names), other.select(names)
        difference = compare(rows, other)
        assert difference is None, f"{difference}\n{told}"


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Witness:
    return Witness(tmp_path_factory.mktemp("witness"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "number", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow) for n in range(1, 100)]
)
def test_equal_signatures_have_equal_rows(number: int, planner: Session, tpcds_small: Path, witness: Witness) -> None:
    plans = [one.plan for _, one in candidates(planner, number)]
    before = witness.compared
    with running(tpcds_small, plans) as runner:
        witness.see(number, plans, runner)
    assert witness.compared > before or number not in SAMPLE, "no two plans have a stage in common"


def test_the_witness_sees_a_difference(planner: Session, tpcds_small: Path, tmp_path: Path) -> None:
    """A stage that keeps its key and puts out other rows is found out."""
    plan = next(one.plan for _, one in candidates(planner, 18))
    first = plan.stages[0]
    fewer = replace(first, sql=f"FROM ({first.sql}) LIMIT 3")
    witness = Witness(tmp_path)
    with running(tpcds_small, [plan]) as runner:
        witness.see(18, [plan], runner)
        with pytest.raises(AssertionError, match="query 18 s1"):
            witness.see(18, [replace(plan, stages=(fewer, *plan.stages[1:]))], runner)
