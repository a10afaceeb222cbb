r"""Configuration: arguments win over QOOP_* environment variables, these over ``qoop.toml``, and this over defaults.

``qoop.toml`` has lines such as ``slots = 2``. There may be two, of which the second wins: one in the user's own folder
(``~/.config/qoop``, or qoop's folder in ``XDG_CONFIG_HOME``), one in the working directory. ``QOOP_CONFIG`` names the
only one to be read instead. The one in the working directory may have come with somebody's data: it may not say where
anything is written or which cluster is used.

==================  ==========================  =========================================================
argument            environment                 default
==================  ==========================  =========================================================
slots               ``QOOP_SLOTS``              the CPUs this process may run on
memory              ``QOOP_MEMORY``             80 % of the smaller of physical memory and the cgroup's limit
checkpoints         ``QOOP_CHECKPOINTS``        no durable checkpoints; a folder, or the URL of a store
checkpoint_budget   ``QOOP_CHECKPOINT_BUDGET``  no limit on the bytes in the folder of checkpoints
persist             ``QOOP_PERSIST``            "all" outputs go to the folder of checkpoints; or "worthwhile"
reuse               ``QOOP_REUSE``              true with a folder of checkpoints, else false
spill               ``QOOP_SPILL``              a temporary folder, removed when the session closes
replan              ``QOOP_REPLAN``             true
forecast            ``QOOP_FORECAST``           false: the share is taken to last for ever
settle              ``QOOP_SETTLE``             false: shares do not depend on what plans have a use for
watch_machine       ``QOOP_WATCH_MACHINE``      false, in the shell true: slots and memory follow what the machine has
wait_for_capacity   ``QOOP_WAIT_FOR_CAPACITY``  600 seconds
plan_cache          ``QOOP_PLAN_CACHE``         with the checkpoints, if these have a folder
trace               ``QOOP_TRACE``              nothing is traced
tables              ``QOOP_TABLES``             tables that are created live in memory
ray                 ``QOOP_RAY``                no Ray: tasks run on this machine
locked              ``QOOP_LOCKED``             false: SQL reads what files it names, and writes where it says
copy_to             ``QOOP_COPY_TO``            nowhere: folders that a locked session may COPY to, between colons
ray_reserve         ``QOOP_RAY_RESERVE``        true: Ray gives the room of its nodes to nobody else meanwhile
\-                  ``QOOP_CACHE_DIR``          the user's folder of caches: statistics, parts of what lies in a store
\-                  ``QOOP_CACHE_BUDGET``       4 GB for those parts
\-                  ``QOOP_CONFIG``             the two files qoop.toml
\-                  ``QOOP_KEY``                the key in the user's own folder, which is made when it is needed
\-                  ``QOOP_KEY_FILE``           the same: a file that holds the key
\-                  ``QOOP_GUARD``              "meet": outputs are digested where two meet; "always": all are
==================  ==========================  =========================================================
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import parse_bytes
from qoop.catalog.stores.objects import is_remote
from qoop.catalog.user_folders import config_directory
from qoop.monitor.cgroup import groups, usable_cpus

Persist = Literal["all", "worthwhile"]

OPTIONS = (
    "slots", "memory", "checkpoints", "checkpoint_budget", "reuse", "spill", "replan", "wait_for_capacity",
    "plan_cache", "trace", "persist", "forecast", "settle", "tables", "guard", "ray", "ray_reserve", "watch_machine",
    "locked", "copy_to",
)  # fmt: skip
"""Of qoop.toml, which are called as in the environment, without QOOP_ and in small letters."""

NOT_FOUND_LYING = ("checkpoints", "spill", "plan_cache", "trace", "tables", "ray", "locked", "copy_to")
"""Options that a qoop.toml in the working directory may not set: places to write to, whose machines to use, and what
SQL may do."""

_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_FIRST_VERSION = Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Of cgroups, which holds the memory where the second does not."""
_LEAST_MEMORY = 16 * 2**20
_PLANS = "plans"
"""Where plans go within the folder of checkpoints."""


@dataclass(frozen=True, slots=True)
class Config:
    """What a session was asked to be. memory is in bytes; checkpoints, spill and plan_cache are folders or None.

    checkpoints may also be the URL of a store that machines share (text).
    wait_for_capacity: seconds that a job waits while there is no slot at all, before it fails; inf: for ever.
    checkpoint_budget: bytes that the folder of checkpoints may take; None: no limit.
    reuse: queries take over what earlier ones, even of another process, have put out, and leave theirs for others.
    guard_always: see QOOP_GUARD.
    trace: the file, or folder, that what happens is written to; None: it is not.
    tables: the folder of the tables that are created, as Parquet files; None: they live in memory.
    persist: which outputs go to the folder of checkpoints. forecast, settle: see `connect`.
    watch_machine: see `connect`; None: nobody has said.
    files: the files qoop.toml that were read.
    ray: the address of the Ray cluster whose nodes are the machines, which then say how many slots and how much memory
        there are; None: this machine is. ray_reserve, runtime_env: see `connect`.
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
    reuse: bool = False
    guard_always: bool = False
    trace: Path | None = None
    tables: Path | None = None
    persist: Persist = "all"
    forecast: bool = False
    settle: bool = False
    ray: str | None = None
    watch_machine: bool | None = None
    ray_reserve: bool = True
    runtime_env: Mapping[str, object] | None = None
    files: tuple[Path, ...] = ()
    locked: bool = False
    copy_to: tuple[Path, ...] = ()


def configure(
    slots: int | None = None,
    memory: int | str | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    spill: str | os.PathLike[str] | None = None,
    replan: bool | None = None,
    wait_for_capacity: float | None = None,
    plan_cache: str | os.PathLike[str] | None = None,
    checkpoint_budget: int | str | None = None,
    reuse: bool | None = None,
    trace: str | os.PathLike[str] | None = None,
    persist: str | None = None,
    forecast: bool | None = None,
    settle: bool | None = None,
    tables: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    ray: str | None = None,
    watch_machine: bool | None = None,
    ray_reserve: bool | None = None,
    runtime_env: Mapping[str, object] | None = None,
    locked: bool | None = None,
    copy_to: Iterable[str | os.PathLike[str]] | None = None,
) -> Config:
    """Settle every option: argument, else environment variable, else what qoop.toml says, else default.

    environment: in place of the environment and the files.

    Plans go with the checkpoints by default: a process that goes on from these needs not plan again first.

    >>> config = configure(slots=2, memory="2GB", environment={"QOOP_SLOTS": "9", "QOOP_REPLAN": "off"})
    >>> config.slots, config.memory, config.replan
    (2, 2000000000, False)

    Raises ConfigError for a value that is not valid, naming the option.
    """
    files: tuple[Path, ...] = ()
    if environment is None:
        said, files = from_files()
        environment = said | os.environ
    ray = ray or environment.get("QOOP_RAY") or None
    if ray is not None and (slots is not None or memory is not None):
        raise ConfigError("slots and memory are not for a session to set where Ray is: its nodes have what they have")
    if ray is None and runtime_env is not None:
        raise ConfigError("runtime_env is for the nodes of a Ray cluster: say which, with ray=...")
    reserve = ray_reserve if ray_reserve is not None else environment.get("QOOP_RAY_RESERVE", "true")
    place = _place(checkpoints or environment.get("QOOP_CHECKPOINTS"))
    folder = place if isinstance(place, Path) else None
    watch = watch_machine if watch_machine is not None else environment.get("QOOP_WATCH_MACHINE")
    budget = checkpoint_budget if checkpoint_budget is not None else environment.get("QOOP_CHECKPOINT_BUDGET")
    return Config(
        slots=_slots(slots if slots is not None else environment.get("QOOP_SLOTS")),
        memory=_memory(memory if memory is not None else environment.get("QOOP_MEMORY")),
        checkpoints=place,
        spill=_folder(spill or environment.get("QOOP_SPILL")),
        replan=truth("replan", replan if replan is not None else environment.get("QOOP_REPLAN", "true")),
        wait_for_capacity=_seconds(
            "wait_for_capacity",
            wait_for_capacity if wait_for_capacity is not None else environment.get("QOOP_WAIT_FOR_CAPACITY", 600.0),
        ),
        plan_cache=_folder(plan_cache or environment.get("QOOP_PLAN_CACHE")) or (folder / _PLANS if folder else None),
        checkpoint_budget=parse_bytes(budget) if budget is not None else None,
        reuse=truth("reuse", reuse if reuse is not None else environment.get("QOOP_REUSE", place is not None)),
        guard_always=_choice("QOOP_GUARD", environment.get("QOOP_GUARD", "meet"), ("meet", "always")) == "always",
        trace=_folder(trace or environment.get("QOOP_TRACE")),
        persist=_persist(persist or environment.get("QOOP_PERSIST", "all")),
        forecast=truth("forecast", forecast if forecast is not None else environment.get("QOOP_FORECAST", "false")),
        tables=_folder(tables or environment.get("QOOP_TABLES")),
        settle=truth("settle", settle if settle is not None else environment.get("QOOP_SETTLE", "false")),
        ray=ray,
        watch_machine=None if watch is None else truth("watch_machine", watch),
        ray_reserve=truth("ray_reserve", reserve),
        runtime_env=runtime_env,
        files=files,
        locked=truth("locked", locked if locked is not None else environment.get("QOOP_LOCKED", "false")),
        copy_to=_folders(copy_to if copy_to is not None else environment.get("QOOP_COPY_TO")),
    )


def from_files() -> tuple[dict[str, str], tuple[Path, ...]]:
    """What the files qoop.toml say, as environment variables, and which files there are.

    Raises ConfigError, which names the file, for one that cannot be read, an option that does not exist, that is not
    valid, or that this file may not set.
    """
    told = os.environ.get("QOOP_CONFIG")
    own, here = config_directory() / "qoop.toml", Path("qoop.toml").absolute()
    files = [Path(told).expanduser().absolute()] if told else [path for path in (own, here) if path.is_file()]
    said: dict[str, str] = {}
    for path in files:
        values = _from_file(path)
        if path == here and not told:
            _refuse_places(path, values, own)
        said |= {f"QOOP_{name.upper()}": _as_text(name, value) for name, value in values.items()}
    return said, tuple(files)


def _from_file(path: Path) -> dict[str, object]:
    """The options in a file, each of which is valid."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    unknown = values.keys() - OPTIONS
    if unknown:
        raise ConfigError(f"{path} has no option {', '.join(sorted(unknown))}; there are {', '.join(OPTIONS)}")
    try:
        configure(environment={f"QOOP_{name.upper()}": _as_text(name, value) for name, value in values.items()})
    except ConfigError as error:
        raise ConfigError(f"in {path}: {error}") from error
    return values


def _refuse_places(path: Path, values: Mapping[str, object], own: Path) -> None:
    for name in NOT_FOUND_LYING:
        if name in values:
            raise ConfigError(
                f"{path} may not set {name}: a file in the working directory may be somebody else's, and must not say "
                f"where qoop writes, whose machines it uses or what SQL may do. Set {name} in {own}, as "
                f"QOOP_{name.upper()}, or as an argument; or, if you trust the file, set QOOP_CONFIG={path}"
            )


def _as_text(name: str, value: object) -> str:
    if name == "copy_to" and isinstance(value, list):
        return os.pathsep.join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def room_of(slots: int | None, memory: int | str | None) -> tuple[int | None, int | None]:
    """Slots, which may be 0, and bytes that a session is to have from now on; None: as it is. Raises ConfigError.

    >>> room_of(0, "1GB")
    (0, 1000000000)
    """
    return (
        None if slots is None else _slots(slots, least=0),
        None if memory is None else _memory(memory),
    )


def available_memory() -> int:
    """Bytes this process may use: physical memory, or less where a cgroup says so."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    first_version = _cgroup_limit(_FIRST_VERSION)
    limits = [physical, *(group.memory() for group in groups()), *([first_version] if first_version else [])]
    return int(min(limits))


def available_slots() -> int:
    """CPUs this process may run on, or less where a cgroup says so; of an allowed part of one the whole counts."""
    allowed = min((group.cpus() for group in groups()), default=math.inf)
    return len(usable_cpus()) if allowed == math.inf else max(1, min(len(usable_cpus()), math.ceil(allowed)))


def _cgroup_limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:  # no such controller here: no limit
        return None
    return int(text) if text.isdigit() else None  # "max"


def _slots(value: int | str | None, least: int = 1) -> int:
    if value is None:
        return available_slots()
    try:
        slots = int(value)
    except (TypeError, ValueError):
        slots = -1
    if isinstance(value, bool | float) or slots < least:
        raise ConfigError(f"slots must be a whole number of at least {least}, not {value!r}")
    return slots


def _memory(value: int | str | None) -> int:
    memory = int(available_memory() * 0.8) if value is None else parse_bytes(value)
    if memory < _LEAST_MEMORY:
        raise ConfigError(f"memory must be at least 16MiB, not {value!r}")
    return memory


def _seconds(name: str, value: float | str) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if isinstance(value, bool) or not seconds >= 0:
        raise ConfigError(f"{name} must be a number of seconds, at least 0 (inf: for ever), not {value!r}")
    return seconds


def _folder(value: str | os.PathLike[str] | None) -> Path | None:
    return Path(value).expanduser().absolute() if value else None


def _folders(value: str | Iterable[str | os.PathLike[str]] | None) -> tuple[Path, ...]:
    texts = value.split(os.pathsep) if isinstance(value, str) else value or ()
    return tuple(Path(os.path.realpath(Path(text).expanduser())) for text in texts if os.fspath(text))


def _place(value: str | os.PathLike[str] | None) -> Path | str | None:
    return value if isinstance(value, str) and is_remote(value) else _folder(value)


def _choice(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ConfigError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    return value


def _persist(value: str) -> Persist:
    return "worthwhile" if _choice("persist", value, ("all", "worthwhile")) == "worthwhile" else "all"


def truth(name: str, value: bool | str) -> bool:
    """The value of an option that is on or off, such as "on" or "false". Raises ConfigError."""
    if isinstance(value, bool):
        return value
    if str(value).lower() not in _TRUTH:
        raise ConfigError(f"{name} must be one of {', '.join(_TRUTH)}, not {value!r}")
    return _TRUTH[str(value).lower()]
