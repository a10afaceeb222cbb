"""The record of a named sweep in a folder: the messages to its program, and the last answer of each trial.

A message is a line, sealed by the user's key, and is written after the answer that it reports. So after a kill the
messages that are whole give the state, and every trial goes on from its last step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qoop.adaptive.program import Begin
from qoop.catalog.errors import CheckpointError, ConfigError, DiskFull
from qoop.catalog.signed_json import NotAsWritten, NotSealed, opened, sealed
from qoop.catalog.written.described import described
from qoop.programs.parts import Part, Parts
from qoop.programs.sweeps.messages import (
    Abandoned,
    Compared,
    Message,
    Predicted,
    Share,
    TrialFailed,
    TrialStepEnded,
    WholeEnded,
)
from qoop.query.plan_keys import Settings
from qoop.query.result import Result

_FORMAT = "qoop-sweep-1"
_MESSAGES = Begin, Share, TrialStepEnded, TrialFailed, Predicted, Compared, WholeEnded, Abandoned
_KINDS = {kind.__name__: kind for kind in _MESSAGES}
_CONSTANTS = {"inf": float("inf"), "nan": float("nan")}


class Journal:
    """The folder of a sweep. Only the process that has its lock may use it."""

    def __init__(self, folder: Path, key: bytes, settings: Settings) -> None:
        """settings: those that the values of answers are converted with."""
        self._folder, self._key, self._settings = folder, key, settings
        self._answers = Parts(folder / "answers")
        self._file: int | None = None
        self._written = 0

    def open(self, settings: Mapping[str, Any]) -> list[Message]:
        """The messages of earlier processes. settings: what the sweep is, as JSON.

        Raises ConfigError if the folder has another sweep, CheckpointError if it cannot be read, DiskFull."""
        path = self._folder / "messages"
        try:
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
        known = list(self._whole(lines))
        if known and known[0] != dict(settings):
            other = ", ".join(sorted(key for key in {*known[0], *settings} if known[0].get(key) != settings.get(key)))
            raise ConfigError(
                f"there is another sweep of this name, with other {other}: take another name, or remove {self._folder}"
            )
        self._file = self._opened(path, sum(map(len, lines[: len(known)])))
        self._written = len(known)
        if not known:
            self._append(dict(settings))
        return [described(body["message"], _KINDS.__getitem__, _CONSTANTS) for body in known[1:]]

    def write(self, message: Message) -> None:
        """Add a message. Raises DiskFull."""
        if type(message).__name__ in _KINDS:
            self._append({"message": repr(message)})

    def keep_answer(self, trial: int, number: int, result: Result) -> None:
        """Write the answer of a step, whole or not at all. Raises DiskFull."""
        columns = tuple(zip(result.columns, result.types, strict=True))
        self._answers.put(f"{trial}-{number}", Part(result.lossless(), columns))

    def drop_answers(self, trial: int, scores: Sequence[float], estimated: int) -> None:
        """Remove answers of earlier steps, now that the one of the next step is written. scores: of the steps with
        messages. estimated: those of the first steps that are no results."""
        for number in _needed(scores[:-1], estimated) - _needed(scores, estimated):
            self._answers.drop(f"{trial}-{number}")

    def answer(self, trial: int, number: int) -> Result:
        """The answer of a step. Raises CheckpointError if it is gone or damaged."""
        found = self._answers.get(f"{trial}-{number}")
        if found is None:
            raise CheckpointError(f"{self._folder} has no whole answer of step {number} of trial {trial}")
        return Result(found.rows, found.columns, self._settings)

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _whole(self, lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
        """The bodies of the lines until the first that is not as this journal wrote it."""
        for number, line in enumerate(lines):
            try:
                body = opened(line.rstrip(b"\n"), self._key)
            except (NotAsWritten, NotSealed):
                return
            if not line.endswith(b"\n") or body.pop("format", "") != _FORMAT or body.pop("line", -1) != number:
                return
            yield body

    def _opened(self, path: Path, size: int) -> int:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.ftruncate(file, size)
            os.lseek(file, 0, os.SEEK_END)
            return file
        except OSError as error:
            raise DiskFull(f"{path} cannot be written: {error.strerror or error}") from error

    def _append(self, body: Mapping[str, Any]) -> None:
        assert self._file is not None
        line = (sealed({"format": _FORMAT, "line": self._written, **body}, self._key) + "\n").encode()
        try:
            whole = os.write(self._file, line) == len(line)
        except OSError as error:
            raise DiskFull(f"the sweep cannot be written to {self._folder}: {error.strerror or error}") from error
        if not whole:
            raise DiskFull(f"the sweep cannot be written to {self._folder}: there is no space left")
        self._written += 1


def _needed(scores: Sequence[float], estimated: int) -> set[int]:
    """The steps whose answers a process that goes on reads: the last one, and the first of the best results."""
    results = scores[estimated:]
    return ({len(scores) - 1} if scores else set()) | ({estimated + results.index(max(results))} if results else set())
