"""The log of a server as lines of JSON, for what collects logs."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from qoop.catalog.errors import ConfigError

LOGGERS = ("qoop", "uvicorn.error")


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
