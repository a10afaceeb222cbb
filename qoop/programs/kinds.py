"""The classes of programs and of their messages: a rerun of a trace builds them from text."""

from __future__ import annotations

from qoop.programs import rounds, steps
from qoop.programs.sweeps import messages, race, sweep
from qoop.programs.views import freshness


def program_kinds() -> tuple[type, ...]:
    """The classes of all programs and of the messages to them."""
    of_views = freshness.TablesCompared, freshness.Allotted, freshness.RefreshEnded, freshness.Freshness
    of_sweeps = sweep.Sweep, sweep.Trial, sweep.Probe, messages.TrialStepEnded, messages.TrialFailed, messages.Predicted
    more_of_sweeps = messages.Share, messages.Due
    of_races = race.Race, race.Racer, messages.Compared, messages.WholeEnded, messages.Abandoned
    of_answers = rounds.RoundEnded, rounds.Finish, rounds.Rounds
    return *of_answers, steps.StepEnded, steps.Steps, *of_views, *of_sweeps, *more_of_sweeps, *of_races
