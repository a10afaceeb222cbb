"""Spot machines that come and go, on real Ray nodes, next to what the simulator predicts.

A region of the market (`qoop.profiles`) is made small: its numbers of machines become numbers of nodes of one CPU on
this machine, its ten minutes a multiple of the time that a query takes undisturbed. A node that goes is killed with all
its processes; checkpoints go to a folder that all share. What the tasks of a plan take is measured before, on one node.
The simulator is then given the plan, these times and the machines as the job saw them: nodes take seconds to come up,
and some time passes before one that was killed is missed.

All nodes share the processors of this host. So some things are measured before, and given to the simulator: how many
times as long a thread takes for each other that works, such that the same query comes out as it does on as many nodes
as there will be, which stay; how many threads a node keeps busy at each moment while it begins, by how much longer a
short query takes that is asked again and again meanwhile; and how much longer the first tasks take on a node that has
just begun, whose kernel has read nothing yet. From the moment in which a node is killed nothing that ran there ends,
though the scheduler hears of it later. What the prediction adds are the changes.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from qoop.catalog.errors import QoopError
from qoop.engine.backends.ray.nodes import machine_name
from qoop.engine.backends.simulated import Happening, MachineShared, MachineSlowed
from qoop.engine.backends.worker_pool import Kernels
from qoop.engine.events import MachineJoined, MachineLost
from qoop.engine.history import CapacityTold, Failed, Record, Started
from qoop.engine.task import MachineId
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
from qoop.tpcds.simulate.replica import Replica, ended, fastest, solo, tables_of

TASKS = 8
"""Slots that plans are made for, whatever there is, so that there are tasks to hand out."""
_HOST = "host"
_LONGER = 2.0  # times that a query takes on one node: so long is the part of the market that it sees
_STOPPED = 1e9  # times as long as usual that anything takes on a node that is gone
_PROBE = "SELECT count(*) FROM range(20_000_000) t(i) WHERE i % 7 = 3"
_AFTER = 2.0  # seconds for which a node is looked at that has joined

Begins = Sequence[tuple[float, float]]
"""The threads that a node keeps busy, from which second after it was begun on."""


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
    """One query. alone: seconds on one node; cold: on one that has just begun; steady: on all that stay; real,
    predicted: under the profile. lost: nodes; again: attempts that the loss of a node ended."""

    query: int
    alone: float = 0.0
    real: float = 0.0
    predicted: float = 0.0
    steady: float = 0.0
    cold: float = 0.0
    joined: int = 0
    lost: int = 0
    again: int = 0
    error: str | None = None

    def line(self) -> str:
        """A line below HEADER."""
        if self.error is not None:
            return f"{self.query:5d} {self.error}"
        off = self.predicted / self.real - 1
        times = f"{self.alone:7.2f} {self.cold:7.2f} {self.steady:7.2f} {self.real:7.2f} {self.predicted:9.2f}"
        return f"{self.query:5d} {times} {off:+6.0%} {self.joined:6d} {self.lost:4d} {self.again:5d}"


HEADER = "query   alone    cold  steady    real predicted    off joined lost again"


@dataclass(frozen=True, slots=True)
class Followed:
    """The changes of nodes under a job, in seconds since it was submitted. starts: when each new one was begun; kills:
    when each machine was gone."""

    starts: Sequence[float] = ()
    kills: Sequence[tuple[float, MachineId]] = ()


def follow(nodes: LocalNodes, script: Sequence[tuple[float, int]], job: Job) -> Followed:
    """Have as many nodes as the script says, from now on, until it or the job ends."""
    began, starts, kills = time.monotonic(), list[float](), list[tuple[float, MachineId]]()
    for at, count in script:
        if job.wait(max(0.0, began + at - time.monotonic())):
            break
        while len(nodes.there) > count:
            kills.append((time.monotonic() - began, machine_name(nodes.there[0])))
            nodes.kill(nodes.there[0])
        starts += [time.monotonic() - began] * max(0, count - len(nodes.there))
        nodes.be(count)
    return Followed(starts, kills)


def run(options: RaySpotOptions, told: Callable[[str], None] = print) -> list[Replayed]:
    """Replay. Raises ConfigError without Ray, or data."""
    done = []
    with LocalNodes() as nodes, TemporaryDirectory() as folder, Oracle(options.directory) as oracle:
        nodes.be(1)
        with connect(ray=nodes.address) as session:
            begins = _beginning(session, nodes)
        told("threads busy as a node begins: " + ", ".join(f"{n:.1f} from {at:.1f} s" for at, n in begins))
        told(HEADER)
        for number in options.queries:
            nodes.be(1)
            kept = Path(folder) / str(number)
            with connect(ray=nodes.address, checkpoints=kept, replan=False, reuse=False, staged=True) as session:
                session.register_folder(options.directory)
                done.append(_replayed(number, session, nodes, oracle, options, begins))
            told(done[-1].line())
    return done


def _beginning(session: Session, nodes: LocalNodes) -> Begins:
    """The threads that one more node keeps busy while it begins, which stays."""
    wait_for_nodes(session, nodes, 1)
    alone = min(_probe(session) for _ in range(9))
    began, steps, joined = time.monotonic(), list[tuple[float, float]](), math.inf
    bringer = threading.Thread(target=nodes.be, args=(2,))  # it returns when the node has begun, more or less
    bringer.start()
    while (now := time.monotonic()) < joined + _AFTER:
        steps.append((now - began, threads_next_to(_probe(session) / alone, available_slots())))
        if joined == math.inf and session.available.cpu == 2:
            joined = time.monotonic()
    bringer.join()
    return (*steps, (time.monotonic() - began, 0.0))


def _probe(session: Session) -> float:
    began = time.monotonic()
    session.sql(_PROBE).fetchall()
    return time.monotonic() - began


def threads_next_to(slower: float, cores: int) -> float:
    """The number of other threads that make one thread that much slower, all of which take turns on the cores.

    >>> threads_next_to(2.0, 2), threads_next_to(1.0, 2)
    (3.0, 0.0)
    """
    return max(0.0, slower * cores - 1.0) if slower > 1.0 + 0.5 / cores else 0.0


def _replayed(
    number: int, session: Session, nodes: LocalNodes, oracle: Oracle, options: RaySpotOptions, begins: Begins
) -> Replayed:
    query = text(number, directory=options.directory)
    plan = session.prepare(query).planning().plan(Variant(), Resources(TASKS, 1e9 * TASKS))
    try:
        wait_for_nodes(session, nodes, 1)
        first, *runs = [solo(_ran(session.submit(query, plan=plan))) for _ in range(3)]
        alone = fastest(runs)
        machine = cold(Replica.of(session.available, [(plan, alone)]), plan, first.seconds - alone.seconds)
        wait_for_nodes(session, nodes, options.nodes)
        steady = min(ended(_ran(session.submit(query, plan=plan))) for _ in range(3))
        script = steps(spot_region(options.volatility, options.seed).profile, options.nodes, _LONGER * alone.seconds)
        wait_for_nodes(session, nodes, script[0][1])
        job = session.submit(query, plan=plan)
        followed = follow(nodes, script, job)
        answer = job.result()
        difference = oracle.judge(query, answer.arrow())
    except QoopError as error:
        return Replayed(number, error=f"{type(error).__name__}: {error}".splitlines()[0])
    if difference is not None:
        return Replayed(number, error=str(difference))
    history = job.history()
    machine = sharing(machine, plan, options.nodes, steady)
    told = [record for record in history if isinstance(record, CapacityTold)]
    return Replayed(
        number, alone.seconds, ended(history), predicted(plan, machine, history, followed, begins), steady,
        first.seconds,
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


def cold(machine: Replica, plan: Plan, more: float) -> Replica:
    """The replica with new kernels that take that many seconds more for the plan than those that have run it before:
    each reads the tables of its first tasks."""
    tables = tables_of(plan)
    reading = max(0.0, more) / max(1, len(tables))
    return replace(machine, kernels=Kernels(reading=reading, read=tables))


def predicted(
    plan: Plan, machine: Replica, history: Sequence[Record], followed: Followed = Followed(), begins: Begins = ()
) -> float:
    """Seconds that the simulator gives a plan on the machines of a history. begins: what each new node takes."""
    told = [record for record in history if isinstance(record, CapacityTold)]
    first = {one.machine: one.capacity for one in told if one.capacity is not None and one.at <= _begun(history)}
    later = [(one.at, _happening(one)) for one in told if one.at > _begun(history)]
    gone = [(at, MachineSlowed(name, _STOPPED)) for at, name in followed.kills]
    return _simulated(plan, machine, Fleet(first, (*busy(followed.starts, begins), *gone, *later)))


def busy(starts: Sequence[float], begins: Begins) -> Iterator[tuple[float, MachineShared]]:
    """The threads that nodes keep busy which begin at these times. Those that begin together take as many times longer.

    >>> [(at, one.threads) for at, one in busy([1.0, 1.0, 4.0], [(0.0, 2.0), (1.5, 0.0)])]
    [(1.0, 4.0), (4.0, 2.0), (5.5, 0.0)]
    """
    changes = dict[float, float]()
    for start, together in Counter(starts).items():
        before = 0.0
        for at, threads in begins:
            when = start + at * together
            changes[when] = changes.get(when, 0.0) + (threads - before) * together
            before = threads
    now = 0.0
    for at, change in sorted(changes.items()):
        now += change
        yield at, MachineShared(_HOST, max(0.0, now))


def _simulated(plan: Plan, machine: Replica, fleet: Fleet) -> float:
    jobs = [SimulatedJob("query", 0.0, plan)]
    run = simulate(
        fleet, jobs, machine.outcome, crowding=machine.crowding, one_host=True, kernels=machine.kernels
    )  # fmt: skip
    return run.jobs[0].seconds


def _happening(told: CapacityTold) -> Happening:
    return MachineLost(told.machine) if told.capacity is None else MachineJoined(told.machine, told.capacity)


def to_json(done: Sequence[Replayed]) -> dict[str, object]:
    """The results as JSON values."""
    return {"queries": [asdict(one) for one in done]}
