"""Runs a part of the suite: items -> processes -> a file of results that a broken-off run takes up again.

An item is measured alone, from its argument and nothing else, so it does not matter in which process, or in which
order. What failed is kept as failed, counted, and tried again by the next run.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from qoop.catalog.errors import ConfigError, QoopError
from qoop.catalog.priority import usable_cpus
from qoop.tpcds.processes import pool
from qoop.tpcds.results import Results

_AHEAD = 2
"""Items a process that wait for it, so that it never waits for them."""


@dataclass(frozen=True)
class Part:
    """One part of the suite.

    name: also of its file. settings: other inputs of the figures; results of other settings are refused.
    items: arguments by name, in order: a run that ends early has the first of them.
    measure: a function of a module, from an argument to a JSON value; runs in any process.
    """

    name: str
    settings: Mapping[str, Any]
    items: Mapping[str, Any]
    measure: Callable[[Any], Any]


@dataclass(frozen=True)
class Measured:
    """The results of a part: values by name, for those of its items that have been measured.

    cpu_seconds: that all of them took, whenever that was. failed: what went wrong, by name.
    """

    values: Mapping[str, Any]
    cpu_seconds: float
    failed: Mapping[str, str] = field(default_factory=dict)


OnProgress = Callable[[int, int, str], None]
"""Is called with how many items are done, of how many, and the name of the last."""


def run(
    part: Part, folder: Path | None, processes: int = 1, progress: OnProgress = lambda done, of, name: None
) -> Measured:
    """Measure what has not been measured yet; all results are kept in the folder as they come.

    Raises ConfigError if the folder holds results of other settings.
    """
    results = Results(_file(part.name, folder), part.settings, _OTHERWISE)
    done = [name for name in part.items if _is_good(results.get(name))]
    progress(len(done), len(part.items), "")
    count = len(done)
    left = {name: argument for name, argument in part.items.items() if name not in set(done)}
    for name, value in _measured(part.measure, left, processes):
        results.put(name, value)
        count += 1
        progress(count, len(part.items), name)
    return _of(results.values, part.items)


_OTHERWISE = "--fresh begins again in their place, --results FOLDER elsewhere"


def file_of(name: str, folder: Path) -> Path:
    """The file that keeps a part's results."""
    return folder / f"{name}.jsonl"


def forget(name: str, folder: Path) -> None:
    """Drop what is kept of a part."""
    file_of(name, folder).unlink(missing_ok=True)


def known(results: Mapping[str, Any]) -> Measured:
    """The contents of a file of results (:func:`~qoop.tpcds.results.read`)."""
    return _of(results, results)


def processes_for(requested: int | None) -> int:
    """The number of processes: the requested one, else that of the CPUs. Raises ConfigError below 1."""
    if requested is None:
        return len(usable_cpus())
    if requested < 1:
        raise ConfigError(f"--processes must be at least 1, not {requested}")
    return requested


def _of(values: Mapping[str, Any], names: Mapping[str, Any]) -> Measured:
    here = {name: values[name] for name in names if name in values}
    return Measured(
        {name: value["value"] for name, value in here.items() if _is_good(value)},
        sum(value["cpu_seconds"] for value in here.values()),
        {name: value["error"] for name, value in here.items() if not _is_good(value)},
    )


def _is_good(value: Any) -> bool:
    return value is not None and "error" not in value


def _file(name: str, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot keep results in {folder}: {error.strerror}") from error
    return file_of(name, folder)


def _measured(
    measure: Callable[[Any], Any], items: Mapping[str, Any], processes: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and values as they come."""
    if processes == 1 or len(items) < 2:
        for name, argument in items.items():
            yield name, _timed(measure, argument)
        return
    with pool(processes) as workers:
        waiting: dict[Future[dict[str, Any]], str] = {}
        coming = iter(items.items())
        try:
            while True:
                for name, argument in islice(coming, processes * (1 + _AHEAD) - len(waiting)):
                    waiting[workers.submit(_in_worker, measure, argument)] = name
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        except BaseException:
            workers.shutdown(cancel_futures=True)  # what is under way takes some seconds
            raise


def _in_worker(measure: Callable[[Any], Any], argument: Any) -> dict[str, Any]:
    """Measure an item. Garbage collection skips what is kept from one item to the next, such as plans, which saves a
    tenth of the time."""
    gc.freeze()
    return _timed(measure, argument)


def _timed(measure: Callable[[Any], Any], argument: Any) -> dict[str, Any]:
    since = time.process_time()
    try:
        value = {"value": measure(argument)}
    except QoopError as error:
        value = {"error": f"{type(error).__name__}: {error}"}
    return {**value, "cpu_seconds": round(time.process_time() - since, 3)}
