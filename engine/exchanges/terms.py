"""The ways in which simulated machines read from each other, and from a store."""

from __future__ import annotations

import math

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value


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

    fan_in: answers that come into a machine at a time; per_task: of one task. rotated: tasks begin at different
    senders. latency: seconds from a request until its rows begin to flow.
    Raises ConfigError for bounds that let nothing in.
    """

    fan_in: float = 4
    per_task: float = math.inf
    rotated: bool = True
    latency: float = 0.0
    store: ObjectStore = ObjectStore()

    def __post_init__(self) -> None:
        if min(self.fan_in, self.per_task) < 1 or min(self.latency, self.store.latency) < 0:
            raise ConfigError(f"no input could ever come in like this: {self}")


@value
class Exchanged:
    """Totals of the links. bytes: from machine to machine, and from the store. requests: all of them; of the store:
    those and their price."""

    bytes: float = 0.0
    requests: int = 0
    stored: int = 0
    price: float = 0.0
