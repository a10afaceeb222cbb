"""Settings that an Optuna study proposes: at the first step of a trial. Optuna learns of all other trials until then.

Optuna takes the end of a trial once. A trial of a sweep that waits may go on, so its value so far counts as pruned at
first; if the trial ends later with a better one, that is one more trial of Optuna, complete, with the same setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import ConfigError
from qoop.programs.sweeps.space import DRAWN, Range, Setting

if TYPE_CHECKING:
    import optuna

    from qoop.programs.sweeps.report import TrialStatus
    from qoop.programs.sweeps.study import Study

PROPOSER = "qoop_trial"
"""The attribute of Optuna's trials with the number of the sweep's trial."""


class OptunaSource:
    """Takes settings from an Optuna study, and reports results to it. Used by one thread at a time.

    settings: of the trials so far; those to come are empty.
    """

    def __init__(self, study: optuna.Study, params: object, trials: int | None, direction: str) -> None:
        """Raises ConfigError."""
        _check(study, params, direction)
        assert isinstance(params, Mapping)
        self._study = study
        self._space = {name: _distribution(name, one) for name, one in params.items()}
        self.settings: list[Setting] = [{} for _ in range(_number(params) if trials is None else trials)]
        self._trials: dict[int, optuna.Trial] = {}
        self._known: dict[int, float] = {}  # the last value that Optuna knows of each trial

    def propose(self, number: int) -> Setting:
        """The setting of a trial, which Optuna proposes once."""
        if number not in self._trials:
            trial = self._trials[number] = self._study.ask(self._space)
            trial.set_user_attr(PROPOSER, number)
            self.settings[number] = dict(trial.params)
        return self.settings[number]

    def learn(self, study: Study) -> None:
        """Report the results of trials that have ended or wait."""
        self._learn(study, ("COMPLETE", "PRUNED", "FAIL", "WAITING"))

    def end(self, study: Study) -> None:
        """Report all results: the sweep has ended."""
        self._learn(study, ("COMPLETE", "PRUNED", "FAIL", "WAITING", "RUNNING"))

    def fail(self) -> None:
        """Report that no trial has begun: the sweep was refused."""
        import optuna

        for number in self._trials.keys() - self._known.keys():
            self._study.tell(self._trials[number], state=optuna.trial.TrialState.FAIL)

    def _learn(self, study: Study, states: tuple[str, ...]) -> None:
        curves = study.curves
        for status in study.trials:
            if status.number in self._trials and status.state in states:
                self._report(status, curves[status.number])

    def _report(self, status: TrialStatus, curve: list[float]) -> None:
        from optuna.trial import TrialState

        trial, known = self._trials[status.number], self._known.get(status.number)
        if known is None:
            for step, value in enumerate(curve):
                trial.report(value, step)
            if status.state == "COMPLETE" and status.value is not None:
                self._study.tell(trial, status.value)
            elif status.state == "FAIL" or status.value is None:
                self._study.tell(trial, state=TrialState.FAIL)
            else:
                self._study.tell(trial, state=TrialState.PRUNED)
        elif status.state == "COMPLETE" and status.value is not None and status.value != known:
            self._add(status)
        self._known[status.number] = float("nan") if status.value is None else status.value

    def _add(self, status: TrialStatus) -> None:
        import optuna

        trial = self._trials[status.number]
        self._study.add_trial(
            optuna.trial.create_trial(
                value=status.value,
                params=trial.params,
                distributions=trial.distributions,
                user_attrs={PROPOSER: status.number},
            )
        )


def _check(study: object, params: object, direction: str) -> None:
    if not all(hasattr(study, name) for name in ("ask", "tell", "add_trial", "directions")):
        raise ConfigError(f"sampler must be an Optuna study, as of optuna.create_study, not {type(study).__name__}")
    directions = [one.name.lower() for one in study.directions]  # type: ignore[attr-defined]
    if directions != [direction]:
        raise ConfigError(f"the Optuna study has {', '.join(directions)}, and the sweep {direction}: pass the same")
    if not isinstance(params, Mapping) or not params:
        raise ConfigError("params with sampler= must be values or ranges by name, such as {'rate': qoop.uniform(0, 1)}")


def _number(params: Mapping[str, Any]) -> int:
    """As many trials as a sweep without a sampler has."""
    return DRAWN if any(isinstance(one, Range) for one in params.values()) else prod(map(len, params.values()))


def _distribution(name: str, one: object) -> optuna.distributions.BaseDistribution:
    """Optuna's form of a parameter. Raises ConfigError."""
    from optuna import distributions as of

    if not isinstance(one, Range):
        if isinstance(one, str | bytes) or not isinstance(one, list | tuple) or not one:
            raise ConfigError(f"the parameter {name} must be a list of values or a range (qoop.uniform), not {one!r}")
        return of.CategoricalDistribution(one)
    if one.whole:
        return of.IntDistribution(int(one.low), int(one.high), log=one.log)
    return of.FloatDistribution(one.low, one.high, log=one.log)
