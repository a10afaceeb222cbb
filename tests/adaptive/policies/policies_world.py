"""Plans in a few words, and questions about them."""

from __future__ import annotations

from collections.abc import Mapping

from qoop.adaptive.replanning.decision import DecisionInput, Option
from qoop.engine.progress import Finished
from qoop.engine.task import content_of
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageId, StageInput
from qoop.planner.search.candidate import Candidate

COLUMNS = (("x", "INTEGER"),)


def option(text: str, name: str = "A") -> Option:
    """``id width seconds [reads …] [as=signature]``, the last line is the root."""
    plan = Plan(tuple(_stage(line.split()) for line in text.strip().splitlines()), COLUMNS)
    return Option(name, Candidate(plan, ""))


def _stage(words: list[str]) -> Stage:
    name, width, seconds, *rest = words
    told = dict(word.split("=") for word in rest if "=" in word)
    reads = tuple(StageInput(read, read, "all") for read in rest if "=" not in read)
    estimate = Estimate(rows=float(width), task_seconds=float(seconds))
    return Stage(name, "", reads, COLUMNS, int(width), told.get("as", name), estimate=estimate)


def finished(by: Option, done: Mapping[StageId, int]) -> Finished:
    """That many parts of the stages of a plan, which runs, are present, each the work of its estimate."""
    content = {stage.id: content_of(stage) for stage, _, _ in by.stages}
    spent = {content[id]: parts * by.candidate.plan.by_id[id].estimate.task_seconds for id, parts in done.items()}
    present = {content[id]: parts for id, parts in done.items()}
    return Finished(present, spent, {}, dict.fromkeys(content, 0) | dict(done))


def ask(
    *options: Option, done: Mapping[StageId, int] | None = None, slots: float = 4, running: int = 0, **told: object
) -> DecisionInput:
    share = Resources(slots)
    return DecisionInput(options, running, finished(options[running], done or {}), share, **told)  # type: ignore[arg-type]
