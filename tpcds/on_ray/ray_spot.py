"""Spot machines that come and go, on real Ray nodes, next to what the simulator predicts.

A region of the market (`qoop.profiles`) is made small: its numbers of machines become numbers of nodes of one CPU on
this machine, its ten minutes a multiple of the time that a query takes undisturbed. A node that goes is killed with all
its processes; checkpoints go to a folder that all share. What the tasks of a plan take is measured before, on one node.
The simulator is then given the plan, these times and the machines as the job saw them: nodes take seconds to come up,
and some time passes before one that was killed is missed.

All nodes share the processors of this host. Two more things are measured before, and given to the simulator: how much
processor time a node takes to begin, which tasks have to do without meanwhile; and how many times as long a thread
takes for each other that works, such that the same query comes out as it does on as many nodes as there will be, which
stay. What the prediction adds are the changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from qoop.catalog.errors import QoopError
from qoop.engine.backends.simulated import Happening, MachineShared
from qoop.engine.events import MachineJoined, MachineLost
from qoop.engine.history import CapacityTold, Failed, Record, Started
from qoop.job import Job
from qoop.monitor.available import available_slots
from qoop.planner.plan import Plan, Resources
from qoop.planner.variants import Variant
from qoop.profiles import CapacityProfile
from qoop.profiles.named import spot_region
from qoop.profiles.volatility import Volatility
from qoop.session import Session, connect
from qoop.simulation import Fleet, SimulatedJob, simulate
from qoop.tpcds.on_ray.ray_nodes import LocalNodes, wait_for_nodes
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import text
from qoop.tpcds.simulate.replica import Replica, ended, fastest, solo

TASKS = 8
"""Slots that plans are made for, whatever there is, so that there are tasks to hand out."""
_QUIET = 2.0  # seconds after which a node that is there has begun
_HOST = "host"
_LONGER = 2.0  # times that a query takes on one node: so long is the part of the market that it sees


@dataclass(frozen=True, slots=True)
class RaySpotOptions:
    """queries: which. volatility, seed: of the region. nodes: at most, of one CPU each."""

    directory: Path
    queries: tuple[int, ...]
    volatility: Volatility = Volatility.HIGH
    seed: int = 1
    nodes: int = 3


@dataclass(frozen=True, slots=True)
class Replayed:
    """One query. alone: seconds on one node; steady: on all that stay; real, predicted: under the profile. lost: nodes;
    again: attempts that the loss of a node ended."""

    query: int
    alone: float = 0.0
    real: float = 0.0
    predicted: float = 0.0
    steady: float = 0.0
    joined: int = 0
    lost: int = 0
    again: int = 0
    error: str | None = None

    def line(self) -> str:
        """A line below HEADER."""
        if self.error is not None:
            return f"{self.query:5d} {self.error}"
        off = self.predicted / self.real - 1
        times = f"{self.alone:7.2f} {self.steady:7.2f} {self.real:7.2f} {self.predicted:9.2f} {off:+6.0%}"
        return f"{self.query:5d} {times} {self.joined:6d} {self.lost:4d} {self.again:5d}"


HEADER = "query   alone  steady    real predicted    off joined lost again"


def follow(nodes: LocalNodes, script: Sequence[tuple[float, int]], job: Job) -> list[float]:
    """Have as many nodes as the script says, from now on, until it or the job ends. Returns when each new one began,
    in seconds from now."""
    began, starts = time.monotonic(), list[float]()
    for at, count in script:
        if job.wait(max(0.0, began + at - time.monotonic())):
            break
        starts += [time.monotonic() - began] * max(0, count - len(nodes.there))
        nodes.be(count)
    return starts


def run(options: RaySpotOptions, told: Callable[[str], None] = print) -> list[Replayed]:
    """Replay. Raises ConfigError without Ray, or data."""
    done = []
    with LocalNodes() as nodes, TemporaryDirectory() as folder, Oracle(options.directory) as oracle:
        nodes.be(1)
        with connect(ray=nodes.address, staged=True) as session:
            starting = _starting(session, nodes)
        told(f"a node takes {starting:.2f} processor seconds to begin, of {available_slots()} processors")
        told(HEADER)
        for number in options.queries:
            kept = Path(folder) / str(number)
            with connect(ray=nodes.address, checkpoints=kept, replan=False, reuse=False, staged=True) as session:
                session.register_folder(options.directory)
                done.append(_replayed(number, session, nodes, oracle, options, starting))
            told(done[-1].line())
    return done


def _starting(session: Session, nodes: LocalNodes) -> float:
    """Processor seconds until one more node is there for a session; one comes, and stays."""
    wait_for_nodes(session, nodes, 1)
    time.sleep(_QUIET)
    before = nodes.cpu_seconds()
    wait_for_nodes(session, nodes, 2)
    return nodes.cpu_seconds() - before


def _replayed(
    number: int, session: Session, nodes: LocalNodes, oracle: Oracle, options: RaySpotOptions, starting: float
) -> Replayed:
    query = text(number, directory=options.directory)
    plan = session.prepare(query).planning().plan(Variant(), Resources(TASKS, 1e9 * TASKS))
    try:
        wait_for_nodes(session, nodes, 1)
        runs = [solo(_ran(session.submit(query, plan=plan))) for _ in range(3)][1:]
        alone = fastest(runs)
        wait_for_nodes(session, nodes, options.nodes)
        steady = min(ended(_ran(session.submit(query, plan=plan))) for _ in range(3))
        script = steps(spot_region(options.volatility, options.seed).profile, options.nodes, _LONGER * alone.seconds)
        wait_for_nodes(session, nodes, script[0][1])
        job = session.submit(query, plan=plan)
        starts = follow(nodes, script, job)
        answer = job.result()
        difference = oracle.judge(query, answer.arrow())
    except QoopError as error:
        return Replayed(number, error=f"{type(error).__name__}: {error}".splitlines()[0])
    if difference is not None:
        return Replayed(number, error=str(difference))
    history = job.history()
    machine = sharing(Replica.of(session.available, [(plan, alone)]), plan, options.nodes, steady)
    told = [record for record in history if isinstance(record, CapacityTold)]
    return Replayed(
        number, alone.seconds, ended(history), predicted(plan, machine, history, starts, starting), steady,
        sum(one.capacity is not None and one.at > _begun(history) for one in told),
        sum(one.capacity is None for one in told),
        sum(isinstance(record, Failed) for record in history),
    )  # fmt: skip


def _ran(job: Job) -> Sequence[Record]:
    job.result()
    return job.history()


def steps(profile: CapacityProfile, most: int, seconds: float, region: float = 600.0) -> list[tuple[float, int]]:
    """From when on there are how many nodes: the first region of a profile, made so small and so short; never none.

    >>> steps(CapacityProfile.of([(0, 1, 1, 20), (300, 1, 1, 2), (360, 1, 1, 3), (900, 1, 1, 20)]), 4, 60)
    [(0.0, 4), (30.0, 1)]
    """
    points = [point for point in profile.changes() if point.at < region]
    largest = max(point.machines for point in points)
    counts = [(point.at / region * seconds, max(1, round(point.machines * most / largest))) for point in points]
    return [one for place, one in enumerate(counts) if place == 0 or counts[place - 1][1] != one[1]]


def _begun(history: Sequence[Record]) -> float:
    return next(record.at for record in history if isinstance(record, Started))


def sharing(machine: Replica, plan: Plan, nodes: int, seconds: float) -> Replica:
    """The replica whose threads disturb each other as much as makes the plan take that long on that number of nodes
    of one CPU that stay, with the processors of this host."""
    fleet = Fleet.uniform(nodes, Resources(1.0, machine.available.memory))
    steps = [replace(machine, cores=available_slots(), side_by_side=1.0 + step / 25) for step in range(76)]
    return min(steps, key=lambda one: abs(_simulated(plan, one, fleet) - seconds))


def predicted(
    plan: Plan, machine: Replica, history: Sequence[Record], starts: Sequence[float] = (), starting: float = 0.0
) -> float:
    """Seconds that the simulator gives a plan on the machines of a history.

    starts: when nodes began that joined later. starting: processor seconds that each takes until then.
    """
    told = [record for record in history if isinstance(record, CapacityTold)]
    first = {one.machine: one.capacity for one in told if one.capacity is not None and one.at <= _begun(history)}
    later = [(one.at, _happening(one)) for one in told if one.at > _begun(history)]
    joins = [one.at for one in told if one.capacity is not None and one.at > _begun(history)]
    others = list(busy(starts, joins, starting))
    return _simulated(plan, machine, Fleet(first, (*others, *later)))


def busy(starts: Sequence[float], joins: Sequence[float], seconds: float) -> Iterator[tuple[float, MachineShared]]:
    """The threads that nodes keep busy from when they begin until they join, which takes each that many seconds; one
    that has not joined keeps a thread busy for so long.

    >>> [(at, one.threads) for at, one in busy([1.0, 2.0], [5.0], 2.0)]
    [(1.0, 0.5), (2.0, 1.5), (4.0, 0.5), (5.0, 0.0)]
    """
    ends = [*joins, *(start + seconds for start in starts[len(joins) :])]
    steps: list[tuple[float, float]] = []
    for start, end in zip(starts, ends, strict=False):
        threads = seconds / max(end - start, seconds / available_slots())
        steps += [(start, threads), (max(end, start), -threads)]
    threads = 0.0
    for at, change in sorted(steps):
        threads += change
        yield at, MachineShared(_HOST, max(0.0, threads))


def _simulated(plan: Plan, machine: Replica, fleet: Fleet) -> float:
    jobs = [SimulatedJob("query", 0.0, plan)]
    return simulate(fleet, jobs, machine.outcome, crowding=machine.crowding, one_host=True).jobs[0].seconds


def _happening(told: CapacityTold) -> Happening:
    return MachineLost(told.machine) if told.capacity is None else MachineJoined(told.machine, told.capacity)


def to_json(done: Sequence[Replayed]) -> dict[str, object]:
    """The results as JSON values."""
    return {"queries": [asdict(one) for one in done]}
