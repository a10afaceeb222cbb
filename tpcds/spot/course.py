"""One run: the course of a machine that comes and goes, and of the engine on it. Neither a process nor a clock.

`World` has both: :mod:`qoop.tpcds.spot.machine` with real processes, the tests with an engine of known work on a
virtual clock.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

READY_SECONDS = 120.0
CHECK_SECONDS = 0.2
"""Between two readings of the processor seconds that an adapter uses, after the machine has got more CPUs."""
BUSY_PART = 0.9
"""New CPUs count as busy once an adapter uses this part of all CPUs between two readings."""


@dataclass(frozen=True, slots=True)
class Up:
    """The machine is up from `begin` to before `end`, in seconds after the window begins."""

    begin: float
    end: float


UNDISTURBED = (Up(0.0, math.inf),)


class AdapterError(Exception):
    """An adapter is not ready in time, ended by itself, or wrote something else than a reply."""


class OutOfMemory(Exception):
    """The adapter takes more memory than the machine has left."""


@dataclass(frozen=True, slots=True)
class Work:
    """A text that has to be answered. answer: the file for its rows. table: later texts read it under that name.

    arrives: seconds after the beginning at which it is sent; None: once the text before has a reply.
    """

    name: str
    text: str
    answer: str
    table: str = ""
    arrives: float | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """The machine has these CPUs and bytes of memory from a second on."""

    at: float
    cpus: int
    memory: int


@dataclass(frozen=True, slots=True)
class Order:
    """All that a run needs. works: in the order in which they are sent. limit: seconds after which the run is stopped.

    notice: seconds before a loss at which the adapter hears of it; 0: never. patience: until it has to be ready.
    sizes: of a machine that is resized, the first at 0; none: it keeps `cpus` and `memory`.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    tables: Mapping[str, Sequence[str]]
    durable: str
    works: Sequence[Work]
    cpus: int
    memory: int
    limit: float
    ups: Sequence[Up] = UNDISTURBED
    notice: float = 0.0
    patience: float = READY_SECONDS
    sizes: Sequence[Size] = ()

    @property
    def all_sizes(self) -> Sequence[Size]:
        """The sizes that the machine has, the first at 0."""
        return self.sizes or [Size(0.0, self.cpus, self.memory)]

    def json(self) -> Mapping[str, Any]:
        """As a JSON value, for the process of the driver; lives without an end are as long as the limit."""
        ups = [asdict(Up(up.begin, min(up.end, self.limit + 1.0))) for up in self.ups]
        return {**asdict(self), "ups": ups}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Order:
        """From such a value."""
        kinds = {"works": Work, "ups": Up, "sizes": Size}
        return cls(**{**value, **{name: [kind(**one) for one in value[name]] for name, kind in kinds.items()}})


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a run, in seconds after its beginning.

    what: started, ready, sent, done, failed, noticed, resized, grown (by CPUs), busy (all CPUs, after that), killed
    (for want of memory), lost, gone, stopped, ended, or broken. detail: an error; of `lost` and `stopped` the second at
    which it was due; of `sent` that at which the text arrived, if it did by itself; of `resized` the CPUs and bytes.
    """

    at: float
    what: str
    work: str = ""
    detail: str = ""


class World(Protocol):
    """The machine and the adapter on it."""

    def now(self) -> float: ...

    def wait(self, until: float) -> None: ...

    def start(self) -> None:
        """Start the adapter, on a machine that has nothing but the durable folder."""

    def send(self, message: Mapping[str, Any]) -> None: ...

    def receive(self, until: float) -> Mapping[str, Any] | None:
        """The next reply, None at `until`. Raises AdapterError, OutOfMemory."""
        ...

    def resize(self, size: Size) -> None:
        """Have that many CPUs and bytes from now on. Raises OutOfMemory if more is in use."""

    def used(self) -> float:
        """Processor seconds of the living processes of the adapter so far."""
        ...

    def kill(self) -> None:
        """Kill all processes of the adapter."""

    def clear(self) -> None:
        """Wait until they are gone, and empty the machine. Raises AdapterError if some live on."""


def drive(order: Order, world: World, tell: Callable[[Event], None]) -> None:
    """Bring the machine up and down as the order says, until every text has a reply, or the limit."""
    _Course(order, world, tell).run()


class _Course:
    def __init__(self, order: Order, world: World, tell: Callable[[Event], None]) -> None:
        self._order, self._world, self._tell = order, world, tell
        self._pending = list(order.works)
        self._made: list[Work] = []
        self._size, *self._sizes = order.all_sizes
        self._checked: tuple[float, float] | None = None  # the second of the last reading, and the seconds used by then

    def run(self) -> None:
        """All lives of the machine."""
        order = self._order
        for up in order.ups:
            if up.begin >= order.limit:
                break
            self._world.wait(up.begin)
            try:
                self._live(min(up.end, order.limit))
                if not self._pending:
                    self._end("ended")
                    return
                self._end("lost" if up.end <= order.limit else "stopped", f"{min(up.end, order.limit):.4f}")
            except AdapterError as error:
                self._note("broken", detail=str(error))
                self._world.kill()
                return
            if up.end > order.limit:
                return
        self._note("stopped", detail=f"{order.limit:.4f}")

    def _end(self, what: str, detail: str = "") -> None:
        """The machine goes: the adapter is killed. Raises AdapterError if some of its processes live on."""
        self._note(what, detail=detail)
        self._world.kill()
        self._world.clear()
        self._note("gone")

    def _live(self, end: float) -> None:
        """One life of the machine, to its end or to the last reply; the adapter starts again if it is killed for want
        of memory."""
        while self._world.now() < end:
            try:
                self._resize(running=False)
                if self._start(end):
                    self._answer(end)
                return
            except OutOfMemory as error:
                self._end("killed", str(error))

    def _start(self, end: float) -> bool:
        """Start the adapter; False if it is not ready before the end."""
        order, world = self._order, self._world
        self._note("started")
        self._checked = None
        world.start()
        size = {"cpus": self._size.cpus, "memory": self._size.memory}
        world.send({"open": {"tables": order.tables, "durable": order.durable, **size}})
        patience = world.now() + order.patience
        reply = world.receive(min(end, patience))
        if reply is None and patience < end:
            raise AdapterError(f"it is not ready within {order.patience:g} s")
        if reply is None:
            return False
        if not reply.get("ready"):
            raise AdapterError(f"its first reply is not `ready`, but {reply}")
        self._note("ready", detail=json.dumps({name: str(value) for name, value in reply.items() if name != "ready"}))
        for work in self._made:
            self._add(work)
        return True

    def _answer(self, end: float) -> None:
        """Send texts and take replies, to the end or the last reply."""
        sent: list[Work] = []
        notice = end - self._order.notice if self._order.notice else math.inf
        while self._pending:
            self._resize(running=True)
            self._send(sent)
            check = math.inf if self._checked is None else self._checked[0] + CHECK_SECONDS
            reply = self._world.receive(min(end, notice, check, self._next(sent)))
            if self._world.now() >= check:
                self._see_busy()
            if reply is not None:
                self._replied(sent, reply)
            elif self._world.now() >= end:
                return
            elif self._world.now() >= notice:
                notice = math.inf
                self._note("noticed")
                self._world.send({"notice": self._order.notice})

    def _next(self, sent: Sequence[Work]) -> float:
        """The second at which the next text arrives, or the size changes."""
        arrivals = (work.arrives for work in self._pending if work.arrives is not None and work not in sent)
        sizes = (size.at for size in self._sizes)
        return min(next(arrivals, math.inf), next(sizes, math.inf))

    def _send(self, sent: list[Work]) -> None:
        """Send the texts that have arrived, or the next one."""
        for work in self._pending:
            if work.arrives is None and sent:
                return
            if work.arrives is not None and work.arrives > self._world.now():
                return
            if work not in sent:
                sent.append(work)
                self._note("sent", work.name, "" if work.arrives is None else f"{work.arrives:.4f}")
                self._world.send({"run": {"task": work.name, "text": work.text, "answer": work.answer}})

    def _resize(self, running: bool) -> None:
        """Give the machine the size that it has by now. running: the adapter hears of it. Raises OutOfMemory."""
        due = [size for size in self._sizes if size.at <= self._world.now()]
        if due:
            more = running and due[-1].cpus > self._size.cpus
            self._sizes, self._size = self._sizes[len(due) :], due[-1]
            self._note("resized", detail=f"{self._size.cpus} {self._size.memory}")
            if running:
                self._world.send({"resize": {"cpus": self._size.cpus, "memory": self._size.memory}})
            self._world.resize(self._size)
            self._checked = None
            if more:
                self._note("grown")
                self._checked = self._world.now(), self._world.used()

    def _see_busy(self) -> None:
        """Note that all CPUs are busy, if they have been since the last reading."""
        assert self._checked is not None
        before, had = self._checked
        now, used = self._world.now(), self._world.used()
        self._checked = now, used
        if used - had >= BUSY_PART * self._size.cpus * (now - before):
            self._checked = None
            self._note("busy")

    def _replied(self, sent: list[Work], reply: Mapping[str, Any]) -> None:
        name = reply.get("done", reply.get("failed"))
        work = next((work for work in sent if work.name == name), None)
        if work is None:
            raise AdapterError(f"{reply} is no reply to the text of {', '.join(work.name for work in sent)}")
        if "failed" in reply:
            self._note("failed", work.name, str(reply.get("error", "")))
        else:
            self._note("done", work.name)
            if work.table:
                self._made.append(work)
                self._add(work)
        sent.remove(work)
        self._pending.remove(work)

    def _add(self, work: Work) -> None:
        self._world.send({"table": {"name": work.table, "files": [work.answer]}})

    def _note(self, what: str, work: str = "", detail: str = "") -> None:
        self._tell(Event(self._world.now(), what, work, detail))
