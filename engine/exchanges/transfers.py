"""The inputs of simulated attempts on their way from other machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from qoop.catalog.value import value
from qoop.engine.exchanges.links import Links
from qoop.engine.exchanges.order import Pull, next_pull
from qoop.engine.exchanges.terms import Exchanged, Exchanges
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec


@value
class Piece:
    """Bytes that a task reads of another machine, or of the store. key: of an output that is read whole, which the
    machine then has for its other tasks, too."""

    sender: MachineId | None
    bytes: float
    key: CheckpointKey | None = None


@dataclass(eq=False, slots=True)
class _Request:
    """One piece. begun: its turn has come."""

    attempt: AttemptId
    pull: Pull
    machine: MachineId
    piece: Piece
    begun: bool = False


@dataclass(eq=False, slots=True)
class _Inputs:
    """All that an attempt reads. left: pulls that have not ended, and outputs that another attempt brings in. coming:
    pulls whose turn has come."""

    machine: MachineId
    job: JobId
    left: dict[_Request, None] = field(default_factory=dict)
    others: set[CheckpointKey] = field(default_factory=set)
    coming: int = 0
    then: Callable[[], None] | None = None

    @property
    def there(self) -> bool:
        return not self.left and not self.others


class Transfers:
    """Pulls that wait for their turn, and those that are under way.

    after: has something happen at a time. The end is reported by calling the `then` of :meth:`await_`.
    """

    def __init__(
        self, terms: Exchanges, now: Callable[[], float], after: Callable[[float, Callable[[], None]], None]
    ) -> None:
        self._terms, self._now, self._after = terms, now, after
        self._links = Links[_Request]()
        self._inputs: dict[AttemptId, _Inputs] = {}
        self._waiting: dict[MachineId, dict[Pull, _Request]] = {}
        self._coming: dict[MachineId, Counter[JobId]] = {}
        self._here: dict[MachineId, set[CheckpointKey]] = {}  # outputs that were read whole
        self._numbers = count()
        self._looking = False
        self._planned = 0  # looks; only the last one holds
        self.exchanged = Exchanged()

    def have(self, machine: MachineId, rate: float) -> None:
        """The machine's links have that rate from now on; 0: no limit."""
        self._links.have(machine, rate, self._now())
        self._check_soon()

    def lose(self, machine: MachineId) -> None:
        """The machine is gone: what it sends comes from the store instead."""
        for attempt in [one for one, inputs in self._inputs.items() if inputs.machine == machine]:
            self.leave(attempt)
        for known in (self._waiting, self._coming, self._here):
            known.pop(machine, None)
        cut_off = [request for one in self._inputs.values() for request in one.left if request.piece.sender == machine]
        for request in sorted(cut_off, key=lambda one: one.pull.number):
            request.piece = Piece(None, request.piece.bytes, request.piece.key)
            if request.begun:
                self._links.leave(request, self._now())
                self._request(request)

    def begin(self, machine: MachineId, spec: TaskSpec, pieces: Sequence[Piece], ahead: bool) -> None:
        """Ask for what an attempt reads. ahead: it waits for its slot."""
        inputs = self._inputs[spec.attempt] = _Inputs(machine, spec.attempt.task.job)
        known = self._here.setdefault(machine, set())
        for piece in self._turned(pieces, spec.attempt.task.part):
            if piece.key is not None and piece.key in known:
                if self._brings(machine, piece.key):
                    inputs.others.add(piece.key)
                continue
            if piece.key is not None:
                known.add(piece.key)
            pull = Pull(inputs.job, next(self._numbers), ahead)
            request = _Request(spec.attempt, pull, machine, piece)
            inputs.left[request] = None
            self._waiting.setdefault(machine, {})[pull] = request
        self._take_turns(machine)

    def granted(self, attempt: AttemptId) -> None:
        """An attempt that waited has its slot: its pulls go before those of others that wait."""
        inputs = self._inputs.get(attempt)
        if inputs is None:
            return
        waiting = self._waiting.get(inputs.machine, {})
        for pull in [pull for pull, request in waiting.items() if request.attempt == attempt and pull.ahead]:
            request = waiting.pop(pull)
            request.pull = Pull(pull.job, pull.number)
            waiting[request.pull] = request

    def known(self, attempt: AttemptId) -> bool:
        """True if its inputs were requested."""
        return attempt in self._inputs

    def await_(self, attempt: AttemptId, then: Callable[[], None]) -> bool:
        """True if all is there, and nothing more is known of it; else `then` is called once it is."""
        inputs = self._inputs[attempt]
        if inputs.there:
            del self._inputs[attempt]
            return True
        inputs.then = then
        return False

    def leave(self, attempt: AttemptId) -> None:
        """The attempt is gone: what it alone has requested is not brought in any more."""
        inputs = self._inputs.pop(attempt, None)
        if inputs is None:
            return
        heirs: set[CheckpointKey] = set()
        for request in inputs.left:
            self._links.leave(request, self._now())
            self._waiting.get(request.machine, {}).pop(request.pull, None)
            if request.begun:
                self._coming[request.machine][inputs.job] -= 1
            if request.piece.key is not None:
                self._here.get(request.machine, set()).discard(request.piece.key)
                heirs.add(request.piece.key)
        self._pass_on(inputs, heirs)
        self._take_turns(inputs.machine)

    def _pass_on(self, gone: _Inputs, heirs: set[CheckpointKey]) -> None:
        """Have others ask for the outputs that an attempt was bringing in for all of them."""
        pieces = {request.piece.key: request for request in gone.left}
        for key in sorted(heirs, key=str):
            for attempt, inputs in self._inputs.items():
                if key in inputs.others and inputs.machine == gone.machine:
                    request = pieces[key]
                    inputs.others.discard(key)
                    again = _Request(attempt, request.pull, request.machine, request.piece)
                    inputs.left[again] = None
                    self._here[gone.machine].add(key)
                    self._waiting.setdefault(gone.machine, {})[again.pull] = again
                    break

    def _brings(self, machine: MachineId, key: CheckpointKey) -> bool:
        """True if the output is on its way there for another attempt."""
        return any(
            request.piece.key == key for one in self._inputs.values() if one.machine == machine for request in one.left
        )

    def _turned(self, pieces: Sequence[Piece], part: int) -> Iterable[Piece]:
        begin = part % len(pieces) if pieces and self._terms.rotated else 0
        return (*pieces[begin:], *pieces[:begin])

    def _take_turns(self, machine: MachineId) -> None:
        waiting, coming = self._waiting.get(machine), self._coming.setdefault(machine, Counter())
        while waiting and coming.total() < self._terms.fan_in:
            free = [pull for pull, one in waiting.items() if self._inputs[one.attempt].coming < self._terms.per_task]
            if not free:
                return
            request = waiting.pop(next_pull(free, coming))
            request.begun = True
            coming[request.pull.job] += 1
            self._inputs[request.attempt].coming += 1
            self._request(request)

    def _request(self, request: _Request) -> None:
        """Rows begin to flow after the latency of a request."""
        store, piece = self._terms.store, request.piece
        was, stored = self.exchanged, piece.sender is None
        self.exchanged = Exchanged(
            was.bytes + piece.bytes, was.requests + 1, was.stored + stored,
            was.price + stored * store.price,
        )  # fmt: skip
        latency = store.latency if stored else self._terms.latency
        if latency:
            self._after(self._now() + latency, lambda: self._flow(request, piece))
        else:
            self._flow(request, piece)

    def _flow(self, request: _Request, piece: Piece) -> None:
        inputs = self._inputs.get(request.attempt)
        if inputs is None or request not in inputs.left or request.piece is not piece:
            return
        self._links.join(request, piece.sender, request.machine, piece.bytes, self._now())
        self._check_soon()

    def _check_soon(self) -> None:
        """Work rates out once all that happens now has happened."""
        if not self._looking:
            self._looking = True
            self._after(self._now(), self._check)

    def _check(self) -> None:
        self._looking = False
        for request in self._links.ended(self._now()):
            self._ended(request)
        self._planned += 1
        at, planned = self._links.ends(), self._planned
        if at < float("inf"):
            self._after(max(at, self._now()), lambda: self._check() if planned == self._planned else None)

    def _ended(self, request: _Request) -> None:
        inputs = self._inputs[request.attempt]
        del inputs.left[request]
        inputs.coming -= 1
        self._coming[request.machine][request.pull.job] -= 1
        if request.piece.key is not None:
            for attempt, other in list(self._inputs.items()):
                if other.machine == request.machine and request.piece.key in other.others:
                    other.others.discard(request.piece.key)
                    self._note(attempt, other)
        self._take_turns(request.machine)
        self._note(request.attempt, inputs)

    def _note(self, attempt: AttemptId, inputs: _Inputs) -> None:
        if inputs.there and inputs.then is not None:
            del self._inputs[attempt]
            inputs.then()
