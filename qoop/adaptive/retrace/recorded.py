"""The backend and the planner of a rerun: each replies as the trace says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from qoop.adaptive.cluster.recording.messages import (
    PlannerReplied,
)
from qoop.adaptive.cluster.recording.ticks import OutputsFound
from qoop.adaptive.replanning.answers import Answer, Useful
from qoop.adaptive.retrace.reading import RecordedTick
from qoop.catalog.errors import CheckpointError, ConfigError, PlanError, QoopError
from qoop.engine.events import Committed, Event
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T")


class RecordedPlanner:
    """Answers when the trace says so, with what searches found then."""

    def __init__(self) -> None:
        self._open_work: deque[Callable[[], object]] = deque()
        self._message: PlannerReplied | None = None

    def ask(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        self._open_work.append(work)

    def close(self) -> None:
        pass

    def answered(self, message: PlannerReplied) -> PlannerReplied:
        """The message with the answer to the oldest question, worked out now; or with the error that came of it."""
        if not self._open_work:
            return replace(message, error=PlanError("the trace answers a question that the rerun did not ask"))
        work, self._message = self._open_work.popleft(), message
        try:
            answer = work()
        except QoopError as error:
            return replace(message, error=error)
        finally:
            self._message = None
        if isinstance(answer, Answer):
            return replace(message, answer=replace(answer, seconds=message.seconds, searching=message.searching))
        return replace(message, answer=answer if isinstance(answer, Useful) else None)

    def quick_search(self, _: float) -> Sequence[Candidate] | None:
        """The plans of the first look that the trace tells of; none if they were far behind, None if all plans were
        searched for."""
        message = self._message
        assert message is not None  # it is called while a question is answered
        if message.quick_search:
            return message.found
        return () if message.found is None and message.error is None else None

    def find(self, observed: Observations) -> Sequence[Candidate]:
        """The findings of the search that the trace tells of."""
        message = self._message
        if message is None or message.found is None:
            raise message.error if message is not None and message.error is not None else PlanError(
                "the rerun searched for plans where the trace says that there was no search"
            )  # fmt: skip
        return message.found


class RecordedBackend:
    """Reports what the trace says that a backend has reported, and does nothing."""

    def __init__(self, machines: Mapping[MachineId, Resources]) -> None:
        self._machines = machines
        self._events: Iterator[tuple[Event, ...]] = iter(())
        self._refused: Iterator[str | None] = iter(())
        self._found: dict[JobId, OutputsFound] = {}

    def tick(self, tick: RecordedTick) -> None:
        """Answer what is asked next as in this tick."""
        self._events, self._refused = iter(tick.events), iter(tick.refused)
        self._found = {found.job: found for found in tick.found}

    def machines(self) -> Mapping[MachineId, Resources]:
        return self._machines

    def wait(self, timeout: float | None) -> Sequence[Event]:
        return next(self._events, ())

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> Sequence[Committed]:
        found = self._found.get(job or "", OutputsFound("", ()))
        if found.error is not None:
            raise found.error
        return found.outputs

    def resize(self, slots: int | None, memory: int | None) -> None:
        refused = next(self._refused, None)
        if refused is not None:
            next(self._events, ())
            raise ConfigError(refused)

    def announce(self, slots: int | None, memory: int | None, at: float) -> None:
        self.resize(slots, memory)

    def start(self, machine: MachineId, spec: TaskSpec) -> None:
        pass

    def stop(self, attempt: AttemptId) -> None:
        pass

    def promote(self, attempt: AttemptId) -> None:
        pass

    def regrant(self, attempt: AttemptId, resources: Resources) -> None:
        pass

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        pass

    def wake(self) -> None:
        pass

    def read(self, key: CheckpointKey, partition: int | None = None) -> pa.Table:
        raise CheckpointError(f"{key} is an output of which only a trace is left: it has no rows to read")

    def close(self) -> None:
        pass
