"""Queries that run in processes of their own, and go on after the program that began them, such as a notebook's kernel.

A run has a name, and a folder of that name under the user's caches::

    NAME/run.json       its text, options, and the folder of its checkpoints
    NAME/bundle/        the query, with its tables by place and version (:mod:`qoop.query.bundle`)
    NAME/lock           the process that runs it holds this lock; the system releases it at its end
    NAME/progress.html  how far it is
    NAME/answer.arrow   its rows, in Arrow's lossless form; written whole, or not at all
    NAME/failed.json    the error that it failed with
    NAME/log            what the process printed

A process that was killed, or stopped in time, leaves neither an answer nor an error: the next `attach` starts another,
which goes on from the outputs in the folder of checkpoints.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qoop.catalog import errors
from qoop.catalog.errors import Cancelled, ConfigError, DiskFull, ExecutionError, QoopError
from qoop.catalog.forks import forget_private, keep_private
from qoop.catalog.paths import cache_directory
from qoop.catalog.stores.private import lock_now, make_folder, open_private
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.value import value
from qoop.query.result import Result
from qoop.session.earlier_runs import is_locked

if TYPE_CHECKING:
    from qoop.query.config import Config
    from qoop.query.job import Job
    from qoop.session.session import Session

LONGEST = 24 * 3600.0
"""Seconds after which a process stops in time; the next `attach` goes on."""
_KEEP = 7 * 24 * 3600.0
"""Seconds for which a run is kept that has ended."""
_EVERY = 0.3
"""Seconds between two reports of progress."""
_TO_END = 20.0
"""Seconds in which a process ends after SIGTERM; then it is killed."""
_RUN, _BUNDLE, _LOCK, _LOG = "run.json", "bundle", "lock", "log"
_PROGRESS, _ANSWER, _FAILED = "progress.html", "answer.arrow", "failed.json"


@value
class RunRecord:
    """A run as its file has it. checkpoints: the folder of its outputs. slots, memory: of its session."""

    text: str
    checkpoints: str
    slots: int
    memory: int


class DetachedRun:
    """A query that has a process of its own. Raises ConfigError for a name without a run."""

    def __init__(self, name: str) -> None:
        self.name, self._folder = name, _folder() / name
        try:
            if not name.isidentifier():  # it would be a path
                raise ValueError(name)
            self.record = RunRecord(**json.loads((self._folder / _RUN).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            there = ", ".join(run.name for run in detached_runs()) or "none"
            raise ConfigError(f"no query runs detached by the name {name}; there are: {there}") from error

    @property
    def running(self) -> bool:
        """True while a process runs it."""
        with contextlib.suppress(OSError), (self._folder / _LOCK).open("rb") as lock:
            return is_locked(lock)
        return False

    @property
    def ended(self) -> bool:
        """True once it has its answer, or has failed."""
        return any((self._folder / name).exists() for name in (_ANSWER, _FAILED))

    def attach(self) -> bool:
        """Have a process run it, unless one does or it has ended. True if another one has to go on with it."""
        if self.ended or self.running:
            return False
        _start(self._folder)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait that long at most for its end, or for that of its process; True if it has come."""
        end = time.monotonic() + seconds
        while self.running and not self.ended:
            if time.monotonic() >= end:
                return False
            time.sleep(min(0.05, seconds))
        return True

    def progress_html(self) -> str:
        """Its progress; empty before its process has begun with the query."""
        try:
            return (self._folder / _PROGRESS).read_text(encoding="utf-8")
        except OSError:
            return ""

    def result(self) -> Result:
        """Its answer, as often as it is taken. Raises the error that it failed with, and forgets the run; Cancelled if
        its process has ended without either."""
        if (self._folder / _ANSWER).exists():
            return _read(self._folder / _ANSWER)
        if (self._folder / _FAILED).exists():
            error = _error(json.loads((self._folder / _FAILED).read_text(encoding="utf-8")))
            self.cancel()
            raise error
        last = (self._folder / _LOG).read_text(errors="replace").strip().rpartition("\n")[2]
        raise Cancelled(
            f"the process of {self.name} has ended without an answer ({last}): attach again, and it goes on"
        )

    def cancel(self) -> None:
        """End its process, and forget it. Outputs stay in the folder of checkpoints."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.running and self.process:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.process, number)
            self._wait_for_process(_TO_END)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def process(self) -> int:
        """The number of its last process; 0: it is just starting."""
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / _LOCK).read_text())
        return 0

    def _wait_for_process(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.running and time.monotonic() < end:
            time.sleep(0.02)


def detach(session: Session, text: str, name: str) -> DetachedRun:
    """Run a query of a session in a process of its own, which outlives this one.

    Raises ConfigError if a run has that name, or a table is in the memory of this process; otherwise as
    `Session.submit`.
    """
    folder = _folder() / name
    _forget_old()
    if (folder / _RUN).exists():
        raise ConfigError(f"a detached query has the name {name}: attach to it, or cancel it")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed before it had written all
    try:
        make_folder(folder)
        session.bundle(text, folder / _BUNDLE)
        record = RunRecord(text, _checkpoints(session.config), session.config.slots, session.config.memory)
        write_whole(folder / _RUN, json.dumps(asdict(record)))
        _start(folder)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise DiskFull(f"a detached query cannot be kept in {folder}: {error.strerror}") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return DetachedRun(name)


def detached_runs() -> Iterator[DetachedRun]:
    """The runs of this user, by name."""
    for path in sorted(_folder().glob(f"*/{_RUN}")):
        yield DetachedRun(path.parent.name)


def _folder() -> Path:
    return cache_directory() / "detached"


def _checkpoints(config: Config) -> str:
    """The session's folder or store of checkpoints, else one among the user's caches."""
    if config.checkpoints is not None:
        return str(config.checkpoints)
    place = cache_directory() / "checkpoints"
    make_folder(place)
    return str(place)


def _forget_old() -> None:
    for run in list(detached_runs()):
        ends = [path.stat().st_mtime for path in run._folder.glob("*") if path.name in (_ANSWER, _FAILED)]
        if ends and not run.running and time.time() - max(ends) > _KEEP:
            shutil.rmtree(run._folder, ignore_errors=True)


def _start(folder: Path) -> None:
    """Start the process of a run; it inherits the lock, so no moment is without one. Raises OSError."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not lock_now(lock):  # another program has just attached
            return
        os.ftruncate(lock, 0)
        with open_private(folder / _LOG, "a") as log:
            command = [sys.executable, "-m", "qoop.interfaces.detached", str(folder), str(lock)]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=[lock]
            )
        os.write(lock, str(process.pid).encode())
    finally:
        os.close(lock)
    threading.Thread(target=process.wait, name="qoop-detached", daemon=True).start()  # else it ends as a zombie


def _error(facts: dict[str, str]) -> QoopError:
    found = getattr(errors, facts["error"], ExecutionError)
    return found(facts["message"]) if issubclass(found, QoopError) else ExecutionError(facts["message"])


def _write(path: Path, result: Result) -> None:
    """Write an answer next to the path, and rename it. Raises DiskFull."""
    import pyarrow as pa

    from qoop.engine.storage.scratch import drafted

    rows = result.lossless()
    facts = {"columns": list(zip(result.columns, result.types, strict=True)), "settings": list(result.settings)}
    schema = rows.schema.with_metadata({"qoop": json.dumps(facts)})
    try:
        with drafted(str(path)) as draft, pa.OSFile(draft, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            writer.write_table(rows.cast(schema))
    except OSError as error:
        raise DiskFull(f"cannot write the answer {path}: {error}") from error


def _read(path: Path) -> Result:
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        facts: dict[str, Any] = json.loads(table.schema.metadata[b"qoop"])
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise DiskFull(f"the answer {path} cannot be read: {error}") from error
    columns, settings = (tuple((name, one) for name, one in facts[part]) for part in ("columns", "settings"))
    return Result(table.replace_schema_metadata(None), columns, settings)


# In the process of a run


class _Resumed:
    """A session as a run until done needs it: the query is that of the bundle. folder: of the run."""

    def __init__(self, session: Session, folder: Path) -> None:
        self._session, self._folder = session, folder
        self.config, self.planning = session.config, session.planning

    def submit(self, text: str, *, resume: bool | None = None) -> Job:
        """Go on with the bundle, and report the progress."""
        job = self._session.resume(self._folder / _BUNDLE)
        self._reporter = threading.Thread(target=self._report, args=(job,), name="qoop-progress", daemon=True)
        self._reporter.start()
        return job

    def end(self) -> None:
        """Wait for the last report."""
        self._reporter.join()

    def _report(self, job: Job) -> None:
        from qoop.query.drawing.html import job_html

        ended = False
        try:
            while not ended:
                ended = job.wait(_EVERY)
                write_whole(self._folder / _PROGRESS, job_html(job))
        except OSError as error:
            print(f"the progress cannot be written: {error}", file=sys.stderr)


def _run(folder: Path) -> None:
    from qoop.adaptive.monitor.notices import source_named
    from qoop.session.opening import connect
    from qoop.session.stops import Stops, stopped_by_signals
    from qoop.session.until_done import END_OF_TIME, GRACE, LifeOptions, run_life

    record, stops = DetachedRun(folder.name).record, Stops()
    stops.announce(END_OF_TIME, LONGEST)
    with stopped_by_signals(stops, GRACE), connect(
        slots=record.slots, memory=record.memory, checkpoints=record.checkpoints, staged=True
    ) as session:  # fmt: skip
        limits = LifeOptions(stops, GRACE, source_named("auto"), print)
        resumed = _Resumed(session, folder)
        life = run_life(resumed, record.text, limits)
        resumed.end()
    print(life.message, flush=True)
    if life.result is not None:
        _write(folder / _ANSWER, life.result)


def main(folder: Path, lock: int) -> int:
    """Run a query to its end. lock: the open file of its lock."""
    os.set_inheritable(lock, False)
    keep_private(lock)
    try:
        _run(folder)
        return 0
    except Exception as error:
        name = type(error).__name__ if isinstance(error, QoopError) else "ExecutionError"
        write_whole(folder / _FAILED, json.dumps({"error": name, "message": str(error) or repr(error)}))
        raise
    finally:
        forget_private(lock)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
