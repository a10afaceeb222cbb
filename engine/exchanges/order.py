"""The order in which a machine pulls what its tasks read from others.

A machine takes a few answers at a time. Of the pulls that wait for their turn the one begins

1. whose task has its slot already, before those of tasks that wait in the machine's queue,
2. of the job of which the fewest answers are coming in, so that no job holds up another,
3. of the stage with the longest way to the end of its job ("critical-path"), or the one that was asked for first
   ("fifo") or last ("lifo").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.engine.task import JobId


@value
class Pull:
    """A task's question to another machine. path: seconds from its beginning to the end of the job. ahead: the
    task waits for its slot. number: counts pulls as they are asked for.
    """

    job: JobId
    path: float
    number: int
    ahead: bool = False


ORDERS: Mapping[str, Callable[[Pull], float]] = {
    "fifo": lambda pull: pull.number,
    "lifo": lambda pull: -pull.number,
    "critical-path": lambda pull: -pull.path,
}
"""By name, the rank of a pull: the lowest begins first."""


def check_order(name: str) -> str:
    """The name. Raises ConfigError if no order is called so.

    >>> check_order("fifo")
    'fifo'
    """
    if name not in ORDERS:
        raise ConfigError(f"no order {name!r} of pulls; there are {', '.join(ORDERS)}")
    return name


def next_pull(order: str, waiting: Iterable[Pull], coming: Counter[JobId]) -> Pull:
    """The one that begins next. coming: answers that come in now, by job. Raises ValueError if none waits.

    >>> short, long = Pull("a", 1.0, number=1), Pull("a", 5.0, number=2)
    >>> next_pull("critical-path", [short, long], Counter()) is long
    True
    >>> next_pull("critical-path", [long, Pull("b", 1.0, number=3)], Counter(a=1)).job
    'b'
    """
    rank = ORDERS[order]
    return min(waiting, key=lambda pull: (pull.ahead, coming[pull.job], rank(pull), pull.number))
