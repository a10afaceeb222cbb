"""A plan as text, one line a stage: the root first, each stage indented under the stage that reads it.

The text is stable: it holds no ids of objects, no times of the clock and no order of sets, so tests keep it in files.
Observations of the stages, if any, follow the estimates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from qoop.catalog.sizes import counted
from qoop.planner.estimate.observed import Observation, q_error
from qoop.planner.plan import Plan, Stage, StageId, StageInput

FORMAT = 1
"""Of :func:`as_json`; raised when a field means something else than before."""

StageObservations = Mapping[StageId, Observation]
More = Mapping[StageId, Sequence[str]]
_HOW = {"all": "gather", "partition": "hash", "forward": "forward"}


def explain(plan: Plan, observed: StageObservations | None = None, more: More = MappingProxyType({})) -> str:
    """Return the plan as a tree of stages.

    Each line of a stage has its id and label, tasks × threads of each, estimated rows and seconds of all tasks, and
    estimated memory of one. The partitioning of its output and the reason of an opaque stage follow.  A stage with
    several readers is drawn under the first and named under the others.

    observed: rows, bytes, seconds of one thread and memory of the largest task of stages. The factor in brackets is the
    q-error of the rows: the larger of estimate and truth over the other. more: further lines of stages.
    """
    lines = list(_Tree(plan, observed, more).lines(plan.root, ""))
    total = sum(stage.width * stage.estimate.task_seconds for stage in plan.stages)
    tasks = sum(stage.width for stage in plan.stages)
    size = f"{counted(len(plan.stages), 'stage')}, {counted(tasks, 'task')}"
    lines.append(f"{size}, about {seconds_text(total)} of one thread")
    if observed is not None:
        spent = sum(one.seconds or 0.0 for one in observed.values())
        lines.append(f"seen: {counted(len(observed), 'stage')}, {seconds_text(spent)} of one thread")
    return "\n".join(lines)


@dataclass
class _Tree:
    plan: Plan
    observed: StageObservations | None
    more: More
    drawn: set[StageId] = field(default_factory=set)

    def lines(self, stage: Stage, indent: str) -> Iterator[str]:
        self.drawn.add(stage.id)
        yield f"{indent}{stage.id}  {stage.label}  [{facts(stage)}]"
        if self.observed is not None:
            yield f"{indent}    seen: {observed_facts(stage, self.observed.get(stage.id))}"
        yield from (f"{indent}    {line}" for line in self.more.get(stage.id, ()))
        if stage.opaque is not None:
            yield f"{indent}    runs whole: {stage.opaque}"
        tables = [f"{item.table}{' split' if item.split else ''}" for item in stage.table_inputs]
        if tables:
            yield f"{indent}    tables: {', '.join(tables)}"
        for item in stage.stage_inputs:
            yield from self.input(stage, item, indent)

    def names(self, keys: Sequence[str]) -> Sequence[str]:
        """Names of columns, without what stands for their meaning where there is more to tell."""
        if not self.more:
            return keys
        from qoop.planner.readable import readable_name  # few plans are analysed

        return [readable_name(key) for key in keys]

    def input(self, stage: Stage, item: StageInput, indent: str) -> Iterator[str]:
        producer = self.plan.by_id[item.stage]
        how = "broadcast" if item.mode == "all" and stage.width > 1 else _HOW[item.mode]
        keys = f" by {', '.join(self.names(producer.layout.keys))}" if item.mode == "partition" else ""
        again = " (see above)" if producer.id in self.drawn else ""
        yield f"{indent}  {how}{keys} {producer.id}{again}"
        if not again:
            yield from self.lines(producer, indent + "    ")


def observed_facts(stage: Stage, one: Observation | None) -> str:
    """The observation of a stage, in a few words."""
    if one is None:
        return "nothing"
    words = [f"{one.rows:,.0f} rows (×{q_error(stage.estimate.rows, one.rows):.3g})"]
    if one.seconds is not None:
        words.append(seconds_text(one.seconds))
    if one.bytes is not None:
        words.append(f"{count_text(one.bytes)}B put out")
    if one.memory is not None:
        words.append(f"{count_text(one.memory)}B a task at most")
    return ", ".join(words)


def as_json(plan: Plan, observed: StageObservations | None = None) -> dict[str, Any]:
    """The plan as values for JSON: the content of :func:`explain`, with whole numbers and names, for programs."""
    return {
        "format": FORMAT,
        "columns": [{"name": name, "type": type_} for name, type_ in plan.columns],
        "stages": [_stage_json(stage, observed) for stage in plan.stages],
    }


def _stage_json(stage: Stage, observed: StageObservations | None) -> dict[str, Any]:
    estimate, one = stage.estimate, (observed or {}).get(stage.id)
    found: dict[str, Any] = {
        "id": stage.id,
        "label": stage.label,
        "signature": stage.signature,
        "tasks": stage.width,
        "slots": stage.slots,
        "inputs": [{"stage": item.stage, "mode": item.mode} for item in stage.stage_inputs],
        "tables": [{"table": item.table, "split": item.split} for item in stage.table_inputs],
        "keys": list(stage.layout.keys),
        "parts": stage.layout.parts,
        "opaque": stage.opaque,
        "sql": stage.sql,
        "estimate": {
            "rows": estimate.rows,
            "bytes": estimate.bytes,
            "seconds": estimate.task_seconds * stage.width,
            "task_memory": estimate.task_memory,
        },
    }
    if observed is not None:
        found["seen"] = None if one is None else {
            "rows": one.rows, "bytes": one.bytes, "seconds": one.seconds, "task_memory": one.memory,
            "q_error": q_error(estimate.rows, one.rows),
        }  # fmt: skip
    return found


def facts(stage: Stage) -> str:
    """Width, threads and estimates of a stage in a few words."""
    estimate = stage.estimate
    words = [
        f"{stage.width}×{stage.slots}",
        f"{count_text(estimate.rows)} rows",
        seconds_text(estimate.task_seconds * stage.width),
        f"{count_text(estimate.task_memory)}B a task",
    ]
    return ", ".join(words)


def seconds_text(seconds: float) -> str:
    """Seconds in two or three digits.

    >>> seconds_text(0.0123), seconds_text(0.0012), seconds_text(2.5), seconds_text(123.4)
    ('12 ms', '1.2 ms', '2.5 s', '123 s')
    """
    number, unit = (seconds, "s") if seconds >= 1 else (seconds * 1000, "ms")
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def count_text(number: float) -> str:
    """A number with a unit of thousands, two digits.

    >>> count_text(1234567.0), count_text(12.0)
    ('1.2M', '12')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            scaled = number / size
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return f"{number:.0f}"
