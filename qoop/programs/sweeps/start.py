"""Checks a sweep, and begins it, or continues the one of its name."""

from __future__ import annotations

import contextlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from qoop.catalog.errors import ConfigError, QueryError
from qoop.catalog.user_key import user_key
from qoop.catalog.value import value
from qoop.planner.explain import seconds_text
from qoop.programs.approximate.planning import SessionQueries
from qoop.programs.folder_lock import folder_lock
from qoop.programs.sweeps.fidelity import EarlySteps, StepPlans, early_count, early_steps, loaded
from qoop.programs.sweeps.journal import Journal
from qoop.programs.sweeps.kinds_of_options import check_kinds
from qoop.programs.sweeps.policies import JUDGED, NAMES
from qoop.programs.sweeps.race import Race, Racer
from qoop.programs.sweeps.space import Setting, settings
from qoop.programs.sweeps.study import SIGNS, Direction, Prune, Study, StudyParts
from qoop.programs.sweeps.sweep import Sweep, Trial
from qoop.programs.sweeps.texts import SweepTexts
from qoop.query.statements.parameters import literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from qoop.adaptive.cluster.job_group import JobGroup
    from qoop.adaptive.program_log import MessageLog
    from qoop.programs.sweeps.contest import Contest
    from qoop.programs.sweeps.ray_scheduler import RayScheduler
    from qoop.programs.sweeps.study import StartsOnTerms
    from qoop.query.planning import QueryPlanning
    from qoop.query.tables import SessionTables

_SWEEPS = "sweeps"
_EVERY = 10


@value
class SweepOptions:
    """See `Session.sweep`. slots: steps that may run at once. folder: where named sweeps are kept.

    confidence: that the best trial wins a race. exact_within: seconds; sweeps that should be shorter do not race.
    on_nodes: see `SessionQueries`. prepared: the rows of the query `prepare`."""

    params: object
    trials: int | None
    metric: str
    slots: int
    folder: Path | None
    confidence: float
    exact_within: float
    on_nodes: bool
    direction: Direction = "maximize"
    target: float | None = None
    within: float | None = None
    hopeless: float | None = None
    prune: str = "park"
    scheduler: object = "pop"
    every: int | None = None
    most: int = 100
    former: str = "former"
    name: str | None = None
    seed: int = 0
    sampler: Any = None
    prepare: str | None = None
    prepared: object = None
    fidelity: str | None = None

    @property
    def policy(self) -> str:
        """The policy of the program (:mod:`qoop.programs.sweeps.policies`)."""
        return self.scheduler if isinstance(self.scheduler, str) else JUDGED

    @property
    def boundary(self) -> int:
        """The steps from one decision about a trial to the next."""
        return self.every if self.every is not None else min(_EVERY, self.most)


def begun(
    step: str,
    first: object,
    tables: SessionTables,
    planning: QueryPlanning,
    options: SweepOptions,
    start: StartsOnTerms,
    group: AbstractContextManager[JobGroup],
    log: MessageLog | None,
) -> Study:
    """See `Session.sweep`. start: begins a job. group: of all its jobs, until the sweep ends.

    Raises ConfigError, QueryError, CheckpointError, DiskFull."""
    _check(options)
    with _proposing(options) as options, contextlib.ExitStack() as stack:
        source, judge = options.sampler, _judge(options)
        found = settings(options.params, options.trials, options.seed) if source is None else source.settings
        proposed = found if source is None else [source.propose(0)]
        texts = SweepTexts(step, options.metric, options.former, tables, proposed[0], first, options.prepared)
        steps = texts.read_all(proposed)
        text = next(one for one in steps if isinstance(one, str))
        if options.name is not None:
            texts.check_steady(text)
        repeats = texts.former is not None
        if texts.prepared is not None:
            tables = stack.enter_context(closing(tables.only(texts.measured(text), texts.prepared)))
            planning = planning.apart(tables)
        racing = "" if repeats else _racing(steps, tables, planning, options)
        early = _early(text, texts.metric, repeats, tables, options)
        trials = tuple(Trial(turn=number, estimated=early.count if early else 0) for number in range(len(found)))
        most = options.most if repeats else 1
        program = Sweep(
            options.policy, trials, options.slots, min(options.boundary, most), most, _score(options, options.target),
            options.within, _score(options, options.hopeless), options.prune == "kill",
        )  # fmt: skip
        journal, earlier = None, []
        if options.name is not None:
            journal = Journal(_taken(options, stack), user_key(), tables.binder.settings)
            stack.callback(journal.close)
            earlier = journal.open(_identity(step, found, options) | {"table": _version(racing)})
        shared = stack.enter_context(group)
        if early is not None:
            early = loaded(early, tables, planning, lambda planned: start(planned, terms=shared.terms))
        plans = StepPlans(texts.measured(text), options.former, tables, early, planning.apart)
        stack.callback(plans.close)
        queries = None
        if not isinstance(racing, str):
            queries = racing.opened()
            stack.callback(queries.close)
        parts = StudyParts(
            texts, steps, found, plans.of, options.metric, options.direction, start, shared, queries,
            racing if isinstance(racing, str) else "", journal, log, judge, source,
        )  # fmt: skip
        close = stack.pop_all().close
        return Study(parts, program if isinstance(racing, str) else _race(racing, options, len(found)), earlier, close)


@contextlib.contextmanager
def _proposing(options: SweepOptions) -> Iterator[SweepOptions]:
    """The options with the source of settings in place of an Optuna study; its trials fail if the sweep is refused."""
    if options.sampler is None:
        yield options
        return
    from qoop.programs.sweeps.optuna_source import OptunaSource  # few sweeps have one

    source = OptunaSource(options.sampler, options.params, options.trials, options.direction)
    try:
        yield replace(options, sampler=source)
    except BaseException:
        source.fail()
        raise


def _racing(
    steps: list[str | QueryError], tables: SessionTables, planning: QueryPlanning, options: SweepOptions
) -> Contest | str:
    """The race of trials that are one query each; or the reason why each runs exactly."""
    if options.sampler is not None:
        return "its settings are proposed one after the other"
    if options.scheduler != "pop":
        return f"scheduler={options.scheduler!r} runs each query to its end"
    if not options.metric.isidentifier():
        return "its metric is another query"
    texts = [one for one in steps if isinstance(one, str)]
    if len(texts) < len(steps):
        return "a step cannot be read"
    if options.name is None and options.exact_within:  # one with a name is decided as in the processes before
        seconds = planning.estimated_seconds(planning.plan(texts[0])) * len(texts)
        if seconds <= options.exact_within:
            return f"all trials should take {seconds_text(seconds)}, and race from {options.exact_within:g} s on"
    from qoop.programs.sweeps.contest import contest  # few sweeps are races

    queries = SessionQueries(tables, planning, options.on_nodes)
    sign = SIGNS[options.direction]
    target = _score(options, options.target)
    return contest(texts, options.metric, queries, options.confidence, sign, target, options.seed)


def _early(text: str, metric: str, repeats: bool, tables: SessionTables, options: SweepOptions) -> EarlySteps | None:
    """The early steps that read some pieces of a table, if the sweep has such. text: of a step."""
    if options.fidelity is None:
        return None
    if not repeats:
        raise ConfigError(f"fidelity is for steps that read {options.former}: trials of one query race over pieces")
    texts = [text] if metric.isidentifier() else [text, metric]
    return early_steps(texts, tables, options.seed, early_count(options.boundary, options.most))


def _race(contest: Contest, options: SweepOptions, trials: int) -> Race:
    racers = (Racer(),) * trials
    return Race(racers, contest.rounds, options.slots, _score(options, options.target), options.within)


def _version(racing: Contest | str) -> str:
    """The version of the table that trials race over: the sums of its pieces are kept."""
    return "" if isinstance(racing, str) else racing.growth.fact.version


def _judge(options: SweepOptions) -> RayScheduler | None:
    if isinstance(options.scheduler, str):
        return None
    from qoop.programs.sweeps.ray_scheduler import RayScheduler  # few sweeps have one

    return RayScheduler(options.scheduler, options.direction)


def _score(options: SweepOptions, metric: float | None) -> float | None:
    return None if metric is None else metric * SIGNS[options.direction]


def _taken(options: SweepOptions, stack: contextlib.ExitStack) -> Path:
    """The folder of the sweep, which this process has for itself until the stack ends."""
    if options.folder is None:
        raise ConfigError("a sweep with a name needs a folder: connect(checkpoints=FOLDER)")
    folder = options.folder / _SWEEPS / str(options.name)
    if not stack.enter_context(folder_lock(folder)):
        raise ConfigError(f"another process runs the sweep {options.name} of {options.folder}")
    return folder


def _identity(step: str, found: list[Setting], options: SweepOptions) -> dict[str, Any]:
    trials = [{name: literal(one) for name, one in setting.items()} for setting in found]
    return {
        "step": step, "metric": options.metric, "direction": options.direction, "target": options.target,
        "prepare": options.prepare, "scheduler": options.scheduler, "hopeless": options.hopeless,
        "prune": options.prune, "every": options.boundary, "most": options.most, "seed": options.seed, "trials": trials,
        **({} if options.fidelity is None else {"fidelity": options.fidelity}),
    }  # fmt: skip


def _check(options: SweepOptions) -> None:
    check_kinds(options)
    if isinstance(options.scheduler, str) and options.scheduler not in NAMES:
        raise ConfigError(f"scheduler must be one of {', '.join(NAMES)}, not {options.scheduler!r}")
    if options.name is not None and not isinstance(options.scheduler, str):
        raise ConfigError("a sweep with a scheduler of Ray Tune cannot be continued: leave name out")
    if options.name is not None and options.sampler is not None:
        raise ConfigError("a sweep with an Optuna study cannot be continued: leave name out")
    if options.fidelity not in (None, "pieces"):
        raise ConfigError(f'fidelity must be "pieces" or None, not {options.fidelity!r}')
    if options.fidelity is not None and (options.sampler is not None or not isinstance(options.scheduler, str)):
        raise ConfigError("Optuna and Ray Tune would take estimates by some pieces for results: leave fidelity out")
    if options.direction not in SIGNS:
        raise ConfigError(f"direction must be maximize or minimize, not {options.direction!r}")
    if not 1 <= options.boundary <= options.most:
        raise ConfigError(f"every must be from 1 to most, which is {options.most}, not {options.boundary}")
    if options.prune not in get_args(Prune):
        raise ConfigError(f"prune must be {' or '.join(get_args(Prune))}, not {options.prune!r}")
    if options.name is not None and not options.name.isidentifier():
        raise ConfigError(f"name must be an identifier such as rates_1, not {options.name!r}")
    if not options.former.isidentifier():
        raise ConfigError(f"former must be a name that needs no quotes, not {options.former!r}")
