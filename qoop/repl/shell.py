"""The shell: reads statements and commands, runs them, prints answers.

The prompt is there before the engine is: a thread loads it, and opens the data, while the first query is typed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from qoop.catalog.errors import Cancelled, ConfigError, DiskFull, QoopError
from qoop.catalog.stores.private import make_folder, open_private
from qoop.repl.completer import NameCompleter
from qoop.repl.highlighting import STYLE, SqlLexer
from qoop.repl.names import Names, of_duckdb
from qoop.repl.typed import is_bare_command, is_command, is_whole, split_command
from qoop.streams import EndedBySignal
from qoop.terminal import Terminal, between_words

if TYPE_CHECKING:
    from qoop.job import Job
    from qoop.profiles import Replay
    from qoop.repl.jobs import Entry, Jobs
    from qoop.result import Result
    from qoop.session import Session
    from qoop.statements.statement import Approximate, Statement

_WELCOME = "qoop {version}: \\help lists commands, a statement ends with ;"
_STATUS_REFRESH = 0.5


class Shell:
    """open: makes the session; called in a thread, once.

    Attributes that commands change: form (how answers are printed), timing, replaying, suspended (folders by job),
    asked_to_quit, variables (texts by name, which statements write as :name).
    """

    def __init__(
        self,
        open: Callable[[], Session],
        form: str = "table",
        history: Path | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._open = open
        self._opened: Future[Session] = Future()
        self._names: Names | None = None
        self._begun_opening = False
        self._history: History = _history(history)
        self._input, self._output = input, output
        self._file: TextIO | None = None
        self._last_result: Result | None = None
        self._last_text = ""
        self._jobs: Jobs | None = None
        self.form = form
        self.timing = True
        self.asked_to_quit = False
        self.replaying: Replay | None = None
        self.suspended: dict[str, Path] = {}
        self.variables: dict[str, str] = {}
        self._begun_text = ""  # of a statement, in the midst of which a command was given
        self._told_why = ""  # the session has fewer resources than it was opened with

    # What commands use

    @property
    def session(self) -> Session:
        """The session, as soon as it is there. Raises what opening it raised."""
        return self._opened.result()

    @property
    def jobs(self) -> Jobs:
        """The queries of this shell."""
        if self._jobs is None:
            from qoop.repl.jobs import Jobs

            self._jobs = Jobs(self.say, self.terminal)
        return self._jobs

    def terminal(self) -> Terminal:
        """The screen as it is now."""
        return Terminal.of(sys.__stdout__ or sys.stdout)

    def say(self, text: str) -> None:
        """Print a line for the user; in any thread."""
        print(text)

    def tell(self, sentence: str) -> None:
        """Print a sentence, broken between words where it does not fit the screen."""
        from textwrap import wrap

        self.say("\n".join(wrap(sentence, max(30, self.terminal().width - 1), subsequent_indent="  ")))

    def tell_lines(self, text: str) -> None:
        """Print lines, each broken between words where it does not fit the screen."""
        self.say(between_words(text, max(30, self.terminal().width)))

    def complain(self, error: BaseException) -> None:
        """Print an error."""
        terminal = self.terminal()
        width, told = max(30, terminal.width), "\n".join([str(error), *getattr(error, "__notes__", ())])
        first = len(between_words(told.partition("\n")[0], width).split("\n"))
        for number, line in enumerate(between_words(told, width).split("\n")):
            marked = number < first or set(line.strip()) == {"^"}
            print(terminal.paint(line, "bold", "red") if marked else line)

    @property
    def last_text(self) -> str:
        """The text of the last query; empty if there was none."""
        return self._last_text

    def begin(self, text: str) -> None:
        """Have a text at the next prompt, for the user to go on with in the line below it."""
        self._begun_text = text

    def last_query(self) -> str:
        """The text of the last query. Raises ConfigError if there was none."""
        if not self._last_text:
            raise ConfigError("no query has run yet: write one behind the command")
        return self._last_text

    def last_result(self) -> Result:
        """The last answer. Raises ConfigError if there was none."""
        if self._last_result is None:
            raise ConfigError("there is no answer yet")
        return self._last_result

    def forget_names(self) -> None:
        """Tables have changed: look them up again."""
        self._names = None

    def typed(self) -> list[str]:
        """The lines typed in this and earlier sessions, the last at the end."""
        return list(self._history.get_strings())

    def show_rows(self, columns: Mapping[str, Sequence[str | None]], right: Collection[str] = ()) -> None:
        """Print columns of texts as a table, all of its rows. right: those that stand at the right."""
        from qoop.drawing.table_text import plain_table

        self.say(plain_table(columns, right, self.terminal()))

    def suspended_folder(self, entry: Entry) -> Path:
        """The folder to which a job is suspended by default."""
        from qoop.catalog.user_folders import cache_directory

        return cache_directory() / "suspended" / f"{entry.name}-{time_ns() // 1_000_000}"

    def stop_replay(self) -> None:
        """End the profile that is being done to the session, and give all resources back."""
        if self.replaying is not None:
            replaying, self.replaying = self.replaying, None
            replaying.stop()
            self.session.resize("auto", "auto")
            self.say("the profile has ended; queries have all resources again")

    def open_output(self, path: str) -> None:
        """Print answers to a file from now on. Raises DiskFull."""
        try:
            self._file = Path(path).expanduser().open("w", encoding="utf-8", newline="")
        except OSError as error:
            raise DiskFull(f"cannot write {path}: {error.strerror}") from error

    def close_output(self) -> None:
        """Print answers to the screen again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def page(self, result: Result) -> None:
        """Show all rows of an answer in a pager."""
        from pydoc import pager

        from qoop.drawing.table_text import table_text

        os.environ.setdefault("LESS", "-SRX")
        pager(table_text(result, Terminal(width=1_000_000), len(result)))

    # The loop

    def run(self) -> int:
        """Read and run until the user leaves; return the exit code."""
        self.say(self.terminal().paint(_WELCOME.format(version=_version()), "faint"))
        prompt = self._prompt()
        self._start_opening(prompt)
        try:
            while True:
                try:
                    if not self._goes_on(self._next_text(prompt)):
                        return 0
                except EndedBySignal:
                    raise
                except KeyboardInterrupt:  # also between two prompts, where the terminal makes a signal of Ctrl-C
                    continue
        finally:
            self._close()

    def handle(self, text: str) -> None:
        """Do what was typed: a command, or statements; errors are printed."""
        try:
            if is_command(text):
                from qoop.repl.commands import run_command

                run_command(self, text)
            else:
                self._run_statements(text)
        except Cancelled as error:
            self.complain(error)
        except EndedBySignal:
            raise
        except KeyboardInterrupt:
            self.complain(Cancelled("interrupted"))
        except QoopError as error:
            self.complain(error)

    def run_script(self, text: str) -> None:
        """Run the statements of a text. Raises what the first that fails raises."""
        self._run_statements(text)

    def start_in_background(self, text: str) -> None:
        """Start a query and return at once. Raises as `Session.submit` does."""
        job = self.session.submit(text)
        self._last_text = job.text
        entry = self.jobs.put_behind(job)
        self.say(f"{entry.name} runs in the background; \\jobs, \\fg, \\cancel, \\suspend")

    def grow(self, text: str) -> None:
        """Answer a query by estimates that grow more certain, as APPROXIMATE before it does."""
        self._run_statements(f"APPROXIMATE {text}")

    def bring_to_front(self, entry: Entry) -> None:
        """Stay with a job until it has ended, and print its answer."""
        begun = perf_counter()
        try:
            self._watch(entry.job)
        except BaseException as error:
            if not self._sent_back(error):
                raise
            return
        self._print(entry.job.result(), perf_counter() - begun, entry.job)

    # Inside

    def _next_text(self, prompt: PromptSession[str]) -> str:
        try:
            with patch_stdout(raw=True):
                begun, self._begun_text = self._begun_text, ""
                # on a line of its own a command is one; right behind the text it would be a part of it
                return prompt.prompt(default=f"{begun}\n" if begun else "")
        except EOFError:
            return "\\q"

    def _goes_on(self, text: str) -> bool:
        from qoop.repl.commands import Quit

        text = text.strip()
        if not text:
            return True
        if is_bare_command(text.rstrip(";")):
            text = "\\" + text.rstrip(";").lower()
        begun, text = split_command(text)
        try:
            asked = self.asked_to_quit
            self.handle(text)
            if asked:
                self.asked_to_quit = False
        except Quit:
            return False
        self._begun_text = begun or self._begun_text
        return True

    def _run_statements(self, text: str) -> None:
        from qoop.repl.habits import with_variables

        text = with_variables(text, self.variables)
        stripped = text.strip()
        if stripped.endswith("&"):
            self.start_in_background(stripped[:-1])
            return
        session = self._session_here()
        from qoop.statements.statement import statements

        for statement in statements(text):
            self._run(session, statement)

    def _session_here(self) -> Session:
        if not self._opened.done():
            self.say(self.terminal().paint("opening the data …", "faint"))
        return self.session

    def _run(self, session: Session, statement: Statement) -> None:
        from qoop.sessions.options import SYNONYMS
        from qoop.statements.statement import Approximate, Explain, Query, SetOption

        begun = perf_counter()
        seen: list[Job] = []

        def watch(job: Job) -> None:
            seen.append(job)
            self._last_text = job.text
            self._watch(job)

        try:
            if isinstance(statement, Approximate):
                result = self._grown(session, statement)
            else:
                result = session.execute(statement, watch)
        except Exception as error:
            if self._sent_back(error):
                return
            raise
        if not isinstance(statement, Query | Approximate | Explain):
            self.forget_names()
        if isinstance(statement, SetOption) and (ours := SYNONYMS.get(statement.name.lower())):
            self.say(self.terminal().paint(f"{statement.name} means {ours} here", "faint"))
        if result.says_done:
            return
        self._print(result, perf_counter() - begun, seen[-1] if seen else None)

    def _grown(self, session: Session, asked: Approximate) -> Result:
        """The last edition of a growing answer, which is shown while it grows. Ctrl-C takes the one that there is."""
        from qoop.repl.growing_table import GrowingTable

        self._last_text = asked.text
        answer = session.approximate(asked.text, asked.error, asked.confidence, if_busy=asked.if_busy)
        table = GrowingTable(self.say, self.terminal)
        try:
            for edition in answer.editions():
                table.show(edition)
                last = edition
        except KeyboardInterrupt:
            if answer.stop() is None:
                raise
        if self.terminal().colours:
            table.clear()
            self.tell(f"{last}")
        for note in last.notes:
            self.tell(f"note: {note}")
        return last.result

    def _watch(self, job: Job) -> None:
        from qoop.repl.live import LiveView

        entry = self.jobs.add(job)
        view = LiveView(
            job,
            self.terminal,
            self.handle,
            lambda: self._news(entry),
            lambda: self.session.held_back,
            self._input,
            self._output,
        )
        with patch_stdout(raw=True):
            view.show()
        for line in self._news(entry):
            self.say(line)

    def _news(self, entry: Entry) -> list[str]:
        """The decisions about a job's plan, and why its resources changed, since the last time."""
        told, self._told_why = self._told_why, self.session.held_back
        return [*self._resource_news(told, self._told_why), *self.jobs.news(entry)]

    def _resource_news(self, before: str, now: str) -> list[str]:
        from textwrap import wrap

        if before == now:
            return []
        terminal = self.terminal()
        lines = wrap(f"↕ {now or 'queries have all their available again'}", max(30, terminal.width - 1))
        return [terminal.paint(line, "magenta") for line in lines]

    def _sent_back(self, error: BaseException) -> bool:
        from qoop.repl.live import SentBack

        if not isinstance(error, SentBack):
            return False
        entry = self.jobs.put_behind(error.job)
        self.say(f"{entry.name} goes on in the background; \\fg brings it back")
        return True

    def _print(self, result: Result, seconds: float, job: Job | None) -> None:
        from qoop.drawing.formats import explanation, write
        from qoop.drawing.table_text import table_text

        self._last_result = result
        terminal, note = self.terminal(), self._note(seconds, job)
        if self._file is not None:
            write(result, self.form, self._file)
            self._file.flush()
        elif (told := explanation(result)) is not None:
            self.tell_lines(told)
        elif self.form == "table":
            self.say(table_text(result, terminal, note=note))
            return
        else:
            write(result, self.form, sys.stdout, terminal)
        if note:
            self.say(terminal.paint(note.removeprefix(" · "), "faint"))

    def _note(self, seconds: float, job: Job | None) -> str:
        from qoop.engine.history import span

        switches = len(job.plans) - 1 if job is not None else 0
        changed = f" · the plan was changed {'once' if switches == 1 else f'{switches} times'}" if switches else ""
        return (f" · {span(seconds)}" if self.timing else "") + changed

    def _prompt(self) -> PromptSession[str]:
        return PromptSession(
            "qoop> ",
            multiline=True,
            prompt_continuation=lambda width, number, wrapped: "...> "[-width:],
            key_bindings=_keys(),
            completer=NameCompleter(self._known_names, self._commands),
            complete_while_typing=False,
            lexer=SqlLexer(self._known_names),
            auto_suggest=AutoSuggestFromHistory(),
            history=self._history,
            style=Style.from_dict(STYLE | {"bottom-toolbar": "noreverse ansibrightblack"}),
            bottom_toolbar=self._toolbar,
            refresh_interval=_STATUS_REFRESH,
            include_default_pygments_style=False,
            input=self._input,
            output=self._output,
        )

    def _known_names(self) -> Names:
        """The completions: without the tables until the session is there."""
        if not self._opened.done() or self._opened.exception() is not None:
            return Names()
        if self._names is None:
            from qoop.planner.algebra.expr import quote

            keywords, functions = of_duckdb()
            describe = lru_cache(maxsize=256)(partial(_described, self.session))
            tables = {table.name: table.columns for table in self.session.tables().values()}
            views = {view: describe(f"FROM {quote(view)}") for view in self.session.views()}
            self._names = Names(keywords, functions, {**tables, **views}, describe)
        return replace(self._names, variables=tuple(sorted(self.variables)))

    def _commands(self) -> Sequence[str]:
        from qoop.repl.commands import NAMES  # with the engine, which takes its time

        return NAMES

    def _toolbar(self) -> str:
        if not self._opened.done():
            return " opening …"
        if self._opened.exception() is not None:
            return ""
        from qoop.engine.history import available_of

        available, status = self.session.given, self._jobs.status() if self._jobs is not None else ""
        tables = len(self.session.tables())
        parts = [f"{tables} table{'' if tables == 1 else 's'}", available_of(available), status, self.session.held_back]
        return " " + " · ".join(filter(None, parts))

    # Opening and closing

    def _start_opening(self, prompt: PromptSession[str]) -> None:
        """Open the session in a thread, once the prompt is on the screen."""

        def begin(_: object) -> None:
            prompt.app.after_render -= begin
            self._begun_opening = True
            threading.Thread(target=self._load, args=(prompt,), name="qoop-open", daemon=True).start()

        prompt.app.after_render += begin

    def _load(self, prompt: PromptSession[str]) -> None:
        try:
            session = self._open()
            of_duckdb()
            self._commands()
            self._opened.set_result(session)
            if session.config.files:
                self.tell(f"configured by {' and '.join(map(str, session.config.files))}")
            prompt.app.invalidate()  # the last line of the screen no longer says that it is being opened
        except BaseException as error:
            self._opened.set_exception(error)
            loop = prompt.app.loop
            if loop is not None:
                loop.call_soon_threadsafe(partial(_leave, prompt, error))

    def _close(self) -> None:
        self.close_output()
        if not self._begun_opening:
            return
        with suppress(BaseException):  # it was told when it happened
            self._opened.result()
        if self._opened.exception() is None:
            self.session.close()


def _leave(prompt: PromptSession[str], error: BaseException) -> None:
    """End the prompt with an error, unless it has ended by itself; then the next use of the session raises it."""
    if prompt.app.is_running:
        prompt.app.exit(exception=error)


def _described(session: Session, text: str) -> tuple[tuple[str, str], ...]:
    """The columns of a query; none if it is at fault, as what is being typed often is."""
    try:
        return session.describe(text)
    except QoopError:
        return ()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def enter(event: KeyPressEvent) -> None:
        """Run a text that is whole; else begin a new line."""
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=completion_is_selected)
    def take(event: KeyPressEvent) -> None:
        """Take what is chosen in the menu."""
        event.current_buffer.complete_state = None

    @keys.add("escape", "enter")
    def run(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def _history(path: Path | None) -> History:
    """The history of inputs: in a file of the user's, unless there can be none."""
    told = os.environ.get("QOOP_HISTORY")
    file = path or (Path(told).expanduser() if told else _state_folder() / "qoop" / "history")
    try:
        make_folder(file.parent)
        open_private(file, "a").close()
    except OSError:  # a home that cannot be written: this session only
        return InMemoryHistory()
    return FileHistory(file)


def _state_folder() -> Path:
    told = os.environ.get("XDG_STATE_HOME")
    return Path(told) if told else Path.home() / ".local" / "state"


def _version() -> str:
    from qoop import __version__

    return str(__version__)
