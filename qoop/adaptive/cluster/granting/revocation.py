"""Decisions once resources are announced to be taken away: which attempts to let be, to stop or to move, and
what may still be started there. Pure: decides, applies nothing.

A notice (of 120 s at some clouds, 30 s at others) is worth as much as is done with it:

- what should end in time goes on;
- of the rest, those begun first keep the resources that stay: they have most to lose;
- what is left would be killed. It moves (it is stopped, and starts again at once) if there are resources elsewhere that
  stays and that no task waits for; it is stopped if a task waits that would end in time in its place. Otherwise it
  goes on: the estimate may be wrong, and nothing is lost by it;
- what is started in resources that go must be expected to end in time.

"In time" has a margin, since estimates err: half of the predicted times of stages are off by up to 30 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from qoop.adaptive.schedulers.base import Request
from qoop.engine.events import CapacityNotice, Demand, Running
from qoop.engine.task import AttemptId, MachineId
from qoop.planner.packing import Available, least, shrunk_to_fit
from qoop.planner.plan import Resources

MARGIN = 1.3
"""An attempt is expected to end in time if that many times its remaining seconds are left."""

_OVERRUN = 0.25
"""An attempt has at least this fraction of the seconds it has run still to go, whatever the estimate said."""

Notices = Mapping[MachineId, CapacityNotice]
Availability = Mapping[MachineId, Available]


class Fate(StrEnum):
    """The fate of an attempt on a machine that will shrink."""

    FINISH = "FINISH"
    """It should end in time, or nothing is won by stopping it."""
    STAY = "STAY"
    """It keeps some of the resources that stay."""
    MOVE = "MOVE"
    """It is stopped, to start again where there are resources that stay."""
    STOP = "STOP"
    """It is stopped in favour of a task that would end in time."""


def decide(
    running: Sequence[Running], notices: Notices, availability: Availability, waiting: Sequence[Demand], now: float
) -> dict[AttemptId, Fate]:
    """The fate of every attempt on a machine of which there is a notice.

    running: all attempts that go on. available: of all machines, after all that could be granted was.
    waiting: the tasks that are ready and found no free resources.
    """
    fates: dict[AttemptId, Fate] = {}
    elsewhere = _Elsewhere(notices, availability)
    for machine, notice in notices.items():
        left = notice.at - now
        here = sorted((item for item in running if item.machine == machine), key=lambda item: item.started)
        late = [item for item in here if not in_time(remaining(item, now), left)]
        kept = shrunk_to_fit([(item.resources, bool(item.most)) for item in late], notice.capacity_after)
        staying = {item.attempt for item, part in zip(late, kept, strict=True) if part is not None}
        swift = [demand for demand in waiting if in_time(demand.seconds, left)]
        for item in here:
            fates[item.attempt] = Fate.FINISH
            if item.attempt in staying:
                fates[item.attempt] = Fate.STAY
        for item in reversed(late):  # the least progress goes first
            if item.attempt not in staying:
                fates[item.attempt] = _fate_of_doomed(item, elsewhere, swift)
    return fates


def _fate_of_doomed(item: Running, elsewhere: _Elsewhere, swift: list[Demand]) -> Fate:
    if elsewhere.take(item.resources):
        return Fate.MOVE
    for index, demand in enumerate(swift):
        if demand.resources.fits(item.resources):
            del swift[index]
            return Fate.STOP
    return Fate.FINISH


class _Elsewhere:
    """The free resources of machines that stay as they are."""

    def __init__(self, notices: Notices, availability: Availability) -> None:
        self._free = [available.free for machine, available in availability.items() if machine not in notices]

    def take(self, demand: Resources) -> bool:
        for index, free in enumerate(self._free):
            if demand.fits(free):
                self._free[index] = free - demand
                return True
        return False


def remaining(item: Running, now: float) -> float:
    """Seconds that an attempt should still take.

    >>> from qoop.engine.task import TaskId
    >>> item = Running(AttemptId(TaskId("j", "s", 0), 1), "m", Resources(1, 1), started=0.0, seconds=10.0)
    >>> remaining(item, now=4.0), remaining(item, now=20.0)
    (6.0, 5.0)
    """
    elapsed = item.spent(now)
    return max(item.seconds - elapsed, _OVERRUN * elapsed)


def in_time(seconds: float, left: float) -> bool:
    """True if what should take so long will have ended when that many seconds have passed."""
    return MARGIN * seconds <= left


def offers(
    requests: Sequence[Request], availability: Availability, notices: Notices, running: Sequence[Running], now: float
) -> Iterator[tuple[Sequence[Request], Availability]]:
    """The requests and resources to match while notices are pending, as pairs to show to a scheduler in turn:
    any task in the resources that stay, then, in those of each machine that goes, tasks that should end in time."""
    yield (
        requests,
        {machine: _lasting(machine, available, notices, running, now) for machine, available in availability.items()},
    )
    for machine, notice in notices.items():
        swift = [_swift(request, notice.at - now) for request in requests]
        if machine in availability and any(request.demands for request in swift):
            yield [request for request in swift if request.demands], {machine: availability[machine]}


def _swift(request: Request, left: float) -> Request:
    return replace(request, demands=tuple(demand for demand in request.demands if in_time(demand.seconds, left)))


def _lasting(
    machine: MachineId, available: Available, notices: Notices, running: Sequence[Running], now: float
) -> Available:
    """The resources that stay, without what is taken by attempts that will still be there."""
    notice = notices.get(machine)
    if notice is None:
        return available
    there = [
        item.resources
        for item in running
        if item.machine == machine and not in_time(remaining(item, now), notice.at - now)
    ]
    free = notice.capacity_after - sum(there, Resources())
    return Available(least(available.capacity, notice.capacity_after), least(available.free, free))


def shared_evenly(offered: Available, whole: Available) -> Available:
    """The free resources that were offered, of a machine with the lesser memory a slot: as it is now or as it will be.

    >>> shared_evenly(Available(Resources(1, 100), Resources()), Available(Resources(2, 100), Resources())).capacity
    Resources(cpu=2, memory=100, disk=0.0, network=0.0)
    """
    lesser = min(offered.capacity, whole.capacity, key=lambda capacity: capacity.memory / capacity.cpu)
    return Available(lesser, offered.free)
