"""A program on a terminal of its own: what is typed into it, and what is to be seen on its screen."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte

KEYS = {
    "enter": "\r",
    "tab": "\t",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "ctrl-z": "\x1a",
    "ctrl-r": "\x12",
    "up": "\x1b[A",
}


_SIZE = ("COLUMNS", "LINES")  # what these say would hold for the program more than what its terminal does
PATIENCE = 60.0
"""Seconds after which what is not to be seen will not come any more."""
_MOST_READS = 100


class Screen:
    """`qoop` with these words, on a terminal of a size."""

    def __init__(self, *words: str, columns: int = 80, lines: int = 30, home: Path, **environment: str) -> None:
        told = {
            "QOOP_HISTORY": str(home / "history"),
            "QOOP_CACHE_DIR": str(home / "cache"),
            "TERM": "xterm-256color",
            "QOOP_WATCH_MACHINE": "off",
        }
        self._screen = pyte.HistoryScreen(columns, lines, history=10_000)
        self._screen.write_process_input = lambda answer: self._child.send(answer)  # where the cursor is, if asked
        self._stream = pyte.ByteStream(self._screen)
        self._child = pexpect.spawn(
            sys.executable,
            ["-m", "qoop", *words],
            dimensions=(lines, columns),
            env={name: value for name, value in os.environ.items() if name not in _SIZE} | told | environment,
            timeout=60,
        )
        self._child.delaybeforesend = None  # pexpect waits 50 ms before each text, for programs that ask for passwords

    @property
    def text(self) -> str:
        """The text on the screen now, without the spaces at the ends of lines."""
        self._read()
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def all_text(self) -> str:
        """The text that has gone off the top of the screen, and the text on it."""
        self._read()
        gone = ["".join(line[x].data for x in range(self._screen.columns)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*gone, *self._screen.display]).rstrip()

    def colour_of(self, text: str) -> str:
        """The colour of the first character of a text that is on the screen, where it was written last: what is typed
        before there is a prompt for it is first shown by the terminal, without colours."""
        self._read()
        for number, line in reversed(list(enumerate(self._screen.display))):
            if text in line:
                return str(self._screen.buffer[number][line.index(text)].fg)
        raise AssertionError(f"{text!r} is not to be seen in:\n{self.text}")

    def colours(self) -> set[str]:
        """All colours, of letters and behind them, that are on the screen."""
        self._read()
        cells = [cell for line in self._screen.buffer.values() for cell in line.values()]
        return {colour for cell in cells for colour in (cell.fg, cell.bg)}

    def cells(self) -> list[list[tuple[str, bool, str]]]:
        """The screen by lines: colour, whether bold, and character of every place."""
        self._read()
        lines = (self._screen.buffer[number] for number in range(self._screen.lines))
        return [[(line[x].fg, line[x].bold, line[x].data) for x in range(self._screen.columns)] for line in lines]

    def type(self, text: str) -> None:
        """Type a text; names of keys stand in braces: {enter}, {tab}, {ctrl-c}."""
        for name, key in KEYS.items():
            text = text.replace("{" + name + "}", key)
        self._child.send(text)

    def signal(self, number: int) -> None:
        """Send the program a signal, as the terminal does for Ctrl-C and Ctrl-Z where no program reads single keys."""
        os.kill(self._child.pid, number)

    def wait(self, *texts: str) -> str:
        """Wait until all of the texts have been seen; return the screen."""
        return self._until(lambda: all(map(self.all_text.__contains__, texts)), texts)

    def wait_now(self, *texts: str, times: int = 1) -> str:
        """Wait until all of the texts are on the screen that many times; return the screen."""
        return self._until(lambda: all(count == times for count in map(self.text.count, texts)), texts)

    def _until(self, seen: Callable[[], bool], what: object) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if seen():
                return self.text
            time.sleep(0.02)
        raise AssertionError(f"not to be seen, {what}:\n{self.all_text}")

    def end(self) -> int:
        """Wait for the end of the program; return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._child.isalive() and time.monotonic() < deadline:
            self._read()
            time.sleep(0.02)
        assert not self._child.isalive(), self.text
        self._read()
        self._child.close()
        return int(self._child.exitstatus if self._child.exitstatus is not None else -(self._child.signalstatus or 0))

    def close(self) -> None:
        """End the program, if it has not."""
        if self._child.isalive():
            self._child.kill(signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while self._child.isalive() and time.monotonic() < deadline:  # on a busy machine that takes its time
            time.sleep(0.02)
        self._child.close()

    def _read(self) -> None:
        """Take what the program has written, but not for ever from one that writes all the time."""
        for _ in range(_MOST_READS):
            if self._child.closed:
                return
            try:
                self._stream.feed(self._child.read_nonblocking(1 << 16, timeout=0))
            except (pexpect.TIMEOUT, pexpect.EOF):
                return
