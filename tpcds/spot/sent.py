"""The check of a file of results, also of one that others send: all that can be computed again has to agree.

The events of each run give its measures, so no measure is taken from the file. The losses of a run have to be those of
its window, which follow from trace, seed and pressure; and no window may be left out for one engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.tpcds.results import read
from qoop.tpcds.spot.chain import CHAIN, RESULTS
from qoop.tpcds.spot.course import Size
from qoop.tpcds.spot.entrants import REFERENCE
from qoop.tpcds.spot.markets import Market
from qoop.tpcds.spot.records import LIMIT, NONE, VERSION, Run, RunKey
from qoop.tpcds.spot.tasks import RESIZED
from qoop.tpcds.spot.timeline import Window

_CLOCK = 1e-3
"""Seconds by which a time in the file may differ from the computed one."""
_SETTINGS = {"specification", "machine", "data", "cpus", "memory", "seed", "limit"}


def problems(path: Path, markets: Mapping[str, Market]) -> list[str]:
    """The faults of a file; none: it agrees with itself and with the markets that are at hand.

    Raises ConfigError if it is no file of results.
    """
    kept = read(path)
    lacking = sorted(_SETTINGS - set(kept.settings))
    if lacking:
        raise ConfigError(f"{path} lacks {', '.join(lacking)} in its settings: it is no file of this benchmark")
    if (kept.settings["specification"], kept.settings["limit"]) != (VERSION, LIMIT):
        return [f"version {kept.settings['specification']} of the specification, not {VERSION}"]
    found: list[Run] = []
    wrong: list[str] = []
    for name, value in kept.values.items():
        if name.startswith("run "):
            try:
                found.append(Run.of(value))
            except (TypeError, KeyError, ValueError) as error:
                wrong.append(f"{name} is no record of a run: {error!r}")
    return [*wrong, *_about_markets(kept.values, markets), *_about_runs(found, kept.settings, markets)]


def _about_markets(values: Mapping[str, Any], markets: Mapping[str, Market]) -> Iterator[str]:
    for name, market in markets.items():
        known = values.get(f"market {name}")
        if known is not None and known["digest"] != market.digest:
            yield f"another trace of {name}: {known['digest']}, not {market.digest}"


def _about_runs(found: Sequence[Run], settings: Mapping[str, Any], markets: Mapping[str, Market]) -> Iterator[str]:
    calm, seed = _undisturbed(found), settings["seed"]
    for run in found:
        yield from (f"{run.key}: {problem}" for problem in _about_events(run))
        known = calm.get((run.key.work_class, run.key.task))
        if run.key.market == NONE:
            continue
        if known is None or abs(known - run.reference) > _CLOCK:
            yield f"{run.key}: {run.reference:g} s is not the undisturbed time of the reference, {known}"
        elif run.key.market in markets and run.key.work_class == RESIZED:
            yield from _about_sizes(run, settings, markets[run.key.market])
        elif run.key.market in markets:
            yield from _about_losses(run, seed, markets[run.key.market])
    yield from _left_out(found)


def _undisturbed(found: Sequence[Run]) -> Mapping[tuple[str, str], float]:
    """The median of undisturbed seconds of the reference, by class and task."""
    calm: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in found:
        if run.key.engine == REFERENCE and run.key.market == NONE:
            calm[run.key.work_class, run.key.task].append(run.span)
    return {task: median(seconds) for task, seconds in calm.items()}


def _about_events(run: Run) -> Iterator[str]:
    if not run.events or run.events[0].what not in ("started", "stopped"):
        yield "its events do not begin with a start"
        return
    if any(later.at < event.at for event, later in pairwise(run.events)):
        yield "its events are not in order of time"
    inner = set(CHAIN) - set(RESULTS)
    done = sorted(event.work for event in run.events if event.what == "done" and event.work not in inner)
    if done != sorted(run.answers):
        yield f"answers to {', '.join(sorted(run.answers)) or 'nothing'}, but replies to {', '.join(done) or 'nothing'}"


def _about_losses(run: Run, seed: int, market: Market) -> Iterator[str]:
    """The losses have to be those of the window, up to the end of the run."""
    window = Window(run.key.market, run.key.pressure, run.key.window, seed)
    limit = LIMIT * run.reference
    due = [up.end for up in window.timeline(market.trace, run.reference, limit) if up.end <= limit]
    found = [float(event.detail) for event in run.events if event.what == "lost"]
    last = run.events[-1].at
    if any(abs(one - other) > _CLOCK for one, other in zip(found, due, strict=False)) or len(found) > len(due):
        yield f"{run.key}: its losses are not those of its window"
    elif len(due) > len(found) and due[len(found)] < last - 1.0 and run.events[-1].what != "broken":
        yield f"{run.key}: the loss at {due[len(found)]:.2f} s is missing"


def _about_sizes(run: Run, settings: Mapping[str, Any], market: Market) -> Iterator[str]:
    """The sizes have to be those of the window, and no machine is lost."""
    window = Window(run.key.market, run.key.pressure, run.key.window, settings["seed"])
    whole = Size(0.0, settings["cpus"], settings["memory"])
    due = [(size.cpus, size.memory) for size in window.sizes(market.trace, run.reference, LIMIT * run.reference, whole)]
    found = [tuple(map(int, event.detail.split())) for event in run.events if event.what == "resized"]
    if any(event.what == "lost" for event in run.events) or not _is_within(found, due[1:]):
        yield f"{run.key}: its sizes are not those of its window"


def _is_within(found: Sequence[object], due: Sequence[object]) -> bool:
    """True if what was found is due, in that order; the machine may have skipped some while it started."""
    left = iter(due)
    return all(one in left for one in found)


def _left_out(found: Sequence[Run]) -> Iterator[str]:
    """Windows that one engine has and another has not, in tasks that both have run."""
    places: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for run in found:
        key = run.key
        if key.market != NONE:
            place = str(RunKey("", key.work_class, key.task, key.market, key.pressure, key.window, key.notice))
            places[key.engine, key.work_class, key.task].add(place)
    whole: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (_, work_class, task), own in places.items():
        whole[work_class, task] |= own
    for (engine, work_class, task), own in places.items():
        absent = len(whole[work_class, task] - own)
        if absent:
            yield f"{engine} lacks {absent} runs of {task} that others have"
