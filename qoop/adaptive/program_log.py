"""Messages to programs, for a trace: the states that follow from them, and the steps, can be worked out again.

A trace holds messages, first states and steps as their `repr` gives them, so that it needs to know none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from qoop.adaptive.program import Begin, End, Stop
from qoop.catalog.errors import PlanError
from qoop.catalog.written.described import described

ProgramKinds = Callable[[], Sequence[type]]
"""Loads the classes of programs and of the messages to them, for which this floor has no names."""

_CONSTANTS = {"inf": math.inf, "nan": math.nan}


class Program(Protocol):
    """A pure state machine above jobs: a message in, its next state and steps out."""

    def after(self, message: Any, /) -> tuple[Any, Sequence[object]]: ...


class MessageLog(Protocol):
    """Takes each message to a program, in order, with the state that the program has by then."""

    def __call__(self, program: Program, message: object) -> None: ...


def message_log(post: Callable[[str, str], object]) -> MessageLog:
    """Posts each message to a program, and with the first one the state that it found."""
    began = False

    def log(program: Program, message: object) -> None:
        nonlocal began
        post(repr(message), "" if began else repr(program))
        began = True

    return log


class Programs:
    """The programs that go on, by name. kinds: of programs and messages, besides those that all programs have."""

    def __init__(self, kinds: Sequence[type]) -> None:
        self._kinds = {kind.__name__: kind for kind in (Begin, Stop, *kinds)}
        self._states: dict[str, Program] = {}

    def take(self, name: str, message: str, began: str) -> tuple[str, ...]:
        """The steps that follow. None do of a program that is not known, or has ended. Raises PlanError for a text that
        is none of a program's.

        >>> from qoop.programs.kinds import program_kinds
        >>> known = Programs(program_kinds())
        >>> known.take("p", "Begin()", "Rounds(rounds=3, error=0.05)")
        ('Read(number=0, rest=False)',)
        >>> known.take("p", "Stop()", ""), known.take("p", "Finish()", "")
        (('End()',), ())
        """
        state: Program | None = self._read(began) if began else self._states.pop(name, None)
        if state is None:
            return ()
        state, made = state.after(self._read(message))
        if not any(isinstance(step, End) for step in made):
            self._states[name] = state
        return tuple(map(repr, made))

    def _read(self, text: str) -> Any:
        try:
            return described(text, self._kinds.__getitem__, _CONSTANTS)
        except (SyntaxError, ValueError, TypeError, LookupError) as error:
            known = ", ".join(sorted(self._kinds))
            raise PlanError(f"{text!r} is neither a program nor a message to one ({known}): {error}") from error
