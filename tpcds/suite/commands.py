"""The commands of the suite: ``qoop bench suite`` and ``qoop bench report``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import qoop
from qoop.catalog.paths import cache_directory
from qoop.query.drawing.picture import write
from qoop.query.plan_keys import planner_version
from qoop.tpcds.queries import parse_names, parse_selection
from qoop.tpcds.simulate import fidelity, fidelity_figures
from qoop.tpcds.simulate.ground_truth import edition
from qoop.tpcds.suite import ablation, macro, markets, micro, report, runner, situations, toy
from qoop.tpcds.suite.criteria import criteria
from qoop.tpcds.suite.runner import Measured, Part
from qoop.tpcds.suite.versions import CORE, code_of

REGIONS, QUICK_REGIONS = 10, 1
"""Regions of a class that each query meets."""
ABLATION_REGIONS = 1
"""Of every other query, under profiles of every kind: some forty runs each."""
MACRO_SEEDS = 3
QUICK_JOBS = 20
QUICK_QUERIES = 10
FIDELITY = "fidelity"
_SUITE = "qoop.tpcds.suite"
_SHARED = ("qoop.tpcds.simulate.ground_truth", f"{_SUITE}.situations", f"{_SUITE}.micro")
"""Modules that the simulations of the suite rest on, besides the core."""


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-commands; each sets `run`, a function of the parsed options that gives the exit code."""
    what = "The paper's figures, part by part, and how faithful the simulator is first"
    known = ", ".join((FIDELITY, *_PARTS))
    parser = commands.add_parser("suite", description=f"{what}. In virtual time, but for fidelity. Parts: {known}.")
    add_options(parser)
    parser.add_argument("--parts", metavar="A,B", help="only these (all)")
    parser.set_defaults(run=_measure)
    what = "Write the page and the figures of what was measured"
    parser = commands.add_parser("report", description=f"{what}.")
    _add_results(parser)
    parser.add_argument("--out", metavar="FOLDER", default="qoop-report", help="where to write (qoop-report)")
    parser.set_defaults(run=_report)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of everything that is measured item by item."""
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables, at scale 1")
    parser.add_argument("--quick", action="store_true", help="ten queries, one region of each class: minutes")
    parser.add_argument("--queries", metavar="1,3,7-9", help="which ones (the fifty with the most alternatives)")
    parser.add_argument("--profile", metavar="FILE", help="a capacity profile in place of the generated ones")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of profiles and regions (1)")
    add_running_options(parser)


def add_running_options(parser: argparse.ArgumentParser) -> None:
    """Options of how items are measured, and of where their results go."""
    parser.add_argument("--processes", type=int, metavar="N", help="how many at a time (the CPUs there are)")
    parser.add_argument("--json", metavar="FILE", help="write all values there")
    parser.add_argument("--fresh", action="store_true", help="leave out what is kept of these parts; begin again")
    _add_results(parser)


def _add_results(parser: argparse.ArgumentParser) -> None:
    where = "kept there as they come; a broken-off run goes on from there (~/.cache/qoop/suite)"
    parser.add_argument("--results", metavar="FOLDER", help=where)


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements to make. quick: little of it. profile: of the user's own, None: generated ones."""

    directory: Path
    quick: bool
    queries: tuple[int, ...]
    profile: str | None
    seed: int

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(situations.MAKERS) if self.profile is None else ("file",)

    @property
    def ground(self) -> situations.Ground:
        return situations.Ground(self.directory, self.seed, self.profile)

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings that all results depend on."""
        settings = {
            "version": qoop.__version__, "planner": planner_version()[:8], "seed": self.seed,
            "directory": str(self.directory),
        }  # fmt: skip
        return settings if self.profile is None else {**settings, "profile": self.profile}

    def simulated(self, *modules: str) -> Mapping[str, object]:
        """The settings of results where tasks take as long as they really do. modules: that the simulations are in.

        Raises SourceError if there are no tables.
        """
        return {**self.settings, "ground_truth": edition(self.directory)[:8], **_code(*modules)}

    def some(self) -> tuple[int, ...]:
        """The queries to run; of all those that are there, every fifth, if it is to be quick."""
        numbers = self.queries or situations.chosen(self.directory)
        return numbers[:: max(1, len(numbers) // QUICK_QUERIES)] if self.quick else numbers


def _code(*modules: str) -> Mapping[str, object]:
    """The version of the code that simulations run."""
    return {"code": code_of(*CORE, *modules)[:8]}


def _micro(plan: Plan) -> Part:
    count = QUICK_REGIONS if plan.quick else REGIONS
    items = situations.situations(plan.ground, plan.some(), plan.kinds, count)
    return Part("micro", plan.simulated(*_SHARED), items, micro.measure)


def _ablation(plan: Plan) -> Part:
    count = QUICK_REGIONS if plan.quick else ABLATION_REGIONS
    items = situations.situations(plan.ground, plan.some()[:: 1 if plan.quick else 2], plan.kinds, count)
    return Part("ablation", _changed(plan), items, ablation.measure)


def _changed(plan: Plan) -> Mapping[str, object]:
    """The settings that the runs of the ablation depend on."""
    return plan.simulated(*_SHARED, f"{_SUITE}.ablation")


def _toy(plan: Plan) -> Part:
    settings = {"version": qoop.__version__, **_code(f"{_SUITE}.toy")}
    return Part("toy", settings, {"ends": None}, toy.measure)


def _macro(plan: Plan) -> Part:
    seeds = tuple(plan.seed + number for number in range(1 if plan.quick else MACRO_SEEDS))
    setting = macro.Setting(str(plan.directory), QUICK_JOBS if plan.quick else macro.JOBS, seeds=seeds)
    items = {f"{setting.jobs} jobs: {name}": item for name, item in macro.items(setting).items()}
    return Part("macro", plan.simulated(*_SHARED, f"{_SUITE}.macro"), items, macro.measure)


def _profiles(plan: Plan) -> Part:
    settings = {"version": qoop.__version__, "seed": plan.seed, **_code(f"{_SUITE}.markets")}
    return Part("profiles", settings, markets.items(plan.seed), markets.measure)


_PARTS: Mapping[str, Callable[[Plan], Part]] = {
    "profiles": _profiles,
    "toy": _toy,
    "micro": _micro,
    "ablation": _ablation,
    "macro": _macro,
}
"""In the order in which they are measured."""


def plan_of(options: argparse.Namespace) -> Plan:
    """The requested measurements."""
    queries = parse_selection(options.queries) if options.queries is not None else ()
    return Plan(Path(options.directory).absolute(), options.quick, queries, options.profile, options.seed)


def _measure(options: argparse.Namespace) -> int:
    parts = parse_names(options.parts, (FIDELITY, *_PARTS), "part")
    processes = runner.processes_for(options.processes)
    plan = plan_of(options)
    folder, failed = folder_of(options), 0
    settings, values = dict(plan.settings), dict[str, object]()
    if FIDELITY in parts:
        real = _fidelity(plan, folder, options.fresh)
        values[FIDELITY] = fidelity_figures.to_json(real)
        failed += len(real.failed)
    for name in (name for name in parts if name != FIDELITY):
        if options.fresh:
            runner.forget(name, folder)
        part = _PARTS[name](plan)
        with shown(name) as progress:
            measured = runner.run(part, folder, processes, progress)
        settings[name], values[name] = part.settings, dict(measured.values)
        failed += len(measured.failed)
        tell_failed(measured)
    if options.json is not None:
        write(json.dumps({"settings": settings, **values}, indent=1) + "\n", options.json)
    print("\n".join(report.lines(criteria(report.load(folder).only(parts).suite()))))
    return 1 if failed else 0


def _fidelity(plan: Plan, folder: Path, fresh: bool) -> fidelity_figures.Fidelity:
    """Real runs and the same simulated, before anything that rests on them."""
    if fresh:
        for path in folder.glob(f"{fidelity.RUNS}-*.jsonl"):
            path.unlink()
    queries = fidelity.QUICK if plan.quick else plan.queries or tuple(range(1, 100))
    options = fidelity.FidelityOptions(plan.directory, queries, repeat=1 if plan.quick else 3)
    found = fidelity.run_kept(options, folder, fresh, print)
    print(fidelity_figures.table(found))
    if not fidelity.keep_summary(found, options, folder, fresh):
        print(fidelity.KEPT)
    return found


def tell_failed(measured: Measured) -> None:
    """Tell of the items that failed, and why."""
    for name, error in measured.failed.items():
        print(f"{name}: {error}")


def _report(options: argparse.Namespace) -> int:
    target = Path(options.out)
    table = report.make(report.load(folder_of(options)), target)
    print("\n".join(report.lines(table)))
    print(f"{report.summary(table)} The page: {target / 'report.html'}")
    return 0


def folder_of(options: argparse.Namespace) -> Path:
    """The folder in which results are kept."""
    return Path(options.results) if options.results is not None else cache_directory() / "suite"


@contextmanager
def shown(name: str) -> Iterator[runner.OnProgress]:
    """A progress bar on stderr; where that is no terminal a line now and then."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(
        TextColumn("{task.description:<44}"), *columns, console=console, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(name, total=None)

        def progress(done: int, of: int, last: str) -> None:
            bar.update(task, completed=done, total=of, description=f"{name} {last}")
            if bar.disable and (done == of or done % max(1, of // 20) == 0):
                console.print(f"{name}: {done} of {of}")

        yield progress
