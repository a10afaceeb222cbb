"""Switches of plan that are forced: after tasks drawn at random, to plans drawn at random, whatever they cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.decision import Decision, DecisionInput, Stay, switch_to
from qoop.adaptive.replanning.triggers import Cause, Triggers
from qoop.adaptive.schedulers.terms import Terms
from qoop.engine.history import Record, Succeeded
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate
from qoop.query.job import Job, Planned
from qoop.session.session import Session

MOST_SWITCHES = 6


class AtCommits(Triggers):
    """Every committed task is a reason to decide."""

    def cause(self, record: Record, basis: Resources, without_a_slot: bool = False) -> Cause | None:
        return Cause("commit", f"{record.attempt} committed", urgent=True) if isinstance(record, Succeeded) else None


@dataclass(frozen=True)
class AtRandom:
    """Goes over to another plan at some of the times it is asked, at most MOST_SWITCHES times."""

    random: Random
    often: float
    switches: list[int] = field(default_factory=list)

    def decide(self, question: DecisionInput) -> Decision:
        others = [place for place in range(len(question.options)) if place != question.running]
        if not others or len(self.switches) >= MOST_SWITCHES or self.random.random() > self.often:
            return Stay("it was not to be", question.remaining)
        self.switches.append(self.random.choice(others))
        return switch_to(question, self.switches[-1])


@dataclass(frozen=True)
class Plans:
    """Finds the same plans whatever was seen."""

    candidates: tuple[Candidate, ...]

    def __call__(self, observed: Observations) -> tuple[Candidate, ...]:
        return self.candidates


def switched(
    session: Session,
    planned: Planned,
    launch: Candidate,
    others: tuple[Candidate, ...],
    seed: int,
    terms: Terms | None = None,
    resume: bool = False,
) -> Job:
    """Run a query from one plan through others.

    planned: the query, in this session or another over the same tables. terms, resume: as in `Session.submit`.
    """
    random = Random(seed)
    policy = AtRandom(random, often=random.choice((0.1, 0.5, 1.0)))
    adaptive = Adaptive(Plans(others), session.available, at_once=True, policy=policy, triggers=AtCommits())
    return session.start(replace(planned, plan=launch.plan, adaptive=adaptive), terms=terms, resume=resume)
