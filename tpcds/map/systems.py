"""The systems that are compared in one situation: a query, a course of capacity, what tasks really take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from qoop.adaptive.profiles import CapacityProfile, Point
from qoop.adaptive.replanning.baselines import NO_ROW_COUNTS
from qoop.adaptive.replanning.decision import Decision, DecisionInput, Policy, Stay, switch_to
from qoop.adaptive.schedulers.shares import times
from qoop.adaptive.simulation import SimulatedJob, simulate
from qoop.catalog.value import value
from qoop.engine.events import CapacityExpected
from qoop.engine.state import Limits
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate
from qoop.tpcds.map.clairvoyant import Beam, Schedule, Scripted
from qoop.tpcds.simulate.ground_truth import GroundTruth, known_true
from qoop.tpcds.simulate.workload import Query
from qoop.tpcds.suite.micro import Scenario, fleet_of, ran
from qoop.tpcds.suite.runs import Ran

CLARINET, ROBUST, GREEDY, OURS = "Clarinet", "robust", "greedy", "ours"
ANNOUNCED = "announced"
"""Ours, where the capacity to come is announced."""
HINDSIGHT, CEILING = "hindsight", "ceiling"
REAL = (CLARINET, ROBUST, GREEDY, OURS)
"""Systems that know nothing of the future, the simplest first."""
HYSTERESIS = 0.10


Announcement = tuple[float, tuple[tuple[float, int], ...]]
"""The time of an announcement, and the (seconds, machines) to come."""


@value
class PaperGreedy:
    """The paper's rule and no more: the plan that ends first, if that gains enough of what the running one has left."""

    hysteresis: float = HYSTERESIS

    def decide(self, question: DecisionInput) -> Decision:
        seconds = [one.seconds for one in question.remaining]
        best = min(range(len(seconds)), key=lambda place: (seconds[place], place != question.running, place))
        if seconds[best] < (1.0 - self.hysteresis) * seconds[question.running]:
            return switch_to(question, best)
        return Stay(f"the gain is less than {self.hysteresis:.0%}", question.remaining)


def robust(candidates: Sequence[Candidate], shares: Sequence[Resources]) -> Candidate:
    """The plan whose worst regret over some shares is least: its time there over that of the best plan there."""
    seconds = [[one.finish.seconds(share) for share in shares] for one in candidates]
    best = [min(column) for column in zip(*seconds, strict=True)]
    regret = [max(mine / least for mine, least in zip(row, best, strict=True)) for row in seconds]
    return candidates[min(range(len(regret)), key=regret.__getitem__)]


class Contest(Scenario):
    """All systems in one situation.

    likely: the shares of a robust plan. announcements: of capacity to come, in order of time.
    """

    limits = Limits(max_revocations=1_000_000)  # machines may come and go faster than tasks end

    def __init__(
        self,
        query: Query,
        profile: CapacityProfile,
        ground_truth: GroundTruth,
        likely: Sequence[Resources],
        announcements: Sequence[Announcement] = (),
    ) -> None:
        super().__init__(query, fleet_of(profile, ground_truth.setting.disk), ground_truth)
        self.profile, self.facts, self.likely, self.announcements = profile, ground_truth, likely, announcements

    def real(self) -> dict[str, Ran]:
        """The runs of systems that know nothing of the future."""
        runs = {
            CLARINET: self.pinned(self.launch),
            ROBUST: self.pinned(robust(self.query.candidates, self.likely)),
            GREEDY: self.adaptive(policy=PaperGreedy(), triggers=NO_ROW_COUNTS),
            OURS: self.adaptive(),
        }
        return {**runs, ANNOUNCED: self.announced()} if self.announcements else runs

    def announced(self) -> Ran:
        """A run of ours with announcements."""
        machine = next(iter(self.fleet.machines.values()))
        courses = (
            (since, CapacityExpected(tuple((at, times(machine, count)) for at, count in coming)))
            for since, coming in self.announcements
        )
        scenario = Scenario(self.query, self.fleet.after(*courses), self.ground_truth)
        scenario.limits = self.limits
        return scenario.adaptive()

    def all(self) -> dict[str, Ran]:
        """These runs, and those of systems that know the future."""
        runs = {**self.real(), HINDSIGHT: self.hindsight()}
        tried = [self.scripted(schedule) for schedule in self.schedules if len(schedule) > 1]
        return {**runs, CEILING: min([*tried, *runs.values()], key=lambda one: one.seconds)}

    @cached_property
    def schedules(self) -> list[Schedule]:
        """Of plans, by the beam."""
        true = known_true(self.query, self.facts)
        machine = next(iter(self.fleet.machines.values()), Resources())
        shares = [(one.at, _share(one, machine)) for one in self.profile.changes()]
        return Beam(true.candidates, shares).schedules()

    def scripted(self, schedule: Schedule) -> Ran:
        """A run that changes plan when the schedule says, in no time."""
        launch = schedule[0][1]
        policy: Policy = Scripted(schedule, launch)
        adaptive = self.query.adaptive(self.fleet.available, policy=policy, triggers=NO_ROW_COUNTS)
        job = SimulatedJob("query", 0.0, self.query.candidates[launch].plan, adaptive, limits=self.limits)
        (found,) = simulate(self.fleet, [job], self.ground_truth).jobs
        if found.error is not None:
            raise found.error
        return ran(found)


def _share(point: Point, machine: Resources) -> Resources:
    """All that there is from a point on, as the cluster tells it. machine: one of them."""
    devices = machine.disk * point.machines, machine.network * point.machines
    return Resources(point.all_slots, point.all_memory, *devices)


def json_of(runs: Mapping[str, Ran]) -> dict[str, Any]:
    """Of each system its seconds, changes of plan and lost attempts."""
    return {name: {"seconds": one.seconds, "switches": one.switches, "lost": one.lost} for name, one in runs.items()}
