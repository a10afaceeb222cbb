"""The programs that there are, for a trace: a rerun makes them again from their text."""

from __future__ import annotations

from qoop.programs import rounds, steps


def program_kinds() -> tuple[type, ...]:
    """The classes of all programs and of the messages to them."""
    return rounds.RoundEnded, rounds.Finish, rounds.Rounds, steps.StepEnded, steps.Steps
