"""Which task goes where: multi-resource packing by alignment, as in Tetris.

Source: Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014, section 3.2: among the
tasks that fit a machine take the one whose demand has the largest dot product with the machine's free
resources, both divided by the machine's capacity. The scheduler and the completion estimate share this
module, so that an estimate packs tasks as the engine will.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor

from qoop.planner.plan import Resources

_SAME = 1e-9
"""Alignments closer than this are ties."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a machine has in all, and what of it is free now."""

    capacity: Resources
    free: Resources


def alignment(demand: Resources, room: Room) -> float:
    """Dot product of demand and free room, each as a fraction of the capacity.

    >>> alignment(Resources(1, 50), Room(Resources(2, 100), Resources(1, 100)))
    0.75
    """
    free, capacity = room.free, room.capacity
    score = 0.0
    if capacity.cpu > 0:
        score += (demand.cpu / capacity.cpu) * (free.cpu / capacity.cpu)
    if capacity.memory > 0:
        score += (demand.memory / capacity.memory) * (free.memory / capacity.memory)
    if capacity.disk > 0:
        score += (demand.disk / capacity.disk) * (free.disk / capacity.disk)
    if capacity.network > 0:
        score += (demand.network / capacity.network) * (free.network / capacity.network)
    return score


def best_fit(demands: Sequence[Resources], rooms: Sequence[Room]) -> tuple[int, int] | None:
    """Return (index of the demand, index of the room) of the best aligned pair that fits, None if none does.

    Ties go to the earlier demand, then to the earlier room: whoever orders them decides.
    """
    best: tuple[int, int] | None = None
    best_score = -1.0
    for i, demand in enumerate(demands):
        for j, room in enumerate(rooms):
            if demand.fits(room.free):
                score = alignment(demand, room)
                if score > best_score + _SAME:
                    best, best_score = (i, j), score
    return best


def cap(demand: Resources, machines: Iterable[Resources]) -> Resources:
    """The demand, or as much of it as an empty machine has if it fits none of them.

    The machine with the most memory then decides (slots only make a task slower, memory makes it fail).
    Machines without a whole slot do not count; without any machine the demand stays as it is.

    >>> cap(Resources(4, 10), [Resources(2, 8), Resources(1, 20)])
    Resources(cpu=1, memory=10, disk=0.0, network=0.0)
    """
    usable = [machine for machine in machines if machine.cpu >= 1]
    if not usable or any(demand.fits(machine) for machine in usable):
        return demand
    largest = max(usable, key=lambda machine: (machine.memory, machine.cpu))
    return Resources(
        min(demand.cpu, largest.cpu), min(demand.memory, largest.memory),
        min(demand.disk, largest.disk), min(demand.network, largest.network),
    )  # fmt: skip


def first_fit(demands: Sequence[Resources], capacity: Resources) -> list[int]:
    """Indices of the demands that fit together if each, in turn, takes its room if it is still there.

    >>> first_fit([Resources(2, 10), Resources(3, 10), Resources(1, 10)], Resources(3, 100))
    [0, 2]
    """
    kept, free = [], capacity
    for index, demand in enumerate(demands):
        if demand.fits(free):
            kept.append(index)
            free = free - demand
    return kept


def best_fit_run(demands: Sequence[Resources], room: Room, most: Sequence[int]) -> tuple[int, int] | None:
    """What :func:`best_fit` would choose, and how often in a row, for demands of which there are `most` tasks each.

    The same choices as asking for one task at a time, in one step: every task of demand `i` takes the same from
    the free room, so its lead over another demand shrinks by a constant.

    >>> best_fit_run([Resources(1, 50), Resources(1, 10)], Room(Resources(4, 100), Resources(4, 100)), [3, 9])
    (0, 2)
    """
    found = best_fit(demands, (room,))
    if found is None:
        return None
    chosen, capacity = found[0], room.capacity
    demand = demands[chosen]
    times = min(most[chosen], _times_fitting(demand, room.free))
    if times > 1 and len(demands) > 1:
        step = alignment(demand, Room(capacity, demand))
        lead = alignment(demand, room)
        for i, other in enumerate(demands):
            if i != chosen and other.fits(room.free):
                gap = lead - alignment(other, room)  # shrinks by `slope` with every task placed
                slope = step - alignment(other, Room(capacity, demand))
                if slope > _SAME:
                    least = _SAME if i < chosen else -_SAME  # ties go to the earlier demand
                    times = min(times, max(1, floor((gap - least) / slope) + 1))
    return chosen, times


def _times_fitting(demand: Resources, free: Resources) -> int:
    pairs = ((demand.cpu, free.cpu), (demand.memory, free.memory), (demand.disk, free.disk),
             (demand.network, free.network))  # fmt: skip
    return max(1, min((floor(room / need + _SAME) for need, room in pairs if need > 0), default=1))
