"""The regret budget: the work that a job has spent against the advice of the greedy choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from qoop.catalog.value import value
from qoop.engine.progress import Finished
from qoop.engine.task import Content
from qoop.replanning.answers import Answer


@value
class RegretBudget:
    """The work run against the advice of greed.

    wasted: seconds of tasks, up to the last decision. useful: what the plan that greed wanted then can use of what was
    run since; None: it has its way. spent: seconds of tasks of each content at the last decision.
    """

    wasted: float = 0.0
    useful: frozenset[Content] | None = None
    spent: Mapping[Content, float] = field(default_factory=dict)

    def until(self, finished: Finished) -> float:
        """Seconds of tasks by now that the plan which greed wanted has no use for."""
        if self.useful is None:
            return self.wasted
        new = (
            max(0.0, seconds - self.spent.get(content, 0.0))
            for content, seconds in finished.worked.items()
            if content not in self.useful
        )
        return self.wasted + sum(new)

    def after(self, answer: Answer) -> RegretBudget:
        """With a decision."""
        question, against = answer.question, answer.decision.against
        useful = answer.served[against].contents if against is not None else None
        return RegretBudget(
            self.until(question.finished), useful, question.finished.worked if useful is not None else {}
        )
