"""A repeated step: carries out the orders of its program (:mod:`qoop.programs.steps`) with jobs of its session.

It has no thread. A step is a job. The thread that requests the next step handles the end of the last one,
and the next job then runs while the caller reads the result.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qoop.adaptive.program import Begin, End, Show, Stop
from qoop.catalog.errors import Cancelled, ExecutionError
from qoop.catalog.value import value
from qoop.programs.iterate.curves import fitted, step_gain
from qoop.programs.iterate.planning import column_of
from qoop.programs.steps import Message, Order, Run, StepEnded, Steps

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog
    from qoop.catalog.table import Table
    from qoop.programs.iterate.curves import Kind
    from qoop.programs.iterate.planning import StepPlanning
    from qoop.programs.steps import Why
    from qoop.query.job import Job, Starts
    from qoop.query.result import Result


@value
class Step:
    """A step that has ended. number: from 0. result: its rows. loss: the loss that they report."""

    number: int
    result: Result
    loss: float

    def __str__(self) -> str:
        return f"step {self.number}: loss {self.loss:.6g}"


@value
class StepOptions:
    """The options of a repeated step; see `Session.iterate`."""

    loss: str
    until: float
    most: int
    former: str
    curve: Kind | None


class Iteration:
    """A repeated step in SQL, made by :meth:`qoop.session.session.Session.iterate`. Thread-safe."""

    def __init__(
        self,
        first: Table | None,
        planning: StepPlanning,
        start: Starts,
        program: Steps,
        options: StepOptions,
        log: MessageLog | None = None,
    ) -> None:
        """first: the table that the first step reads, if it reads one. log: takes the messages to the program, see
        `Cluster.program_log`."""
        self._planning, self._start, self._options = planning, start, options
        self._before: Result | Table | None = first
        self._program, self._log = program, log
        self._changing = threading.Lock()  # the state of the program
        self._advancing = threading.Lock()  # its holder waits for the step
        self._made: Step | None = None
        self._steps: list[Step] = []
        self._jobs: list[Job] = []
        self._send(Begin())

    def steps(self) -> Iterator[Step]:
        """Each step as soon as it has ended. Every call begins at the first step.

        Raises the errors of the jobs; ExecutionError for a loss that is not a number.
        """
        number = 0
        while (step := self._nth(number)) is not None:
            yield step
            number += 1

    def last(self) -> Step:
        """The last step, when the steps have ended. Raises Cancelled if they were stopped before the first ended."""
        for _ in self.steps():
            pass
        if not self._steps:
            raise Cancelled("the iteration was stopped before its first step had ended")
        return self._steps[-1]

    def result(self) -> Result:
        """The rows of the last step. Raises as `last` does."""
        return self.last().result

    def stop(self) -> Step | None:
        """End the steps and return the last one; None if none has ended."""
        self._send(Stop())
        return self._steps[-1] if self._steps else None

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss of each step that has ended."""
        return self._program.losses

    @property
    def why(self) -> Why:
        """The reason of the end; empty: the steps go on."""
        return self._program.why

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs so far: one a step."""
        return tuple(self._jobs)

    def predicted(self, steps: int) -> float | None:
        """The predicted loss, that number of steps after the last one that ended; None: too few losses."""
        curve, losses = fitted(self.losses, self._options.curve), self.losses
        return None if curve is None else losses[-1] - curve.fall(len(losses) - 1, steps)

    # Inside

    def _nth(self, number: int) -> Step | None:
        while len(self._steps) <= number and self._program.state == "running":
            self._advance(number)
        return self._steps[number] if number < len(self._steps) else None

    def _advance(self, known: int) -> None:
        """Wait for the running step and handle its end, unless another thread has. known: steps that the caller has."""
        with self._advancing:
            if len(self._steps) > known or self._program.state != "running":
                return
            number = self._program.number
            try:
                result = self._jobs[number].result()
                self._made = Step(number, result, self._loss_of(number, result))
                self._before = result
                self._planning.ended(self._jobs[number])
                self._send(StepEnded(number, self._made.loss))
            except BaseException:
                if self._ended():
                    return
                self._send(Stop())
                raise

    def _ended(self) -> bool:
        return self._program.state == "ended"

    def _loss_of(self, number: int, result: Result) -> float:
        import pyarrow.compute as pc

        losses = column_of(result, self._options.loss)
        found = pc.sum(pc.cast(losses, "float64")).as_py() if len(result) else None
        if found is None or not math.isfinite(found):
            raise ExecutionError(f"the loss of step {number} is not a number: {found}")
        return float(found)

    def _send(self, message: Message) -> None:
        with self._changing:
            if self._log is not None:
                self._log(self._program, message)
            self._program, orders = self._program.after(message)
            for order in orders:
                self._do(order)

    def _do(self, order: Order) -> None:
        match order:
            case Run(number):
                planned = self._planning.plan(self._before)
                self._jobs.append(self._start(planned, follows=number > 0, gain=self._gain()))
            case Show():
                assert self._made is not None
                self._steps.append(self._made)
            case End():
                for job in self._jobs[-1:]:
                    job.cancel()
                self._planning.close()

    def _gain(self) -> float:
        """The predicted fall of the loss in the next step, as a part of its largest fall so far."""
        losses, program = self.losses, self._program
        curve = fitted(losses, self._options.curve)
        if curve is not None:
            return step_gain(curve.fall(len(losses) - 1), program.largest)
        return step_gain(losses[-2] - losses[-1] if len(losses) > 1 else 0.0, program.largest)
