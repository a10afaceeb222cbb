"""Messages to programs, for a trace: the states that follow from them, and the steps, can be worked out again.

A trace holds messages, first states and steps as their `repr` gives them, so that it needs to know none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from qoop.catalog.errors import PlanError
from qoop.catalog.written.described import described
from qoop.programs import program, rounds, steps

Program = rounds.Rounds | steps.Steps
_KINDS = {
    kind.__name__: kind
    for kind in (
        program.Begin, program.Stop, rounds.RoundEnded, rounds.Finish, rounds.Rounds, steps.StepEnded, steps.Steps,
    )
}  # fmt: skip
_CONSTANTS = {"inf": math.inf, "nan": math.nan}


class Tell(Protocol):
    """Hears what a program is told, in order, with the state that it has by then."""

    def __call__(self, program: Program, message: object) -> None: ...


def telling(post: Callable[[str, str], object]) -> Tell:
    """Posts each message to a program, and with the first one the state that it found."""
    began = False

    def tell(program: Program, message: object) -> None:
        nonlocal began
        post(repr(message), "" if began else repr(program))
        began = True

    return tell


class Programs:
    """The programs that go on, by name."""

    def __init__(self) -> None:
        self._states: dict[str, Program] = {}

    def take(self, name: str, message: str, began: str) -> tuple[str, ...]:
        """The steps that follow. None do of a program that is not known, or has ended. Raises PlanError for a text that
        is none of a program's.

        >>> known = Programs()
        >>> known.take("p", "Begin()", "Rounds(rounds=3, error=0.05)")
        ('Read(number=0, rest=False)',)
        >>> known.take("p", "Stop()", ""), known.take("p", "Finish()", "")
        (('End()',), ())
        """
        state = _read(began) if began else self._states.pop(name, None)
        if state is None:
            return ()
        state, made = state.after(_read(message))
        if not any(isinstance(step, program.End) for step in made):
            self._states[name] = state
        return tuple(map(repr, made))


def _read(text: str):  # type: ignore[no-untyped-def]  # a program or a message
    try:
        return described(text, _KINDS.__getitem__, _CONSTANTS)
    except (SyntaxError, ValueError, TypeError, LookupError) as error:
        raise PlanError(f"{text!r} is neither a program nor told to one: {error}") from error
