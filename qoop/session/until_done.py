"""Runs a query until it is done, over the lives of many processes.

A life starts the query, or continues it from the outputs in the folder of checkpoints. It ends with the answer, or
stops in time before an announced end of the process: no new task starts, running ones may end, outputs are written.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

from qoop.adaptive.monitor.notices import NoticeSource, source_named
from qoop.catalog.errors import ConfigError, DiskFull, QueryError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sizes import counted, size, span
from qoop.catalog.stores.whole_file import move_new
from qoop.catalog.user_key import chosen_key
from qoop.catalog.value import value
from qoop.query.job import Job
from qoop.query.result import Result
from qoop.query.statements.created.folder import is_table
from qoop.query.statements.statement import query_text
from qoop.session.lives import RunLives
from qoop.session.stops import Stops, stopped_by_notices, stopped_by_signals

if TYPE_CHECKING:
    from qoop.catalog.table import Columns
    from qoop.query.config import Config
    from qoop.query.planning import QueryPlanning

GRACE = 5.0
"""Seconds before an end at which a query stops."""
END_OF_TIME = "the end of its time"
_START_SECONDS = 0.3
"""Seconds of a process that go by before it adds to what earlier ones have done: it opens tables, finds outputs, and
reads again what the lost tasks had read. Query 78 at scale 10 takes 0.13 and 0.15 s for these, from warm files."""
_EVERY = 0.1
"""Seconds between two looks at the announced ends."""
_FOR_TASKS = 0.5
"""The part of the grace in which running tasks may end; the rest is for writing their outputs."""
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json"}


@value
class Life:
    """The outcome of one life. result: the answer; None: it stopped before, or an earlier life wrote the answer.

    done: there is no more to do. message: the outcome in one line.
    """

    done: bool
    message: str
    result: Result | None = None


@value
class LifeOptions:
    """stops: the announced ends of the process. grace: seconds before an end at which the query stops. source: of
    notices. say: is called with each line for people."""

    stops: Stops
    grace: float
    source: NoticeSource | None = None
    say: Callable[[str], object] = lambda line: None


@value
class Output:
    """The place of the answer: a file, whose ending is its format, or a table of the session's folder of tables.

    replace: it may exist before.
    """

    place: str
    replace: bool = False

    def path(self, tables: Path | None) -> Path:
        """The file, or the folder of the table. Raises ConfigError for an unknown format, or a table without a
        folder."""
        path = Path(self.place)
        if path.suffix.lower() in _FORMATS:
            return path
        if path.suffix or len(path.parts) != 1:
            raise ConfigError(f"{self.place!r} is no file that qoop writes: its ending must be {', '.join(_FORMATS)}")
        if tables is None:
            raise ConfigError(
                f"the table {self.place} needs a folder: set QOOP_TABLES=DIR (tables=DIR), or name a file (x.parquet)"
            )
        return tables / self.place

    def check(self, path: Path) -> None:
        """Raise ConfigError if it exists and may not be replaced."""
        exists = is_table(path) if path.suffix.lower() not in _FORMATS else path.exists()
        if exists and not self.replace:
            raise ConfigError(self._exists(path))

    def check_types(self, path: Path, columns: Columns) -> None:
        """Raise QueryError if a table cannot have columns of these types."""
        if path.suffix.lower() in _FORMATS:
            return
        from qoop.query.statements.created.folder import check_types

        with open_duckdb() as connection:
            check_types(connection, self.place, columns)

    def write(
        self, path: Path, result: Result, tables: Path | None, before: Callable[[Path, Path | None], object]
    ) -> None:
        """Write all rows, and make them visible at once. before: is called just before that with the path, and with the
        file that is moved there; None: it is a table. Raises ConfigError if the path exists by now; DiskFull."""
        if path.suffix.lower() in _FORMATS:
            self._write_file(path, result, before)
            return
        from qoop.query.statements.created.folder import write_table

        def check() -> None:
            self.check(path)
            before(path, None)

        assert tables is not None
        write_table(tables, self.place, result, check)

    def _write_file(self, path: Path, result: Result, before: Callable[[Path, Path | None], object]) -> None:
        from qoop.engine.storage.scratch import Scratch

        target = Path(os.path.realpath(path))  # a link stays one
        scratch = Scratch(target.parent, ".copy")
        try:
            draft = scratch.path / target.name
            result.copy_to(draft, f"(FORMAT {_FORMATS[path.suffix.lower()]})")
            before(path, draft)
            (os.replace if self.replace else move_new)(draft, target)
        except FileExistsError as error:
            raise ConfigError(self._exists(path)) from error
        except (DiskFull, QueryError) as error:
            raise type(error)(str(error).replace(str(draft), str(path))) from error
        except OSError as error:
            raise DiskFull(f"cannot write {path}: {error.strerror or error}") from error
        finally:
            scratch.close()

    def _exists(self, path: Path) -> str:
        return f"{path} exists: --replace (replace=True) writes over it"


class Starting(Protocol):
    """The part of a session that runs a query until done."""

    config: Config
    planning: QueryPlanning

    def submit(self, text: str, *, resume: bool | None = None) -> Job:
        """As `Session.submit`."""
        ...


class UntilDoneOptions(TypedDict, total=False):
    """The options of `Session.run_until_done`; each as the command line has it (``qoop run --help``).

    seconds: that the process may take; by default no end is known. grace: seconds before an end at which the query
    stops. notices: aws, gce or azure; "auto": the platform that the firmware names; "none". out: a file or table for
    the answer. replace: it may exist. say: is called with each line for people.
    """

    seconds: float
    grace: float
    notices: str
    out: str | os.PathLike[str] | None
    replace: bool
    say: Callable[[str], object]


def run_until_done(session: Starting, text: str, **options: Unpack[UntilDoneOptions]) -> Life:
    """Start a query, or continue it from what earlier processes left in the session's checkpoints; return with the
    answer, or shortly before the process ends. Then the same call in the next process goes on.

    SIGTERM and SIGUSR1 announce an end, if this is the main thread. A session with ``staged=True`` loses the least.

    Raises ConfigError if the session has no checkpoints, or `out` exists; otherwise as `Job.result`.
    """
    stops, seconds = Stops(), options.get("seconds")
    if seconds is not None:
        stops.announce(END_OF_TIME, seconds)
    source, say = source_named(options.get("notices", "auto")), options.get("say", lambda line: None)
    limits = LifeOptions(stops, options.get("grace", GRACE), source, say)
    return run_life(session, text, limits, output_of(options.get("out"), options.get("replace", False)))


def run_life(session: Starting, text: str, options: LifeOptions, output: Output | None = None) -> Life:
    """Run a query until its end, or until shortly before the first announced end. Raises as `Job.result`, ConfigError
    if the session has no checkpoints, or the output exists."""
    config = session.config
    if config.checkpoints is None:
        raise ConfigError("a query that survives its process needs --checkpoints PLACE (checkpoints=PLACE)")
    lives = None
    if isinstance(config.checkpoints, Path):  # a store has no locks
        lives = RunLives(config.checkpoints, chosen_key(), query_text(text))
    path = output.path(config.tables) if output is not None else None
    with ExitStack() as around:
        around.enter_context(stopped_by_signals(options.stops, options.grace))
        around.enter_context(stopped_by_notices(options.stops, options.source))
        owned = _take(lives, options.say) if lives is not None else None
        life = _expected_life(options, owned)
        try:
            with session.planning.in_life(life - _START_SECONDS, owned is None or owned.is_shorter(life)):
                return _life(session, text, options, owned, output, path)
        finally:
            if owned is not None:
                owned.end(answered=False)


def _expected_life(options: LifeOptions, lives: RunLives | None) -> float:
    """The seconds that this process, and those after it, have for the query; infinite: not known."""
    first = options.stops.first
    announced = math.inf if first is None else max(0.0, first[1] - options.grace)
    return min(announced, math.inf if lives is None else lives.expected)


def _take(lives: RunLives, say: Callable[[str], object]) -> RunLives | None:
    """The record, if this process may write it."""
    try:
        if lives.take():
            return lives
        say("another process runs this query here; each goes on, and uses the outputs of both")
    except OSError as error:
        lives.end(answered=False)
        say(f"the place of the checkpoints cannot be written ({error.strerror}); the query goes on in memory")
    return None


def _life(
    session: Starting, text: str, options: LifeOptions, lives: RunLives | None, output: Output | None, path: Path | None
) -> Life:
    if path is not None and output is not None:
        if lives is not None and lives.has_written(path):
            lives.end(answered=True)
            return Life(True, f"done: an earlier process wrote {path}")
        output.check(path)
    job = session.submit(text, resume=True)
    try:
        if path is not None and output is not None:
            output.check_types(path, job.plan.columns)
        why = _follow(job, options, lives)
    except BaseException:
        job.cancel()
        job.wait(5.0)
        raise
    if why:
        if lives is not None:
            lives.end(answered=False, stopped=True)
        return Life(False, _left(job, why))
    result = job.result()
    if path is not None and output is not None:
        output.write(path, result, session.config.tables, lives.writes if lives is not None else lambda *_: None)
    if lives is not None:
        lives.end(answered=True)
    return Life(True, f"done: {counted(len(result), 'row')}{f' in {path}' if path is not None else ''}", result)


def _follow(job: Job, options: LifeOptions, lives: RunLives | None) -> str:
    """Wait for the end of the job; the reason if it was stopped before, else empty."""
    plans = reported = 0
    ended = False
    while not ended:
        first = options.stops.first
        if first is not None and first[1] <= options.grace:
            if lives is not None and not plans:
                lives.plan(job.plan, options.say)
            job.stop(max(0.0, first[1]) * _FOR_TASKS)
            return first[0] if job.state != "SUCCEEDED" else ""
        ended = job.wait(_EVERY)
        if lives is not None:
            lives.beat()
        if lives is not None and len(job.plans) != plans:
            plans = len(job.plans)
            lives.plan(job.plans[-1], options.say)
        notices = job.status().notices
        for line in notices[reported:]:
            options.say(line)
        reported = len(notices)
    return ""


def _left(job: Job, why: str) -> str:
    progress = job.progress()
    total = sum(stage.total for stage in progress.stages)
    done = sum(stage.done for stage in progress.stages)
    kept = sum(sum(one.bytes) for one in progress.present)
    seconds = sum(one.seconds for one in progress.present)
    return (
        f"stopped by {why}: {done} of {counted(total, 'output')} kept ({size(kept)}, {span(seconds)} of work), "
        f"{total - done} left; the same command goes on"
    )


def ends_at(now: float, hour: int, minute: int) -> float:
    """Seconds from `now`, since 1970, until that time of day comes next."""
    import time

    today = time.localtime(now)
    at = time.mktime((*today[:3], hour, minute, 0, 0, 0, -1))
    later = at if at > now else time.mktime((today[0], today[1], today[2] + 1, hour, minute, 0, 0, 0, -1))
    return later - now


def output_of(output: str | os.PathLike[str] | None, replace: bool) -> Output | None:
    """The output of an argument; None: the caller takes the rows."""
    return None if output is None else Output(os.fspath(output), replace)
