"""Results of a long benchmark, kept as they come, so that a broken-off run goes on where it was.

A JSON file: the settings, and a value by name. A file of other settings is refused, not mixed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qoop.catalog.errors import ConfigError

FORMAT, VERSION = "qoop-results", 1


class Results:
    """Values by name. path: the file, None: they are not kept. Raises ConfigError if the file is not for this run."""

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._settings = json.loads(json.dumps(settings))
        self._values: dict[str, Any] = {}
        if path is not None and path.exists():
            self._values = self._read(path)

    def get(self, name: str) -> Any:
        """The value of that name, None if there is none."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Keep a value; once this returns it is in the file. Raises ConfigError if it cannot be written."""
        if self._values.get(name) == value:
            return
        self._values[name] = value
        if self.path is not None:
            self._write(self.path)

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            found = json.loads(path.read_text())
            if (found["format"], found["version"]) != (FORMAT, VERSION):
                raise ValueError("another format")
            settings, values = found["settings"], dict(found["values"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} does not hold results of a benchmark ({error}); name another file") from error
        if settings != self._settings:
            raise ConfigError(f"{path} holds results of other settings: {settings}, not {self._settings}")
        return values

    def _write(self, path: Path) -> None:
        partial = path.with_name(f".{path.name}.partial")
        content = {"format": FORMAT, "version": VERSION, "settings": self._settings, "values": self._values}
        try:
            partial.write_text(json.dumps(content, indent=1) + "\n")
            partial.replace(path)
        except OSError as error:
            raise ConfigError(f"cannot write the results to {path}: {error.strerror}") from error
