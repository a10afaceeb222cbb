"""The slots that jobs hold in a simulated Tetris cluster: figure 2.3a plots the cores of all other jobs.

jobs of the shared cluster ──the real core──> starts and ends of attempts ──> slots in use, looked at now and then
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from qoop.adaptive.profiles import CapacityProfile
from qoop.adaptive.profiles.shared import SLOTS, STEP, share_of
from qoop.adaptive.simulation import SimulatedRun
from qoop.engine.history import Record
from qoop.engine.replay import JobReplay
from qoop.tpcds.simulate import shared_cluster
from qoop.tpcds.simulate.shared_cluster import COARSE, SharedClusterOptions, calibrated_plans
from qoop.tpcds.simulate.workload import Kept, digest, digest_of, folder, version, workload


@dataclass(frozen=True, slots=True)
class Holdings:
    """Slots, looked at every STEP seconds. busy: slots that all jobs hold together; most: that one job holds."""

    busy: tuple[int, ...]
    most: tuple[int, ...]

    def rest(self) -> CapacityProfile:
        """The slots that the jobs leave of the cluster, a slot at least."""
        return _profile(SLOTS - slots for slots in self.busy)

    def held(self) -> CapacityProfile:
        """The slots of a job there whose demand is no limit, a slot at least."""
        return _profile(self.most)


def _profile(slots: Iterable[int]) -> CapacityProfile:
    return CapacityProfile(tuple(share_of(max(1, count), place * STEP) for place, count in enumerate(slots)))


def holdings(run: SimulatedRun, begin: float, end: float) -> Holdings:
    """The slots that jobs hold from one time to another."""
    changes = sorted(
        (at, number, slots) for number, job in enumerate(run.jobs) for at, slots in _changes(job.at, job.history)
    )
    held, place = Counter[int](), 0
    busy: list[int] = []
    most: list[int] = []
    for step in range(round((end - begin) / STEP)):
        while place < len(changes) and changes[place][0] <= begin + step * STEP:
            held[changes[place][1]] += changes[place][2]
            place += 1
        busy.append(sum(held.values()))
        most.append(max(held.values(), default=0))
    return Holdings(tuple(busy), tuple(most))


def _changes(began: float, history: Iterable[Record]) -> Iterable[tuple[float, int]]:
    """The times at which a job's slots become more or fewer, and by how many."""
    for one in JobReplay.of(history).attempts.values():
        slots = round(one.intervals[0].resources.cpu)
        yield began + one.granted, slots
        if one.end is not None:
            yield began + one.end.at, -slots


@lru_cache(maxsize=4)
def recorded(directory: Path, seed: int) -> Holdings:
    """The holdings in the cluster of a seed, from the cache or simulated now, which takes a minute."""
    own = digest(version(directory, COARSE), digest_of(Path(__file__)), digest_of(Path(shared_cluster.__file__)))
    kept = Kept(folder(), own)
    known: Mapping[str, list[int]] | None = kept.load(f"holdings-{seed}")
    if known is not None:
        return Holdings(tuple(known["busy"]), tuple(known["most"]))
    options = SharedClusterOptions(directory, (seed,))
    plans = calibrated_plans(workload(directory, setting=options.setting))
    found = holdings(shared_cluster.simulated(plans, seed, options), *shared_cluster.span(options))
    kept.save(f"holdings-{seed}", asdict(found))
    return found
