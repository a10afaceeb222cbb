"""The disks and links of simulated machines, which the attempts on a machine share."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Generic, Literal, TypeVar

from qoop.engine.backends.agenda import Action, Agenda
from qoop.engine.backends.shared_rate import SharedRate
from qoop.engine.clock import VirtualClock
from qoop.engine.events import Event
from qoop.engine.task import MachineId
from qoop.planner.plan import Resources

Device = Literal["disk", "network"]
_Place = tuple[MachineId, Device]

User = TypeVar("User", bound=Hashable)


class Devices(Generic[User]):
    """Moves bytes by the devices of machines. A user moves by one device at a time."""

    def __init__(self, agenda: Agenda, clock: VirtualClock) -> None:
        self._agenda = agenda
        self._clock = clock
        self._rates: dict[_Place, SharedRate[User]] = {}
        self._moving: dict[User, tuple[_Place, Action]] = {}

    def move(
        self, user: User, machine: MachineId, capacity: Resources, device: Device, amount: float, then: Action
    ) -> Sequence[Event]:
        """Move bytes by a device of the machine, which has this capacity; then something follows."""
        rate = _rate(capacity, device)
        if rate <= 0:
            return then()
        place = machine, device
        self._moving[user] = place, then
        shared = self._rates.setdefault(place, SharedRate(rate))
        shared.join(user, amount, self._clock.now())
        self._plan_moved(place)
        return ()

    def leave(self, user: User) -> None:
        """The user moves nothing any more: others may be faster now."""
        found = self._moving.pop(user, None)
        if found is not None:
            place, _ = found
            self._rates[place].leave(user, self._clock.now())
            self._plan_moved(place)

    def resize(self, machine: MachineId, capacity: Resources) -> None:
        """The machine has this capacity from now on."""
        for place in [place for place in self._rates if place[0] == machine]:
            self._rates[place].change(_rate(capacity, place[1]), self._clock.now())
            self._plan_moved(place)

    def lose(self, machine: MachineId) -> None:
        """The machine is gone, with all that moves there."""
        for place in [place for place in self._rates if place[0] == machine]:
            del self._rates[place]
        for user in [user for user, (place, _) in self._moving.items() if place[0] == machine]:
            del self._moving[user]

    def _plan_moved(self, place: _Place) -> None:
        """Check a device when the next user is done there; a check that was planned before finds nothing."""
        at = self._rates[place].ends()
        if at < math.inf:
            self._agenda.plan(max(at, self._clock.now()), partial(self._moved, place))

    def _moved(self, place: _Place) -> Sequence[Event]:
        shared = self._rates.get(place)
        done = shared.ended(self._clock.now()) if shared is not None else []
        follow = [self._moving.pop(user)[1] for user in done]
        events: list[Event] = []
        for then in follow:
            events += then()
        if done:
            self._plan_moved(place)
        return events


def _rate(machine: Resources, device: Device) -> float:
    """Bytes in the second of a device of a machine; 0: no limit."""
    return machine.disk if device == "disk" else machine.network
