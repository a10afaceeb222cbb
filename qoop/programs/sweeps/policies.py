"""Policies of sweeps: the fate of a trial at a boundary, and the trial that a free slot runs.

===========  ===========================================================================================
pop          promising trials keep their slots, the others take turns, poor ones run when no other waits, in the
             order of `asha` (HyperDrive: POP, Middleware 2017)
asha         of the trials that waited at a rung, the best third goes on (Li et al., MLSys 2020)
hyperband    the same in brackets, which begin at later rungs (Li et al., JMLR 2018)
bandit       a trial ends if it is worse than the best by half (TuPAQ, SoCC 2015)
early_term   a trial ends if it will hardly beat the best one (Domhan et al., IJCAI 2015)
median       a trial ends if it is worse than the median of others (Vizier, KDD 2017)
none         each runs to its last step
===========  ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.programs.sweeps.division import division

if TYPE_CHECKING:
    from qoop.programs.sweeps.sweep import Fate, Sweep

POOR = 0.05
"""A trial with a lower chance is poor, or ends."""
_SURELY, _NEARLY_NONE = 25, 0.05
"""If of that many trials fewer than this part are not poor, predictions do not choose between poor trials and new ones.
On curves that rise late 15 trials or 8 % do as well; on others they take 5 % longer, as these rules hold by chance."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, without their whole parts, are spread evenly over any part of the numbers from 0 to 1."""
_BANDIT = 0.5
_RUNG = 3
"""From one rung to the next the steps grow, and the trials shrink, by this factor."""
_BRACKETS = 3
_FEWEST = 5
"""Trials that must have come as far before one of them ends by their median."""


@value
class Policy:
    """is_boundary: whether a trial's fate is decided after its last step. level: the score whose chance has to be
    predicted first; None: none has. fate: what becomes of the trial. next: the trial for a free slot, or None."""

    is_boundary: Callable[[Sweep, int], bool]
    level: Callable[[Sweep, int], float | None]
    fate: Callable[[Sweep, int], Fate]
    next: Callable[[Sweep], int | None]


def promising(sweep: Sweep) -> set[int]:
    """The trials that deserve slots, or a part of one."""
    return _divided(sweep)[0]


def _divided(sweep: Sweep) -> tuple[set[int], float]:
    """The promising trials and their slots."""
    active = [number for number, trial in enumerate(sweep.trials) if trial.p >= POOR and trial.state in _ACTIVE]
    found = division([sweep.trials[number].p for number in active], sweep.slots)
    return {number for number in active if sweep.trials[number].p >= found.threshold}, found.slots


def _first_served(sweep: Sweep) -> set[int]:
    """The promising trials, if their turn has come: less than one slot is theirs in that part of all turns."""
    numbers, slots = _divided(sweep)
    steps = sum(len(trial.scores) for trial in sweep.trials)
    return numbers if slots >= 1.0 or steps * _GOLDEN % 1.0 < slots / sweep.slots else set()


_ACTIVE = ("waiting", "running", "predicting")


def _is_every(sweep: Sweep, number: int) -> bool:
    return len(sweep.trials[number].scores) % sweep.every == 0


def _is_every_third(sweep: Sweep, number: int) -> bool:
    return len(sweep.trials[number].scores) % (3 * sweep.every) == 0


def _no_level(sweep: Sweep, number: int) -> float | None:
    return None


def _first_in(sweep: Sweep, numbers: Sequence[int]) -> int | None:
    return min(numbers, key=lambda number: sweep.trials[number].turn, default=None)


def _in_turn(sweep: Sweep) -> int | None:
    return _first_in(sweep, list(sweep.numbers("waiting")))


# POP


def _pop_level(sweep: Sweep, number: int) -> float | None:
    return None if _is_hopeless(sweep, number) else sweep.level


def _is_hopeless(sweep: Sweep, number: int) -> bool:
    """The recent scores decide, not the best ever: a trial may have stopped to learn."""
    return sweep.hopeless is not None and max(sweep.trials[number].scores[-sweep.every :]) <= sweep.hopeless


def _pop_fate(sweep: Sweep, number: int) -> Fate:
    if _is_hopeless(sweep, number) or 0 <= sweep.trials[number].p < POOR:
        return "pruned" if sweep.kill else "parked"
    return "running" if number in _first_served(sweep) else "waiting"


def _pop_next(sweep: Sweep) -> int | None:
    waiting = list(sweep.numbers("waiting"))
    best = max(_first_served(sweep) & set(waiting), key=lambda number: sweep.trials[number].p, default=None)
    if best is not None:
        return best
    if waiting and not _nearly_all_are_poor(sweep):
        return _first_in(sweep, waiting)
    begun = [number for number in waiting if sweep.trials[number].scores]
    new = [number for number in waiting if not sweep.trials[number].scores]
    return _first_in(sweep, begun) if begun else _halved(sweep, list(sweep.numbers("parked")), new)


def _nearly_all_are_poor(sweep: Sweep) -> bool:
    """True where predictions hardly tell trials apart: curves that rise late look poor until they do."""
    known = [trial for trial in sweep.trials if trial.p >= 0]
    return len(known) >= _SURELY and sum(trial.p >= POOR for trial in known) < _NEARLY_NONE * len(known)


# Others


def _bandit_fate(sweep: Sweep, number: int) -> Fate:
    best = sweep.trials[number].highest
    return "running" if number == sweep.best or best + _BANDIT * abs(best) > sweep.highest else "pruned"


def _early_level(sweep: Sweep, number: int) -> float | None:
    return None if number == sweep.best else sweep.highest


def _early_fate(sweep: Sweep, number: int) -> Fate:
    return "pruned" if number != sweep.best and 0 <= sweep.trials[number].p < POOR else "running"


def _median_fate(sweep: Sweep, number: int) -> Fate:
    steps = len(sweep.trials[number].scores)
    others = [trial for place, trial in enumerate(sweep.trials) if place != number and len(trial.scores) >= steps]
    if len(others) < _FEWEST:
        return "running"
    means = [sum(trial.scores[:steps]) / steps for trial in others]
    return "running" if sweep.trials[number].highest >= median(means) else "pruned"


def _bracket(sweep: Sweep, number: int) -> int:
    return number % _BRACKETS if sweep.policy == "hyperband" else 0


def _rungs(sweep: Sweep, bracket: int) -> list[int]:
    """The steps after which trials of a bracket wait."""
    rungs, steps = [], sweep.every * _RUNG**bracket
    while steps < sweep.most:
        rungs.append(steps)
        steps *= _RUNG
    return rungs


def _is_rung(sweep: Sweep, number: int) -> bool:
    return len(sweep.trials[number].scores) in _rungs(sweep, _bracket(sweep, number))


def _waits(sweep: Sweep, number: int) -> Fate:
    return "waiting"


def _asha_next(sweep: Sweep) -> int | None:
    waiting = list(sweep.numbers("waiting"))
    new = [number for number in waiting if not sweep.trials[number].scores]
    return _halved(sweep, [number for number in waiting if sweep.trials[number].scores], new)


def _halved(sweep: Sweep, paused: Sequence[int], new: Sequence[int]) -> int | None:
    """A trial on the way to its next rung; else the best of a rung's top third, the highest rung first; else a new
    trial; else the best that is left."""

    def best_of(numbers: Sequence[int]) -> int | None:
        return max(numbers, key=lambda number: sweep.trials[number].highest, default=None)

    between = best_of([number for number in paused if not _is_rung(sweep, number)])
    if between is not None:
        return between
    for number in sorted(paused, key=lambda number: (-len(sweep.trials[number].scores), -sweep.trials[number].highest)):
        steps, bracket = len(sweep.trials[number].scores), _bracket(sweep, number)
        reached = [
            max(trial.scores[:steps])
            for place, trial in enumerate(sweep.trials)
            if len(trial.scores) >= steps and _bracket(sweep, place) == bracket
        ]
        rank = sum(score > sweep.trials[number].highest for score in reached)
        if rank < len(reached) // _RUNG:
            return number
    return _first_in(sweep, new) if new else best_of(paused)


_ASHA = Policy(_is_rung, _no_level, _waits, _asha_next)

# Others decide


def _judged_level(sweep: Sweep, number: int) -> float | None:
    return sweep.level


def _judged_fate(sweep: Sweep, number: int) -> Fate:
    chance = sweep.trials[number].p
    return "running" if chance >= 1.0 else "waiting" if chance > 0.0 else "pruned"


JUDGED = "judged"
"""The policy of a sweep whose driver decides after each step: 1 is to go on, 0.5 to wait, 0 the end of a trial."""

POLICIES: Mapping[str, Policy] = {
    "pop": Policy(_is_every, _pop_level, _pop_fate, _pop_next),
    "asha": _ASHA,
    "hyperband": _ASHA,
    "bandit": Policy(_is_every, _no_level, _bandit_fate, _in_turn),
    "early_term": Policy(_is_every_third, _early_level, _early_fate, _in_turn),
    "median": Policy(_is_every, _no_level, _median_fate, _in_turn),
    "none": Policy(lambda sweep, number: False, _no_level, _waits, _in_turn),
    JUDGED: Policy(lambda sweep, number: True, _judged_level, _judged_fate, _in_turn),
}
"""By name."""
NAMES = tuple(name for name in POLICIES if name != JUDGED)
"""The policies that decide by themselves."""
