"""The log of a server as lines of JSON, for what collects logs; and files that lines are added to."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from qoop.catalog.errors import ConfigError

LOGGERS = ("qoop", "uvicorn.error")


class LineLog:
    """The stream that lines go to. Thread-safe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

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
        """Write one line at once. Raises OSError."""
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file; a standard stream stays open."""
        if self._stream not in (sys.stdout, sys.stderr):
            self._stream.close()


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
    """Write messages from INFO on to the end of a file, "-" to stdout; None: leave the log as it is. Raises
    ConfigError."""
    if path is None:
        yield
        return
    try:
        to_stdout = str(path) == "-"
        handler: logging.Handler = (
            logging.StreamHandler(sys.stdout) if to_stdout else logging.FileHandler(path, encoding="utf-8")
        )
    except OSError as error:
        raise ConfigError(f"cannot write the log {path}: {error.strerror}") from error
    handler.setFormatter(JsonLines())
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.addHandler(handler)
        one.setLevel(logging.INFO)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.removeHandler(handler)
            one.setLevel(level)
        handler.close()
