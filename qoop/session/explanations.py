"""EXPLAIN in its forms, as a statement and as `Session.explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.adaptive.replanning.observations import committed, outputs
from qoop.catalog.errors import ConfigError
from qoop.engine.task import checkpoint_keys
from qoop.query.drawing import explaining
from qoop.query.drawing.explaining import Format
from qoop.query.drawing.formats import EXPLANATION
from qoop.query.job import answer
from qoop.query.result import Result
from qoop.query.statements.statement import Explain
from qoop.session.execution import Execution

if TYPE_CHECKING:
    from qoop.session.session import Session


def explained(run: Execution, statement: Explain) -> Result:
    """The rows of the statement, as in DuckDB: the kind of the explanation, and its text."""
    with run.texts.written_out(statement.text, run.session.sql) as query:
        kind, text = _explained(run, query, statement)
    columns = tuple((name, "VARCHAR") for name in EXPLANATION)
    return Result(pa.table({"c0": [kind], "c1": [text]}), columns)


def _explained(run: Execution, query: str, statement: Explain) -> tuple[str, str]:
    session = run.session
    match statement.what:
        case "alternatives":
            return "alternatives", explaining.explained_alternatives(session.alternatives(query))
        case "analyze":
            return "analyzed_plan", analyzed(run, query)
        case "history":
            return "history", history_of(run, query)
        case "approximate":
            return "growth", _growth(run, query)
        case "plan":
            return "physical_plan", _explained_plan(session, query, "text")


def explanation(
    run: Execution, query: str, alternatives: bool, analyze: bool, history: bool, diff: str | None, format: str
) -> str:
    """As `Session.explain`."""
    if (alternatives, analyze, history, diff is not None).count(True) > 1:
        raise ConfigError("explain either alternatives, or analyze, or history, or diff")
    session, chosen = run.session, explaining.checked_format(format)
    if alternatives:
        return explaining.explained_alternatives(session.alternatives(query), chosen)
    if diff is not None:
        names = explaining.plan_names(diff)
        return explaining.explained_difference(session.alternatives(query), names, chosen)
    if history:
        if chosen != "text":
            raise ConfigError("a history is a text; Job.timeline draws it")
        return history_of(run, query)
    if analyze:
        return analyzed(run, query, chosen)
    return _explained_plan(session, query, chosen)


def _explained_plan(session: Session, query: str, format: Format) -> str:
    """The plan that the query begins with; as text, with the job whose answer it takes over."""
    plan = session.planning.plan(query).plan
    found = explaining.explained_plan(plan, format=format)
    if format != "text" or not session.config.reuse or not plan.root.shareable:
        return found
    keys = checkpoint_keys(plan.root)
    present = session.planning.present(keys)
    if len(present) < len(keys) or keys[0] in session.cluster.owners:
        return found
    maker = f"{present[0].maker} made it" if present[0].maker else "an earlier process made it"
    return f"the answer is there: {maker}, and nothing that it reads has changed since\n{found}"


def analyzed(run: Execution, query: str, format: Format = "text") -> str:
    """Run a query, discard its rows and explain the plan that it ended with."""
    job = run.session.start(run.session.planning.plan(query, reuse=False), profiled=True)
    answer(job, run.watch)
    plans = job.plans
    observed = outputs(plans[-1], committed(job.history()))
    return explaining.explained_plan(plans[-1], observed, len(plans) - 1, format, job.history())


def history_of(run: Execution, query: str) -> str:
    """Run a query, discard its rows and return its history as text."""
    from qoop.adaptive.retrace.story import story

    job = run.session.start(run.session.planning.plan(query, reuse=False))
    answer(job, run.watch)
    return "\n".join(story(job.history()))


def _growth(run: Execution, query: str) -> str:
    """The plan of growth of the answer, or the reason why it would not grow."""
    from qoop.programs.approximate.explaining import explained_growth
    from qoop.programs.approximate.planning import SessionQueries
    from qoop.programs.approximate.target import AnswerOptions, Target

    session, goal = run.session, run.options.goal
    target = Target(goal["error_goal"], goal["confidence"])
    queries = SessionQueries(run.tables, session.planning, session.config.ray is not None)
    return explained_growth(query, queries, AnswerOptions(target, exact_within=goal["exact_within"]))
