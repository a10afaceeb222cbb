"""Configuration: arguments win over QOOP_* environment variables, these over ``qoop.toml``, and this over defaults.

``qoop.toml`` has lines such as ``slots = 2``. There may be two, of which the second wins: one in the user's own folder
(``~/.config/qoop``, or qoop's folder in ``XDG_CONFIG_HOME``), one in the working directory. ``QOOP_CONFIG`` names the
only one to be read instead. The one in the working directory may have come with the data of another user: it may not
set places that are written to, or the cluster. :data:`qoop.query.options.OPTIONS` lists all options.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from qoop.adaptive.schedulers.terms import USUAL_PRIORITY
from qoop.catalog.errors import ConfigError
from qoop.catalog.paths import config_directory
from qoop.catalog.sizes import slots_of
from qoop.catalog.value import value
from qoop.query.options import IN_FILES, OPTIONS, SCHEDULERS, SessionOption

Persist = Literal["learned", "all", "worthwhile"]
Full = Literal["warn", "error"]
Isolation = Literal["auto", "thread", "process"]
Statistics = Literal["pilot", "footers", "full"]
PolicyName = Literal["greedy", "cheapest"]

REUSE_IN_MEMORY = True
"""The default of `reuse` on this machine without a folder of checkpoints."""

_PLANS = "plans"
"""The place of plans within the folder of checkpoints."""


@value
class Config:
    """The options of a session. memory is in bytes; checkpoints, spill and plan_cache are folders or None.

    checkpoints may also be the URL of a store that machines share (text).
    wait_for_capacity: seconds that a job waits while there is no slot at all, before it fails; inf: for ever.
    checkpoint_budget: bytes that the folder of checkpoints may take; None: the usual, see `connect`.
    checkpoint_full: what happens where that folder has no space for an output.
    isolation: where tasks run.
    reuse: queries take over what earlier ones, even of another process, have put out, and leave theirs for others.
    guard_always: see QOOP_GUARD.
    trace: the file, or folder, that what happens is written to; None: it is not.
    tables: the folder of the tables that are created, as Parquet files; None: they live in memory.
    staged: queries run in stages only.
    persist: which outputs go to the folder of checkpoints. pack: a store keeps many of them in one file.
    statistics, policy, tenant, tenants, priority, deadline, scheduler, most_jobs, most_queued: see `connect`.
    error_goal, confidence: the goal of answers that grow, where a query names none.
    exact_within: seconds in which an answer should be exact that does not grow.
    view_sharing: how views with lag goals share the time of their thread (`qoop.programs.views.sharing`).
    watch_machine: see `connect`; None: not set.
    files: the files qoop.toml that were read. requested: the options, by field, whose value is not the default's.
    ray: the address of the Ray cluster whose nodes are the machines, which then say how many slots and how much memory
        there are; None: this machine is. ray_reserve, ray_tls, node_queue, runtime_env: see `connect`. exchange:
        how tasks read from several nodes (`qoop.engine.backends.ray.peers`).
    locked, copy_to: see `connect`.
    """

    slots: int
    memory: int
    checkpoints: Path | str | None = None
    spill: Path | None = None
    replan: bool = True
    wait_for_capacity: float = 600.0
    plan_cache: Path | None = None
    checkpoint_budget: int | None = None
    checkpoint_full: Full = "warn"
    reuse: bool = False
    guard_always: bool = False
    trace: Path | None = None
    tables: Path | None = None
    persist: Persist = "learned"
    pack: bool = True
    staged: bool = False
    statistics: Statistics = "pilot"
    policy: PolicyName = "greedy"
    tenant: str = ""
    tenants: Mapping[str, float] = field(default_factory=dict)
    priority: float = USUAL_PRIORITY
    deadline: float = math.inf
    error_goal: float = 0.01
    confidence: float = 0.95
    exact_within: float = 1.0
    scheduler: str = SCHEDULERS[0]
    view_sharing: str = "max-min"
    most_jobs: float = math.inf
    most_queued: float = math.inf
    local_frames: bool = True
    ray: str | None = None
    watch_machine: bool | None = None
    ray_reserve: bool = True
    node_queue: int = 0
    exchange: str = "at-once"
    ray_tls: bool | None = None
    runtime_env: Mapping[str, object] | None = None
    files: tuple[Path, ...] = ()
    requested: frozenset[str] = frozenset()
    locked: bool = False
    copy_to: tuple[Path, ...] = ()
    isolation: Isolation = "auto"


def configure(*, environment: Mapping[str, str] | None = None, **arguments: Any) -> Config:
    """Settle every option: argument, else environment variable, else qoop.toml, else default.

    arguments: by name of option; None stands for no argument. environment: in place of the environment and the files.

    Plans are stored with the checkpoints by default, so a process that continues from these does not plan again.

    >>> config = configure(slots=2, memory="2GB", environment={"QOOP_SLOTS": "9", "QOOP_REPLAN": "off"})
    >>> config.slots, config.memory, config.replan
    (2, 2000000000, False)

    Raises ConfigError for a value that is not valid, naming the option; TypeError for an option that does not exist.
    """
    unknown = arguments.keys() - {option.name for option in OPTIONS}
    if unknown:
        raise TypeError(_no_option(min(unknown)))
    files: tuple[Path, ...] = ()
    if environment is None:
        settings, files = from_files()
        environment = settings | os.environ
    chosen = {option.field_name: _chosen(option, arguments.get(option.name), environment) for option in OPTIONS}
    requested = frozenset(name for name, value in chosen.items() if value is not None)
    values: dict[str, Any] = {
        option.field_name: option.usual() if (value := chosen[option.field_name]) is None else value
        for option in OPTIONS
    }
    if values["ray"] is not None and (arguments.get("slots") is not None or arguments.get("memory") is not None):
        raise ConfigError("slots and memory cannot be set with ray=...: the nodes of the cluster define them")
    if values["ray"] is None and values["runtime_env"] is not None:
        raise ConfigError("runtime_env is for the nodes of a Ray cluster: say which, with ray=...")
    if values["isolation"] == "process" and (values["ray"] is not None or sys.platform != "linux"):
        raise ConfigError('isolation="process" needs child processes: Linux, and no Ray')
    place = values["checkpoints"]
    if values["reuse"] is None:
        values["reuse"] = place is not None or (REUSE_IN_MEMORY and values["ray"] is None)
    if values["plan_cache"] is None and isinstance(place, Path):
        values["plan_cache"] = place / _PLANS
    return Config(**values, files=files, requested=requested)


def _no_option(name: str) -> str:
    """The message about an option that does not exist, with those that do."""
    from difflib import get_close_matches

    known = sorted(option.name for option in OPTIONS)
    near = get_close_matches(name, known, n=1)
    advice = f"Did you mean {near[0]}?" if near else f"The options: {', '.join(known)}"
    return f"there is no option {name}. {advice}"


def _chosen(option: SessionOption, argument: Any, environment: Mapping[str, str]) -> Any:
    """The value of an option that its user chose: the argument, else that of the environment; None: the default."""
    for candidate in (argument, environment.get(option.variable) if option.text else None):
        if candidate is not None and not (option.blank and not candidate):
            return option.read(option.name, candidate)
    return None


def from_files() -> tuple[dict[str, str], tuple[Path, ...]]:
    """The settings of the files qoop.toml, as environment variables, and which files there are.

    Raises ConfigError, which names the file, for one that cannot be read, an option that does not exist, that is not
    valid, or that this file may not set.
    """
    named = os.environ.get("QOOP_CONFIG")
    own, here = config_directory() / "qoop.toml", Path("qoop.toml").absolute()
    files = [Path(named).expanduser().absolute()] if named else [path for path in (own, here) if os.path.isfile(path)]
    settings: dict[str, str] = {}
    for path in files:
        values = _from_file(path)
        if path == here and not named:
            _refuse_places(path, values, own)
        settings |= {f"QOOP_{name.upper()}": _as_text(name, value) for name, value in values.items()}
    return settings, tuple(files)


def _from_file(path: Path) -> dict[str, object]:
    """The options in a file, each of which is valid."""
    import tomllib  # few have such a file

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    unknown = values.keys() - IN_FILES
    if unknown:
        raise ConfigError(f"{path} has no option {', '.join(sorted(unknown))}; there are {', '.join(IN_FILES)}")
    environment = {f"QOOP_{name.upper()}": _as_text(name, value) for name, value in values.items()}
    try:
        configure(environment=environment)
    except ConfigError as error:
        faults = _faults(environment) or [str(error)]
        raise ConfigError("\n".join(f"in {path}: {fault}" for fault in faults)) from error
    return values


def _faults(environment: Mapping[str, str]) -> list[str]:
    """The faults of each option that is not valid by itself."""
    faults = []
    for option in OPTIONS:
        try:
            _chosen(option, None, environment)
        except ConfigError as error:
            faults.append(str(error) if option.name in str(error) else f"{option.name}: {error}")
    return faults


def _refuse_places(path: Path, values: Mapping[str, object], own: Path) -> None:
    for option in OPTIONS:
        if option.trusted and option.name in values:
            name = option.name
            raise ConfigError(
                f"{path} may not set {name}: a file in the working directory may come from another user, so it sets "
                f"no places that are written to, no cluster and no rights of SQL. Set {name} in {own}, as "
                f"{option.variable}, or as an argument; or, if you trust the file, set QOOP_CONFIG={path}"
            )


def _as_text(name: str, value: object) -> str:
    if name == "copy_to" and isinstance(value, list):
        return os.pathsep.join(map(str, value))
    if name == "tenants" and isinstance(value, dict):
        return ",".join(f"{tenant}={weight}" for tenant, weight in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def course_of(course: Iterable[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    """Announced capacity as (seconds from now, slots), checked. Raises ConfigError for values that are not valid.

    >>> course_of([(60, 4), (120.5, 6)])
    ((60.0, 4), (120.5, 6))
    """
    try:
        pairs = [(float(after), slots) for after, slots in course]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"announced slots are pairs of seconds from now and slots, not {course!r}") from error
    found = tuple((after, slots_of("slots", slots, least=0)) for after, slots in pairs)
    before = 0.0
    for after, _ in found:
        if not before < after < math.inf:
            raise ConfigError(f"the seconds of announced slots must be above 0 and increase; {after:g} is not valid")
        before = after
    return found
