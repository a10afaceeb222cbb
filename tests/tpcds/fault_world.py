"""Things that go wrong while queries run on the real engine: slots and memory that come and go, kernels that fail,
checkpoints that are lost. And what must be left of it all: nothing."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from qoop.catalog.errors import CheckpointError
from qoop.config import configure
from qoop.engine.checkpoint import Store
from qoop.engine.history import Failed
from qoop.engine.kernel import Kernel
from qoop.job import Job
from qoop.session import Session

MEMORIES = ("400MB", "700MB", "1GB", "2GB")


@contextmanager
def clean_session(folder: Path, spill: Path, **options: Any) -> Iterator[Session]:
    """A session on 2 slots; afterwards no thread, no file and no room of an attempt may be left."""
    before = set(threading.enumerate())
    session = Session(configure(slots=2, memory="2GB", spill=spill, **options))
    session.register_folder(folder)
    try:
        yield session
        nothing_is_held(session)
    finally:
        session.close()
    left = [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("qoop")]
    assert not left, f"threads are left: {left}"
    assert not list(spill.iterdir()), f"files are left: {list(spill.rglob('*'))}"


def nothing_is_held(session: Session) -> None:
    """Between jobs no room is taken, no output held, and all slots there should be are."""
    driver, backend = session._cluster._driver, session._backend
    wait_for(lambda: not driver._charges and not session._cluster.busy, "attempts have not reported")
    wait_for(lambda: backend.store.used == 0, "outputs are held in memory")
    driver.check()
    assert not driver._used and not driver._used_by, f"room is taken: {driver._used}"
    assert not backend._attempts
    workers = [worker for worker in backend._workers if worker.is_alive()]
    wait_for(lambda: sum(worker.is_alive() for worker in workers) == session.room.cpu, "threads do not match slots")


def wait_for(condition: Callable[[], bool], otherwise: str, seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, otherwise
        time.sleep(0.002)


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


def fail_at_random(monkeypatch: pytest.MonkeyPatch, seed: int, often: float) -> None:
    """Let kernels be interrupted, before or after they have done their work, and checkpoints be lost."""
    chance, run, read = random.Random(seed), Kernel.run, Store.read

    def faulty_run(kernel: Kernel, *args: Any) -> Any:
        if chance.random() < often:
            raise duckdb.InterruptException("a failure at random, before")
        tables = run(kernel, *args)
        if chance.random() < often:
            raise duckdb.InterruptException("a failure at random, after")
        return tables

    def faulty_read(store: Store, key: Any, partition: int | None) -> Any:
        if chance.random() < often and threading.current_thread().name.startswith("qoop-slot"):
            with store._lock:
                entry = store._entries.get(key)
                if entry is not None and not entry.busy:
                    store._drop(key, entry)
                    raise CheckpointError(f"checkpoint {key} was lost at random")
        return read(store, key, partition)

    monkeypatch.setattr(Kernel, "run", faulty_run)
    monkeypatch.setattr(Store, "read", faulty_read)


def failures_of(job: Job) -> int:
    """How many of its attempts failed."""
    return sum(isinstance(record, Failed) for record in job.history())
