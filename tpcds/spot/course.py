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


@dataclass(frozen=True, slots=True)
class Up:
    """The machine is up from `begin` to before `end`, in seconds after the window begins."""

    begin: float
    end: float


UNDISTURBED = (Up(0.0, math.inf),)


class AdapterError(Exception):
    """An adapter is not ready in time, ended by itself, or wrote something else than a reply."""


@dataclass(frozen=True, slots=True)
class Work:
    """A text that has to be answered. answer: the file for its rows. table: later texts read it under that name."""

    name: str
    text: str
    answer: str
    table: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """All that a run needs. works: answered in this order. limit: seconds after which the run is stopped.

    notice: seconds before a loss at which the adapter hears of it; 0: never. patience: until it has to be ready.
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

    def json(self) -> Mapping[str, Any]:
        """As a JSON value, for the process of the driver; lives without an end are as long as the limit."""
        ups = [asdict(Up(up.begin, min(up.end, self.limit + 1.0))) for up in self.ups]
        return {**asdict(self), "ups": ups}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Order:
        """From such a value."""
        works, ups = [Work(**one) for one in value["works"]], [Up(**one) for one in value["ups"]]
        return cls(**{**value, "works": works, "ups": ups})


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a run, in seconds after its beginning.

    what: started, ready, sent, done, failed, noticed, lost, gone, stopped, ended, or broken. detail: an error, or of
    `lost` and `stopped` the second at which it was due.
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
        """The next reply, None at `until`. Raises AdapterError."""
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
                self._end("lost" if up.end <= order.limit else "stopped", min(up.end, order.limit))
            except AdapterError as error:
                self._note("broken", detail=str(error))
                self._world.kill()
                return
            if up.end > order.limit:
                return
        self._note("stopped", detail=f"{order.limit:.4f}")

    def _end(self, what: str, due: float | None = None) -> None:
        """The machine goes: the adapter is killed. Raises AdapterError if some of its processes live on."""
        self._note(what, detail="" if due is None else f"{due:.4f}")
        self._world.kill()
        self._world.clear()
        self._note("gone")

    def _live(self, end: float) -> None:
        """One life of the machine, to its end or to the last reply."""
        order, world = self._order, self._world
        self._note("started")
        world.start()
        shared = {"tables": order.tables, "durable": order.durable, "cpus": order.cpus, "memory": order.memory}
        world.send({"open": shared})
        patience = world.now() + order.patience
        reply = world.receive(min(end, patience))
        if reply is None and patience < end:
            raise AdapterError(f"it is not ready within {order.patience:g} s")
        if reply is None:
            return
        if not reply.get("ready"):
            raise AdapterError(f"its first reply is not `ready`, but {reply}")
        self._note("ready", detail=json.dumps({name: str(value) for name, value in reply.items() if name != "ready"}))
        for work in self._made:
            self._add(work)
        notices = order.notice
        while self._pending:
            work = self._pending[0]
            self._note("sent", work.name)
            world.send({"run": {"task": work.name, "text": work.text, "answer": work.answer}})
            reply = world.receive(end - notices)
            if reply is None and notices:
                self._note("noticed")
                world.send({"notice": notices})
                notices = 0.0
                reply = world.receive(end)
            if reply is None:
                return
            self._replied(work, reply)

    def _replied(self, work: Work, reply: Mapping[str, Any]) -> None:
        if reply.get("done") == work.name:
            self._note("done", work.name)
            if work.table:
                self._made.append(work)
                self._add(work)
        elif reply.get("failed") == work.name:
            self._note("failed", work.name, str(reply.get("error", "")))
        else:
            raise AdapterError(f"{reply} is no reply to the text of {work.name}")
        self._pending.pop(0)

    def _add(self, work: Work) -> None:
        self._world.send({"table": {"name": work.table, "files": [work.answer]}})

    def _note(self, what: str, work: str = "", detail: str = "") -> None:
        self._tell(Event(self._world.now(), what, work, detail))
