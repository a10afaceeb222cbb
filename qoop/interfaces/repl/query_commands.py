"""Commands on queries and their jobs: ``\\jobs``, ``\\bg``, ``\\fg``, ``\\cancel``, ``\\suspend``, ``\\resume`` …"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import span
from qoop.interfaces.repl.command import Command
from qoop.interfaces.repl.habits import edit, watch
from qoop.interfaces.repl.jobs import Entry
from qoop.query.drawing.view import due, of_share, span_of, under_way

if TYPE_CHECKING:
    from qoop.interfaces.repl.shell import Shell


def _jobs(shell: Shell, _: str) -> None:
    entries = list(shell.jobs)
    if not entries:
        shell.say("no query has run yet")
        return
    rows = [_job_row(entry) for entry in entries[-20:]]
    names = ("job", "state", "done", "tasks", "slots", "time", "ends", "due", "ρ", "switches", "tenant", "query")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    known = {name: cells for name, cells in columns.items() if any(cells)}  # empty columns only take width
    shell.show_rows(known, right=[name for name in _NUMBERS if name in known])


_NUMBERS = ("done", "tasks", "slots", "time", "ρ", "switches")
"""Columns of `\\jobs` that are written to the right."""


def _job_row(entry: Entry) -> tuple[str, ...]:
    job, status = entry.job, entry.job.status()
    where = " &" if entry.background and entry.running else ""
    return (
        job.id, job.state.lower() + where, f"{status.progress.fraction:.0%}", under_way(status),
        of_share(status) if entry.running else "", span(status.elapsed),
        (status.left and span_of(status.left)) or (f"queue: {status.place}" if status.place else ""), due(status),
        f"{status.rho:.2f}" if status.rho is not None else "",
        str(max(0, len(job.plans) - 1)), job.terms.tenant, " ".join(job.text.split()),
    )  # fmt: skip


def _tenants(shell: Shell, _: str) -> None:
    rows = [
        (
            one.name or "(none named)", f"{one.weight:g}", str(one.running), str(one.waiting), str(one.done),
            f"{one.share.cpu:.3g}", f"{one.used.cpu:g}", f"{one.rho:.2f}" if one.rho is not None else "",
        )
        for one in shell.session.tenants()
    ]  # fmt: skip
    if not rows:
        shell.say("no query has run yet")
        return
    names = ("tenant", "weight", "running", "waiting", "done", "share", "slots", "ρ")
    shell.show_rows({name: [row[place] for row in rows] for place, name in enumerate(names)}, right=names[1:])


def _background(shell: Shell, text: str) -> None:
    if not text:
        raise ConfigError(
            "\\bg SELECT … starts a query in the background; while one runs, \\bg or Ctrl-Z sends it there"
        )
    shell.start_in_background(text)


def _approximate(shell: Shell, text: str) -> None:
    only_goal = re.fullmatch(r"WITHIN\s+\S+(\s*%|\s+PERCENT)\s*;?", text, re.IGNORECASE)
    shell.grow(f"{text.rstrip(';')} {shell.last_query()}" if only_goal else text or shell.last_query())


def _foreground(shell: Shell, name: str) -> None:
    entry = shell.jobs.find(name)
    entry.background = False
    shell.bring_to_front(entry)


def _cancel(shell: Shell, name: str) -> None:
    entry = shell.jobs.find(name, running=True)
    entry.job.cancel()
    shell.say(f"{entry.name} is being cancelled")


def _suspend(shell: Shell, line: str) -> None:
    words = shlex.split(line)
    name = words[0] if words else ""
    entry = shell.jobs.find(name, running=True)
    path = Path(words[1]).expanduser() if len(words) > 1 else shell.suspended_folder(entry)
    entry.background = False
    entry.job.suspend(path)
    shell.suspended[entry.name] = path
    shell.tell(f"{entry.name} is suspended to {path}; \\resume goes on with it, in any session")


def _resume(shell: Shell, line: str) -> None:
    words = shlex.split(line)
    if not words and not shell.suspended:
        raise ConfigError("nothing was suspended here; \\resume PATH goes on with what another session has suspended")
    name = words[0] if words else list(shell.suspended)[-1]
    path = shell.suspended.get(name) or shell.suspended.get(f"job{name}") or Path(name).expanduser()
    job = shell.session.resume(path)
    shell.forget_names()
    shell.suspended = {one: where for one, where in shell.suspended.items() if where != path}
    entry = shell.jobs.put_behind(job)
    done = job.progress().fraction
    shell.say(f"{entry.name} goes on in the background with {done:.0%} of its work done; \\fg shows it")


def _read(shell: Shell, path: str) -> None:
    if not path:
        raise ConfigError("\\read FILE runs the statements and commands of a file")
    shell.run_file(Path(shlex.split(path)[0]).expanduser())


QUERY_COMMANDS = (
    Command(("bg",), "SQL", "run in the background, as & at the end of a query does", _background),
    Command(
        ("approx",),
        "[WITHIN n PERCENT] [SQL]",
        "an answer that grows, of the last query or a new one",
        _approximate,
        "after",
    ),
    Command(("fg",), "[JOB]", "bring a job to the front, or show its answer", _foreground, "after"),
    Command(("jobs",), "", "what runs and what has run", _jobs),
    Command(("tenants",), "", "tenants: jobs, shares, slots in use, fairness (ρ)", _tenants),
    Command(("cancel", "kill"), "[JOB]", "stop a job", _cancel),
    Command(("suspend",), "[JOB [PATH]]", "stop a job and keep what it has done", _suspend),
    Command(("resume",), "[JOB|PATH]", "go on with a suspended job", _resume),
    Command(("read", "i", "include"), "FILE", "run the statements and commands of a file", _read, "after"),
    Command(("e", "edit"), "[FILE]", "the last query, or a file, in your editor; then it runs", edit, "after"),
    Command(("watch",), "[SECONDS [TIMES]]", "run the last query again and again", watch, "after"),
)
