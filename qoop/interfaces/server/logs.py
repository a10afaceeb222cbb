"""The log of a server as lines of JSON, for what collects logs; and files that lines are added to.

A pipe, or a terminal, may have a reader that has stopped: then a write to it waits for ever. So a thread writes there,
and no query waits for it.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from qoop.catalog.errors import ConfigError

LOGGERS = ("qoop", "uvicorn.error")


_MOST = 4 << 20
"""Characters of lines that wait for a reader."""
_LAST = 1.0
"""Seconds for which the end of a log waits for its reader."""


_PAUSE = 0.05  # seconds until a reader that had taken nothing may have


class LineLog:
    """The stream that lines go to. Thread-safe.

    A file has each line once `write` returns. Elsewhere the lines of a reader that is late wait, up to 4 MB of them;
    then lines are lost, and another says how many. later: a file has them a moment later, too.
    """

    def __init__(self, stream: TextIO, later: bool = False) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._writer = _writer(stream, later)

    @classmethod
    def at(cls, path: Path, what: str) -> LineLog:
        """A log at the end of a file that only its owner reads; "-": on stdout. what: its name in errors.

        Raises ConfigError.
        """
        if str(path) == "-":
            return cls(sys.stdout)
        try:
            return cls(os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w", encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot write {what} {path}: {error.strerror}") from error

    def write(self, line: str) -> None:
        """Write one line, or let it wait for the reader. Raises OSError, such as for a pipe whose reader is gone."""
        if self._writer is not None:
            self._writer.put(line + "\n")
            return
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file; a standard stream stays open, and has at most a second to take what waits."""
        if self._writer is not None:
            self._writer.close()
        if self._stream not in (sys.stdout, sys.stderr):
            self._stream.close()


class _Writer:
    """A thread that writes lines to a file of the system, without the locks that a stream of Python has: at the end of
    the process it may still wait there."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._lines: deque[str] = deque()
        self._size = self._taken = self._lost = 0  # characters that wait, of these those that are written now; lines
        self._changed = threading.Condition()
        self._closed = False
        self._error: OSError | None = None
        self._thread: threading.Thread | None = None

    def put(self, line: str) -> None:
        """Let a line wait its turn, or be lost. Raises the OSError of a line before it."""
        with self._changed:
            if self._error is not None:
                raise OSError(self._error.errno, self._error.strerror)
            if self._size and self._size + len(line) > _MOST:
                self._lost += 1
                return
            self._lines.append(line)
            self._size += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="qoop-log", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, for at most a second."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_LAST)

    def _write(self) -> None:
        try:
            while text := self._next():
                data = memoryview(text.encode(errors="surrogatepass"))
                while data:
                    try:
                        data = data[os.write(self._file, data) :]
                    except BlockingIOError:  # it does not wait by itself
                        time.sleep(_PAUSE)
        except OSError as error:
            with self._changed:
                self._error = error
                self._lines.clear()

    def _next(self) -> str:
        """The lines that wait, once there are some; none after the end."""
        with self._changed:
            self._size -= self._taken
            self._changed.wait_for(lambda: self._lines or self._closed)
            if self._lost:
                self._lines.append(json.dumps({"at": datetime.now(UTC).isoformat(), "lost": self._lost}) + "\n")
            text = "".join(self._lines)
            self._lines.clear()
            self._taken, self._lost = self._size, 0
            return text


def _writer(stream: TextIO, later: bool) -> _Writer | None:
    """The thread that writes to a stream; None: callers do, as to a file, or to what is no stream of the system."""
    try:
        file = stream.fileno()
        return _Writer(file) if later or not stat.S_ISREG(os.fstat(file).st_mode) else None
    except (OSError, ValueError):
        return None


class _Lines(logging.Handler):
    """Adds messages to a log."""

    def __init__(self, lines: LineLog) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # there is no other place to say so
            self._lines.write(self.format(record))


class JsonLines(logging.Formatter):
    """A message as an object: at, level, logger, message, and the traceback as error where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {"at": datetime.fromtimestamp(record.created, UTC).isoformat(), "level": record.levelname.lower()}
        facts |= {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps(facts)


@contextmanager
def logged(path: Path | None) -> Iterator[None]:
    """Write messages from INFO on to the end of a file, "-" to stdout; None: warnings as lines of text on stderr.
    Raises ConfigError."""
    try:
        stream = sys.stderr if path is None else sys.stdout if str(path) == "-" else path.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the log {path}: {error.strerror}") from error
    with closing(LineLog(stream, later=path is not None)) as lines:
        handler = _Lines(lines)
        handler.setFormatter(logging.Formatter() if path is None else JsonLines())
        with _handled(handler, logging.WARNING if path is None else logging.INFO):
            yield


@contextmanager
def _handled(handler: logging.Handler, level: int) -> Iterator[None]:
    """A handler has the messages from a level on meanwhile."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.addHandler(handler)
        one.setLevel(level)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.removeHandler(handler)
            one.setLevel(level)
        handler.close()
