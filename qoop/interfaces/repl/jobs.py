"""The queries of a shell, in the order of their start. A thread follows each query in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from qoop.catalog.errors import Cancelled, ConfigError, QoopError
from qoop.catalog.sizes import counted, span
from qoop.query.drawing.terminal import Terminal, shortened
from qoop.query.drawing.view import brief, news
from qoop.query.job import Job

_POLL_SECONDS = 0.2
"""Seconds between reads of a background job's history."""


class SentBack(Exception):
    """The user has sent the query to the background."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.id} goes on in the background")
        self.job = job


@dataclass
class Entry:
    """A query, in front or in the background. shown: the number of its records on the screen. before: the jobs of
    earlier rounds, if it is a round of a growing answer."""

    job: Job
    background: bool = False
    shown: int = 0
    before: tuple[Job, ...] = ()

    @property
    def running(self) -> bool:
        return not self.job.wait(0)

    @property
    def name(self) -> str:
        return self.job.id


class Jobs:
    """say: prints a line above the prompt or the running query; any thread may call it."""

    def __init__(self, say: Callable[[str], None], terminal: Callable[[], Terminal]) -> None:
        self._say = say
        self._terminal = terminal
        self._entries: dict[str, Entry] = {}

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def add(self, job: Job) -> Entry:
        """Add a query that was started."""
        return self._entries.setdefault(job.id, Entry(job))

    def add_rounds(self, jobs: Sequence[Job]) -> None:
        """Add the jobs of a growing answer, one a round."""
        for place, job in enumerate(jobs):
            self.add(job).before = tuple(jobs[:place])

    def running(self) -> list[Entry]:
        """The entries that have not ended."""
        return [entry for entry in self if entry.running]

    def in_background(self) -> list[Entry]:
        """The entries that run in the background."""
        return [entry for entry in self.running() if entry.background]

    def find(self, name: str, running: bool = False) -> Entry:
        """The entry named, for example, job3 or 3; without a name, the last one. Raises ConfigError if there is none.

        running: only among those that have not ended.
        """
        known = {entry.name: entry for entry in (self.running() if running else self)}
        if not name and known:
            return list(known.values())[-1]
        found = known.get(name) or known.get(f"job{name}")
        if found is None:
            there = ", ".join(known) or "none"
            kind = "running job" if running else "job"
            raise ConfigError(f"there is no {kind} {name!r}; there are: {there}" if name else f"there is no {kind}")
        return found

    def put_behind(self, job: Job) -> Entry:
        """Continue a query in the background; its switches and its end are printed as they happen."""
        entry = self.add(job)
        if not entry.background:
            entry.background = True
            threading.Thread(target=self._follow, args=(entry,), name=f"qoop-follow-{job.id}", daemon=True).start()
        return entry

    def news(self, entry: Entry) -> list[str]:
        """The decisions about a job's plan since the last call, a sentence a line."""
        history = entry.job.history()
        since, entry.shown = entry.shown, len(history)
        return news(history, since, self._terminal())

    def status(self) -> str:
        """The jobs in the background, in a line."""
        return " · ".join(brief(entry.name, entry.job.status()) for entry in self.in_background())

    def _follow(self, entry: Entry) -> None:
        ended = False
        while not ended:
            ended = entry.job.wait(_POLL_SECONDS)
            for line in self.news(entry):
                self._say(line)
        if entry.background:
            self._say(how_it_ended(entry.job, self._terminal()))


def how_it_ended(job: Job, terminal: Terminal) -> str:
    """A line on the end of a job in the background."""
    seconds = span(job.status().elapsed)
    try:
        rows = counted(len(job.result(0)), "row")
    except Cancelled as error:
        return terminal.paint(f"{job.id} ended: {error}", "magenta")
    except QoopError as error:
        return terminal.paint(f"{job.id} failed after {seconds}: {error}", "red")
    done, details = f"{job.id} is done", f": {rows} in {seconds}; \\fg {job.id} shows them"
    left = min(40, terminal.width - len(done + details) - 3)  # for the text, in brackets
    text = f" ({shortened(' '.join(job.text.split()), left)})" if left > 10 else ""
    return terminal.paint(done, "green") + details + text
