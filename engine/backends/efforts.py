"""Work on simulated machines, which slows down as a machine does, or as others work there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from qoop.engine.backends.agenda import Action, Agenda
from qoop.engine.clock import VirtualClock
from qoop.engine.events import Event
from qoop.engine.task import MachineId


@dataclass(eq=False, slots=True)
class Effort:
    """Something that keeps threads of a machine at work. work: seconds that it has left from `since` on, were its
    machine as fast as usual and it alone there. end: what follows.

    slowness: how many times that it takes. plan: counts how often its end was planned; only the last one holds.
    """

    machine: MachineId
    threads: float
    work: float
    end: Action
    since: float
    slowness: float
    plan: int = 0

    def advance(self, now: float) -> None:
        """Take off what has been done by now."""
        self.work -= (now - self.since) / self.slowness
        self.since = now


class Efforts:
    """The efforts under way, in the order in which they began.

    crowding: the factor by which everything slows down on a machine where that many threads work; None: they do not
    disturb each other.
    """

    def __init__(self, agenda: Agenda, clock: VirtualClock, crowding: Callable[[float], float] | None) -> None:
        self._agenda = agenda
        self._clock = clock
        self._crowding = crowding
        self._efforts: dict[Effort, None] = {}
        self._slowness: dict[MachineId, float] = {}
        self._others: dict[MachineId, float] = {}  # threads of others

    def begin(self, machine: MachineId, threads: float, seconds: float, end: Action) -> Effort:
        """Threads of a machine begin work of these seconds, after which something follows."""
        slowness = self._slowness.get(machine, 1.0)
        effort = Effort(machine, threads, seconds, end, self._clock.now(), slowness)
        self._efforts[effort] = None
        self._plan_end(effort)
        self._crowd(machine)
        return effort

    def rest(self, effort: Effort) -> None:
        """It is over, whether done or not."""
        if effort in self._efforts:
            del self._efforts[effort]
            self._crowd(effort.machine)

    def resize(self, effort: Effort, threads: float, ratio: float) -> None:
        """It has these threads from now on, on which what is left takes `ratio` times as long."""
        effort.advance(self._clock.now())
        effort.work *= ratio
        effort.threads = threads
        self._plan_end(effort)
        self._crowd(effort.machine)

    def slow(self, machine: MachineId, factor: float) -> None:
        """All work on the machine takes that many times as long from now on."""
        self._slowness[machine] = factor
        self._retime(machine)

    def share(self, machine: MachineId, threads: float) -> None:
        """That many threads of others work on the machine from now on."""
        self._others[machine] = threads
        self._crowd(machine)

    def lose(self, machine: MachineId) -> None:
        """The machine is gone, with all efforts there; one that joins under its name is another."""
        self._slowness.pop(machine, None)
        self._others.pop(machine, None)
        for effort in [effort for effort in self._efforts if effort.machine == machine]:
            del self._efforts[effort]

    def clear(self) -> None:
        """Forget all efforts."""
        self._efforts.clear()

    def _plan_end(self, effort: Effort) -> None:
        effort.plan += 1
        seconds = effort.work * effort.slowness
        if seconds < math.inf:
            self._agenda.plan(effort.since + seconds, partial(self._ended, effort, effort.plan))

    def _ended(self, effort: Effort, plan: int) -> Sequence[Event]:
        if effort.plan != plan or effort not in self._efforts:
            return []
        self.rest(effort)
        return effort.end()

    def _crowd(self, machine: MachineId) -> None:
        """An effort has begun or ended, which others may feel."""
        if self._crowding is not None:
            self._retime(machine)

    def _retime(self, machine: MachineId) -> None:
        """Plan the ends of all efforts again on a machine that has become faster or slower."""
        here = [effort for effort in self._efforts if effort.machine == machine]
        now, threads = self._clock.now(), sum(effort.threads for effort in here)
        for effort in here:
            factor = self._factor(effort.machine, threads)
            if effort.slowness != factor:
                effort.advance(now)
                effort.slowness = factor
                self._plan_end(effort)

    def _factor(self, machine: MachineId, threads: float) -> float:
        slowness = self._slowness.get(machine, 1.0)
        if self._crowding is None:
            return slowness
        return slowness * self._crowding(threads + self._others.get(machine, 0.0))
