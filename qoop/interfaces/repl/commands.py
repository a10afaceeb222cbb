"""The commands of the shell: ``\\name arguments``, or ``.name arguments`` for those who come from DuckDB."""

from __future__ import annotations

import re
import shlex
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Literal

from qoop.adaptive.retrace.story import story
from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import counted
from qoop.catalog.value import value
from qoop.engine.history import available_of, size, span
from qoop.interfaces.commands.loading import version_text
from qoop.interfaces.repl.habits import edit, import_file, run_program, set_variable, unset_variable, watch
from qoop.interfaces.repl.jobs import Entry
from qoop.interfaces.repl.typed import is_command
from qoop.query.drawing.formats import FORMATS, checked_format, save
from qoop.query.drawing.view import due, of_share, span_of, under_way

if TYPE_CHECKING:
    from qoop.catalog.statistics.stats import ColumnStats, Scalar
    from qoop.catalog.table import Table
    from qoop.interfaces.repl.shell import Shell


@value
class Command:
    """names: without the \\, the usual one first. arguments: as help shows them. help: what it does, in a line.

    run: gets the shell and the rest of the line. when: it is done if it is typed while a query runs: at once, in its
    turn (what was typed before it may wait), or after the query in front, as it runs queries itself or leaves.
    """

    names: tuple[str, ...]
    arguments: str
    help: str
    run: Callable[[Shell, str], None]
    when: Literal["at once", "in turn", "after"] = "at once"


class Quit(Exception):
    """The shell is to be left."""


def run_command(shell: Shell, line: str) -> None:
    """Do what a line asks for. Raises ConfigError for an unknown command, and whatever the command raises."""
    word, rest = _parted(line)
    command, name = _named(word), word[1:]
    if command is None:
        near = [known for known in _BY_NAME if name and known.startswith(name[:2])]
        hint = f"; did you mean {', '.join(chr(92) + known for known in near)}?" if near else "; \\help lists them"
        raise ConfigError(f"there is no command {word}{hint}")
    command.run(shell, rest.strip())


def may_run(text: str, others_wait: bool) -> bool:
    """True if what was typed while a query runs is done at once. others_wait: other texts do, which were before it."""
    if not is_command(text):
        return text.endswith("&")
    command = _named(_parted(text)[0])
    when = "at once" if command is None else command.when
    return when == "at once" or (when == "in turn" and not others_wait)


def _parted(line: str) -> tuple[str, str]:
    """A command with its mark, and the rest of its line."""
    word, _, rest = line.strip().rstrip(";").partition(" ")
    # as in psql, with or without a space
    return (word[:2], f"{word[2:]} {rest}") if word.startswith("\\!") else (word, rest)


def _named(word: str) -> Command | None:
    return _BY_NAME.get(word[1:]) or _BY_NAME.get(word[1:].lower())


def _help(shell: Shell, name: str) -> None:
    terminal = shell.terminal()
    if name:
        command = _BY_NAME.get(name.lstrip("\\."))
        if command is None:
            raise ConfigError(f"there is no command {name}; \\help lists them")
        shell.say(f"\\{command.names[0]} {command.arguments}\n  {command.help}")
        if len(command.names) > 1:
            shell.say(f"  also: {', '.join(chr(92) + other for other in command.names[1:])}")
        return
    for title, commands in GROUPS:
        shell.say(terminal.paint(title, "bold"))
        for command in commands:
            left = f"  \\{command.names[0]} {command.arguments}".ljust(_HELP)
            shell.say(_hanging(left, command.help, terminal.width))
    shell.say(_KEYS)


_HELP = 26
"""Characters of the column of commands."""


def _hanging(left: str, right: str, width: int) -> str:
    """Two columns, of which the right one takes as many lines as it needs."""
    lines = wrap(right, max(30, width - _HELP - 2))
    first = f"{left} {lines[0]}" if len(left) <= _HELP else f"{left}\n{' ' * _HELP} {lines[0]}"
    return "\n".join([first, *(f"{' ' * _HELP} {line}" for line in lines[1:])])


_KEYS = """A statement ends with ; and may take several lines. With & at its end it runs in
the background. Tab completes, Ctrl-R searches what was typed before, Ctrl-C
cancels the query, Ctrl-Z sends it to the background."""


def _quit(shell: Shell, _: str) -> None:
    running = shell.jobs.running()
    if running and not shell.asked_to_quit:
        shell.asked_to_quit = True
        names = ", ".join(entry.name for entry in running)
        raise ConfigError(f"{names} still running; \\q once more cancels that and leaves, \\suspend keeps it for later")
    raise Quit


def _tables(shell: Shell, name: str) -> None:
    if name:
        _describe(shell, name)
        return
    tables = shell.session.tables().values()
    columns = {
        "table": [table.name for table in tables],
        "rows": [f"{table.rows:,}" for table in tables],
        "columns": [str(len(table.columns)) for table in tables],
        "kept in": [_kind(table) for table in tables],
    }
    if not tables:
        shell.say("no tables; \\register PATH makes some known, or FROM 'file.parquet'")
        return
    shell.show_rows(columns, right=("rows", "columns"))


def _functions(shell: Shell, _: str) -> None:
    functions = shell.session.functions().values()
    if not functions:
        shell.tell("no functions of Python; Session.register_function makes some known, in a program")
        return
    taken = shell.session.planning.row_seconds()
    columns = {
        "function": [one.signature for one in functions],
        "called by": ["vector" if one.vectorised else "row" for one in functions],
        "for 1,000 rows": [span(1e3 * taken[one.key]) if one.key in taken else "" for one in functions],
    }
    shell.show_rows(columns, right=("for 1,000 rows",))


def _kind(table: Table) -> str:
    return type(table.source).__name__.removesuffix("Source").lower()


def _describe(shell: Shell, name: str) -> None:
    table = shell.session.tables().get(name.strip('"'))
    stats = shell.session.statistics(name.strip('"') if table is None else table.name)
    named = (one for one in shell.session.tables().values() if one.name.lower() == name.lower())
    table = table or next(named, None)
    if table is None:  # a query has read a file of that path
        raise ConfigError(f"{name} is no table; \\register {name} makes one of it")
    shell.say(f"{table.name}: {stats.rows:,.0f} rows, about {size(stats.bytes)}, kept in {_kind(table)}")
    known = [(column, type_, stats.columns.get(column)) for column, type_ in table.columns]
    columns: dict[str, Sequence[str | None]] = {
        "column": [column for column, _, _ in known],
        "type": [type_.lower() for _, type_, _ in known],
        "distinct": [None if one is None else f"{one.distinct:,.0f}" for _, _, one in known],
        "nulls": [None if one is None else f"{one.nulls / max(1.0, stats.rows):.1%}" for _, _, one in known],
        "least": [_extreme(one.minimum if one else None, type_) for _, type_, one in known],
        "most": [_extreme(one.maximum if one else None, type_) for _, type_, one in known],
    }
    if shell.terminal().width >= _WIDE:
        columns["most common"] = [_common(one, type_) for _, type_, one in known]
    shell.show_rows(columns, right=("nulls", "distinct"))


_WIDE = 120
"""Characters of a screen that shows the most common values."""


def _extreme(value: Scalar | None, type_: str) -> str | None:
    """A value of the statistics as its type writes it.

    >>> _extreme(2.0, "DATE"), _extreme(86400.5, "TIMESTAMP"), _extreme(3.0, "INTEGER")
    ('1970-01-03', '1970-01-02 00:00:00.500000', '3')
    """
    if value is None or isinstance(value, str):
        return value
    if type_ == "DATE" and abs(value) < 1e6:
        return str(date(1970, 1, 1) + timedelta(days=value))
    if type_.startswith("TIMESTAMP") and abs(value) < 1e11:
        return str(datetime(1970, 1, 1) + timedelta(seconds=value))
    return f"{value:.10g}"


def _common(stats: ColumnStats | None, type_: str) -> str | None:
    common = [] if stats is None else [(value, part) for value, part in stats.common[:2] if part >= 0.01]
    return ", ".join(f"{_extreme(value, type_)} {part:.0%}" for value, part in common)


def _register(shell: Shell, line: str) -> None:
    words = shlex.split(line)
    if len(words) not in (1, 2):
        raise ConfigError("\\register PATH, or \\register NAME PATH")
    before = set(shell.session.tables())
    if len(words) == 2:
        shell.session.register(words[0], words[1])
    else:
        shell.session.register_path(words[0])
    shell.forget_names()
    shell.confirm(f"tables: {', '.join(sorted(set(shell.session.tables()) - before)) or 'replaced'}")


def _resize(shell: Shell, line: str) -> None:
    asked = dict(word.partition("=")[::2] for word in ("slots=auto memory=auto" if line == "auto" else line).split())
    known = {"slots", "memory", "notice"}
    if not asked or not asked.keys() <= known or not all(asked.values()):
        raise ConfigError("write \\resize slots=1 memory=1GB, and notice=10 for a change in 10 seconds; \\resize auto")
    slots = int(asked["slots"]) if asked.get("slots", "").isdigit() else asked.get("slots")
    notice = _number("notice", asked.get("notice", "0"))
    shell.session.resize(slots, asked.get("memory"), notice=notice)  # type: ignore[arg-type]  # it says what is wrong
    when = f"in {notice:g} s" if notice else "from now on"
    told = ", ".join(f"{name} {value}" for name, value in asked.items() if name != "notice")
    shell.tell(f"{told} {when}" if notice else f"queries now have {available_of(shell.session.configured)}")


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{name} must be a number, not {text!r}") from error


_NAMED_SPEED = 60.0
"""By how much profiles that have a name pass faster: a minute a second."""


def _profile(shell: Shell, line: str) -> None:
    from qoop.adaptive.profiles import load, replay

    words = line.split()
    if words in ([], ["off"]):
        shell.stop_replay()
        return
    speed = 1.0 if Path(words[0]).expanduser().exists() else _NAMED_SPEED
    for word in words[1:]:
        name, _, value = word.partition("=")
        if name != "speed" or not value:
            raise ConfigError("write \\profile NAME or FILE, and speed=10 for time that passes faster; \\profile off")
        speed = _number("speed", value)
    full = shell.session.config
    fitted = load(words[0]).fractions().on(full.slots, full.memory, least=1)
    shell.stop_replay()
    shell.replaying = replay(shell.session, fitted, speed).start()
    changes, last = len(fitted.changes()), fitted.seconds / speed
    shell.tell(f"{words[0]}: {changes} changes of capacity in {span(last)}; \\profile off ends it")


def _jobs(shell: Shell, _: str) -> None:
    entries = list(shell.jobs)
    if not entries:
        shell.say("no query has run yet")
        return
    rows = [_job_row(entry) for entry in entries[-20:]]
    names = ("job", "state", "done", "tasks", "slots", "time", "ends", "due", "ρ", "switches", "tenant", "query")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    known = {name: cells for name, cells in columns.items() if any(cells)}  # the others only take the width of these
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


def _explain(shell: Shell, text: str) -> None:
    shell.tell_lines(shell.session.explain(text or shell.last_query()))


def _alternatives(shell: Shell, text: str) -> None:
    shell.tell_lines(shell.session.explain(text or shell.last_query(), alternatives=True))


def _history(shell: Shell, name: str) -> None:
    entry = shell.jobs.find(name)
    for number, job in enumerate((*entry.before, entry.job), 1):
        if entry.before:
            shell.tell(f"round {number}, {job.id}:")
        for sentence in story(job.history()):
            shell.tell(sentence)


def _timeline(shell: Shell, line: str) -> None:
    words = shlex.split(line)
    is_path = [word for word in words if "." in word or "/" in word]
    entry = shell.jobs.find(next((word for word in words if word not in is_path), ""))
    path = Path(is_path[0]).expanduser() if is_path else Path(tempfile.mkdtemp(prefix="qoop-")) / f"{entry.name}.html"
    made = entry.job.timeline(path)
    shell.say(f"{made}")
    if not is_path:
        webbrowser.open(made.as_uri())


def _mode(shell: Shell, name: str) -> None:
    shown = f"answers are printed as {checked_format(name or shell.form)}; there are {', '.join(FORMATS)}"
    if name:
        shell.form = checked_format(name)
        shell.confirm(shown)
    else:
        shell.tell(shown)


def _expanded(shell: Shell, _: str) -> None:
    shell.form = "table" if shell.form == "vertical" else "vertical"
    shell.confirm(f"answers are printed as {shell.form}")


def _timing(shell: Shell, word: str) -> None:
    shell.timing = _switch(word, shell.timing)
    shell.confirm(f"timing is {'on' if shell.timing else 'off'}")


def _switch(word: str, now: bool) -> bool:
    if word.lower() not in ("", "on", "off"):
        raise ConfigError(f"write on or off, not {word!r}")
    return not now if not word else word.lower() == "on"


def _output(shell: Shell, path: str) -> None:
    shell.close_output()
    if path:
        shell.open_output(path)
        shell.confirm(f"answers go to {path}; \\o alone ends that")


def _once(shell: Shell, path: str) -> None:
    if not path:
        raise ConfigError("\\once FILE puts the next answer in a file, as \\mode says")
    shell.open_output(path, once=True)


def _headers(shell: Shell, word: str) -> None:
    shell.look = replace(shell.look, headers=_switch(word, shell.look.headers))


def _null(shell: Shell, text: str) -> None:
    shell.look = replace(shell.look, null=" ".join(shlex.split(text)) if text else None)


def _widths(shell: Shell, line: str) -> None:
    widths = tuple(
        _count("\\width takes cells of columns from the left, 0 for what fits", word) for word in line.split()
    )
    shell.look = replace(shell.look, widths=widths)


def _most_rows(shell: Shell, word: str) -> None:
    most = (
        _count("\\maxrows takes the most rows that a table shows; without a number, what fits", word) if word else None
    )
    shell.look = replace(shell.look, most_rows=most)


def _count(use: str, word: str) -> int:
    if not word.isdecimal():
        raise ConfigError(f"{use}, not {word!r}")
    return int(word)


def _databases(shell: Shell, _: str) -> None:
    shell.run_script("SHOW DATABASES")


def _version(shell: Shell, _: str) -> None:
    shell.say(version_text())


def _save(shell: Shell, path: str) -> None:
    if not path:
        raise ConfigError("\\save FILE.csv, .json, .parquet, .arrow … puts the last answer in a file")
    result = shell.last_result()
    shell.tell(f"{counted(len(result), 'row')} in {save(result, shlex.split(path)[0])}")


def _page(shell: Shell, word: str) -> None:
    if word.lower() not in ("", "live"):
        raise ConfigError(f"\\page shows the last answer, \\page live what runs, in a browser; {word!r} is neither")
    if word:
        shell.say(shell.session.page(open=True).url)
    else:
        shell.page(shell.last_result())


def _read(shell: Shell, path: str) -> None:
    if not path:
        raise ConfigError("\\read FILE runs the statements and commands of a file")
    shell.run_file(Path(shlex.split(path)[0]).expanduser())


def _inputs(shell: Shell, _: str) -> None:
    for text in shell.typed()[-30:]:
        shell.say(text)


GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    (
        "Tables",
        (
            Command(
                ("d", "describe", "tables", "dt", "schema"), "[TABLE]", "tables, or one with its statistics", _tables
            ),
            Command(("functions", "df"), "", "functions of Python, and what they have taken", _functions),
            Command(
                ("register", "open", "attach"),
                "[NAME] PATH",
                "make a file, folder or database known",
                _register,
                "in turn",
            ),
            Command(("import",), "FILE TABLE", "put the rows of a file into a table", import_file, "after"),
            Command(("databases",), "", "the databases that are attached", _databases, "after"),
        ),
    ),
    (
        "Queries",
        (
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
            Command(("tenants",), "", "whom queries are for: jobs, shares, slots in use, fairness (ρ)", _tenants),
            Command(("cancel", "kill"), "[JOB]", "stop a job", _cancel),
            Command(("suspend",), "[JOB [PATH]]", "stop a job and keep what it has done", _suspend),
            Command(("resume",), "[JOB|PATH]", "go on with a suspended job", _resume),
            Command(("read", "i", "include"), "FILE", "run the statements and commands of a file", _read, "after"),
            Command(("e", "edit"), "[FILE]", "the last query, or a file, in your editor; then it runs", edit, "after"),
            Command(("watch",), "[SECONDS [TIMES]]", "run the last query again and again", watch, "after"),
        ),
    ),
    (
        "The engine",
        (
            Command(
                ("resize",),
                "slots=1 memory=1GB|auto",
                "change what queries may use; auto: as the machine allows",
                _resize,
            ),
            Command(("profile",), "NAME|FILE|off", "let capacity come and go as a profile says", _profile),
            Command(("explain",), "[SQL]", "the plan of a query, or of the last one", _explain),
            Command(("alternatives",), "[SQL]", "all plans worth keeping, and where each wins", _alternatives),
            Command(("history",), "[JOB]", "what happened to a job and was decided, in words", _history),
            Command(("timeline",), "[JOB] [FILE]", "a picture of it in the browser, or in a file", _timeline),
        ),
    ),
    (
        "Answers",
        (
            Command(("mode", "format"), "[FORMAT]", f"how they are printed: {', '.join(FORMATS)}", _mode, "in turn"),
            Command(("x",), "", "a value a line, and back", _expanded, "in turn"),
            Command(("timing", "timer"), "[on|off]", "say how long queries take", _timing, "in turn"),
            Command(
                ("save", "export"), "FILE", "put the last one in a file: .csv .json .parquet .arrow …", _save, "after"
            ),
            Command(
                ("page", "pager"),
                "[live]",
                "the last one whole, in a pager; live: what runs, in a browser",
                _page,
                "in turn",
            ),
            Command(("o", "output"), "[FILE]", "print answers to a file from now on", _output, "in turn"),
            Command(("once",), "FILE", "print the next one to a file", _once, "in turn"),
            Command(("headers", "header"), "[on|off]", "names of columns: table, csv, tsv", _headers, "in turn"),
            Command(("nullvalue",), "[TEXT]", "what stands for NULL", _null, "in turn"),
            Command(("width",), "[CELLS …]", "how wide columns of a table are at least", _widths, "in turn"),
            Command(("maxrows",), "[ROWS]", "the most rows that a table shows", _most_rows, "in turn"),
        ),
    ),
    (
        "The shell",
        (
            Command(("help", "h", "?"), "[COMMAND]", "this", _help),
            Command(("s",), "", "what was typed before", _inputs),
            Command(
                ("set",), "[NAME TEXT]", "a text by name, for :NAME, :'NAME' and :\"NAME\"", set_variable, "in turn"
            ),
            Command(("unset",), "NAME", "forget it", unset_variable, "in turn"),
            Command(("version",), "", "of qoop and of DuckDB", _version),
            Command(("!", "shell", "system"), "[COMMAND]", "run a program", run_program),
            Command(("q", "quit", "exit"), "", "leave", _quit, "after"),
        ),
    ),
)

_BY_NAME = {name: command for _, commands in GROUPS for command in commands for name in command.names}
NAMES = tuple(_BY_NAME)
"""Of all commands, without the mark before them."""
