"""Price and completion time of one query on the paper's cluster: what can be had, and the Pareto line of it.

A plan on a number of slots takes the seconds that its finish time says, and costs the price of the slots for so long.
Some offers of the line are run in virtual time, as a job that :class:`~qoop.replanning.price.Priced` decides for by the
worth of a second at which the line has that offer; the picture shows the time that they then take, and their cost. Such
a job chooses its slots again whenever it decides, so its cost is added up from one decision to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from qoop.planner.finish import NOTHING
from qoop.profiles.market import prices
from qoop.replanning.decision import Decision, Policy, Question
from qoop.replanning.price import Offer, Priced, offers, pareto
from qoop.simulation import Fleet, SimulatedJob, simulate
from qoop.tpcds.simulate.ground_truth import measured
from qoop.tpcds.simulate.workload import PAPER, Query, workload
from qoop.tpcds.suite.charts import COLOURS, CYCLE, Picture, labels, log_ticks, sheet

_FIRST_SLOTS = 1.0
"""Until the first decision."""


@dataclass(frozen=True, slots=True)
class Ran:
    """An offer that was run: what it was believed to take and to cost, and what it took and cost."""

    offer: Offer
    seconds: float
    dollars: float
    switches: int


@dataclass(frozen=True)
class Taking:
    """Decides as `policy` does, and writes down from which second of the job on how many slots are taken.

    No history tells that. A simulation asks in the order of time, and each decision holds as soon as it is made.
    """

    policy: Policy
    taken: list[tuple[float, float]] = field(default_factory=list)

    def decide(self, question: Question) -> Decision:
        decision = self.policy.decide(question)
        slots = question.share.cpu if decision.slots is None else decision.slots
        self.taken.append((question.now, slots))
        return decision


def slot_seconds(taken: Sequence[tuple[float, float]], seconds: float) -> float:
    """Slots times the time for which they were taken. seconds: until the job ended.

    Tasks that run when fewer are taken go on to their end: they are few, and not counted.

    >>> slot_seconds([(0.0, 4.0), (10.0, 2.0)], 15.0)
    50.0
    """
    until = [*(at for at, _ in taken[1:]), seconds]
    return sum(slots * (end - at) for (at, slots), end in zip(taken, until, strict=True))


@dataclass(frozen=True)
class Line:
    """The offers for a query. launch: the line if there were only the plan that is best on all slots.

    price: dollars of a slot and hour.
    """

    query: int
    price: float
    offers: tuple[Offer, ...]
    line: tuple[Offer, ...]
    launch: tuple[Offer, ...]
    ran: tuple[Ran, ...]


def run(directory: Path, number: int, seed: int = 1, runs: int = 5) -> Line:
    """The line of one query at the mean price of a made-up market. runs: how many of its offers to run.

    Raises ConfigError, SourceError.
    """
    query = workload(directory, (number,))[number]
    market = prices(seed)
    price = market.cost(0.0, market.seconds) / market.seconds / PAPER.slots  # a slot and second
    finishes = [one.finish for one in query.candidates]
    found = offers(finishes, [NOTHING] * len(finishes), PAPER.whole, price)
    line = pareto(found)
    alone = min((one for one in found if one.slots == PAPER.whole.cpu), key=lambda one: one.seconds).place
    ran = tuple(_run(directory, query, one, worth, price) for one, worth in _some(line, runs))
    return Line(number, price * 3600, found, line, pareto(one for one in found if one.place == alone), ran)


def worths(line: Sequence[Offer]) -> list[tuple[Offer, float]]:
    """The offers that are best at some worth of a second, in dollars, and such a worth.

    These are the corners of the line's lower hull; between them is what only a deadline picks.

    >>> line = [Offer(0, 1, 10.0, 1.0), Offer(0, 2, 6.0, 2.0), Offer(0, 4, 4.0, 4.0)]
    >>> [(one.slots, worth) for one, worth in worths(line)]
    [(1, 0.125), (2, 0.625), (4, 1.375)]
    """
    hull: list[Offer] = []
    for one in line:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], one):
            hull.pop()
        hull.append(one)
    slopes = [_slope(before, after) for before, after in pairwise(hull)]
    ends = [0.0, *slopes, 2 * slopes[-1] - (slopes[-2] if len(slopes) > 1 else 0.0)] if slopes else [0.0, 0.0]
    return [(one, (low + high) / 2) for one, (low, high) in zip(hull, pairwise(ends), strict=True)]


def _slope(before: Offer, after: Offer) -> float:
    """Dollars for a second less."""
    return (after.dollars - before.dollars) / (before.seconds - after.seconds)


def _some(line: Sequence[Offer], count: int) -> list[tuple[Offer, float]]:
    corners = worths(line)
    places = {round(i * (len(corners) - 1) / max(1, count - 1)) for i in range(count)}
    return [corners[place] for place in sorted(places)]


def _run(directory: Path, query: Query, offer: Offer, worth: float, price: float) -> Ran:
    """The job begins with the plan of the offer and decides for itself, with so much that a second is worth."""
    policy = Taking(Priced(((0.0, price),), worth), [(0.0, _FIRST_SLOTS)])
    fleet = Fleet.uniform(PAPER.machines, PAPER.machine)
    adaptive = query.adaptive(PAPER.whole, policy=policy, begin_with=_FIRST_SLOTS)
    job = SimulatedJob("query", 0.0, query.candidates[offer.place].plan, adaptive)
    (ran,) = simulate(fleet, [job], measured(directory, {query.number: query})).jobs
    if ran.error is not None:
        raise ran.error
    return Ran(offer, ran.seconds, slot_seconds(policy.taken, ran.seconds) * price, ran.switches)


def table(found: Line) -> str:
    """The line in words."""
    lines = [f"query {found.query}: {len(found.line)} of {len(found.offers)} offers are on the line"]
    lines += [
        f"  plan {one.place}, {one.slots:4g} slots: {one.seconds:7.1f} s, {one.dollars:8.4f} $" for one in found.line
    ]
    lines += [
        f"  run, {one.offer.slots:g} slots: {one.seconds:.1f} s, {one.offer.seconds:.1f} believed; {one.dollars:.4f} $"
        for one in found.ran
    ]
    return "\n".join([*lines, f"only the plan that is best on all slots: {_dearer(found):.0%} dearer at the most"])


def _dearer(found: Line) -> float:
    """By how much that plan is dearer where it ends as soon as an offer of the line."""
    more = [
        min((one.dollars for one in found.launch if one.seconds <= 1.0001 * offer.seconds), default=offer.dollars)
        / offer.dollars
        for offer in found.line
    ]
    return max(more) - 1.0


def to_json(found: Line) -> dict[str, object]:
    """The figures as JSON values."""
    return asdict(found)


def draw(found: Line) -> Picture:
    """The offers as dots by plan, the line, and what was run. Raises ConfigError without the extra `plot`."""
    with sheet(width=6.4, height=4.0) as page:
        (axes,) = page.axes
        for place in sorted({one.place for one in found.offers}):
            mine = [one for one in found.offers if one.place == place]
            colour = CYCLE[place % len(CYCLE)]
            axes.plot([one.dollars for one in mine], [one.seconds for one in mine], ".", color=colour, alpha=0.45,
                      label=f"plan {place}, 1 to {PAPER.whole.cpu:g} slots")  # fmt: skip
        axes.step([one.dollars for one in found.line], [one.seconds for one in found.line], where="post",
                  color=COLOURS["QOOP"], label="Pareto line")  # fmt: skip
        axes.plot([one.dollars for one in found.ran], [one.seconds for one in found.ran], "x", color="black",
                  markersize=7, label="run, with what tasks really take")  # fmt: skip
        for one in found.ran:
            axes.annotate(f"on {one.offer.slots:g}", (one.dollars, one.seconds), (5, 4), fontsize=7,
                          textcoords="offset points")  # fmt: skip
        dear = 2.5 * max(one.dollars for one in (*found.line, *(run.offer for run in found.ran)))
        axes.set_xlim(0.0, dear)  # what is far beyond any use is left out
        shown = [one.seconds for one in found.offers if one.dollars <= dear] + [one.seconds for one in found.ran]
        log_ticks(axes, _ticks(shown), "y")
        title = f"Query {found.query}: price and completion time, {found.price:.4f} $ a slot and hour"
        labels(axes, title, "$", "seconds")
        return page.picture()


def _ticks(values: Sequence[float]) -> list[float]:
    ticks = [base * 10.0**power for power in range(-2, 7) for base in (1, 2, 5)]
    return [tick for tick in ticks if min(values) <= tick <= max(values)]
