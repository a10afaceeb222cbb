"""The classes of programs and of their messages: a rerun of a trace builds them from text."""

from __future__ import annotations

from qoop.programs import rounds, steps
from qoop.programs.views import freshness


def program_kinds() -> tuple[type, ...]:
    """The classes of all programs and of the messages to them."""
    of_views = freshness.Compared, freshness.RefreshEnded, freshness.Freshness
    return rounds.RoundEnded, rounds.Finish, rounds.Rounds, steps.StepEnded, steps.Steps, *of_views
