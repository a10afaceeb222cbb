"""The commands that ``qoop bench`` adds to the plain benchmark."""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import parse_bytes
from qoop.query.drawing.picture import write
from qoop.tpcds.bench import (
    bombs,
    continued,
    core_speed,
    eta,
    interrupt,
    lives,
    orders,
    overhead,
    query_loop,
    real_sweeps,
    resized,
    resizes,
    shapes,
)
from qoop.tpcds.bench.modes import MODES, STAGED, described
from qoop.tpcds.bench.system_under_test import KINDS, Size
from qoop.tpcds.links import bench as links
from qoop.tpcds.load import commands as load_commands
from qoop.tpcds.load.growing import commands as growing_commands
from qoop.tpcds.map import commands as the_map
from qoop.tpcds.on_ray import ray_arrive
from qoop.tpcds.queries import parse_names, parse_selection
from qoop.tpcds.queues import bench as queues
from qoop.tpcds.simulate import measuring, sweeps
from qoop.tpcds.spot import commands as spot
from qoop.tpcds.streams import bench as streams
from qoop.tpcds.suite import commands as suite
from qoop.tpcds.views import commands as views_commands

T = TypeVar("T")
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands; each sets `run`, a function of the parsed options that gives the exit code."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", help="one of those below")
    listed = []
    for title, adders in _GROUPS.items():
        before = set(commands.choices)
        for add in adders:
            add(commands)
        added = [name for name in commands.choices if name not in before]
        listed.append("\n".join([f"{title}:", *(_line(name, commands.choices[name]) for name in added)]))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n\n".join(listed)


def _line(name: str, parser: argparse.ArgumentParser) -> str:
    """A command in the list: its name and the first sentence of its description."""
    what = (parser.description or "").split(". ")[0].removesuffix(".")
    return textwrap.fill(what, 96, initial_indent=f"  {name:<10} ", subsequent_indent=" " * 13)


def _add_shrink(commands: Commands) -> None:
    _add_resized(commands, resized.SHRINK, "Take a slot and most of the memory away in mid-query")


def _add_arrive(commands: Commands) -> None:
    parser = _add_resized(commands, resized.ARRIVE, "Give a second slot and more memory in mid-query")
    parser.add_argument("--ray", action="store_true", help="Ray nodes of this machine: three more join the first")
    part = "with --ray: of each node, such as 0.25 (shares those there are)"
    parser.add_argument("--processors", type=float, metavar="P", help=part)


def _add_resized(commands: Commands, course: resized.Course, what: str) -> argparse.ArgumentParser:
    what = f"{what}: qoop, qoop without re-planning, DuckDB"
    parser = commands.add_parser(course.name, description=f"{what}.")
    _add_common(parser)
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="runs of each, for the median (5)")
    parser.add_argument(
        "--kinds", default=",".join(KINDS), metavar="A,B", help=f"systems under test ({','.join(KINDS)})"
    )
    parser.add_argument("--staged", action="store_true", help="qoop in stages only, never by DuckDB's own plan")
    parser.set_defaults(run=_resized, course=course, ray=False, processors=None)
    return parser


def _add_interrupt(commands: Commands) -> None:
    what = "Kill the process at random moments: qoop goes on from its checkpoints, DuckDB starts again"
    parser = commands.add_parser("interrupt", description=f"{what}.")
    _add_common(parser)
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="sequences of kills (20)")
    means = ",".join(f"{mean:g}" for mean in interrupt.MEANS)
    parser.add_argument("--means", default=means, metavar="A,B", help=f"mean intervals, in undisturbed times ({means})")
    known = ",".join(interrupt.SIDES)
    parser.add_argument("--sides", default=known, metavar="A,B", help=f"only these of {known}")
    minutes = "begin no trial after that time; the same command with --results goes on"
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M", help=minutes)
    parser.set_defaults(run=_interrupt)


def _add_continued(commands: Commands) -> None:
    what = "Kill the process at a part of its work and start it again: how much of that is saved, by default options"
    parser = commands.add_parser("continue", description=f"{what}.")
    _add_common(parser)
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs of each kind (1)")
    points = ",".join(f"{point:g}" for point in continued.POINTS)
    parser.add_argument("--points", default=points, metavar="A,B", help=f"parts of the work of a whole run ({points})")
    usual = continued.USUAL
    parser.add_argument("--slots", type=int, default=usual.slots, metavar="N", help=f"tasks at a time ({usual.slots})")
    parser.add_argument("--memory", default="2GB", metavar="SIZE", help="for all tasks (2GB)")
    parser.add_argument(
        "--least", type=float, default=continued.LEAST, metavar="S",
        help=f"seconds that a query must take to be killed ({continued.LEAST:g})",
    )  # fmt: skip
    parser.add_argument("--staged", action="store_true", help="in stages only, in place of the default options")
    parser.set_defaults(run=_continued)


def _add_resizes(commands: Commands) -> None:
    what = "Change the limits of a container at random while queries run in it: qoop, DuckDB"
    parser = commands.add_parser("resizes", description=f"{what}. Needs root, to make control groups.")
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables")
    parser.add_argument("--queries", metavar="1,3,7-9", help=f"which ones ({','.join(map(str, resizes.QUERIES))})")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="resizes of each kind (1000)")
    parser.add_argument("--every", type=float, default=5.0, metavar="S", help="seconds between resizes (5)")
    parser.add_argument("--memory", default="2GB", metavar="SIZE", help="limits are 0.25 to 4 times that (2GB)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the sizes (1)")
    known = ",".join(query_loop.KINDS)
    parser.add_argument("--kinds", default=known, metavar="A,B", help=f"only these of {known}")
    parser.add_argument("--shrinks", action="store_true", help="every second limit is below the memory in use")
    parser.add_argument("--only-resizes", action="store_true", help="no runs that keep one size, and no ratio to these")
    parser.add_argument("--results", metavar="FILE", help="kept as they come; a broken-off run goes on from there")
    parser.set_defaults(run=_resizes)


def _add_lives(commands: Commands) -> None:
    what = "A query lives in short processes of random size, each killed without notice: the time that all take"
    parser = commands.add_parser("lives", description=f"{what}, over undisturbed runs.")
    _add_common(parser)
    parts = ",".join(f"{part:.3g}" for part in lives.GOALS)
    parser.add_argument("--parts", metavar="A,B", help=f"lengths of lives, each a part of an undisturbed run ({parts})")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="sequences of sizes (1)")
    parser.set_defaults(run=_lives, longest=6)


def _add_overhead(commands: Commands) -> None:
    what = "Nothing changes: what being able to change plan costs against being held to the same plan"
    parser = commands.add_parser("overhead", description=f"{what}.")
    _add_tables(parser)
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="pairs of runs of each (5)")
    _add_resources(parser)
    parser.add_argument(
        "--known", action="store_true", help="other plans are known before, as when a query comes again"
    )
    parser.add_argument("--results", metavar="FILE", help="kept as they come; a broken-off run goes on from there")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    _add_modes(parser)
    parser.set_defaults(run=_overhead)


def _add_eta(commands: Commands) -> None:
    what = "Whether queries end within the range that they tell at half time"
    parser = commands.add_parser("eta", description=f"{what}. The machine should do nothing else.")
    _add_tables(parser)
    parser.add_argument("--slots", type=int, metavar="N", help="tasks at a time (the CPUs there are)")
    parser.add_argument("--memory", metavar="SIZE", help='for all tasks together, such as "2GB"')
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    _add_modes(parser)
    parser.set_defaults(run=_eta)


def _add_measure(commands: Commands) -> None:
    what = "Run the kept plans on small data: what simulations hold for true at the paper's size follows from it"
    parser = commands.add_parser("measure", description=f"{what}. Goes on where it was broken off.")
    _add_tables(parser, ", at scale 1")
    parser.add_argument("--also", action="append", default=[], metavar="10=DIR", help="data of another scale, too")
    parser.add_argument("--repeat", type=int, default=2, metavar="N", help="runs of each plan; the fastest counts (2)")
    parser.add_argument("--again", action="store_true", help="measure what is known once more; the fastest counts")
    parser.add_argument("--memory", metavar="SIZE", help='for a task, such as "4GB" (80 %% of what there is)')
    parser.set_defaults(run=_measure)


def _add_core(commands: Commands) -> None:
    what = "How many task events a second go through the core: 600 slots, simulated tasks, by number of jobs"
    parser = commands.add_parser("core", description=f"{what}. Runs no query.")
    parser.add_argument("--jobs", default="1,2,5,10,20,50", metavar="A,B", help="at once (1,2,5,10,20,50)")
    parser.add_argument("--tasks", type=int, default=30_000, metavar="N", help="of all jobs together (30000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of plans and durations (1)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_core)


def _add_sweeps(commands: Commands) -> None:
    what = "Hours until a trial of a sweep reaches its target, by policy: 100 known curves, in virtual time"
    parser = commands.add_parser("sweeps", description=f"{what}. Only --real runs queries.")
    parser.add_argument("--sets", type=int, default=8, metavar="N", help="of curves (8)")
    parser.add_argument("--orders", type=int, default=25, metavar="N", help="of the trials of each set (25)")
    parser.add_argument("--slots", type=int, default=5, metavar="N", help="steps at a time (5)")
    parser.add_argument("--late", action="store_true", help="curves that rise late, and some that fall back")
    parser.add_argument(
        "--real", action="store_true", help="run k-means and logistic regression, next to others' tools"
    )
    defaults = real_sweeps.RealOptions()
    parser.add_argument("--rows", type=int, default=defaults.rows, metavar="N", help=f"with --real ({defaults.rows})")
    sides = ",".join(defaults.sides)
    parser.add_argument(
        "--sides", default=sides, metavar="A,B", help=f"with --real: the first is compared with ({sides})"
    )
    parser.add_argument(
        "--results", metavar="FILE", type=Path, help="with --real: keep runs there, and go on with them"
    )
    parser.set_defaults(run=_sweeps)


def _add_tables(parser: argparse.ArgumentParser, scale: str = "") -> None:
    """Options that choose tables and queries. scale: of the tables, if it matters, as the help is to go on."""
    parser.add_argument("directory", metavar="DIR", help=f"where `qoop tpcds generate` made the tables{scale}")
    parser.add_argument("--queries", metavar="1,3,7-9", help="which ones (all)")


def _add_resources(parser: argparse.ArgumentParser) -> None:
    """The resources of a session."""
    parser.add_argument("--slots", type=int, metavar="N", help="tasks at a time (the CPUs there are)")
    parser.add_argument("--memory", metavar="SIZE", help='for all tasks, such as "2GB" (80 %% of what there is)')


def _add_modes(parser: argparse.ArgumentParser) -> None:
    """The options of the sessions that are measured."""
    known = ",".join(MODES)
    what = f"the default options, stages only (staged=True), or both ({known})"
    parser.add_argument("--modes", default=known, metavar="A,B", help=what)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables")
    parser.add_argument("--queries", metavar="1,3,7-9", help="which ones (the longest)")
    parser.add_argument("--longest", type=int, default=20, metavar="N", help="how many of the longest (20)")
    parser.add_argument("--results", metavar="FILE", help="kept as they come; a broken-off run goes on from there")


def _add_bombs(commands: Commands) -> None:
    what = "Dashboards and queries without bound: one process of DuckDB alone, then `qoop serve` with its live page"
    parser = commands.add_parser("bombs", description=f"{what}.")
    parser.add_argument("directory", metavar="DIR", help="of Parquet files, one a table")
    usual = bombs.BombOptions(Path())
    parser.add_argument(
        "--seconds", type=float, default=usual.seconds, metavar="S", help=f"of each ({usual.seconds:g})"
    )
    parser.add_argument(
        "--memory", default="2GB", metavar="SIZE", help="of all processes of a side; above it, they are killed (2GB)"
    )
    parser.add_argument("--slots", type=int, default=usual.slots, metavar="N", help=f"tasks at a time ({usual.slots})")
    for name, count in (("dashboards", usual.dashboards), ("bombers", usual.bombers)):
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N", help=f"that send such texts ({count})")
    cold = "bombers begin with the server, not after a third of the time"
    parser.add_argument("--cold", action="store_true", help=cold)
    parser.set_defaults(run=_bombs)


def _bombs(options: argparse.Namespace) -> int:
    numbers = {name: _positive(f"--{name}", getattr(options, name)) for name in ("slots", "dashboards", "bombers")}
    if not options.seconds > 0:
        raise ConfigError(f"--seconds must be above 0, not {options.seconds:g}")
    chosen = bombs.BombOptions(
        Path(options.directory), options.seconds, parse_bytes(options.memory), cold=options.cold, **numbers
    )
    _, served = bombs.run(chosen, _tell)
    return 1 if served.ended is not None or served.tally.wrong else 0


def _resized(options: argparse.Namespace) -> int:
    if options.ray:
        return _ray_arrive(options)
    if options.processors is not None:
        raise ConfigError("--processors is of Ray nodes: give --ray as well")
    kinds = parse_names(options.kinds, KINDS, "system")
    done = resized.run(
        resized.ResizedOptions(
            Path(options.directory), options.course, _queries(options), _positive("--longest", options.longest),
            _positive("--repeat", options.repeat), kinds, _file(options.results), options.staged,
        ),
        _tell,
    )  # fmt: skip
    print(resized.table(done))
    return 1 if any(one.errors for one in done) else 0


def _ray_arrive(options: argparse.Namespace) -> int:
    queries = _queries(options) or ray_arrive.QUERIES
    repeat = _positive("--repeat", options.repeat)
    done = ray_arrive.run(
        ray_arrive.RayArriveOptions(Path(options.directory), queries, repeat, options.processors), _tell
    )
    print(ray_arrive.table(done))
    return 1 if any(one.error for one in done) else 0


def _continued(options: argparse.Namespace) -> int:
    size = Size(_positive("--slots", options.slots), _positive("--memory", parse_bytes(options.memory)))
    settings = continued.ContinuedOptions(
        Path(options.directory), _queries(options), _positive("--longest", options.longest),
        _positive("--repeat", options.repeat), _points(options.points), size, options.least, options.staged,
        _file(options.results),
    )  # fmt: skip
    done = continued.run(settings, _tell)
    print(continued.table(done, settings))
    return 1 if any(one.error for one in done) else 0


def _resizes(options: argparse.Namespace) -> int:
    done = resizes.run(
        resizes.ResizesOptions(
            Path(options.directory), _queries(options) or resizes.QUERIES, _positive("--count", options.count),
            options.every, _positive("--memory", parse_bytes(options.memory)), options.seed,
            parse_names(options.kinds, query_loop.KINDS, "system"), options.shrinks,
            not options.only_resizes, _file(options.results),
        ),
        _tell,
    )  # fmt: skip
    print(resizes.table(done))
    return 1 if any(report.failed for report in done if report.kind == "qoop") else 0


def _interrupt(options: argparse.Namespace) -> int:
    done = interrupt.run(
        interrupt.InterruptOptions(
            Path(options.directory), _queries(options), _positive("--longest", options.longest),
            _positive("--seeds", options.seeds), _means(options.means), results=_file(options.results),
            sides=parse_names(options.sides, interrupt.SIDES, "side"), minutes=options.minutes,
        ),
        _tell,
    )  # fmt: skip
    print(interrupt.table(done))
    return 1 if any(one.error for one in done) else 0


def _lives(options: argparse.Namespace) -> int:
    parts = tuple(lives.GOALS) if options.parts is None else _numbers("--parts", options.parts, 1.0)
    settings = lives.LivesOptions(
        Path(options.directory), _queries(options), _positive("--longest", options.longest), parts,
        _positive("--seeds", options.seeds), _file(options.results),
    )  # fmt: skip
    done = lives.run(settings, _tell)
    print(lives.table(done))
    return 1 if any(one.error for one in done) else 0


def _overhead(options: argparse.Namespace) -> int:
    def run(staged: bool) -> list[overhead.QueryResult]:
        return overhead.run(
            overhead.OverheadOptions(
                Path(options.directory), _queries(options), _positive("--repeat", options.repeat), options.slots,
                options.memory, options.known, _file(options.results), staged,
            ),
            _tell,
        )  # fmt: skip

    found = _in_modes(options, run, overhead.table, overhead.to_json)
    return 1 if any(one.error is not None for done in found for one in done) else 0


def _in_modes(
    options: argparse.Namespace,
    run: Callable[[bool], T],
    table: Callable[[T], str],
    to_json: Callable[[T], Mapping[str, object]],
) -> list[T]:
    """Measure by the default options first, then in stages only, and print and write the figures of both. run: takes
    whether it is in stages only."""
    found: dict[str, T] = {}
    for mode in parse_names(options.modes, MODES, "mode"):
        _tell(f"{described(mode)}:")
        found[mode] = run(mode == STAGED)
        print(f"{table(found[mode])}\n", flush=True)
    _write({mode: to_json(one) for mode, one in found.items()}, options.json)
    return list(found.values())


def _eta(options: argparse.Namespace) -> int:
    def run(staged: bool) -> eta.EtaReport:
        settings = eta.EtaOptions(Path(options.directory), _queries(options), options.slots, options.memory, staged)
        return eta.measure(settings, _tell)

    return 1 if any(one.failed for one in _in_modes(options, run, eta.table, eta.EtaReport.json)) else 0


def _measure(options: argparse.Namespace) -> int:
    directory, queries = Path(options.directory), parse_selection(options.queries)
    sizes = measuring.parse_sizes(directory, options.also)
    repeat = _positive("--repeat", options.repeat)
    failed = measuring.run(
        measuring.MeasureOptions(directory, queries, sizes, repeat, options.again, options.memory), _tell
    )
    return 1 if failed else 0


def _core(options: argparse.Namespace) -> int:
    try:
        jobs = [_positive("--jobs", int(number)) for number in options.jobs.split(",")]
    except ValueError as error:
        raise ConfigError(f"--jobs takes numbers with commas between them, not {options.jobs!r}") from error
    found = core_speed.run(jobs, _positive("--tasks", options.tasks), options.seed, lambda speed: _tell(str(speed)))
    _write(core_speed.to_json(found), options.json)
    return 0


def _sweeps(options: argparse.Namespace) -> int:
    sets, orders = _positive("--sets", options.sets), _positive("--orders", options.orders)
    if options.real:
        sides, rows = tuple(options.sides.split(",")), _positive("--rows", options.rows)
        real_sweeps.run(real_sweeps.RealOptions(rows, orders=orders, sides=sides, results=options.results), _tell)
        return 0
    slots = _positive("--slots", options.slots)
    found = sweeps.run(sets, orders, slots, "late" if options.late else "usual", _tell)
    _tell("all sets:")
    for policy, figures in found.items():
        _tell(f"  {sweeps.means(policy, figures)}")
    return 0


def _queries(options: argparse.Namespace) -> tuple[int, ...]:
    return parse_selection(options.queries) if options.queries is not None else ()


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"{name} must be at least 1, not {value}")
    return value


def _means(text: str) -> tuple[float, ...]:
    return _numbers("--means", text, math.inf)


def _points(text: str) -> tuple[float, ...]:
    return _numbers("--points", text, 1.0)


def _numbers(name: str, text: str, most: float) -> tuple[float, ...]:
    """Numbers above 0 and below `most`."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < number < most for number in numbers):
        limit = "" if most == math.inf else f" and below {most:g}"
        raise ConfigError(f"{name} wants numbers above 0{limit} with commas between, not {text!r}")
    return numbers


def _file(name: str | None) -> Path | None:
    return Path(name) if name is not None else None


def _write(values: object, name: str | None) -> None:
    if name is not None:
        write(json.dumps(values, indent=1) + "\n", name)


def _tell(line: str) -> None:
    print(line, flush=True)


def _queues(commands: Commands) -> None:
    queues.add_command(commands, _write)


def _exchanges(commands: Commands) -> None:
    links.add_command(commands, _write)


_GROUPS: Mapping[str, Sequence[Callable[[Commands], None]]] = {
    "on this machine, next to DuckDB": (
        _add_bombs, _add_shrink, _add_arrive, _add_continued, _add_lives, _add_interrupt, _add_resizes, _add_overhead,
        _add_eta, shapes.add_command, orders.add_command, spot.add_command, streams.add_command,
        views_commands.add_load_command,
    ),
    "in virtual time": (
        _add_core, _add_sweeps, _queues, _exchanges, load_commands.add_command, growing_commands.add_command,
        views_commands.add_command,
    ),
    "the paper's evaluation, in virtual time": (
        _add_measure, suite.add_commands, the_map.add_commands,
    ),
}  # fmt: skip
"""The adders of sub-commands, in the order of the list that `qoop bench --help` prints."""
