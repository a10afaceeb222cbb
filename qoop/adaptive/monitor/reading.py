"""The state of the machine at one moment."""

from __future__ import annotations

from typing import Literal

from qoop.catalog.sizes import size
from qoop.catalog.value import value


@value
class Pool:
    """CPUs, or bytes of memory, that this process shares with others.

    limit: how many there are. others: how many of them other programs take. group: the limit is that of a control
    group, not the machine's.
    """

    limit: float
    others: float = 0.0
    group: bool = False

    @property
    def left(self) -> float:
        """The part that others leave."""
        return max(0.0, self.limit - self.others)


@value
class Throttle:
    """The memory of a control group whose processes the kernel slows down, since they use too much.

    high: bytes from which on it does. used: bytes that it cannot take back.
    """

    high: float
    used: float

    def __str__(self) -> str:
        return (
            f"the kernel slows this process down: its control group uses {size(self.used)} of memory, and memory.high"
            f" is {size(self.high)}; raise memory.high, or end other programs of the group"
        )


@value
class Reading:
    """at: seconds of some clock. cpus, memory: the pools that this process draws from, at least one each.

    squeezed: programs on this machine wait for memory. throttle: of the group that is slowed down the most; None: none
    is.
    """

    at: float
    cpus: tuple[Pool, ...]
    memory: tuple[Pool, ...]
    squeezed: bool = False
    throttle: Throttle | None = None


def tightest(pools: tuple[Pool, ...]) -> Pool:
    """The pool that leaves the least."""
    return min(pools, key=lambda pool: pool.left)


def in_words(kind: Literal["cpus", "memory"], pool: Pool) -> str:
    """The part that a pool leaves, as a sentence.

    >>> in_words("cpus", Pool(2, 1.1)), in_words("memory", Pool(10**9, 0, group=True))
    ('other programs take 1.1 of 2 cpus', 'the control group allows 1 GB of memory')
    """
    limit = (
        f"{pool.limit:.3g} cpu{'' if pool.limit == 1 else 's'}" if kind == "cpus" else f"{size(pool.limit)} of memory"
    )
    taken = f"{pool.others:.1f}" if kind == "cpus" else size(pool.others)
    if not pool.group:
        return f"other programs take {taken} of {limit}"
    if pool.others < 0.05 * pool.limit:
        return f"the control group allows {limit}"
    return f"the control group allows {limit}, of which other programs take {taken}"
