"""Things that go wrong while queries run on the real engine: slots and memory that come and go, kernels that fail,
checkpoints that are lost. And what must be left of it all: nothing."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from waits import until

from qoop.adaptive.cluster.cluster import Cluster
from qoop.catalog.errors import CheckpointError
from qoop.engine.history import Failed
from qoop.engine.kernel import Kernel
from qoop.engine.storage.checkpoint import Store
from qoop.engine.task import CheckpointKey, TaskSpec
from qoop.query.config import configure
from qoop.query.job import Job
from qoop.session.session import Session

MEMORIES = ("400MB", "700MB", "1GB", "2GB")
MOST_FAILURES = 2


@contextmanager
def clean_session(
    folder: Path,
    spill: Path,
    slots: int = 2,
    memory: str = "2GB",
    tables: Collection[str] | None = None,
    **options: Any,
) -> Iterator[Session]:
    """A session over all tables of a folder, or some; afterwards no thread, no file and no slot of an attempt may be
    left."""
    before = set(threading.enumerate())
    session = Session(configure(slots=slots, memory=memory, spill=spill, **options))
    if tables is None:
        session.register_folder(folder)
    for name in tables or ():
        path = folder / f"{name}.parquet"
        session.register(name, path if path.exists() else folder / name)
    try:
        yield session
        nothing_is_held(session)
    finally:
        session.close()
    left = [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("qoop")]
    assert not left, f"threads are left: {left}"
    assert not list(spill.iterdir()), f"files are left: {list(spill.rglob('*'))}"


def nothing_is_held(session: Session) -> None:
    """Between jobs no slot is taken, no output pinned (unless for jobs to come), and all slots there should be are."""
    driver, backend = session.cluster._driver, session.backend
    until(lambda: not driver._charges and not session.cluster.busy, "attempts have not reported")
    until(lambda: not any(entry.jobs for entry in list(backend.store._entries.values())), "outputs are held for jobs")
    if not session.config.reuse:
        until(lambda: backend.store.used == 0, "outputs are held in memory")
        assert not backend.store._entries, f"outputs are known: {list(backend.store._entries)}"
    driver.check()
    assert not driver._used and not driver._used_by, f"resources are taken: {driver._used}"
    assert not backend._attempts
    workers, slots = [worker for worker in backend._workers if worker.is_alive()], session.available.cpu
    until(
        lambda: slots <= sum(worker.is_alive() for worker in workers) <= slots + backend._spare,
        "threads do not match slots",
    )


@contextmanager
def resized_at_random(session: Session, seed: int, pause: float, notice: bool = False) -> Iterator[None]:
    """A thread that gives the session 0 to 3 slots and memory up and down, every `pause` seconds in the mean; some 30
    times, then what it had (or a task that never fits in would starve)."""
    chance, stop = random.Random(seed), threading.Event()
    failures: list[BaseException] = []

    def resize() -> None:
        try:
            for _ in range(30):
                if stop.wait(chance.expovariate(1 / pause)):
                    break
                ahead = chance.choice((0.0, pause)) if notice else 0.0
                session.resize(chance.choice((0, 1, 1, 2, 3)), chance.choice(MEMORIES), notice=ahead)
            session.resize(2, "2GB")
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=resize, name="resizing")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


@dataclass
class Faults:
    """Failures at random. interrupted: attempts that were failed; lost: outputs that were dropped when they were read.

    often: the chance of a failure at every task, and, a quarter of it, of a loss at every reading. No output is failed
    more than `MOST_FAILURES` times, since a job may give up after more.
    """

    random: random.Random
    often: float
    interrupted: int = 0
    lost: int = 0
    failed: Counter[object] = field(default_factory=Counter)

    def strike(self, key: object, often: float) -> bool:
        """True if the failure is to happen now."""
        if self.random.random() >= often or self.failed[key] >= MOST_FAILURES:
            return False
        self.failed[key] += 1
        return True


@contextmanager
def failing_at_random(seed: int, often: float) -> Iterator[Faults]:
    """Let kernels be interrupted, before or after they have done their work, and checkpoints be lost."""
    faults, run, read = Faults(random.Random(seed), often), Kernel.run, Store.read

    def interrupt(spec: TaskSpec, when: str) -> None:
        if faults.strike(spec.key, often):
            faults.interrupted += 1
            raise duckdb.InterruptException(f"a failure at random, {when}")

    def faulty_run(kernel: Kernel, spec: TaskSpec, *more: Any) -> Any:
        interrupt(spec, "before")
        tables = run(kernel, spec, *more)
        interrupt(spec, "after")
        return tables

    def faulty_read(store: Store, key: CheckpointKey, partition: int | None) -> Any:
        if threading.current_thread().name.startswith("qoop-slot") and faults.strike(("read", key), often / 4):
            with store._lock:
                entry = store._entries.get(key)
                if entry is not None and not entry.busy:
                    faults.lost += 1
                    store._entries.drop(entry)
                    raise CheckpointError(f"checkpoint {key} was lost at random")
        return read(store, key, partition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "run", faulty_run)
        patch.setattr(Store, "read", faulty_read)
        yield faults


@contextmanager
def checked_at_every_tick() -> Iterator[None]:
    """Check the invariants of all jobs, and the accounts of resources, whenever something has happened."""
    step = Cluster.step

    def checked_step(cluster: Cluster, timeout: float | None = None) -> None:
        step(cluster, timeout)
        cluster._driver.check()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "step", checked_step)
        yield


def failures_of(job: Job) -> int:
    """The number of the job's attempts that failed."""
    return sum(isinstance(record, Failed) for record in job.history())
