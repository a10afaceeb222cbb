"""The core, broken on purpose in one place: what the simulated schedules must catch.

    python tests/adaptive/simulation/sim_mutants.py             # prints the table: which schedule caught what

A mutant is a piece of the source of one function and what stands there instead.
"""

from __future__ import annotations
import __future__

import argparse
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from sim_draw import drawn
from sim_try import Failure, tried

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.fair_shares import FairShares
from qoop.adaptive.cluster.job_table import JobTable
from qoop.adaptive.cluster.time_limits import TimeLimits
from qoop.adaptive.replanning.replanner import Replanner
from qoop.adaptive.schedulers import max_min
from qoop.adaptive.schedulers.base import Request
from qoop.engine import frontier, task
from qoop.engine.demand import Demands
from qoop.engine.driver import Driver
from qoop.engine.frontier import Frontier, TaskNode
from qoop.engine.run import Run
from qoop.engine.running import retries
from qoop.engine.running.outputs import Outputs
from qoop.engine.running.plan import RunningPlan

WITHIN = 2_000
"""Schedules in which every mutant must be caught."""


@dataclass(frozen=True)
class Mutant:
    """where: the class or module whose function `name` it is. old: stands there once."""

    what: str
    where: type | ModuleType
    name: str
    old: str
    new: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        """While the core is broken like this. Raises ValueError where the source has changed, so that it is no longer
        clear how."""
        found = vars(self.where)[self.name]
        function = found.fget if isinstance(found, property) else found
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.what}: {self.old!r} stands {source.count(self.old)} times in\n{source}")
        flags = __future__.annotations.compiler_flag
        code = compile(source.replace(self.old, self.new), f"<{self.what}>", "exec", flags, dont_inherit=True)
        made: dict[str, object] = {}
        exec(code, function.__globals__, made)
        setattr(self.where, self.name, made[self.name])
        try:
            yield
        finally:
            setattr(self.where, self.name, found)


MUTANTS = (
    Mutant("a single output is never released", Outputs, "release", "if keys:", "if len(keys) > 1:"),
    Mutant(
        "a report of an attempt that has ended counts", Run, "_succeeded",
        "attempt is not None and not attempt.void and not self.ending", "not self.ending",
    ),
    Mutant("a lost checkpoint is forgotten", Run, "_lost", "self._outputs.drop(key) is None", "True"),
    Mutant("what others need is released at a switch", Outputs, "useless", "or not task.needed", "or True"),
    Mutant(
        "a switch goes on with what the plan makes of other things", RunningPlan, "change",
        "before is not None and not same", "False and before is not None",
    ),
    Mutant(
        "a switch does not stop what it has no use for", RunningPlan, "_stop_useless",
        "task is None or", "task is not None and",
    ),
    Mutant(
        "a switch forgets what runs", RunningPlan, "change",
        "{attempt.key for attempt in self._attempts}", "set()",
    ),
    Mutant(
        "a job ends before its attempts", Run, "_conclude",
        "self._outcome is None or self._attempts", "self._outcome is None",
    ),
    Mutant(
        "a job that ends stops nothing", Run, "_decide",
        'self._attempts.stop(attempt, f"the job is {outcome}")', "pass",
    ),
    Mutant("one failure more than the limit", retries, "_counted", "failures < limit", "failures <= limit"),
    Mutant(
        "losing a machine is no failure at all", Run, "_machine_lost",
        "self._judge(attempt, error, retryable=True)", "pass",
    ),
    Mutant(
        "non-deterministic stages meet another plan", RunningPlan, "_drop_dependents",
        "if self.frontier is None:", "if True:",
    ),
    Mutant("an attempt at spoiled data is not void", RunningPlan, "_spoil", "_attempts.void(", "_attempts.stop("),
    Mutant(
        "a non-deterministic stage made again spoils nothing", Frontier, "_review",
        "if active and task.made", "if False and task.made",
    ),
    Mutant(
        "an input that is lost is not missed", Frontier, "_remove",
        "1, whole=was_complete", "0, whole=was_complete",
    ),
    Mutant(
        "a task does not wait for all its inputs", TaskNode, "active_state",
        "if self.missing", "if self.missing > 1",
    ),
    Mutant(
        "every task reads partition 0", frontier, "_resolved",
        'part if mode == "partition"', '0 if mode == "partition"',
    ),
    Mutant("memory is not raised", Demands, "raise_memory", "min(2 * had, whole)", "had"),
    Mutant("pausing a job does nothing", Run, "pause", "self.state is State.RUNNING", "False"),
    Mutant("a heavier job gets less", Request, "share_of", "/ self.weight", "* self.weight"),
    Mutant(
        "resources that are used is granted", max_min, "first_fitting",
        "best_fit([demand.resources for demand in request.demands], places)", "(0, 0)",
    ),
    Mutant("the job that came first goes first", Request, "share_of", "round(", "0.0 * round("),
    Mutant("resources of a lost machine stays taken", Driver, "_account", "self._discharge(attempt)", "pass"),
    Mutant("a notice never ends", Driver, "_account", "self.leaving.pop(event.machine, None)", "pass"),
    Mutant(
        "what was given back is still the job's", Driver, "_discharge",
        "_subtract(self._used_by, charge.job, charge.resources)", "pass",
    ),
    Mutant(
        "shares are of resources that will go", FairShares, "divide",
        "self._driver.promised", "self._driver.capacity",
    ),
    Mutant("shares stay when a job ends", Cluster, "_end", "self.shares.stale = True", "pass"),
    Mutant("deadlines pass", TimeLimits, "apply", "now >= ends_at", "False"),
    Mutant("requests are not renewed", Driver, "_tell", "self.dirty_jobs[job] = None", "pass"),
    Mutant("a job that is cancelled is not looked at", JobTable, "order", "self.touch(job)", "pass"),
    Mutant(
        "what becomes free is not seen", Driver, "_discharge",
        "self._availability.set_free(charge.machine, self._free(charge.machine))", "pass",
    ),
    Mutant("machines that come are not seen", Driver, "take", "self._availability = self._all_available()", "pass"),
    Mutant("what a late writer left is not given back", Driver, "_give_back", "job not in self.runs", "False"),
    Mutant("what was found is not taken", Run, "_change", "self._outputs.add_found(found)  #", "#"),
    Mutant(
        "a plan that cannot start keeps what was found", Run, "_change",
        "self._outputs.add_found(found)  # first, since they are released at the end, however it comes\n"
        "    self._specs.need_tables(plan)",
        "self._specs.need_tables(plan)\n    self._outputs.add_found(found)",
    ),
    Mutant("non-deterministic stages are owned, what rests on them is not", task, "dependents",
           "item.stage in found", "False"),
    Mutant(
        "a late output of an old non-deterministic stage stays", RunningPlan, "void_attempts_at",
        "attempt.key == key", "False",
    ),
    Mutant("an ended job is told more", Run, "handle", "if self.state.final:", "if False:"),
    Mutant(
        "attempts of a lost machine are told to stop", Run, "_machine_lost",
        "    for attempt in lost:  # now that none of them is left to be stopped\n", "",
    ),
    Mutant(
        "all the memory there was is asked for again", Demands, "raise_memory",
        "2 * had if all_of_it", "0.0 if all_of_it",
    ),
    Mutant("what was handed out is made again", Replanner, "_as_pinned", "not self._pinned", "True"),
    Mutant("rows that may come out otherwise are handed out", JobTable, "pin", "found.run.lasting", "True"),
    Mutant("a suspended job keeps nothing", JobTable, "suspend", "if output.width", "if not output.width"),
)  # fmt: skip


def caught(mutant: Mutant, seed: str, within: int = WITHIN) -> tuple[int, Failure] | None:
    """The number of the first schedule that breaks, and how; None if none does."""
    with mutant.applied():
        for number in range(within):
            failures = tried(drawn(seed, number)).failures
            if failures:
                return number, failures[0]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/adaptive/simulation/sim_mutants.py")
    parser.add_argument("--seed", default="mutants")
    parser.add_argument("--within", type=int, default=WITHIN)
    parser.add_argument("--only", default="", help="mutants with this in their description")
    options = parser.parse_args()
    missed = 0
    for mutant in MUTANTS:
        if options.only in mutant.what:
            found = caught(mutant, options.seed, options.within)
            missed += found is None
            how = "NEVER" if found is None else f"{found[0]:>5}  {found[1].message.splitlines()[0][:110]}"
            print(f"{mutant.what:<50} {how}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
