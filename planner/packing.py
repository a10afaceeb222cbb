"""The placing of tasks on machines: multi-resource packing by alignment, as in Tetris.

Source: Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014, section 3.2: among the
tasks that fit a machine take the one whose demand has the largest dot product with the machine's free
resources, both divided by the machine's capacity. The scheduler and the completion estimate share this
module, so that an estimate packs tasks as the engine will.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from math import floor

from qoop.catalog.value import value
from qoop.planner.plan import Resources

_SAME = 1e-9
"""Alignments closer than this are ties."""


@value
class Available:
    """The resources of a machine: all of them, and those that are free now."""

    capacity: Resources
    free: Resources


class Availability(dict[str, Available]):
    """The resources of every machine, by name. Of a machine only what is free may change, by `set_free`.

    `open` are the machines that have a slot free, or a part of one: nothing can start on the others.
    """

    def __init__(self, availability: Iterable[tuple[str, Available]]) -> None:
        super().__init__(availability)
        self.open = {machine for machine, one in self.items() if one.free.cpu > 0}

    @cached_property
    def capacity(self) -> Resources:
        """The resources of all machines together."""
        return sum((one.capacity for one in self.values()), Resources())

    def but(self, machine: str, free: Resources) -> Availability:
        """The same, with other free resources on one machine."""
        other = Availability(self.items())
        other.set_free(machine, free)
        return other

    def set_free(self, machine: str, free: Resources) -> None:
        """From now on `free` is free on a machine."""
        self[machine] = Available(self[machine].capacity, free)
        if free.cpu > 0:
            self.open.add(machine)
        else:
            self.open.discard(machine)


def alignment(demand: Resources, available: Available) -> float:
    """Dot product of demand and free resources, each as a fraction of the capacity.

    >>> alignment(Resources(1, 50), Available(Resources(2, 100), Resources(1, 100)))
    0.75
    """
    free = available.free
    by_cpu, by_memory, by_disk, by_network = _weights(demand, available.capacity)
    return by_cpu * free.cpu + by_memory * free.memory + by_disk * free.disk + by_network * free.network


def best_fit(demands: Sequence[Resources], availability: Sequence[Available]) -> tuple[int, int] | None:
    """Return (index of the demand, index of the machine) of the best aligned pair that fits, None if none does.

    Ties go to the earlier demand, then to the earlier machine: the caller decides by their order.
    """
    best: tuple[int, int] | None = None
    best_score = -1.0
    for i, demand in enumerate(demands):
        cpu, memory, disk, network = demand.cpu, demand.memory, demand.disk, demand.network
        capacity: Resources | None = None
        for j, available in enumerate(availability):
            free = available.free
            if cpu <= free.cpu and memory <= free.memory and disk <= free.disk and network <= free.network:
                if available.capacity is not capacity:  # most machines are alike
                    capacity = available.capacity
                    by_cpu, by_memory, by_disk, by_network = _weights(demand, capacity)
                score = by_cpu * free.cpu + by_memory * free.memory + by_disk * free.disk + by_network * free.network
                if score > best_score + _SAME:
                    best, best_score = (i, j), score
    return best


def _weights(demand: Resources, capacity: Resources) -> tuple[float, float, float, float]:
    """The weights of a machine's free resources in :func:`alignment`, by dimension."""
    return (
        demand.cpu / capacity.cpu / capacity.cpu if capacity.cpu > 0 else 0.0,
        demand.memory / capacity.memory / capacity.memory if capacity.memory > 0 else 0.0,
        demand.disk / capacity.disk / capacity.disk if capacity.disk > 0 else 0.0,
        demand.network / capacity.network / capacity.network if capacity.network > 0 else 0.0,
    )


SERIAL_PART = 0.1
"""Of a task with several threads, the part of its seconds that only one of them can do, where it was not measured."""


def on_threads(seconds: float, threads: float, serial_part: float = SERIAL_PART) -> float:
    """The seconds that work of one thread takes on several: Amdahl's law (AFIPS 1967).

    >>> on_threads(10.0, 1.0), on_threads(10.0, 9.0)
    (10.0, 2.0)
    """
    return seconds * (serial_part + (1.0 - serial_part) / max(1.0, threads))


def duration_ratio(before: float, after: float) -> float:
    """The factor by which a duration changes with the number of threads.

    >>> duration_ratio(1.0, 9.0), duration_ratio(9.0, 1.0)
    (0.2, 5.0)
    """
    return on_threads(1.0, after) / on_threads(1.0, before)


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


def least(one: Resources, other: Resources) -> Resources:
    """The most that fits both.

    >>> least(Resources(2, 10), Resources(1, 20))
    Resources(cpu=1, memory=10, disk=0.0, network=0.0)
    """
    return Resources(
        min(one.cpu, other.cpu), min(one.memory, other.memory),
        min(one.disk, other.disk), min(one.network, other.network),
    )  # fmt: skip


def shrunk_to_fit(used: Sequence[tuple[Resources, bool]], capacity: Resources) -> list[Resources | None]:
    """The part of a capacity that each keeps if each, in turn, takes its former resources while they are free; None:
    nothing.

    used: resources, and True if one slot with its memory is enough.

    >>> shrunk_to_fit([(Resources(2, 10), True), (Resources(1, 10), False)], Resources(1, 100))
    [Resources(cpu=1, memory=10, disk=0.0, network=0.0), None]
    """
    kept: list[Resources | None] = []
    free = capacity
    for resources, elastic in used:
        part = resources if resources.fits(free) else _part(resources, free, capacity) if elastic else None
        if part is not None:
            free = free - part
        kept.append(part)
    return kept


def _part(used: Resources, free: Resources, capacity: Resources) -> Resources | None:
    """As many of the slots as are free, and no more than their part of the memory."""
    slots = min(used.cpu, floor(free.cpu))
    if slots < 1 or free.memory <= 0:
        return None
    by_slots = float(floor(capacity.memory * slots / capacity.cpu))
    return replace(used, cpu=slots, memory=min(used.memory, free.memory, max(by_slots, 1.0)))


class Packer:
    """The choices of :func:`best_fit` on one machine, for many tasks of few kinds that take slots and memory.

    The same choices as one task at a time, in fewer steps: every task of a kind takes the same from the free resources,
    so its lead over another kind shrinks by a constant. It works on plain numbers, as it is called so often.
    at_a_time: by kind, how many tasks fit the empty machine; at least one.

    >>> packer = Packer(4, 100, [1, 1], [50, 10])
    >>> packer.next([(0, 3), (1, 9)], 4, 100)
    (0, 2)
    """

    def __init__(self, cpu: float, memory: float, cpus: Sequence[float], memories: Sequence[float]) -> None:
        self.cpus, self.memories = cpus, memories
        self.at_a_time = [
            max(1, int(min(cpu / slots, memory / need)) if need > 0 else int(cpu / slots))
            for slots, need in zip(cpus, memories, strict=True)
        ]
        self._by_cpu = [need / cpu / cpu for need in cpus] if cpu > 0 else [0.0] * len(cpus)
        self._by_memory = [need / memory / memory for need in memories] if memory > 0 else [0.0] * len(memories)

    def next(self, offered: Sequence[tuple[int, int]], cpu: float, memory: float) -> tuple[int, int] | None:
        """The place in `offered` of the kind to take a task of, and how often in a row; None if none fits.

        offered: (kind, tasks) in the order that resolves ties. cpu, memory: free resources.
        """
        best, best_score = -1, -1.0
        scores = []
        for place, (kind, _) in enumerate(offered):
            score = -2.0
            if self.cpus[kind] <= cpu and self.memories[kind] <= memory:
                score = self._by_cpu[kind] * cpu + self._by_memory[kind] * memory
                if score > best_score + _SAME:
                    best, best_score = place, score
            scores.append(score)
        if best < 0:
            return None
        return best, self._times(best, offered, scores, cpu, memory)

    def _times(
        self, best: int, offered: Sequence[tuple[int, int]], scores: Sequence[float], cpu: float, memory: float
    ) -> int:
        """The number of tasks of the best kind to place before another kind is better."""
        kind, most = offered[best]
        times = min(most, _times(self.cpus[kind], cpu), _times(self.memories[kind], memory))
        if times <= 1 or len(offered) == 1:
            return max(1, times)
        lead, step = scores[best], self._taken(kind, kind)
        for place, (other, _) in enumerate(offered):
            if place != best and scores[place] >= 0.0:
                gap = lead - scores[place]  # shrinks by `slope` with every task placed
                slope = step - self._taken(other, kind)
                if slope > _SAME:
                    least = _SAME if place < best else -_SAME  # ties go to the earlier one
                    times = min(times, max(1, floor((gap - least) / slope) + 1))
        return times

    def _taken(self, kind: int, by: int) -> float:
        """By how much a task of kind `by` lowers the alignment of another."""
        return self._by_cpu[kind] * self.cpus[by] + self._by_memory[kind] * self.memories[by]


_PLENTY = 1 << 60


def _times(need: float, free: float) -> int:
    return floor(min(free / need, _PLENTY) + _SAME) if need > 0 else _PLENTY
