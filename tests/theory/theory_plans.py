"""Families of plans, and rules of choice other than the algorithm's own."""

from __future__ import annotations

from collections.abc import Sequence

from theory_model import Online, Rectangle, State

Plans = tuple[Rectangle, ...]


def halving(sizes: Sequence[int], fineness: int) -> Plans:
    """Plans of these sizes (rising powers of two), each with exactly half the work of the one before.

    >>> [(plan.tasks, plan.work) for plan in halving([2, 4, 8], 1)]
    [(16, 32), (4, 16), (1, 8)]
    """
    works = [2**i * sizes[-1] * fineness for i in reversed(range(len(sizes)))]
    return tuple(Rectangle(size, work // size) for size, work in zip(sizes, works, strict=True))


def theorem_2_1(count: int) -> Plans:
    """The plans of Theorem 2.1: a_i = 2^i and w_i = 2^(m−i)·W for i = 1 … m; here W = 4^m."""
    return halving([2**i for i in range(1, count + 1)], 2**count)


def one_more(plans: Plans, size: int) -> Plans:
    """With a plan of this size that just fails to halve the work of the smallest one, so that it is dropped."""
    return (*plans, Rectangle(size, plans[0].work // 2 // size + 1))


def nearly_equal(count: int) -> Plans:
    """Plans of sizes 2^i whose work falls only slightly with their size."""
    return tuple(Rectangle(2**i, (16 * count - i) * 2 ** (count - i)) for i in range(1, count + 1))


def fewest_steps(online: Online, state: State, fitting: Sequence[int], units: int) -> int:
    """Another reading of "least remaining processing time": by the steps left if the allocation stays as it is."""
    return min(fitting, key=lambda i: -(-state.left[i] // online.tasks_a_step(i, units)))


def smallest_first(online: Online, state: State, fitting: Sequence[int], units: int) -> int:
    return fitting[0]


def largest_first(online: Online, state: State, fitting: Sequence[int], units: int) -> int:
    return fitting[-1]


def taking_turns(online: Online, state: State, fitting: Sequence[int], units: int) -> int:
    return fitting[state.step % len(fitting)]


def at_random(online: Online, state: State, fitting: Sequence[int], units: int) -> int:
    return fitting[(state.step * 2654435761 + units) % 2**32 // 997 % len(fitting)]
