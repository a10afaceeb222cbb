"""The choices for the queues of a cluster's nodes, together."""

from __future__ import annotations

import math

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.engine.node_queues.ordering import Ordering
from qoop.engine.node_queues.placement import PLACEMENTS, Placement
from qoop.engine.node_queues.queue import NodeQueue


@value
class NodeQueueing:
    """The way in which granted tasks wait at nodes.

    length: the most that wait at one before a task; infinite: any number. most_wait: seconds; where a task would wait
    for so long, it is not sent. ordering: who begins first. placement: where they wait (`PLACEMENTS`). seed: of ties.
    call_back_after: seconds; a task that would wait for longer is called back if a slot is idle elsewhere.
    Raises ConfigError for a queue that could hold nothing, or a placement that does not exist.
    """

    length: float
    ordering: Ordering = Ordering()
    placement: str = "wait"
    most_wait: float = math.inf
    seed: int = 0
    call_back_after: float = math.inf

    def __post_init__(self) -> None:
        if not self.length >= 1 or not self.most_wait > 0:
            raise ConfigError(f"no task could wait in a queue like this: {self}; without queues, pass None")
        if self.placement not in PLACEMENTS:
            raise ConfigError(f"no placement {self.placement!r}; there are {', '.join(PLACEMENTS)}")

    def queue(self) -> NodeQueue:
        """One for a node."""
        return NodeQueue(self.ordering, self.length)

    def placer(self) -> Placement:
        """The choice of nodes, for one scheduler."""
        return Placement(self.placement, self.ordering, self.length, self.most_wait, self.seed)
