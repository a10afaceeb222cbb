"""The order in which tasks that wait at a node begin (the source's algorithm 6).

The source's strategies rank jobs. Of one job, the task with the longest way to the end of the job begins first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.engine.node_queues.ticket import JobLeft, Ticket
from qoop.engine.task import JobId

Left = Mapping[JobId, JobLeft]
"""The work that jobs have left, as far as a node has heard; of others it knows what their tickets say."""

STRATEGIES: Mapping[str, Callable[[Ticket, JobLeft], float]] = {
    "fifo": lambda ticket, left: ticket.since,
    "shortest-job": lambda ticket, left: left.seconds,
    "least-tasks": lambda ticket, left: left.tasks,
    "shortest-task": lambda ticket, left: ticket.seconds,
    "earliest": lambda ticket, left: ticket.arrival,
}
"""By name, the rank of a task: the lowest begins first."""


@value
class Ordering:
    """A strategy, and when a task is starved: it then begins before all that are not.

    starved_after: seconds of waiting. starved_ratio: times the seconds that the task should take. The lower of the two
    counts; infinite: never. Raises ConfigError for a strategy that does not exist, or a limit below zero.

    >>> Ordering("shortest-job", starved_after=10.0).strategy
    'shortest-job'
    """

    strategy: str = "shortest-job"
    starved_after: float = math.inf
    starved_ratio: float = math.inf

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigError(f"no order {self.strategy!r} of waiting tasks; there are {', '.join(STRATEGIES)}")
        if min(self.starved_after, self.starved_ratio) < 0:
            raise ConfigError(f"a task cannot be starved before it waits: {self}")

    def starved(self, ticket: Ticket, now: float) -> bool:
        """True if the task has waited for longer than it may be passed over."""
        ratio = ticket.seconds * self.starved_ratio if ticket.seconds else self.starved_ratio
        return now - ticket.since > min(self.starved_after, ratio)

    def key(self, ticket: Ticket, left: Left, now: float) -> tuple[float, ...]:
        """Sorts waiting tasks at one moment: the least begins first, and no two are equal."""
        last = ticket.arrival, -ticket.path, ticket.since, ticket.attempt.number
        if self.starved(ticket, now):
            return 0, 0.0, *last
        rank = STRATEGIES[self.strategy](ticket, left.get(ticket.job, ticket.left))
        return 1, rank, *last

    def first(self, tickets: Iterable[Ticket], left: Left, now: float) -> Ticket:
        """The task that begins next. Raises ValueError if there is none."""
        return min(tickets, key=lambda ticket: self.key(ticket, left, now))
