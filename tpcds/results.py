"""Results of a long benchmark, kept as they come, so that a broken-off run goes on where it was.

A file of JSON lines: the settings, then a name and a value each; of one name the last line counts. A line that was
being written when the run was broken off is left out. A file of other settings is refused, not mixed.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.catalog.stores.whole_file import write_whole

FORMAT, VERSION = "qoop-results", 2


class Results:
    """Values by name. path: the file, None: they are not kept. otherwise: what can be done about a file of other
    settings, as words. Raises ConfigError if the file is not for this run."""

    def __init__(
        self, path: Path | None, settings: Mapping[str, Any], otherwise: str = "name another file, or remove this one"
    ) -> None:
        self.path = path
        self._settings = json.loads(json.dumps(settings))
        self._values: dict[str, Any] = {}
        self._appending = False
        if path is not None and path.exists():
            kept = read(path)
            if kept.settings != self._settings:
                there, here = _differing(kept.settings, self._settings)
                raise ConfigError(f"{path} holds results of other settings: {there}, not {here}; {otherwise}")
            self._values, self._appending = dict(kept.values), kept.whole

    @property
    def values(self) -> Mapping[str, Any]:
        """All that there is."""
        return self._values

    def get(self, name: str) -> Any:
        """The value of that name, None if there is none."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Keep a value; once this returns it is in the file. Raises ConfigError if it cannot be written."""
        if self._values.get(name) == value:
            return
        self._values[name] = value
        if self.path is None:
            return
        if self._appending:
            _append(self.path, {"name": name, "value": value})
            return
        header = {"format": FORMAT, "version": VERSION, "settings": self._settings}
        _write(self.path, [header, *({"name": name, "value": value} for name, value in self._values.items())])
        self._appending = True


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of two settings what is not the same in both.

    >>> _differing({"seed": 1, "slots": 2}, {"seed": 1, "slots": 4})
    ({'slots': 2}, {'slots': 4})
    """
    mine = {name: value for name, value in one.items() if name not in other or other[name] != value}
    theirs = {name: value for name, value in other.items() if name not in one or one[name] != value}
    return mine, theirs


@dataclass(frozen=True, slots=True)
class Kept:
    """The contents of a file. whole: False: nothing can be appended, since its last line was not written to its end or
    it is of the first version, which was one JSON value."""

    settings: Mapping[str, Any]
    values: Mapping[str, Any]
    whole: bool


def read(path: Path) -> Kept:
    """The contents of a file, which may be compressed (``.gz``). Raises ConfigError if they are no results."""
    try:
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
        lines = text.split("\n")
        first = json.loads(text if lines[0] == "{" else lines[0])
        if first["format"] != FORMAT or first["version"] not in (1, VERSION):
            raise ValueError("another format")
        if first["version"] == 1:
            return Kept(first["settings"], first["values"], whole=False)
        values = {item["name"]: item["value"] for item in map(json.loads, lines[1:-1])}
        return Kept(first["settings"], values, whole=not lines[-1])
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} does not hold results of a benchmark ({error}); name another file") from error


def _write(path: Path, content: list[dict[str, Any]]) -> None:
    try:
        write_whole(path, "".join(json.dumps(item) + "\n" for item in content))
    except OSError as error:
        raise ConfigError(f"cannot write the results to {path}: {error.strerror}") from error


def _append(path: Path, item: dict[str, Any]) -> None:
    try:
        with path.open("a") as stream:
            stream.write(json.dumps(item) + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write the results to {path}: {error.strerror}") from error
