"""A scheduler of Ray Tune decides about the trials of a sweep: it gets the result of each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.programs.sweeps.messages import Predicted

if TYPE_CHECKING:
    from qoop.programs.sweeps.messages import Predict
    from qoop.programs.sweeps.report import TrialStatus
    from qoop.programs.sweeps.study import Direction

_CHANCES = {"CONTINUE": 1.0, "PAUSE": 0.5, "STOP": 0.0}
"""The decisions of Ray Tune as the policy "judged" reads them."""
_VALUE = "value"
"""The name of the metric, where the scheduler has no other."""


@dataclass(eq=False)
class TuneTrial:
    """A trial as Ray's schedulers know it."""

    trial_id: str
    config: dict[str, Any]
    last_result: dict[str, Any] = field(default_factory=dict)
    status: str = "RUNNING"

    @property
    def evaluated_params(self) -> dict[str, Any]:
        """As Ray names the setting."""
        return self.config


@dataclass
class TuneTrials:
    """The trials that have ended a step, in place of the controller that Ray's schedulers know."""

    known: dict[int, TuneTrial] = field(default_factory=dict)

    def get_trials(self) -> list[TuneTrial]:
        """All of them."""
        return list(self.known.values())

    get_live_trials = get_trials


class RayScheduler:
    """scheduler: an object with `on_trial_result`. It sees ``training_iteration``, ``time_total_s`` and the metric."""

    def __init__(self, scheduler: Any, direction: Direction) -> None:
        """Raises ConfigError."""
        if not callable(getattr(scheduler, "on_trial_result", None)):
            raise ConfigError(f"scheduler must be a name or a scheduler of Ray Tune, not {type(scheduler).__name__}")
        self._scheduler = scheduler
        if hasattr(scheduler, "set_search_properties"):
            mode = getattr(scheduler, "_mode", None)
            if mode is not None and mode != direction[:3]:
                raise ConfigError(
                    f"the scheduler of Ray Tune has mode={mode}, and the sweep {direction}: pass the same"
                )
            named = getattr(scheduler, "metric", None) is not None
            scheduler.set_search_properties(None if named else _VALUE, None if mode else direction[:3])
        self._metric = getattr(scheduler, "metric", None) or _VALUE
        self._controller = TuneTrials()

    def decided(self, order: Predict, status: TrialStatus, last: float) -> Predicted:
        """The decision about a trial after a step. last: the metric of that step. Raises ExecutionError."""
        result = {
            "training_iteration": order.number, "time_total_s": status.seconds, "trial_id": str(status.number),
            "config": dict(status.params), self._metric: last,
        }  # fmt: skip
        try:
            trial = self._trial(status)
            trial.last_result = result
            found = self._scheduler.on_trial_result(self._controller, trial, result)
        except Exception as error:
            name = type(self._scheduler).__name__
            raise ExecutionError(f"the scheduler {name} cannot decide about trials of a sweep: {error!r}") from error
        if found not in _CHANCES:
            raise ExecutionError(f"on_trial_result must return one of {', '.join(_CHANCES)}, not {found!r}")
        return Predicted(status.number, order.number, _CHANCES[found], 0.0)

    def _trial(self, status: TrialStatus) -> TuneTrial:
        known = self._controller.known
        if status.number not in known:
            trial = TuneTrial(str(status.number), dict(status.params))
            if hasattr(self._scheduler, "on_trial_add"):
                self._scheduler.on_trial_add(self._controller, trial)
            known[status.number] = trial
        return known[status.number]
