"""The choices for the queues of a cluster's nodes, together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.catalog.written.described import described
from qoop.engine.node_queues.ordering import Ordering
from qoop.engine.node_queues.placement import PLACEMENTS, Placement
from qoop.engine.node_queues.queue import NodeQueue


@value
class NodeQueueing:
    """The way in which granted tasks wait at nodes.

    length: the most that wait at one before a task; infinite: any number. most_wait: seconds; where a task would wait
    for so long, it is not sent. ordering: which begins first. placement: where they wait (`PLACEMENTS`). seed: of ties.
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

    @classmethod
    def described(cls, text: str) -> NodeQueueing:
        """The policy of which a trace keeps the `repr`. Raises ConfigError if the text describes none.

        >>> NodeQueueing.described(repr(NodeQueueing(2, Ordering("fifo")))) == NodeQueueing(2, Ordering("fifo"))
        True
        """
        kinds: Mapping[str, Callable[..., Any]] = {"NodeQueueing": cls, "Ordering": Ordering}
        try:
            found: NodeQueueing = described(text, kinds.__getitem__, {"inf": math.inf})
            return found
        except (SyntaxError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{text!r} describes no queues of nodes: {error}") from error

    def queue(self) -> NodeQueue:
        """One for a node."""
        return NodeQueue(self.ordering, self.length)

    def placer(self) -> Placement:
        """The choice of nodes, for one scheduler."""
        return Placement(self.placement, self.ordering, self.length, self.most_wait, self.seed)


def usual(length: int) -> NodeQueueing:
    """Queues of that many tasks at real nodes: those of the job with the least work left begin first, and none is
    passed over for long. A task that would wait for two seconds is called back to an idle slot."""
    return NodeQueueing(length, Ordering("shortest-job", starved_after=5.0, starved_ratio=10.0), call_back_after=2.0)
