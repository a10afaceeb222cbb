"""The options of a session that SET, or `Session.set`, changes while it is open."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from qoop.adaptive.cluster.sizing import AUTO, Auto, Sizing
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import ConfigError, Forbidden
from qoop.catalog.opening import EXTENSIONS, listed
from qoop.query.config import Config
from qoop.query.options import GOALS, OPTIONS, SETTABLE, number, on_or_off, seconds
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    import optuna

    from qoop.programs.sweeps.study import Direction, Prune

SYNONYMS = {"threads": "slots", "worker_threads": "slots", "memory_limit": "memory", "max_memory": "memory"}
"""The names that DuckDB has for options of a session."""


class JobTerms(TypedDict, total=False):
    """The terms on which a query runs next to others, as arguments of `Session.submit`.

    weight: its part of the slots relative to other jobs of its tenant, above 0; 1 by default.
    tenant: the tenant that it counts for; by default the session's. Slots are shared between tenants first, then
        between the jobs of each.
    user: whose limits hold besides those of the tenant, see `Cluster.limit`; by default there are none.
    priority, deadline: as for `connect`; by default the session's.
    """

    weight: float
    tenant: str | None
    user: str
    priority: float | None
    deadline: float | str | None


class SweepTerms(JobTerms, total=False):
    """The options of a sweep, as arguments of `Session.sweep`, with the terms of its jobs; it has the weight of one.

    direction: "maximize" or "minimize" the metric. target: the metric that ends the sweep. within: the limit of time,
        in seconds or as "10 min".
    scheduler: "pop", "asha", "hyperband", "bandit", "early_term", "median" or "none"
        (:mod:`qoop.programs.sweeps.policies`). every: steps from one decision about a trial to the next; 10 by default.
        most: steps of a trial; 100 by default. Or a scheduler of Ray Tune, which sees each step.
    sampler: an Optuna study, which proposes settings within params and learns of the trials (`qoop[optuna]`).
    hopeless: a trial whose recent metrics are no better than this one is poor, without a prediction. prune: the fate of
        poor trials: "park", by default: they run when no other waits; "kill": they end.
    prepare: a query that runs once; steps and metrics read its rows as the table `prepared`. With
        `connect(checkpoints=FOLDER)` another sweep of the same content finds them.
    former: the name of the previous step's rows. seed: of the drawn settings, and of the order of pieces.
    fidelity: "pieces": the first third of a trial's steps read a tenth of the largest table, where that is measured to
        pay; their metrics are estimates, and no results.
    name: with `connect(checkpoints=FOLDER)`, a later process goes on with the sweep of that name.
    """

    direction: Direction
    target: float | None
    within: float | str | None
    hopeless: float | None
    prune: Prune
    scheduler: object
    sampler: optuna.Study | None
    every: int
    most: int
    prepare: str | None
    former: str
    seed: int
    fidelity: Literal["pieces"] | None
    name: str | None


def parted(options: SweepTerms) -> tuple[dict[str, Any], JobTerms]:
    """The options of a sweep itself, with seconds as numbers, and the terms of its jobs. Raises ConfigError."""
    _check_names(options, SweepTerms, "the options of a sweep")
    terms: Any = {name: one for name, one in options.items() if name in JobTerms.__annotations__}
    own = {name: one for name, one in options.items() if name not in terms}
    if not isinstance(own.get("prepare"), str | None):
        raise ConfigError(f"prepare must be a query, not {own['prepare']!r}")
    if own.get("within") is not None:
        own["within"] = seconds("within", options["within"] or 0)
    return own, terms


def _check_names(options: Iterable[str], kind: type, what: str) -> None:
    if unknown := set(options) - kind.__annotations__.keys():
        known = ", ".join(kind.__annotations__)
        raise ConfigError(f"there is no option {', '.join(sorted(unknown))}; {what} are {known}")


class SessionOptions:
    """Options that hold for jobs to come: terms, goals of answers that grow, settings of DuckDB; and its size.

    terms: of jobs whose submission names no others. goal: by the names of `GOALS`.
    """

    def __init__(self, config: Config, sizing: Sizing, tables: SessionTables) -> None:
        self.terms = Terms(config.tenant, 1.0, config.priority, config.deadline)
        self.goal: dict[str, Any] = {name: getattr(config, name) for name in GOALS}
        self._config = config
        self._sizing = sizing
        self._tables = tables

    def set(self, name: str, value: object) -> None:
        """As `Session.set`."""
        self._tables.check_open()
        known = SYNONYMS.get(name.lower(), name.lower())
        if known == "slots":
            self._set_slots(value, name)
        elif known == "memory":
            self.resize(memory=AUTO if value is None else str(value))
        elif known == "watch_machine":
            self.watch(on_or_off(name, bool(self._config.watch_machine) if value is None else str(value)))
        elif known == EXTENSIONS:
            for one in listed(str(value or "")):
                self._tables.load_extension(one)
        elif known in ("tenant", "priority", "deadline", *GOALS):
            self._set_terms(known, value)
        else:
            self._set_option(name, value)

    def _set_option(self, name: str, value: object) -> None:
        from qoop.query.statements.settings import option

        if value is None:
            self._tables.binder.reset(option(name, None)[0])
        else:
            self._tables.binder.set(*option(name, str(value)))

    def check_settable(self, name: str) -> None:
        """Raise Forbidden for an option that statements may not set; the program may set more."""
        if self._config.locked and SYNONYMS.get(name.lower(), name.lower()) in SETTABLE:
            from qoop.query.statements.settings import options

            raise Forbidden(f"{name} is not for SQL to set in a locked session; there are {', '.join(options())}")

    def resize(self, slots: int | Auto | None = None, memory: int | str | None = None, notice: float = 0.0) -> None:
        """As `Session.resize`."""
        if not 0 <= notice < math.inf:
            raise ConfigError(f"the notice must be a number of seconds, at least 0, not {notice!r}")
        self._sizing.resize(slots, memory, notice)

    def watch(self, on: bool) -> None:
        """Adjust slots and memory to the free resources of the machine, or stop that. Raises ConfigError on Ray."""
        if on and self._config.ray is not None:
            raise ConfigError("the machine cannot be watched where Ray is: its nodes have what they have")
        if on:
            self._sizing.watch()
        else:
            self._sizing.unwatch()

    def terms_with(self, **terms: Unpack[JobTerms]) -> Terms:
        """The session's terms, but for those that are named. Raises ConfigError."""
        _check_names(terms, JobTerms, "the terms of a job")
        tenant, priority, deadline = terms.get("tenant"), terms.get("priority"), terms.get("deadline")
        had = self.terms
        return Terms(
            had.tenant if tenant is None else tenant,
            number("weight", terms.get("weight", 1.0)),
            had.priority if priority is None else number("priority", priority),
            had.deadline if deadline is None else seconds("deadline", deadline),
            terms.get("user", ""),
        )

    def _set_terms(self, name: str, value: object) -> None:
        [found] = [one for one in OPTIONS if one.name == name]
        setting: Any = getattr(self._config, name) if value is None else found.read(name, value)
        if name in GOALS:
            self.goal = {**self.goal, name: setting}
            return
        terms: dict[str, Any] = {name: setting}
        self.terms = replace(self.terms, **terms)

    def _set_slots(self, value: object, name: str) -> None:
        """name: the option as the statement names it."""
        text = AUTO if value is None else str(value)
        if text == AUTO:
            self.resize(slots=AUTO)
        elif text.isdigit():
            self.resize(slots=int(text))
        else:
            subject = "slots" if name.lower() == "slots" else f"{name}, which is slots here,"
            raise ConfigError(f"{subject} must be a whole number, not {text!r}")
