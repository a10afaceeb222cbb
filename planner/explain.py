"""A plan as text, one line a stage: the root first, each stage indented under the stage that reads it.

The text is stable: it holds no ids of objects, no times and no order of sets, so tests keep it in files.
"""

from __future__ import annotations

from collections.abc import Iterator

from qoop.planner.plan import Plan, Stage, StageId, StageInput

_HOW = {"all": "gather", "partition": "hash", "forward": "forward"}


def explain(plan: Plan) -> str:
    """Return the plan as a tree of stages.

    Each stage says: id, what it does, tasks × threads of each, estimated rows and seconds of all its tasks,
    estimated memory of one task, how its output is cut, and why it is opaque if it is.  A stage with several
    readers is drawn under the first and named under the others.
    """
    lines = list(_tree(plan, plan.root, "", set()))
    total = sum(stage.width * stage.estimate.task_seconds for stage in plan.stages)
    tasks = sum(stage.width for stage in plan.stages)
    lines.append(f"{len(plan.stages)} stages, {tasks} tasks, about {_seconds(total)} of one thread")
    return "\n".join(lines)


def _tree(plan: Plan, stage: Stage, indent: str, drawn: set[StageId]) -> Iterator[str]:
    drawn.add(stage.id)
    yield f"{indent}{stage.id}  {stage.label}  [{facts(stage)}]"
    if stage.opaque is not None:
        yield f"{indent}    opaque: {stage.opaque}"
    tables = [f"{item.table}{' split' if item.split else ''}" for item in stage.table_inputs]
    if tables:
        yield f"{indent}    tables: {', '.join(tables)}"
    for item in stage.stage_inputs:
        yield from _input(plan, stage, item, indent, drawn)


def _input(plan: Plan, stage: Stage, item: StageInput, indent: str, drawn: set[StageId]) -> Iterator[str]:
    producer = plan.by_id[item.stage]
    how = "broadcast" if item.mode == "all" and stage.width > 1 else _HOW[item.mode]
    keys = f" by {', '.join(producer.layout.keys)}" if item.mode == "partition" else ""
    again = " (see above)" if producer.id in drawn else ""
    yield f"{indent}  {how}{keys} {producer.id}{again}"
    if not again:
        yield from _tree(plan, producer, indent + "    ", drawn)


def facts(stage: Stage) -> str:
    """Width, threads and estimates of a stage in a few words."""
    estimate = stage.estimate
    words = [
        f"{stage.width}×{stage.slots}",
        f"{_count(estimate.rows)} rows",
        _seconds(estimate.task_seconds * stage.width),
        f"{_count(estimate.task_memory)}B a task",
    ]
    return ", ".join(words)


def _seconds(seconds: float) -> str:
    """Seconds in two or three digits.

    >>> _seconds(0.0123), _seconds(0.0012), _seconds(2.5), _seconds(123.4)
    ('12 ms', '1.2 ms', '2.5 s', '123 s')
    """
    number, unit = (seconds, "s") if seconds >= 1 else (seconds * 1000, "ms")
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def _count(number: float) -> str:
    """A number with a unit of thousands, two digits.

    >>> _count(1234567.0), _count(12.0)
    ('1.2M', '12')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            scaled = number / size
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return f"{number:.0f}"
