"""The order in which a machine pulls what its tasks read from others.

A machine takes a few answers at a time. Of the pulls that wait for their turn the one begins

1. whose task has its slot already, before those of tasks that wait in the machine's queue,
2. of the job of which the fewest answers are coming in, so that no job holds up another,
3. that is the oldest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from qoop.catalog.value import value
from qoop.engine.task import JobId


@value
class Pull:
    """A task's read from another machine. ahead: the task waits for its slot. number: counts pulls in their order."""

    job: JobId
    number: int
    ahead: bool = False


def next_pull(waiting: Iterable[Pull], coming: Counter[JobId]) -> Pull:
    """The one that begins next. coming: answers that come in now, by job. Raises ValueError if none waits.

    >>> first, second = Pull("a", number=1), Pull("b", number=2)
    >>> next_pull([second, first], Counter()) is first
    True
    >>> next_pull([second, first], Counter(a=1)) is second
    True
    """
    return min(waiting, key=lambda pull: (pull.ahead, coming[pull.job], pull.number))
