"""A query in front: its progress on the screen, above a line for commands.

A user can type `\\resize slots=1` there while the query runs, and see the engine switch the plan.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.output import Output

from qoop.catalog.value import value
from qoop.interfaces.repl.jobs import SentBack
from qoop.interfaces.repl.typed import is_whole
from qoop.query.drawing.terminal import Terminal, shortened, width_of
from qoop.query.drawing.view import view
from qoop.query.job import Job
from qoop.query.streams import on_ctrl_z

_PATIENCE = 0.25
"""Seconds after its start at which a query is first shown."""

_REFRESH = 0.1
_MOST_LINES = 5
"""Visible lines of a statement that is typed while the query runs; the others scroll."""

_HINT = "\\resize slots=1 memory=1GB · \\bg · \\suspend · Ctrl-C cancels"


@value
class Typing:
    """The line below the query. do: runs a text, or queues it until the query has ended, and returns the text that
    stays in the line. ahead: the queued texts. stop: is called when the user cancels the query. draft: the initial text
    of the line. history: of inputs."""

    do: Callable[[str], str]
    ahead: Callable[[], Sequence[str]]
    stop: Callable[[], None]
    draft: str
    history: History


class LiveView:
    """One query in front.

    news: the decisions about the plan since the last call.
    available: the reason why queries have fewer resources than before; empty if they have not.
    """

    def __init__(
        self,
        job: Job,
        terminal: Callable[[], Terminal],
        typing: Typing,
        news: Callable[[], Sequence[str]],
        available: Callable[[], str],
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._job = job
        self._terminal = terminal
        self._typing = typing
        self._news = news
        self._available = available
        self._to_background = False
        self._cancelled = False
        self._line = Buffer(
            multiline=True,
            accept_handler=self._accept,
            history=typing.history,
            document=Document(typing.draft),
        )
        self._app: Application[str] = Application(
            layout=Layout(self._container()),
            key_bindings=self._keys(),
            refresh_interval=_REFRESH,
            erase_when_done=True,
            input=input,
            output=output,
        )

    def show(self) -> None:
        """Show the query until it has ended.

        Raises SentBack, or KeyboardInterrupt if Ctrl-C came too late to cancel the query."""
        with on_ctrl_z(self._send_behind):
            if self._job.wait(_PATIENCE):
                return
            if self._to_background or self._app.run(pre_run=self._begin) == "back":
                raise SentBack(self._job)
            if self._pressed_late() or (self._cancelled and self._job.state == "SUCCEEDED"):
                raise KeyboardInterrupt

    @property
    def draft(self) -> str:
        """The unfinished text in the line."""
        return self._line.text

    def _pressed_late(self) -> bool:
        """True if Ctrl-C is among the keys that were pressed after the view's last look at the keyboard.

        The terminal made a key of it, not a signal, so that it is lost unless it is found here. The other keys stay for
        the next prompt."""
        with self._app.input.raw_mode():
            keys = [*get_typeahead(self._app.input), *self._app.input.read_keys()]
        others = [press for press in keys if press.key not in (Keys.ControlC, Keys.SIGINT)]
        store_typeahead(self._app.input, others)
        return len(others) < len(keys)

    def _send_behind(self) -> None:
        """Send the query to the background at the next refresh."""
        self._to_background = True

    def _container(self) -> HSplit:
        lines = Window(FormattedTextControl(lambda: ANSI(self._text())), dont_extend_height=True, wrap_lines=False)
        hint = Window(FormattedTextControl(lambda: "" if self._line.text else _HINT), style="ansibrightblack", height=1)
        mark = Window(FormattedTextControl("> "), width=2, height=1, dont_extend_width=True)
        line = Window(BufferControl(self._line), height=self._line_height, width=self._line_width)
        ahead = Window(FormattedTextControl(self._ahead), style="ansibrightblack", height=1)
        waits = ConditionalContainer(ahead, Condition(lambda: bool(self._typing.ahead())))
        return HSplit([lines, waits, VSplit([mark, line, hint])])

    def _line_height(self) -> int:
        return min(_MOST_LINES, self._line.document.line_count)

    def _line_width(self) -> int:
        return max(map(width_of, self._line.document.lines)) + 1

    def _ahead(self) -> str:
        """The texts that run when the query has ended."""
        texts = [" ".join(text.split()) for text in self._typing.ahead()]
        return shortened(f"  then {' · '.join(texts)}", self._terminal().width)

    def _text(self) -> str:
        terminal = self._terminal()
        most = max(4, min(16, terminal.height - 4))
        lines = view(self._job.id, self._job.status(), terminal, most)
        why = self._available()
        return "\n".join([*lines, terminal.paint(shortened(f"  {why}", terminal.width), "magenta")] if why else lines)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("<sigint>")  # Ctrl-C while text is printed
        @keys.add("c-c")
        def cancel(event: KeyPressEvent) -> None:
            if self._line.text:
                self._line.reset()
            else:
                self._cancelled = True
                self._job.cancel()
                self._typing.stop()

        @keys.add("c-z")
        def back(event: KeyPressEvent) -> None:
            self._send_behind()

        @keys.add("enter")
        def enter(event: KeyPressEvent) -> None:
            if is_whole(self._line.text):
                self._line.validate_and_handle()
            else:
                self._line.insert_text("\n")

        @keys.add("escape", "enter")
        def run(event: KeyPressEvent) -> None:
            self._line.validate_and_handle()

        return keys

    def _begin(self) -> None:
        self._app.create_background_task(self._follow())

    async def _follow(self) -> None:
        while not (self._to_background or self._job.wait(0)):
            await self._tell()
            await sleep(_REFRESH / 2)
        if not self._to_background:
            await self._tell()
        self._app.exit(result="back" if self._to_background else "ended")

    async def _tell(self) -> None:
        lines = self._news()
        if lines:
            await run_in_terminal(lambda: print("\n".join(lines)))

    def _accept(self, buffer: Buffer) -> bool:
        line = buffer.text.strip()
        if line in ("\\bg", ".bg"):
            self._send_behind()
        elif line:
            run_in_terminal(lambda: self._do(line))
        return False

    def _do(self, text: str) -> None:
        self._line.insert_text(self._typing.do(text))
