"""The commands that ``qoop bench`` adds to the plain benchmark."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import parse_bytes
from qoop.catalog.user_folders import cache_directory
from qoop.drawing.picture import write
from qoop.profiles.volatility import Volatility
from qoop.tpcds.bench import (
    checkpoint_cost,
    continued,
    core_speed,
    decision_speed,
    eta,
    interrupt,
    overhead,
    python_order,
    resized,
    reuse_share,
    short_next_to_long,
    transfer,
)
from qoop.tpcds.bench.modes import MODES, STAGED, described
from qoop.tpcds.bench.system_under_test import KINDS, Size
from qoop.tpcds.links import bench as links
from qoop.tpcds.links import ray_links
from qoop.tpcds.load import commands as load_commands
from qoop.tpcds.load.growing import commands as growing_commands
from qoop.tpcds.map import commands as the_map
from qoop.tpcds.on_ray import ray_arrive, ray_cost, ray_spot
from qoop.tpcds.packed import bench as packed
from qoop.tpcds.queries import parse_names, parse_selection
from qoop.tpcds.queues import bench as queues
from qoop.tpcds.scenarios import adversary, forecasts
from qoop.tpcds.serving import bench as serving
from qoop.tpcds.simulate import fidelity, ground_truth, measuring, shared_cluster
from qoop.tpcds.simulate.workload import PAPER, Setting, contests, workload
from qoop.tpcds.suite import commands as suite
from qoop.tpcds.suite import pareto

T = TypeVar("T")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-commands; each sets `run`, a function of the parsed options that gives the exit code."""
    _add_resized(commands, resized.SHRINK, "Take a slot and most of the memory away in mid-query")
    _add_resized(commands, resized.ARRIVE, "Give a second slot and more memory in mid-query")
    _add_continued(commands)
    _add_interrupt(commands)
    _add_adversary(commands)
    _add_forecasts(commands)
    _add_pareto(commands)
    _add_overhead(commands)
    _add_checkpoints(commands)
    _add_reuse(commands)
    _add_shared(commands)
    _add_workload(commands)
    _add_measure(commands)
    _add_core(commands)
    _add_decisions(commands)
    _add_fidelity(commands)
    _add_ray(commands)
    _add_eta(commands)
    _add_transfer(commands)
    _add_udf(commands)
    _add_short(commands)
    load_commands.add_command(commands)
    load_commands.add_learning(commands)
    growing_commands.add_command(commands)
    _add_ray_spot(commands)
    packed.add_command(commands, _write)
    serving.add_command(commands, _write)
    queues.add_command(commands, _write)
    links.add_command(commands, _write)
    ray_links.add_command(commands, _write)
    suite.add_commands(commands)
    the_map.add_commands(commands)


def _add_resized(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], course: resized.Course, what: str
) -> None:
    what = f"{what}: qoop, qoop without re-planning, DuckDB"
    parser = commands.add_parser(course.name, help=what, description=f"{what}.")
    _add_common(parser)
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="runs of each, for the median (5)")
    parser.add_argument(
        "--kinds", default=",".join(KINDS), metavar="A,B", help=f"systems under test ({','.join(KINDS)})"
    )
    parser.add_argument("--staged", action="store_true", help="qoop in stages only, never by DuckDB's own plan")
    if course is resized.ARRIVE:
        parser.add_argument("--ray", action="store_true", help="Ray nodes of this machine: three more join the first")
        parser.add_argument(
            "--processors",
            type=float,
            metavar="P",
            help="with --ray: of each node, such as 0.25 (shares those there are)",
        )
    parser.set_defaults(run=_resized, course=course, ray=False, processors=None)


def _add_udf(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Two predicates in Python of unknown cost: the order that is found against both orders of the text"
    parser = commands.add_parser("udf", help=what, description=f"{what}.")
    parser.add_argument("--rows", type=int, default=400_000, metavar="N", help="of the table (400000)")
    parser.add_argument(
        "--bits", type=int, default=200, metavar="N", help="of the dear one's exponent (200: about 30 µs)"
    )
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="rounds, the shortest counts (3)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_udf)


def _udf(options: argparse.Namespace) -> int:
    wanted = python_order.PythonOrderOptions(options.rows, options.bits, options.repeat)
    results = python_order.run(wanted)
    if options.json:
        Path(options.json).write_text(json.dumps(python_order.to_json(results), indent=1))
    return 0


def _add_short(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "A short query every second while two long ones run: what either costs the other, in qoop and in DuckDB"
    parser = commands.add_parser("short", help=what, description=f"{what}.")
    parser.add_argument("directory", metavar="DIR", type=Path, help="where `qoop tpcds generate` made the tables")
    parser.add_argument("--queries", default="67,14", metavar="A,B", help="the long ones (67,14)")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="N", help="of each part (30)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_short)


def _short(options: argparse.Namespace) -> int:
    queries = tuple(parse_selection(options.queries))
    results = short_next_to_long.run(short_next_to_long.ShortOptions(options.directory, options.seconds, queries))
    if options.json:
        Path(options.json).write_text(json.dumps(short_next_to_long.to_json(results), indent=1))
    return 0


def _add_interrupt(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Kill the process at random moments: qoop goes on from its checkpoints, DuckDB starts again"
    parser = commands.add_parser("interrupt", help=what, description=f"{what}.")
    _add_common(parser)
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="sequences of kills (20)")
    means = ",".join(f"{mean:g}" for mean in interrupt.MEANS)
    parser.add_argument("--means", default=means, metavar="A,B", help=f"mean intervals, in undisturbed times ({means})")
    known = ",".join(interrupt.SIDES)
    parser.add_argument("--sides", default=known, metavar="A,B", help=f"only these of {known}")
    parser.set_defaults(run=_interrupt)


def _add_continued(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Kill the process at a part of its work and start it again: how much of that is saved, by default options"
    parser = commands.add_parser("continue", help=what, description=f"{what}.")
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


def _add_adversary(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Look for the changes of capacity under which re-planning does worst against the best plan in hindsight"
    parser = commands.add_parser("adversary", help=what, description=f"{what}. In virtual time; runs no query.")
    _add_tables(parser, ", at scale 1")
    parser.add_argument("--stats-scale", type=float, default=100.0, metavar="N", help="plan for that scale (100)")
    parser.add_argument("--slots", type=int, default=16, metavar="N", help="at the start (16)")
    parser.add_argument("--evaluations", type=int, default=200, metavar="N", help="profiles tried for a query (200)")
    kinds = ", ".join(adversary.POLICIES)
    parser.add_argument("--policy", default="greedy", metavar="NAME", help=f"whom to play against (greedy): {kinds}")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the search (1)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_adversary)


def _add_pareto(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "What a query costs and how long it takes on the paper's cluster: the Pareto line, with a picture"
    parser = commands.add_parser("pareto", help=what, description=f"{what}. In virtual time; runs no query.")
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables, at scale 1")
    parser.add_argument("--query", type=int, default=72, metavar="N", help="which one (72)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the market whose mean price it is (1)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="offers of the line that are run (5)")
    parser.add_argument("--svg", metavar="FILE", help="draw it there; or --png FILE")
    parser.add_argument("--png", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_pareto)


def _add_forecasts(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Greed and forecasts on profiles drawn by chance, against the best plan in hindsight"
    parser = commands.add_parser("forecasts", help=what, description=f"{what}. In virtual time; runs no query.")
    _add_tables(parser, ", at scale 1")
    parser.add_argument("--stats-scale", type=float, default=100.0, metavar="N", help="plan for that scale (100)")
    parser.add_argument("--slots", type=int, default=16, metavar="N", help="at most (16)")
    parser.add_argument("--count", type=int, default=10, metavar="N", help="profiles for each query and pace (10)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the profiles (1)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_forecasts)


def _add_overhead(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Nothing changes: what being able to change plan costs against being held to the same plan"
    parser = commands.add_parser("overhead", help=what, description=f"{what}.")
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


def _add_checkpoints(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "What it costs to write no outputs, those that are worth it, or all, to a folder that outlives the process"
    parser = commands.add_parser("checkpoints", help=what, description=f"{what}.")
    _add_tables(parser)
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of each on every side (3)")
    _add_resources(parser)
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    _add_modes(parser)
    parser.set_defaults(run=_checkpoints)


def _add_ray(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "What it costs to run on a Ray cluster: one node of it against as many slots of this process"
    parser = commands.add_parser("ray", help=what, description=f"{what}. Begins such a cluster, and ends it.")
    _add_tables(parser)
    parser.add_argument("--repeat", type=int, default=2, metavar="N", help="runs of each on either side (2)")
    parser.add_argument("--slots", type=int, default=2, metavar="N", help="of the node, and of this process (2)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_ray)


def _add_transfer(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Staged plans with and without predicate transfer; with --orders, over orders of joins drawn by chance"
    parser = commands.add_parser("transfer", help=what, description=f"{what}.")
    _add_tables(parser)
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="pairs of runs of each plan (3)")
    parser.add_argument("--orders", type=int, default=0, metavar="N", help="orders drawn for each query (0: the usual)")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds of one run at most (60)")
    _add_resources(parser)
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_transfer)


def _add_eta(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Whether queries end within the range that they tell at half time"
    parser = commands.add_parser("eta", help=what, description=f"{what}. The machine should do nothing else.")
    _add_tables(parser)
    parser.add_argument("--slots", type=int, metavar="N", help="tasks at a time (the CPUs there are)")
    parser.add_argument("--memory", metavar="SIZE", help='for all tasks together, such as "2GB"')
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    _add_modes(parser)
    parser.set_defaults(run=_eta)


def _add_ray_spot(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "A spot market replayed on real Ray nodes that come and go, next to the simulator's prediction"
    parser = commands.add_parser("ray-spot", help=what, description=f"{what}.")
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables")
    parser.add_argument("--queries", default="23,64,72,78", metavar="1,3,7-9", help="which ones (23,64,72,78)")
    parser.add_argument("--volatility", choices=[*Volatility], default="high", help="of the region (high)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the market (1)")
    parser.add_argument("--nodes", type=int, default=3, metavar="N", help="of one CPU each, at most (3)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_ray_spot)


def _add_reuse(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "How much of what is finished serves after a switch, and how much would by identical subtrees only"
    parser = commands.add_parser("reuse", help=what, description=f"{what}. In virtual time, or --real.")
    _add_tables(parser, ", at scale 1")
    parser.add_argument("--points", type=int, default=5, metavar="N", help="moments of each run (5)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the moments (1)")
    parser.add_argument("--slots", type=int, default=16, metavar="N", help="of the machine (16)")
    parser.add_argument("--stats-scale", type=float, default=100.0, metavar="N", help="plan for that scale (100)")
    parser.add_argument("--real", action="store_true", help="run each query once, on data of any scale")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_reuse)


def _add_shared(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "What one job sees of a cluster on which TPC-DS jobs come and go, under Tetris"
    parser = commands.add_parser("shared", help=what, description=f"{what}. In virtual time; runs no query.")
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables, at scale 1")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="clusters: seeds 1 to N (1)")
    parser.add_argument("--hours", type=float, default=3.0, metavar="N", help="that are looked at (3)")
    parser.add_argument("--warm", type=float, default=1.0, metavar="N", help="hours before that (1)")
    parser.add_argument("-o", "--output", metavar="FILE", help="record when the jobs came and ended there")
    parser.set_defaults(run=_shared)


def _add_workload(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "The plans of the simulated queries, and which of them ends first on how many slots of the paper's cluster"
    parser = commands.add_parser("workload", help=what, description=f"{what}. Runs no query.")
    _add_tables(parser, ", at scale 1")
    parser.add_argument(
        "--pace", type=float, default=PAPER.pace, metavar="N", help=f"times our kernel's seconds ({PAPER.pace:g})"
    )
    parser.add_argument("--true", action="store_true", help="by what `qoop bench measure` found, not as believed")
    parser.set_defaults(run=_workload)


def _add_measure(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Run the kept plans on small data: what simulations hold for true at the paper's size follows from it"
    parser = commands.add_parser("measure", help=what, description=f"{what}. Goes on where it was broken off.")
    _add_tables(parser, ", at scale 1")
    parser.add_argument("--also", action="append", default=[], metavar="10=DIR", help="data of another scale, too")
    parser.add_argument("--repeat", type=int, default=2, metavar="N", help="runs of each plan; the fastest counts (2)")
    parser.add_argument("--again", action="store_true", help="measure what is known once more; the fastest counts")
    parser.add_argument("--memory", metavar="SIZE", help='for a task, such as "4GB" (80 %% of what there is)')
    parser.set_defaults(run=_measure)


def _add_core(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "How many task events a second go through the core: 600 slots, simulated tasks, by number of jobs"
    parser = commands.add_parser("core", help=what, description=f"{what}. Runs no query.")
    parser.add_argument("--jobs", default="1,2,5,10,20,50", metavar="A,B", help="at once (1,2,5,10,20,50)")
    parser.add_argument("--tasks", type=int, default=30_000, metavar="N", help="of all jobs together (30000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of plans and durations (1)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_core)


def _add_decisions(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "What a decision of each policy takes, with 100 jobs and 1,000 ready tasks on simulated machines"
    parser = commands.add_parser("decisions", help=what, description=f"{what}. Runs no query.")
    policies = ",".join(decision_speed.POLICIES)
    parser.add_argument("--policies", default=policies, metavar="A,B", help=f"by name or text ({policies})")
    parser.add_argument("--jobs", type=int, default=100, metavar="N", help="at once (100)")
    parser.add_argument("--stages", type=int, default=10, metavar="N", help="ready at once, of each job (10)")
    parser.add_argument("--decisions", type=int, default=1500, metavar="N", help="to be timed (1500)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of plans and durations (1)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_decisions)


def _add_fidelity(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Run the queries under a few profiles, then the same in the simulator: how far is it off?"
    parser = commands.add_parser("fidelity", help=what, description=f"{what}. The machine should do nothing else.")
    _add_tables(parser)
    parser.add_argument("--quick", action="store_true", help="some of the queries, each run once")
    parser.add_argument("--profiles", default=",".join(fidelity.PROFILES), metavar="A,B", help="which ones (all)")
    parser.add_argument("--repeat", type=int, metavar="N", help="runs of each (3); the fastest counts")
    kept = "real runs are kept there as they come; a broken-off run goes on from there (in ~/.cache/qoop/suite)"
    parser.add_argument("--results", metavar="FILE", help=kept)
    parser.add_argument(
        "--fresh", action="store_true", help="begin again, and put the figures on the report's page whatever is there"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.set_defaults(run=_fidelity)


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
    wanted = continued.ContinuedOptions(
        Path(options.directory), _queries(options), _positive("--longest", options.longest),
        _positive("--repeat", options.repeat), _points(options.points), size, options.least, options.staged,
        _file(options.results),
    )  # fmt: skip
    done = continued.run(wanted, _tell)
    print(continued.table(done, wanted))
    return 1 if any(one.error for one in done) else 0


def _interrupt(options: argparse.Namespace) -> int:
    done = interrupt.run(
        interrupt.InterruptOptions(
            Path(options.directory), _queries(options), _positive("--longest", options.longest),
            _positive("--seeds", options.seeds), _means(options.means), results=_file(options.results),
            sides=parse_names(options.sides, interrupt.SIDES, "side"),
        ),
        _tell,
    )  # fmt: skip
    print(interrupt.table(done))
    return 1 if any(one.error for one in done) else 0


def _adversary(options: argparse.Namespace) -> int:
    if options.policy not in adversary.POLICIES:
        raise ConfigError(f"there is no policy {options.policy!r}; there are {', '.join(adversary.POLICIES)}")
    found = adversary.run(
        adversary.AdversaryOptions(
            Path(options.directory), parse_selection(options.queries), options.stats_scale,
            _positive("--slots", options.slots), _positive("--evaluations", options.evaluations), options.seed,
            options.policy,
        ),
        lambda query, worst: _tell(f"query {query}: {worst}"),
    )  # fmt: skip
    print(adversary.table(found))
    _write(adversary.to_json(found), options.json)
    return 0


def _shared(options: argparse.Namespace) -> int:
    seeds = tuple(range(1, _positive("--seeds", options.seeds) + 1))
    asked = shared_cluster.SharedClusterOptions(Path(options.directory), seeds, options.hours, options.warm)
    clusters = shared_cluster.run(asked, lambda seed, lifetimes: _tell(f"seed {seed}: {len(lifetimes.came)} jobs"))
    print(shared_cluster.table(clusters))
    if options.output is not None:
        shared_cluster.save(clusters, Path(options.output))
    return 0


def _pareto(options: argparse.Namespace) -> int:
    found = pareto.run(Path(options.directory), options.query, options.seed, _positive("--runs", options.runs))
    print(pareto.table(found))
    _write(pareto.to_json(found), options.json)
    if options.svg is not None or options.png is not None:
        picture = pareto.draw(found)
        for name, data in ((options.svg, picture.svg), (options.png, picture.png)):
            if name is not None:
                Path(name).write_bytes(data)
    return 0


def _forecasts(options: argparse.Namespace) -> int:
    found = forecasts.run(
        forecasts.ForecastOptions(
            Path(options.directory), parse_selection(options.queries), options.stats_scale,
            _positive("--slots", options.slots), _positive("--count", options.count), options.seed,
        ),
        _tell,
    )  # fmt: skip
    print(forecasts.table(found))
    _write(forecasts.to_json(found), options.json)
    return 0


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


def _checkpoints(options: argparse.Namespace) -> int:
    def run(staged: bool) -> list[checkpoint_cost.QueryResult]:
        return checkpoint_cost.run(
            checkpoint_cost.CheckpointCostOptions(
                Path(options.directory), _queries(options), _positive("--repeat", options.repeat), options.slots,
                options.memory, staged,
            ),
            _tell,
        )  # fmt: skip

    found = _in_modes(options, run, checkpoint_cost.table, checkpoint_cost.to_json)
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


def _ray(options: argparse.Namespace) -> int:
    done = ray_cost.run(
        ray_cost.RayCostOptions(
            Path(options.directory), _queries(options), _positive("--repeat", options.repeat),
            _positive("--slots", options.slots),
        ),
        _tell,
    )  # fmt: skip
    print(ray_cost.summary(done))
    _write(ray_cost.to_json(done), options.json)
    return 1 if any(one.error is not None for one in done) else 0


def _eta(options: argparse.Namespace) -> int:
    def run(staged: bool) -> eta.EtaReport:
        wanted = eta.EtaOptions(Path(options.directory), _queries(options), options.slots, options.memory, staged)
        return eta.measure(wanted, _tell)

    return 1 if any(one.failed for one in _in_modes(options, run, eta.table, eta.EtaReport.json)) else 0


def _ray_spot(options: argparse.Namespace) -> int:
    done = ray_spot.run(
        ray_spot.RaySpotOptions(
            Path(options.directory), _queries(options), Volatility(options.volatility), options.seed,
            _positive("--nodes", options.nodes),
        ),
        _tell,
    )  # fmt: skip
    _write(ray_spot.to_json(done), options.json)
    return 1 if any(one.error is not None for one in done) else 0


def _transfer(options: argparse.Namespace) -> int:
    done = transfer.run(
        transfer.TransferOptions(
            Path(options.directory), _queries(options), _positive("--repeat", options.repeat), options.orders,
            options.timeout, options.slots, options.memory,
        ),
        _tell,
    )  # fmt: skip
    print(transfer.table(done))
    _write(transfer.to_json(done), options.json)
    return 0


def _reuse(options: argparse.Namespace) -> int:
    done = reuse_share.run(
        reuse_share.ReuseShareOptions(
            Path(options.directory), parse_selection(options.queries), _positive("--points", options.points),
            options.seed, _positive("--slots", options.slots), options.stats_scale, options.real,
        ),
        _tell,
    )  # fmt: skip
    print(reuse_share.table(done))
    _write(reuse_share.to_json(done), options.json)
    return 0


def _workload(options: argparse.Namespace) -> int:
    if not options.pace > 0:
        raise ConfigError(f"--pace must be above 0, not {options.pace:g}")
    setting = Setting(pace=options.pace)
    queries = parse_selection(options.queries)
    found = workload(Path(options.directory), queries, setting, lambda query: _tell(f"query {query} is planned"))
    if options.true:
        measured = ground_truth.measured(Path(options.directory), found, setting)
        found = {number: ground_truth.known_true(query, measured) for number, query in found.items()}
    print(contests(found, setting))
    return 0


def _measure(options: argparse.Namespace) -> int:
    directory, queries = Path(options.directory), parse_selection(options.queries)
    sizes = measuring.parse_sizes(directory, options.also)
    repeat = _positive("--repeat", options.repeat)
    failed = measuring.run(
        measuring.MeasureOptions(directory, queries, sizes, repeat, options.again, options.memory), _tell
    )
    for scales in ((1.0, scale) for scale in sizes if scale > 1.0):
        print(ground_truth.rules(directory, queries, scales))
    return 1 if failed else 0


def _core(options: argparse.Namespace) -> int:
    try:
        jobs = [_positive("--jobs", int(number)) for number in options.jobs.split(",")]
    except ValueError as error:
        raise ConfigError(f"--jobs takes numbers with commas between them, not {options.jobs!r}") from error
    found = core_speed.run(jobs, _positive("--tasks", options.tasks), options.seed, lambda speed: _tell(str(speed)))
    _write(core_speed.to_json(found), options.json)
    return 0


def _decisions(options: argparse.Namespace) -> int:
    jobs, stages = _positive("--jobs", options.jobs), _positive("--stages", options.stages)
    decisions = _positive("--decisions", options.decisions)
    policies = options.policies.split(",")
    found = decision_speed.run(policies, jobs, stages, decisions, options.seed, lambda one: _tell(str(one)))
    _write(decision_speed.to_json(found), options.json)
    return 0


def _fidelity(options: argparse.Namespace) -> int:
    profiles = parse_names(options.profiles, fidelity.PROFILES, "profile")
    queries = fidelity.QUICK if options.quick and options.queries is None else parse_selection(options.queries)
    repeat = _positive("--repeat", options.repeat or (1 if options.quick else 3))
    results = _file(options.results)
    asked = fidelity.FidelityOptions(Path(options.directory), queries, profiles, repeat=repeat, results=results)
    folder = cache_directory() / "suite"
    found = fidelity.run_kept(asked, folder, options.fresh, _tell)
    print(fidelity.table(found))
    if not fidelity.keep_summary(found, asked, folder, options.fresh):
        _tell(fidelity.KEPT)
    _write(fidelity.to_json(found), options.json)
    return 1 if found.failed else 0


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
