"""The shell without a prompt: a session, its queries, and the format of answers; commands act on it.

The text of ``qoop -c``, a file or a pipe may therefore contain commands, and needs no terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, TextIO

from qoop.catalog.errors import Cancelled, ConfigError, DiskFull, QoopError
from qoop.interfaces.repl.typed import is_command, pieces
from qoop.query.drawing.table_text import PrintStyle, table_text
from qoop.query.drawing.terminal import Terminal, between_words
from qoop.query.streams import EndedBySignal

if TYPE_CHECKING:
    from qoop.adaptive.profiles import Replay
    from qoop.interfaces.repl.jobs import Entry, Jobs
    from qoop.programs.sweeps.study import Study
    from qoop.query.job import Job
    from qoop.query.result import Result
    from qoop.query.statements.statement import Approximate, Statement
    from qoop.session.session import Session


class Shell:
    """run_command: runs a command line. session: of all statements; `InteractiveShell` opens one itself. watch: is
    called with every query in front, before the shell waits for its end.

    Attributes that commands change: form and style (the format of answers), timing, replaying, suspended (folders by
    job), quit_requested, variables (texts by name, which statements write as :name), sweeps (those that it has run).
    """

    def __init__(
        self,
        run_command: Callable[[Shell, str], None],
        session: Session | None = None,
        form: str = "table",
        watch: Callable[[Job], object] | None = None,
    ) -> None:
        self._run_command = run_command
        self._opened: Future[Session] = Future()
        if session is not None:
            self._opened.set_result(session)
        self._show: Callable[[Job], object] | None = watch
        self._file: TextIO | None = None
        self._once = False
        self._last_result: Result | None = None
        self._last_text = ""
        self._jobs: Jobs | None = None
        self._reading: list[Path] = []
        self._begun_text = ""  # the initial text of the next prompt
        self.form = form
        self.style = PrintStyle()
        self.timing = False
        self.quit_requested = False
        self.replaying: Replay | None = None
        self.suspended: dict[str, Path] = {}
        self.variables: dict[str, str] = {}
        self.sweeps: list[Study] = []

    # What commands use

    @property
    def session(self) -> Session:
        """The session, when it is open. Raises the error of opening it."""
        return self._opened.result()

    @property
    def jobs(self) -> Jobs:
        """The queries of this shell."""
        if self._jobs is None:
            from qoop.interfaces.repl.jobs import Jobs

            self._jobs = Jobs(self.say, self.terminal)
        return self._jobs

    def terminal(self) -> Terminal:
        """The screen in its current size."""
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

    def confirm(self, sentence: str) -> None:
        """Confirm a change at an interactive prompt: the output of a script contains only answers."""

    def complain(self, error: BaseException) -> None:
        """Print an error."""
        terminal = self.terminal()
        width, message = max(30, terminal.width), "\n".join([str(error), *getattr(error, "__notes__", ())])
        first = len(between_words(message.partition("\n")[0], width).split("\n"))
        for number, line in enumerate(between_words(message, width).split("\n")):
            marked = number < first or set(line.strip()) == {"^"}
            print(terminal.paint(line, "bold", "red") if marked else line)

    @property
    def last_text(self) -> str:
        """The text of the last query; empty if there was none."""
        return self._last_text

    def begin(self, text: str) -> None:
        """Put a text at the next prompt; the user continues in the line below it."""
        # a command must begin a line: directly after the text it would be a part of it
        self._begun_text = f"{text}\n" if text else ""

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
        """Read the tables again before the next completion, since they have changed."""

    def typed(self) -> list[str]:
        """The texts typed in this and earlier sessions, the last at the end."""
        return []

    def show_rows(self, columns: Mapping[str, Sequence[str | None]], right: Collection[str] = ()) -> None:
        """Print columns of texts as a table, all of its rows. right: those that stand at the right."""
        from qoop.query.drawing.table_text import plain_table

        self.say(plain_table(columns, right, self.terminal()))

    def suspended_folder(self, entry: Entry) -> Path:
        """The folder to which a job is suspended by default."""
        from qoop.catalog.paths import cache_directory

        return cache_directory() / "suspended" / f"{entry.name}-{time_ns() // 1_000_000}"

    def stop_replay(self) -> None:
        """End the profile that runs on the session, and restore all resources."""
        if self.replaying is not None:
            replaying, self.replaying = self.replaying, None
            replaying.stop()
            self.session.resize("auto", "auto")
            self.say("the profile has ended; queries have all resources again")

    def open_output(self, path: str, once: bool = False) -> None:
        """Print answers to a file from now on, or the next one alone. Raises DiskFull."""
        self.close_output()
        self._once = once
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

        os.environ.setdefault("LESS", "-SRX")
        pager(table_text(result, Terminal(width=1_000_000), style=replace(self.style, most_rows=len(result))))

    # Input

    def handle(self, text: str) -> None:
        """Run the commands and statements of an input; print errors."""
        try:
            begun = self._do(text)
            if begun:
                self.begin(begun)
        except Cancelled as error:
            self.complain(error)
        except EndedBySignal:
            raise
        except KeyboardInterrupt:
            self.complain(Cancelled("interrupted"))
            self._interrupted()
        except QoopError as error:
            self.complain(error)

    def run_script(self, text: str) -> None:
        """Run the commands and statements of a text. Raises the first error."""
        begun = self._do(text)
        if begun:
            self._run_statements(begun)

    def run_file(self, path: Path) -> None:
        """Run the commands and statements of a file. Raises ConfigError if it cannot be read; else as `run_script`."""
        if path.resolve() in self._reading:
            raise ConfigError(f"{path} reads itself")
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not UTF-8: see byte {error.start + 1}") from error
        self._reading.append(path.resolve())
        try:
            self.run_script(text)
        finally:
            self._reading.pop()

    def start_in_background(self, text: str) -> None:
        """Start a query and return at once. Raises as `Session.submit` does."""
        job = self.session.submit(text)
        self._last_text = job.text
        entry = self.jobs.put_behind(job)
        self.say(f"{entry.name} runs in the background; \\jobs, \\fg, \\cancel, \\suspend")

    def grow(self, text: str) -> None:
        """Answer a query with estimates that become more certain, as APPROXIMATE does."""
        self._run_statements(f"APPROXIMATE {text}")

    def bring_to_front(self, entry: Entry) -> None:
        """Show a job until it has ended, and print its answer."""
        begun = perf_counter()
        try:
            self._watch(entry.job)
        except BaseException as error:
            if not self._sent_back(error):
                raise
            return
        self._print(entry.job.result(), perf_counter() - begun, entry.job)

    # Inside

    def _do(self, text: str) -> str:
        """Run the pieces of a text; return the unfinished statement that a command at its end interrupts."""
        done, begun = pieces(text)
        for piece in done:
            if is_command(piece):
                self._run_command(self, piece)
            else:
                self._run_statements(piece)
        return begun

    def _interrupted(self) -> None:
        """Called when Ctrl-C has ended an input."""

    def _watch(self, job: Job) -> None:
        """Show a query until it has ended, or the user sends it to the background."""
        self.jobs.add(job)
        if self._show is not None:
            self._show(job)

    def _run_statements(self, text: str) -> None:
        from qoop.interfaces.repl.variables import with_variables

        text = with_variables(text, self.variables)
        stripped = text.strip()
        if stripped.endswith("&"):
            self.start_in_background(stripped[:-1])
            return
        session = self.session
        from qoop.query.statements.statement import statements

        for statement in statements(text):
            self._run(session, statement)

    def _run(self, session: Session, statement: Statement) -> None:
        from qoop.query.statements.statement import Approximate, Explain, Query, SetOption
        from qoop.session.options import SYNONYMS

        begun = perf_counter()
        started: list[Job] = []

        def watch(job: Job) -> None:
            started.append(job)
            self._last_text = job.text
            self._watch(job)

        shown: Result | None = None
        try:
            if isinstance(statement, Approximate):
                result, shown = self._grown(session, statement)
            else:
                result = session.execute(statement, watch=watch)
        except Exception as error:
            if self._sent_back(error):
                return
            raise
        if not isinstance(statement, Query | Approximate | Explain):
            self.forget_names()
        if isinstance(statement, SetOption) and (ours := SYNONYMS.get(statement.name.lower())):
            self.confirm(f"{statement.name} means {ours} here")
        if result.says_done:
            return
        self._print(result, perf_counter() - begun, started[-1] if started else None, shown)

    def _grown(self, session: Session, statement: Approximate) -> tuple[Result, Result]:
        """The last edition of a growing answer, which is shown while it grows, and the rows of its table. Ctrl-C stops
        at the current edition."""
        from qoop.interfaces.repl.growing_table import GrowingTable, with_half_widths

        self._last_text = statement.text
        answer = session.approximate(statement.text, statement.error, statement.confidence, if_busy=statement.if_busy)
        table = GrowingTable(self.say, self.terminal)
        try:
            for edition in answer.editions():
                table.show(edition)
                last = edition
        except KeyboardInterrupt:
            if answer.stop() is None:
                raise
        finally:
            self.jobs.add_rounds(answer.jobs)
        if self.terminal().colours:
            table.clear()
            self.tell(f"{last}")
        for note in last.notes:
            self.tell(f"note: {note}")
        return last.result, with_half_widths(last)

    def _sent_back(self, error: BaseException) -> bool:
        from qoop.interfaces.repl.jobs import SentBack

        if not isinstance(error, SentBack):
            return False
        entry = self.jobs.put_behind(error.job)
        self.say(f"{entry.name} goes on in the background; \\fg brings it back")
        return True

    def _print(self, result: Result, seconds: float, job: Job | None, shown: Result | None = None) -> None:
        """shown: the rows for a table; None: the whole result."""
        from qoop.query.drawing.formats import explanation, write

        self._last_result = result
        terminal, note = self.terminal(), self._note(seconds, job)
        if self._file is not None:
            write(result, self.form, self._file, style=self.style)
            self._file.flush()
            if self._once:
                self.close_output()
        elif (explained := explanation(result)) is not None:
            self.tell_lines(explained)
        elif self.form == "table":
            self.say(table_text(shown or result, terminal, note, self.style))
            return
        else:
            write(result, self.form, sys.stdout, terminal, self.style)
        if note:
            self.say(terminal.paint(note.removeprefix(" · "), "faint"))

    def _note(self, seconds: float, job: Job | None) -> str:
        from qoop.catalog.sizes import span

        switches = len(job.plans) - 1 if job is not None else 0
        changed = f" · the plan was changed {'once' if switches == 1 else f'{switches} times'}" if switches else ""
        return (f" · {span(seconds)}" if self.timing else "") + changed
