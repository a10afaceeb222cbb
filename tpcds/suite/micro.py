"""Single queries under profiles, in virtual time: one record of a run serves figures 2.6 to 2.13 and the hindsight.

Every system but Volcano begins with the plan that ends first on the resources at launch. All have the same candidates
and the same estimates. The ground truth is of :mod:`~qoop.tpcds.simulate.ground_truth`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from qoop.adaptive.profiles import CapacityProfile
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.baselines import clarinet, volcano
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.simulation import Fleet, JobRun, SimulatedJob, SimulationOptions, World, simulate
from qoop.catalog.errors import ExecutionError
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.history import Decided, Succeeded
from qoop.engine.state import USUAL_LIMITS
from qoop.engine.task import TaskSpec
from qoop.planner.search.candidate import Candidate
from qoop.tpcds.simulate.ground_truth import GroundTruth, distorted
from qoop.tpcds.simulate.ground_truth import measured as ground_truth_of
from qoop.tpcds.simulate.workload import PAPER, Query
from qoop.tpcds.suite import situations
from qoop.tpcds.suite.runs import CLARINET, HINDSIGHT, NO_BACKTRACKING, QOOP, VOLCANO, Ran, RunRecord
from qoop.tpcds.suite.situations import Situation

Script = Callable[[TaskSpec], Outcome]

SWITCH_SECONDS = 0.01
"""That the engine needs to go over to another plan of 5,000 tasks: 6 to 9 ms of cpu. Left out but for the ablation:
a median task takes 2.6 s."""
DECISION_SECONDS = 0.1
"""Of virtual time that a decision takes while the plan goes on: those of queries at this scale take 60 ms of cpu in the
mean, so this is rather too much."""


class Scenario:
    """One query on one fleet. ground_truth: what tasks come to. switching: seconds that a change of plan takes.

    limits: what the job allows itself before it gives up.
    """

    limits = USUAL_LIMITS

    def __init__(self, query: Query, fleet: Fleet, ground_truth: Script | World, switching: float = 0.0) -> None:
        self.query, self.fleet, self.ground_truth, self.switching = query, fleet, ground_truth, switching
        self._pinned: dict[int, Ran] = {}

    @cached_property
    def launch(self) -> Candidate:
        """The plan that ends first on the resources at the start."""
        return clarinet(self.query.candidates, self.fleet.available)

    def pinned(self, candidate: Candidate) -> Ran:
        """A run held to one of the plans."""
        number = self.query.candidates.index(candidate)
        if number not in self._pinned:
            self._pinned[number] = ran(self._run(candidate, None), number)
        return self._pinned[number]

    def adaptive(self, **more: Any) -> Ran:
        """A run that may change plan. more: policy and triggers."""
        found = ran(self._run(self.launch, self.query.adaptive(self.fleet.available, **more)))
        if not found.switches:  # then it was as if held to its plan: no need to run that
            number = self.query.candidates.index(self.launch)
            self._pinned.setdefault(number, replace(found, deciding=0.0, plan=number, decisions=0, tempted=0))
        return found

    def hindsight(self) -> Ran:
        """The best run of those that are held to one plan."""
        return min((self.pinned(one) for one in self.query.candidates), key=lambda one: one.seconds)

    def _run(self, candidate: Candidate, adaptive: Adaptive | None) -> JobRun:
        jobs = [SimulatedJob("query", 0.0, candidate.plan, adaptive, limits=self.limits)]
        options = SimulationOptions(decision_seconds=DECISION_SECONDS, switch_seconds=self.switching)
        run = simulate(self.fleet, jobs, self.ground_truth, options=options)
        (job,) = run.jobs
        if job.error is not None:
            raise job.error
        if job.ended == float("inf"):
            raise ExecutionError(f"query {self.query.number} never ends: there are no resources left for it")
        return job


def ran(job: JobRun, plan: int | None = None) -> Ran:
    """The record of a run."""
    decisions = [record for record in job.history if isinstance(record, Decided)]
    tasks = sum(isinstance(record, Succeeded) for record in job.history)
    return Ran(
        seconds=job.seconds,
        tasks=tasks,
        lost=job.attempts - tasks,
        switches=job.switches,
        depths=tuple(one.stages_back for one in decisions if one.switched),
        deciding=sum(one.planner_seconds for one in decisions),
        plan=plan,
        decisions=len(decisions),
        tempted=sum(map(tempting, decisions)),
    )


def tempting(decision: Decided) -> bool:
    """True if another plan than the running one was believed to end sooner."""
    seconds = {one.plan: one.seconds for one in decision.candidates}
    return min(seconds.values()) < seconds[decision.running]


def scenario(situation: Situation, percent: float = 0.0) -> Scenario:
    """The scenario of a situation. percent: the error with which demands and durations are estimated."""
    ground = situation.ground
    fleet = fleet_of(situations.profile(situation))
    ground_truth = known_ground_truth(ground.directory, situation.query)
    query = situations.query(ground.directory, situation.query)
    return Scenario(query, fleet, distorted(ground_truth, percent) if percent else ground_truth)


def fleet_of(profile: CapacityProfile, disk: float = 0.0) -> Fleet:
    """The machines of a profile with the links of the paper's. A share of a cluster comes as one machine, whose
    slots are anywhere: what crosses the network then is not known, and left out of belief and ground truth alike.

    disk: bytes in the second of each machine; of a share the disks of all machines.
    """
    several = any(point.machines > 1 for point in profile.points)
    return Fleet.of(profile, network=PAPER.link if several else 0.0, disk=disk if several else disk * PAPER.machines)


@lru_cache(maxsize=64)
def known_ground_truth(directory: Path, query: int) -> GroundTruth:
    """The ground truth of a query, kept for the process."""
    return ground_truth_of(directory, {query: situations.query(directory, query)})


def measure(situation: Situation) -> dict[str, Any]:
    """One record, as JSON values."""
    return measured(scenario(situation), situation).json()


HINDSIGHT_REGIONS = 3
"""In that many regions of each class every plan is run, for Volcano and for the best in hindsight: most of the work."""


def measured(here: Scenario, situation: Situation) -> RunRecord:
    """The runs of all systems of a query in one region."""
    candidates = here.query.candidates
    ours = here.adaptive()
    # without backtracking nothing is decided otherwise where nothing is gone back on
    without = here.adaptive(policy=Greedy(backtracking=False)) if any(ours.depths) else ours
    runs = {
        QOOP: ours,
        CLARINET: here.pinned(here.launch),
        NO_BACKTRACKING: without,
    }
    if situation.region < HINDSIGHT_REGIONS:
        runs |= {VOLCANO: here.pinned(volcano(candidates)), HINDSIGHT: here.hindsight()}
    return record(here, situation, runs)


def record(here: Scenario, situation: Situation, runs: Mapping[str, Ran]) -> RunRecord:
    """The runs as they are kept."""
    return RunRecord(
        situation.query, situation.kind, situation.volatility, situation.region, here.query.joins,
        len(here.query.candidates), runs,
    )  # fmt: skip
