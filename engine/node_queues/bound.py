"""The number of tasks that a node should hold besides those that run (the source's algorithm 1).

A node with r slots hears from its scheduler every `gap` seconds. With tasks of `seconds` in the mean it ends
``a = r * gap / seconds`` of them meanwhile; the queue must hold about as many, or slots stand idle.
"""

from __future__ import annotations

import math
from functools import partial

from qoop.catalog.errors import ConfigError


def sufficient_length(slots: int, gap: float, seconds: float, shortfall: float = 0.05) -> int:
    """The least length with which all slots stay busy until the scheduler is heard again, but with a chance of
    `shortfall`: for tasks whose seconds are exponentially distributed, which is exact.

    Raises ConfigError for a shortfall that is no chance, or tasks that take no time.

    >>> [sufficient_length(10, 3.0, mean) for mean in (5.0, 10.0, 22.9, 50.0)]
    [10, 6, 3, 2]
    """
    ended = _ended(slots, gap, seconds, shortfall)
    length = 0
    while _poisson_at_least(length + 1, ended) > shortfall:
        length += 1
    return length


def chernoff_length(slots: int, gap: float, seconds: float, shortfall: float = 0.05) -> int:
    """The same by Chernoff's bound, as the source printed it: never less. It holds only from the mean on upwards.

    >>> [chernoff_length(10, 3.0, mean) for mean in (5.0, 10.0, 22.9, 50.0)]
    [12, 8, 4, 3]
    """
    ended = _ended(slots, gap, seconds, shortfall)
    if not ended:
        return 0
    length = max(0, math.ceil(ended) - 1)
    while _chernoff(length + 1, ended) < math.log(1.0 / shortfall):
        length += 1
    return length


def utilisation(slots: int, gap: float, seconds: float, length: int) -> float:
    """The part of the time that slots are busy, where a queue of that length is filled up every `gap` seconds.

    >>> [round(utilisation(10, 3.0, 5.0, length), 3) for length in (0, 4, 10)]
    [0.752, 0.946, 0.999]
    """
    ended = gap / seconds  # by one slot
    done = partial(_erlang_by, ended)
    if length == 0:
        return (1 - math.exp(-ended)) / ended
    if slots < 2:
        raise ConfigError("the share of busy time is known for nodes of two slots and more")
    spread = (1 - 1 / slots) ** -length
    return (
        1
        - (1 - 1 / ended) * done(length, slots)
        + length / (slots * ended) * done(length + 1, slots)
        - math.exp(-ended) / ended * spread * done(length, slots - 1)
    )


def _ended(slots: int, gap: float, seconds: float, shortfall: float) -> float:
    if not 0 < shortfall < 1:
        raise ConfigError(f"a chance lies between 0 and 1, {shortfall:g} does not")
    if seconds <= 0:
        raise ConfigError(f"tasks take some time, not {seconds:g} s")
    return slots * gap / seconds


def _erlang_by(ended: float, number: int, slots: int) -> float:
    """The chance that this number of tasks has ended when the gap is over, if a slot ends `ended` in the mean."""
    return _poisson_at_least(number, ended * slots)


def _poisson_at_least(number: int, mean: float) -> float:
    term, below = math.exp(-mean), 0.0
    for i in range(number):
        below += term
        term *= mean / (i + 1)
    return max(0.0, 1.0 - below)


def _chernoff(number: int, mean: float) -> float:
    ratio = number / mean
    return mean * (1 + ratio * (math.log(ratio) - 1))
