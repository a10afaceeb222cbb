"""The ways in which simulated machines read from each other, and from a store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.engine.exchanges.order import check_order
from qoop.planner.plan import StageId


@value
class ObjectStore:
    """A store that has what lay on machines that are gone. latency: seconds of a request. price: of a request to read.
    only: outputs are read from there in any case, as where machines do not serve each other."""

    latency: float = 0.03
    price: float = 0.0
    only: bool = False


@value
class Exchanges:
    """The way in which attempts get their inputs.

    order: of the pulls that wait at a machine (:mod:`~qoop.engine.exchanges.order`). fan_in: answers that come into a
    machine at a time; per_task: of one task. rotated: tasks begin at different senders. latency: seconds from a request
    until its rows begin to flow. segments: pieces in which an answer is asked for, one after the other as turns come.
    paths: by stage, in place of the seconds to the end of the job, where an order was searched.
    Raises ConfigError for an order that does not exist, or bounds that let nothing in.
    """

    order: str = "fifo"
    fan_in: float = 4
    per_task: float = math.inf
    rotated: bool = True
    latency: float = 0.0
    segments: Mapping[StageId, int] = field(default_factory=dict)
    paths: Mapping[StageId, float] = field(default_factory=dict)
    store: ObjectStore = ObjectStore()

    def __post_init__(self) -> None:
        check_order(self.order)
        if min(self.fan_in, self.per_task, *self.segments.values()) < 1 or min(self.latency, self.store.latency) < 0:
            raise ConfigError(f"no input could ever come in like this: {self}")


@value
class Exchanged:
    """Totals of the links. bytes: from machine to machine, and from the store. requests: all of them; of the store:
    those and their price."""

    bytes: float = 0.0
    requests: int = 0
    stored: int = 0
    price: float = 0.0
