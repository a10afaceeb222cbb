"""The size a session should have, given what was seen of the machine. Pure: readings go in, sizes come out.

Two things keep it calm. What others leave is compared with a band, not a line: n slots are kept as long as n - 0.65
CPUs are left, and n are taken only once n - 0.35 are. And all readings of the last seconds must call for a change, for
more resources of more seconds than for less, since a plan that was begun for less goes on well. Only what a control
group takes of memory acts at once: a process that is above its limit is killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, inf

from qoop.adaptive.monitor.available import Size, safe_memory
from qoop.adaptive.monitor.reading import Reading, in_words, tightest
from qoop.catalog.sizes import size
from qoop.catalog.value import value

_KEPT, _TAKEN = 0.65, 0.35
"""The fractions of a slot's CPU that may be missing for it to be kept, and to be taken."""

_LESS, _MORE = 0.9, 0.85
"""Fractions of the memory that others leave: a session that uses more than all of it goes down to the first; up to the
second it is taken back."""

_WORTH_IT = 1.1
"""Times the memory in use that the memory to be had must be to be taken."""

_EDGE = 1e-9  # of rounding


@value
class Change:
    """The number that changes, None: it stays, and why, as a sentence."""

    slots: int | None
    memory: int | None
    why: str


@value
class Judge:
    """The conclusion from the readings so far.

    full: the most that it may have. least: what keeps a query alive; never less.
    now: what the session is to use. scale: slots for each CPU; more than 1 if more were wanted than there are CPUs.
    less_after, more_after: seconds for which all readings must call for less, and for more.
    readings: those that still count, in order. slots_why, memory_why: of what is less than `full` why, as a clause.
    throttle_why: the kernel slows this process down, and has for as long as calls for less, or since the memory fell;
    why, and what ends it.
    """

    full: Size
    least: Size
    now: Size
    scale: float = 1.0
    less_after: float = 2.0
    more_after: float = 5.0
    readings: tuple[Reading, ...] = ()
    slots_why: str = ""
    memory_why: str = ""
    throttle_why: str = ""

    @classmethod
    def of(
        cls,
        opened: Size,
        least: Size,
        cpus: float,
        most: Size | None = None,
        less_after: float = 2.0,
        more_after: float = 5.0,
    ) -> Judge:
        """Begin with what the session was opened with. cpus: how many there are, to which that suits. most: what it
        may come to have; None: that."""
        least = Size(min(least.slots, opened.slots), min(least.memory, opened.memory))
        scale = max(1.0, opened.slots / max(1.0, cpus))
        return cls(most or opened, least, opened, scale, less_after, more_after)

    def after(self, reading: Reading) -> Judge:
        """The conclusion once this was seen, too. Readings come in the order of their time."""
        readings = (*self.readings, reading)
        lately, longer = _last(readings, self.less_after), _last(readings, self.more_after)
        now = Size(self._slots(lately, longer), self._memory(lately, longer, reading))
        return replace(
            self,
            now=now,
            slots_why=self._slots_why(now.slots, reading),
            memory_why=self._memory_why(now.memory, reading),
            throttle_why=self._throttle_why(lately, reading, falls=now.memory < self.now.memory),
            readings=_last(readings, max(self.less_after, self.more_after)) or readings,
        )

    def change_to(self, later: Judge) -> Change | None:
        """The change from this to a later reading, for which there is one; None: nothing changes."""
        slots = later.now.slots if later.now.slots != self.now.slots else None
        memory = later.now.memory if later.now.memory != self.now.memory else None
        begins = bool(later.throttle_why and not self.throttle_why)
        if slots is None and memory is None and not begins:
            return None
        why = [later.slots_why or "the cpus are free again"] if slots is not None else []
        why += [later.memory_why or "memory is free again"] if memory is not None else []
        why += [later.throttle_why] if begins else []
        return Change(slots, later.now.memory if begins else memory, "; ".join(why))

    def _slots(self, lately: Sequence[Reading], longer: Sequence[Reading]) -> int:
        most = max((self._cpus(one, _KEPT) for one in lately), default=self.full.slots)
        more = min((self._cpus(one, _TAKEN) for one in longer), default=0)
        target = max(more, min(most, self.now.slots))
        return max(self.least.slots, min(self.full.slots, target))

    def _cpus(self, reading: Reading, missing: float) -> int:
        """The slots for which CPUs are left, where so much of the last one's may be missing."""
        return floor(tightest(reading.cpus).left * self.scale + missing + _EDGE)

    def _memory(self, lately: Sequence[Reading], longer: Sequence[Reading], last: Reading) -> int:
        target = float(self.now.memory)
        left = max((tightest(one.memory).left for one in lately), default=None)
        if left is not None and target > left:
            target = _LESS * left
        allowed = _allowed(last)
        target = min(target, allowed)
        to_be_had = 0.0
        if longer and not any(one.squeezed for one in longer):
            to_be_had = min(self.full.memory, allowed, _MORE * min(tightest(one.memory).left for one in longer))
        if to_be_had >= min(self.full.memory, _WORTH_IT * target):
            target = max(target, to_be_had)
        return max(self.least.memory, min(self.full.memory, int(target)))

    def _slots_why(self, slots: int, reading: Reading) -> str:
        if slots == self.now.slots or slots == self.full.slots:
            return self.slots_why if slots < self.full.slots else ""
        return f"{in_words('cpus', tightest(reading.cpus))}: {slots} slot{'' if slots == 1 else 's'}"

    def _memory_why(self, memory: int, reading: Reading) -> str:
        if memory == self.now.memory or memory == self.full.memory:
            return self.memory_why if memory < self.full.memory else ""
        return f"{in_words('memory', tightest(reading.memory))}: {size(memory)}"

    def _throttle_why(self, lately: Sequence[Reading], last: Reading, falls: bool) -> str:
        """The first sentence as long as it holds: what is in use changes all the time. falls: the memory does, so that
        there may be no further reading: they are slowed down, too."""
        if last.throttle is None:
            return ""
        lasts = bool(lately) and all(one.throttle for one in lately)
        return self.throttle_why or (str(last.throttle) if falls or lasts else "")


def _allowed(reading: Reading) -> float:
    """Bytes that a session may have by the limits of control groups."""
    limit = min((pool.limit for pool in reading.memory if pool.group), default=inf)
    return inf if limit == inf else safe_memory(limit)


def cpus_there(reading: Reading) -> int:
    """The CPUs that this process could use if it were alone, whole ones."""
    return max(1, ceil(min(pool.limit for pool in reading.cpus)))


def _last(readings: Sequence[Reading], seconds: float) -> tuple[Reading, ...]:
    """The readings of the last seconds, that many, and the one before; none if they do not go back that far."""
    since = readings[-1].at - seconds + _EDGE
    older = [place for place, one in enumerate(readings[:-1]) if one.at <= since]
    return tuple(readings[older[-1] :]) if older else ()
