"""The shell at a terminal: a prompt, a line below the running query, and texts that are typed ahead.

The prompt appears before the engine is loaded: a thread loads it and opens the data while the user types.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from qoop.catalog.errors import QoopError
from qoop.catalog.stores.private import make_folder, open_private
from qoop.interfaces.repl.completer import NameCompleter
from qoop.interfaces.repl.highlighting import STYLE, SqlLexer
from qoop.interfaces.repl.names import Names, of_duckdb
from qoop.interfaces.repl.shell import Shell
from qoop.interfaces.repl.typed import is_whole, pieces
from qoop.query.streams import EndedBySignal

if TYPE_CHECKING:
    from qoop.interfaces.repl.jobs import Entry
    from qoop.query.job import Job
    from qoop.session.session import Session

_WELCOME = "qoop {version}: \\help lists commands, a statement ends with ;"
_PROMPT, _MORE = "qoop> ", "...> "
_STATUS_REFRESH = 0.5


class InteractiveShell(Shell):
    """open: opens the session; called in a thread, once."""

    def __init__(
        self,
        open: Callable[[], Session],
        form: str = "table",
    ) -> None:
        super().__init__(_run_command, form=form)
        self.timing = True
        self._open = open
        self._names: Names | None = None
        self._begun_opening = False
        self._history: History = _history()
        self._ahead: deque[str] = deque()  # typed while a query ran, and not run yet
        self._reported_reason = ""  # for fewer resources than the session was opened with

    # What commands use

    def forget_names(self) -> None:
        """Read the tables again before the next completion, since they have changed."""
        self._names = None

    def typed(self) -> list[str]:
        """The texts typed in this and earlier sessions, the last at the end."""
        return list(self._history.get_strings())

    def confirm(self, sentence: str) -> None:
        """Confirm a change."""
        self.tell(sentence)

    # The loop

    def run(self) -> int:
        """Read and run until the user leaves; return the exit code."""
        self.say(self.terminal().paint(_WELCOME.format(version=_version()), "faint"))
        prompt = self._prompt()
        self._start_opening(prompt)
        try:
            while True:
                try:
                    if not self._goes_on(self._next_ahead() or self._next_text(prompt)):
                        return 0
                except EndedBySignal:
                    raise
                except KeyboardInterrupt:  # also between two prompts, where Ctrl-C is a signal
                    continue
        finally:
            self._close()

    def _next_text(self, prompt: PromptSession[str]) -> str:
        try:
            with patch_stdout(raw=True):
                begun, self._begun_text = self._begun_text, ""
                return prompt.prompt(default=begun)
        except EOFError:
            return "\\q"

    def _next_ahead(self) -> str:
        """The first queued text, printed as if it were typed now; empty if none is queued."""
        if not self._ahead:
            return ""
        text = self._ahead.popleft()
        self.say(_PROMPT + text.replace("\n", f"\n{_MORE}"))
        return text

    def _goes_on(self, text: str) -> bool:
        from qoop.interfaces.repl.command import Quit

        if not text.strip():
            return True
        try:
            requested = self.quit_requested
            self.handle(text)
            if requested:
                self.quit_requested = False
        except Quit:
            return False
        return True

    # While a query runs

    def _watch(self, job: Job) -> None:
        from qoop.interfaces.repl.live import LiveView, Typing

        entry = self.jobs.add(job)
        typing = Typing(
            self._type_ahead, lambda: tuple(self._ahead), self._interrupted, self._begun_text, self._history
        )
        view = LiveView(
            job,
            self.terminal,
            typing,
            lambda: self._news(entry),
            lambda: self.session.held_back,
        )
        try:
            with patch_stdout(raw=True):
                view.show()
        finally:
            self._begun_text = view.draft
        for line in self._news(entry):
            self.say(line)

    def _news(self, entry: Entry) -> list[str]:
        """The decisions about a job's plan, and the reasons for changed resources, since the last call."""
        before, self._reported_reason = self._reported_reason, self.session.held_back
        return [*self._resource_news(before, self._reported_reason), *self.jobs.news(entry)]

    def _resource_news(self, before: str, now: str) -> list[str]:
        from textwrap import wrap

        if before == now:
            return []
        terminal = self.terminal()
        lines = wrap(f"↕ {now or 'queries have all their available again'}", max(30, terminal.width - 1))
        return [terminal.paint(line, "magenta") for line in lines]

    def _type_ahead(self, text: str) -> str:
        """Run a text that was typed below the running query, or queue it; return the next initial text of the line."""
        from qoop.interfaces.repl.commands import may_run

        done, begun = pieces(text)
        for piece in done:
            if may_run(piece, bool(self._ahead)):
                self.handle(piece)
            else:
                self._ahead.append(piece)
        return f"{begun}\n" if begun else ""

    def _interrupted(self) -> None:
        if self._ahead:
            self._ahead.clear()
            self.tell("what was typed ahead is not run; the key ↑ brings it back")

    # Inside

    def _run_statements(self, text: str) -> None:
        if not self._opened.done():
            self.say(self.terminal().paint("opening the data …", "faint"))
        super()._run_statements(text)

    def _prompt(self) -> PromptSession[str]:
        return PromptSession(
            _PROMPT,
            multiline=True,
            prompt_continuation=lambda width, number, wrapped: _MORE[-width:],
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
        )

    def _known_names(self) -> Names:
        """The names for completion: without the tables until the session is open."""
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
        from qoop.interfaces.repl.commands import NAMES  # loads the engine

        return NAMES

    def _toolbar(self) -> str:
        if not self._opened.done():
            return " opening …"
        if self._opened.exception() is not None:
            return ""
        from qoop.engine.task import available_of

        available, status = self.session.configured, self._jobs.status() if self._jobs is not None else ""
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
            prompt.app.invalidate()  # redraw the last line of the screen, which said that it opens
        except BaseException as error:
            self._opened.set_exception(error)
            loop = prompt.app.loop
            if loop is not None:
                loop.call_soon_threadsafe(partial(_leave, prompt, error))

    def _close(self) -> None:
        self.close_output()
        if not self._begun_opening:
            return
        with suppress(BaseException):  # the prompt has raised it already
            self._opened.result()
        if self._opened.exception() is None:
            self.session.close()


def _run_command(shell: Shell, line: str) -> None:
    from qoop.interfaces.repl.commands import run_command  # with the engine, after the prompt

    run_command(shell, line)


def _leave(prompt: PromptSession[str], error: BaseException) -> None:
    """End the prompt with an error. If it has ended already, the next use of the session raises the error."""
    if prompt.app.is_running:
        prompt.app.exit(exception=error)


def _described(session: Session, text: str) -> tuple[tuple[str, str], ...]:
    """The columns of a query; none if it is wrong, as an unfinished query often is."""
    try:
        return session.describe(text)
    except QoopError:
        return ()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def enter(event: KeyPressEvent) -> None:
        """Run a complete text; else begin a new line."""
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=completion_is_selected)
    def take(event: KeyPressEvent) -> None:
        """Accept the selected completion."""
        event.current_buffer.complete_state = None

    @keys.add("escape", "enter")
    def run(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def _history() -> History:
    """The history of inputs: in a file of the user, or in memory where the file cannot be written."""
    path = os.environ.get("QOOP_HISTORY")
    file = Path(path).expanduser() if path else _state_folder() / "qoop" / "history"
    try:
        make_folder(file.parent)
        open_private(file, "a").close()
    except OSError:  # a home that cannot be written: this session only
        return InMemoryHistory()
    return FileHistory(file)


def _state_folder() -> Path:
    folder = os.environ.get("XDG_STATE_HOME")
    return Path(folder) if folder else Path.home() / ".local" / "state"


def _version() -> str:
    from qoop import __version__

    return str(__version__)
