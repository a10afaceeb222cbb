"""Physical forms: one query planned as if the machine, the data and the costs were others.

The planner must give right rows whatever it believes, so a form lies to it: about how many rows there are (which
changes join orders and build sides), about when a scan is worth splitting, a side worth broadcasting and work worth
hashing. :func:`planning_as` puts a form in force for the queries planned inside its ``with``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

from qoop.planner import planner
from qoop.planner.algebra.relation import Relation
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.profile import Profile
from qoop.planner.exchange import exchange
from qoop.planner.exchange.exchange_cost import JoinSeconds
from qoop.planner.variants import USUAL, Thresholds
from qoop.query.plan_store import PlanStore

SPLIT = replace(USUAL, spread_seconds=0.0, task_seconds=1e-9, stage_seconds=10.0, most_parts=5)
"""Scans split as far as they go; aggregates in two phases."""
HASH = replace(USUAL, spread_seconds=0.0, task_seconds=1e-9, single_seconds=-1.0, stage_seconds=0.0, gather_rows=0.0,
               most_parts=5, inline_seconds=0.0)  # fmt: skip
"""Everything that can be hashed is hashed."""


def thresholds(rng: Random) -> Thresholds:
    """Thresholds that nobody would choose, each on one side of what is usual or the other."""
    return Thresholds(
        spread_seconds=rng.choice((0.0, 0.0, 1e9)),
        task_seconds=rng.choice((1e-9, 1e-9, 1e-5)),
        inline_seconds=rng.choice((0.0, 1e9)),
        single_seconds=rng.choice((-1.0, 1e9)),
        threads_seconds=rng.choice((0.0, 1e9)),
        stage_seconds=rng.choice((0.0, 10.0)),
        gather_rows=rng.choice((0.0, 1e9)),
        most_parts=rng.choice((2, 3, 7)),
    )


class Mistaken(Cardinality):
    """Estimates that are wrong by up to a thousand times; there are always values enough to hash by."""

    rng = Random(0)

    def _estimate(self, relation: Relation) -> Profile:
        profile = super()._estimate(relation)
        return replace(profile, rows=profile.rows * 10 ** self.rng.uniform(-3, 3))

    def distinct(self, relation: Relation, columns: Any) -> float:
        return 1e6


class AtRandom(JoinSeconds):
    """Chooses between the forms of a join by lot."""

    rng = Random(0)

    def repeat_right(self) -> float:
        return self.rng.random()

    repeat_left = hash = gather = repeat_right


@contextmanager
def planning_as(form: str) -> Iterator[None]:
    """Plan in this form: ``usual``, ``split``, ``hash``, or ``random N`` with a seed N.

    Texts are planned again: the plan that a session keeps for a text may be of another form.
    """
    with patch.object(PlanStore, "find", lambda *_: None), _planner_believes(form):
        yield


@contextmanager
def _planner_believes(form: str) -> Iterator[None]:
    if form == "usual":
        yield
        return
    rng = Random(form)
    limits = {"split": SPLIT, "hash": HASH}.get(form) or thresholds(rng)
    with (
        patch.object(planner, "place_exchanges", lambda *given: exchange.place_exchanges(*given[:5], limits)),
        patch.object(planner, "Cardinality", Mistaken),
        patch.object(exchange, "JoinSeconds", _hashing if form == "hash" else AtRandom),
        patch.object(Mistaken, "rng", rng),
        patch.object(AtRandom, "rng", rng),
    ):
        yield


class _hashing(JoinSeconds):
    def repeat_right(self) -> float:
        return 1.0

    repeat_left = repeat_right

    def hash(self) -> float:
        return 0.0

    def gather(self) -> float:
        return 2.0
