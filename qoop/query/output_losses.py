"""The work that is lost with a process, and the plans to prefer because of it.

Outputs that survive a process are those of finished tasks, so the longer the tasks of a plan are, the more is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import TYPE_CHECKING

from qoop.adaptive.replanning.greedy import BOTH_ERR
from qoop.catalog.value import value
from qoop.engine.task import AGAIN_PART, SLICE_SECONDS, CheckpointKey, checkpoint_key, slices_of
from qoop.planner.finish import NOTHING, Done
from qoop.planner.plan import Resources, Stage
from qoop.planner.search.candidate import Candidate

if TYPE_CHECKING:
    from typing import Self

BETWEEN_LOSSES = 60.0
"""Assumed seconds between losses of processes, where a folder of checkpoints is new: to have one says that losses are
expected."""

KEEPING_SECONDS = 0.1
"""Seconds that keeping the outputs of one more stage costs."""

SURVIVING = 1.5
"""The factor by which stages may exceed DuckDB's plan at a new folder, for queries that take much longer than
`OutputLosses.worth_losing`. The excess falls as the expected losses do."""

SURVIVING_FROM = 3.0
"""Stages may take all of `SURVIVING` from this multiple of `OutputLosses.worth_losing` on. The loss of a shorter query
costs little more than estimates err. Query 23 at scale 10 on DuckDB 2.0.1, in 2 GB, takes 2.2 s by DuckDB's plan, whose
estimate is 3.6 s. It takes 6.1 s in stages."""


def part_lost(seconds: float, between: float = BETWEEN_LOSSES) -> float:
    """The factor by which work grows, if tasks of that many seconds are lost with processes from time to time.

    >>> part_lost(30.0)
    1.25
    """
    return 1.0 + 0.5 * seconds / between


GOES_ON_PART = 0.5
"""A plan that has begun goes on where the rest of its tasks take at most this part of a life."""

GOES_ON_WITH_OUTPUTS = 0.7
"""The same once outputs exist, which most other plans would not use. Of 40 states of queries 4, 11, 14, 23, 47, 67 and
78 at scale 10 and 30 with a longest task of 0.5 to 0.7 of a life, 4 had a plan that would save the 0.35 s of planning
again. Of 28 states with one of 0.7 to 1, 18 had one."""

LONGEST_PART = 0.9
"""The part of a life up to which the loss of a longer and longer task grows."""

HOPELESS = 100.0
"""The factor for a task that takes longer than a life: it may never end."""

MOST_UNDERESTIMATED = 4.0
"""The factor by which tasks may take longer than estimated, at most. Plans for lives that are a smaller part of those
seen would only have more tasks, and each is cut in other parts than the outputs that exist. What is made in slices
takes longer for that alone, and to cut it finer each time never ends: query 47 at scale 10 with kills at a mean of a
fourth of its time took 4.9 times DuckDB's time undisturbed, by cpu seconds, and over 10 times without this bound."""

SHARED_TAKES = 1.8
"""The multiple of its estimate that a task takes which has several slots. Queries 23 and 78 at scale 10 take 1.8 and
2.3 times as long by plans of one task, and the last task of the usual plan of query 78 some 4 times. Those of one slot
take 1.2 to 1.7 times as long."""

OUTPUT_SECONDS = 0.015
"""Seconds that one more task with a durable output costs: query 67 at scale 10 takes 11.7 cpu seconds in 193 tasks, and
9.7 in 61."""

FREE = 0.03
"""See `OutputLosses.free`. Query 78 at scale 10, on two slots and 2 GB, took 3.79 s by the usual plan, whose last task
has half of the work. It took as long by one that should take 0.6 % more, and has no task above 0.7 s."""

MUCH = 1.5
"""A plan that has begun is left for one that takes less than its seconds over this."""

NEARLY = 1.03
"""Plans count as equal up to this multiple of the seconds of the best. The one with the shortest tasks is taken."""


@value
class OutputLosses:
    """The losses that a session plans for. survive: outputs are to survive a process, of the session's or of a node.

    life: seconds that its process is expected to last, and those after it, for a query that lives through its
    processes; infinite: not known. None: the session has no such query. between: seconds that queries run between two
    losses.
    """

    survive: bool
    life: float | None = None
    between: float = BETWEEN_LOSSES

    @property
    def worth_losing(self) -> float:
        """Seconds of work that may be lost with a process: the optimal interval between checkpoints (Young, "A First
        Order Approximation to the Optimum Checkpoint Interval", 1974). Losses never lower it: a run must accept the
        plan that the lost one began with."""
        return sqrt(2.0 * KEEPING_SECONDS * max(BETWEEN_LOSSES, self.between))

    @property
    def free(self) -> float:
        """The part of a query's seconds that short tasks may take anyway: the rate of losses is a guess."""
        return FREE if self.survive else 0.0

    @property
    def slice_seconds(self) -> float:
        """The seconds of a task beyond which it is cut into slices: as `worth_losing`, for the expected life."""
        if self.life is None:
            return inf
        return min(sqrt(2.0 * SLICE_SECONDS * self.life), GOES_ON_PART * self.life)

    def slowed(self, candidates: Sequence[Candidate], share: Resources, made: Mapping[CheckpointKey, float]) -> Self:
        """The same if tasks take longer than estimated, as the outputs that exist did: less work is done in a life.

        made: the seconds that these outputs took, by key.
        """
        if self.life is None or not made:
            return self
        estimates: dict[CheckpointKey, float] = {}
        for one in candidates:
            for stage, seconds in zip(one.plan.stages, one.finish.on(share)[0].seconds, strict=True):
                estimates.update((checkpoint_key(stage, part), seconds) for part in range(stage.width))
        estimated = sum(seconds for key, seconds in estimates.items() if key in made)
        factor = sum(seconds for key, seconds in made.items() if key in estimates) / estimated if estimated else 1.0
        return replace(self, life=self.life / min(MOST_UNDERESTIMATED, max(1.0, factor)))

    def wary(self, candidates: Sequence[Candidate], tolerance: float) -> Sequence[Candidate]:
        """The candidates, where plans of one task count as longer if they lose as much with their process as DuckDB's.
        tolerance: see `tolerance`."""
        longer = 1.0 + (BOTH_ERR - 1.0) * (tolerance - 1.0) / (SURVIVING - 1.0)
        return [one.slower(longer) if one.variant.lone else one for one in candidates]

    def to_go_on(self, candidates: Sequence[Candidate], share: Resources, theirs: float) -> Candidate | None:
        """The plan of stages for the next process, if this one is killed in the `theirs` seconds of DuckDB's plan."""
        stages = [one for one in candidates if not one.variant.lone]
        if not stages:
            return None
        losses = replace(self, life=theirs / 2.0)
        return stages[losses.first_to_end(stages, share, [NOTHING] * len(stages))]

    def first_to_end(self, candidates: Sequence[Candidate], share: Resources, done: Sequence[Done]) -> int:
        """The place of the plan whose rest ends first by processes that last one `life` each; of nearly equal ones,
        that with the shortest tasks. The plan of which most is done goes on unless another ends much earlier: the
        next processes may have other sizes."""
        seconds = [self.seconds(one, share, parts) for one, parts in zip(candidates, done, strict=True)]
        made = [_made(one, share, parts) for one, parts in zip(candidates, done, strict=True)]
        most = max(range(len(made)), key=lambda place: (made[place], -seconds[place]))
        if made[most] and seconds[most] <= MUCH * min(seconds):
            return most
        near = [place for place, one in enumerate(seconds) if one <= NEARLY * min(seconds)]
        return min(near, key=lambda place: (candidates[place].longest_task(share), seconds[place]))

    def seconds(self, one: Candidate, share: Resources, done: Done = NOTHING) -> float:
        """The seconds until the rest of a plan is done, where each process loses its running tasks."""
        seconds = one.finish.seconds(share, done)
        if self.life is None:
            return seconds
        units = self._units(one, share, done)
        work = sum(unit.number * unit.seconds for unit in units)
        made = sum(unit.number * unit.takes * self._made_again(unit.lasts) for unit in units)
        outputs = sum(unit.number for unit in units)
        return seconds * made / work + OUTPUT_SECONDS * outputs / share.cpu if work else seconds

    def ends(self, one: Candidate, share: Resources, done: Done) -> bool:
        """True if each task that a plan has yet to do ends well within a life.

        Those that are lost together count only before any output exists: to plan again takes part of a life, and would
        not divide them.
        """
        units = [unit for unit in self._units(one, share, done) if unit.number and not (unit.together and done.parts)]
        part = GOES_ON_WITH_OUTPUTS if done.parts else GOES_ON_PART
        return self.life is None or max((unit.lasts for unit in units), default=0.0) <= part * self.life

    def _units(self, one: Candidate, share: Resources, done: Done) -> list[_Unit]:
        """The work that a plan has yet to do: its tasks, or their slices. Those whose outputs serve no other process,
        since they depend on what may come out differently, are one unit: they all run in the process that ends the
        query."""
        seconds, left = one.finish.on(share)[0].seconds, one.finish.needed(done)
        units, together = list[_Unit](), 0.0
        for stage, number, length, dependent in zip(one.plan.stages, left, seconds, _dependent(one), strict=True):
            if dependent:
                together += number * length
            else:
                slices = max(1, slices_of(stage, length, self.slice_seconds))
                of_outputs = slices > 1 and any(item.mode == "partition" for item in stage.stage_inputs)
                each = length / slices + AGAIN_PART * length * of_outputs
                takes = each * _longer(stage)
                units.append(_Unit(number * slices, each, takes, takes))
        return [*units, _Unit(1, together, together, together / share.cpu, together=True)] if together else units

    def _made_again(self, seconds: float) -> float:
        """The number of times that a task of that length is begun until it ends, in the mean."""
        if self.life is None or self.life == inf:
            return part_lost(seconds, self.between)
        return HOPELESS if seconds > self.life else 1.0 / (1.0 - min(LONGEST_PART, seconds / self.life))

    def with_losses(self, seconds: float) -> float:
        """The seconds that one task takes, with the work that is lost with its process."""
        return seconds * self._made_again(seconds) if self.survive else seconds

    def tolerance(self, seconds: float, unfinished: bool) -> float:
        """The factor by which stages may exceed DuckDB's plan, for a query to begin with them.

        seconds: those of DuckDB's plan. unfinished: a run of the query did not end, so it may take longer.
        """
        if not self.survive:
            return 1.0
        if unfinished:
            return SURVIVING
        rate = min(1.0, BETWEEN_LOSSES / self.between)
        least, most = self.worth_losing, SURVIVING_FROM * self.worth_losing
        part = 1.0 if seconds >= most else max(0.0, seconds - least) / (most - least)
        return 1.0 + (SURVIVING - 1.0) * rate * part

    def among(self, candidates: Sequence[Candidate], share: Resources) -> Sequence[Candidate]:
        """The candidates with their seconds including losses. Plans with tasks of more than
        `worth_losing` are left out if there are others."""
        if not self.survive:
            return candidates
        if self.life is not None:
            return [one.slower(self.seconds(one, share) / one.finish.seconds(share)) for one in candidates]
        longest = [one.longest_task(share) for one in candidates]
        most = max(self.worth_losing, min(longest, default=0.0))
        pairs = zip(candidates, longest, strict=True)
        return [one.slower(part_lost(seconds, self.between)) for one, seconds in pairs if seconds <= most]


@value
class _Unit:
    """Work that is lost as a whole with a process: `number` times `seconds` by the estimates, which are held to take
    `takes`, each over `lasts` seconds. together: it is that of several tasks."""

    number: int
    seconds: float
    takes: float
    lasts: float
    together: bool = False


def _longer(stage: Stage) -> float:
    """The multiple of its estimate that a task of a stage takes. That of DuckDB's plan rests on its runs."""
    return SHARED_TAKES if stage.slots > 1 and not stage.whole else 1.0


def _made(one: Candidate, share: Resources, done: Done) -> float:
    """Estimated seconds of the outputs that exist."""
    seconds = one.finish.on(share)[0].seconds
    return sum(done.parts.get(stage.id, 0) * length for stage, length in zip(one.plan.stages, seconds, strict=True))


def _dependent(one: Candidate) -> list[bool]:
    """By stage, whether its outputs depend on what may come out differently when it is run again."""
    found: list[bool] = []
    for stage, sources in zip(one.plan.stages, one.finish.sources, strict=True):
        found.append(not stage.shareable or any(found[source] for source, _ in sources))
    return found
