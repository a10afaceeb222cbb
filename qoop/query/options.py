"""The options of a session, each declared once, in one table.

`qoop.connect` takes the options that are an `argument`. The environment (``QOOP_SLOTS`` …) and files qoop.toml set
those that can be a `text`. The command line has those with a `flag`; ``SET`` changes those that are `settable`. All of
these read the table. :class:`ConnectOptions` and :class:`qoop.query.config.Config` are written out, for people and for
type checkers; a test compares them with the table. ``python docs/options.py`` writes the table of docs/configure.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from qoop.adaptive.monitor.available import available_memory, available_slots, safe_memory
from qoop.adaptive.schedulers.terms import USUAL_PRIORITY, tenant_weights
from qoop.catalog.errors import ConfigError
from qoop.catalog.paths import absolute
from qoop.catalog.sizes import LEAST_MEMORY, memory_of, parse_bytes, parse_seconds, slots_of
from qoop.catalog.value import value

POLICIES = ("greedy", "cheapest")
"""The names of the policies that choose plans (:mod:`qoop.adaptive.replanning.policies`); the first is the usual
one."""

SCHEDULERS = ("max_min", "finish_time", "urgency", "quality")
"""The names of the policies that share resources between jobs (:mod:`qoop.adaptive.schedulers`); the first is the usual
one."""

_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def size(_: str, value: int | str) -> int:
    """Bytes."""
    return parse_bytes(value)


def seconds(name: str, value: float | str) -> float:
    """A number of seconds, or infinity."""
    try:
        return parse_seconds(value)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def number(name: str, value: float | str) -> float:
    """Any number."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} must be a number, not {value!r}") from error


def part(name: str, value: float | str) -> float:
    """A number from 0 to 1, without 1."""
    found = number(name, value)
    if isinstance(value, bool) or not 0 <= found < 1:
        raise ConfigError(f"{name} must be from 0 to less than 1, such as 0.01 for one percent, not {value!r}")
    return found


def chance(name: str, value: float | str) -> float:
    """A probability from 0.5 to 1, without 1."""
    if not part(name, value) >= 0.5:
        raise ConfigError(f"{name} must be from 0.5 to less than 1, such as 0.95, not {value!r}")
    return float(value)


def policy_name(name: str, value: str) -> str:
    """A scheduler, by the name of its policy or as a call with parameters."""
    if value in SCHEDULERS:
        return value
    if "(" not in str(value):
        raise ConfigError(f"{name} must be one of {', '.join(SCHEDULERS)}, not {value!r}")
    from qoop.adaptive.schedulers.described import made  # loads the engine, which the command line asks for later

    return repr(made(value))


def jobs(name: str, value: float | str) -> float:
    """A number of jobs of at least 1, or infinity."""
    return _whole(name, value, 1, endless=True)


def length(name: str, value: int | str) -> int:
    """The length of a queue: a whole number, 0 or more. Raises ConfigError."""
    return int(_whole(name, value, 0))


def _whole(name: str, value: float | str, least: int, endless: bool = False) -> float:
    """endless: it may be infinite."""
    found = number(name, value)
    is_whole = endless if found == math.inf else found == found // 1
    if isinstance(value, bool) or not found >= least or not is_whole:
        note = " (inf: no limit)" if endless else ""
        raise ConfigError(f"{name} must be a whole number of at least {least}{note}, not {value!r}")
    return found


def on_or_off(name: str, value: bool | str) -> bool:
    """The value of an option that is on or off, such as "on" or "false". Raises ConfigError."""
    if isinstance(value, bool):
        return value
    if str(value).lower() not in _TRUTH:
        raise ConfigError(f"{name} must be one of {', '.join(_TRUTH)}, not {value!r}")
    return _TRUTH[str(value).lower()]


def folder(_: str, value: str | os.PathLike[str]) -> Path:
    """A folder or file of this machine."""
    return absolute(value)


def folders(_: str, value: str | Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Folders of this machine, as a list or a text with colons between them; links in their paths are followed."""
    texts = value.split(os.pathsep) if isinstance(value, str) else value
    return tuple(Path(os.path.realpath(absolute(text))) for text in texts if os.fspath(text))


def place(name: str, value: str | os.PathLike[str]) -> Path | str:
    """A folder of this machine, or the URL of a store that machines share."""
    from qoop.catalog.stores.objects import is_remote  # the command line, which reads the table, does without

    return value if isinstance(value, str) and is_remote(value) else folder(name, value)


def one_of(*known: str) -> Callable[[str, str], str]:
    """One of these words."""

    def read(name: str, value: str) -> str:
        if value not in known:
            raise ConfigError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        return value

    return read


def always(name: str, value: str) -> bool:
    """True if outputs are always digested, false if only where two meet."""
    return one_of("meet", "always")(name, value) == "always"


def as_it_is(_: str, value: object) -> object:
    """The value unchanged."""
    return value


@value
class Flag:
    """An option on the command line. metavar: stands for its value; None: the flag switches the option on.

    type: how argparse reads the value.
    """

    help: str
    metavar: str | None = None
    type: Callable[[str], object] = str


@value
class SessionOption:
    """One option of a session.

    name: what the argument of `connect` and the line of qoop.toml are called.
    default: the value if the option is not set, in words. usual: makes that value; None: it follows from other options.
    read: converts and checks the value that was passed. Raises ConfigError, with the name.
    field: what it is called in `Config`, if not by its name.
    argument: `connect` takes it. text: the environment and files can set it. blank: an empty text sets nothing.
    trusted: a qoop.toml in the working directory may not set it: where to write, whose machines to use, what SQL may
        do. settable: SET changes it. flag: how the command line has it.
    """

    name: str
    default: str
    read: Callable[[str, Any], object]
    usual: Callable[[], object] = lambda: None
    field: str = ""
    argument: bool = True
    text: bool = True
    blank: bool = False
    trusted: bool = False
    settable: bool = False
    flag: Flag | None = None

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"QOOP_{self.name.upper()}"

    @property
    def field_name(self) -> str:
        """Its name in `Config`."""
        return self.field or self.name


def _usual_memory() -> int:
    return max(LEAST_MEMORY, safe_memory(available_memory()))


OPTIONS = (
    SessionOption(
        "slots", "the CPUs this process may run on", slots_of, available_slots, settable=True,
        flag=Flag("tasks at a time (the CPUs there are)", "N", int),
    ),
    SessionOption(
        "memory", "80 % of the smaller of physical memory and the cgroup's limit, less below 1.9 GB",
        memory_of, _usual_memory, settable=True,
        flag=Flag('for all tasks together, such as "2GB" (80 % of what there is)', "SIZE"),
    ),
    SessionOption(
        "checkpoints", "no durable checkpoints; a folder, or the URL of a store", place, blank=True, trusted=True,
        flag=Flag("keep the outputs of all stages there", "DIR"),
    ),
    SessionOption("checkpoint_budget", "a tenth of the file system of the folder of checkpoints, at most 100 GB", size),
    SessionOption(
        "checkpoint_full", '"warn": where that folder has no space for an output, the query goes on; or "error"',
        one_of("warn", "error"), lambda: "warn",
    ),
    SessionOption(
        "persist", '"learned": outputs go to the folder of checkpoints, all of them or few; "all"; "worthwhile"',
        one_of("learned", "all", "worthwhile"), lambda: "learned",
    ),
    SessionOption(
        "pack", "true: in a store that machines share, many outputs are kept in one file where that saves requests",
        on_or_off, lambda: True,
    ),
    SessionOption("reuse", "true; with ray=… and no folder of checkpoints false", on_or_off),
    SessionOption(
        "spill", "a temporary folder, removed when the session closes", folder, argument=False, blank=True, trusted=True
    ),
    SessionOption("replan", "true", on_or_off, lambda: True),
    SessionOption(
        "staged", "false: DuckDB's own plan of the whole query is one of the alternatives", on_or_off, lambda: False,
        flag=Flag("run every query in stages, also where DuckDB's own plan would do"),
    ),
    SessionOption(
        "statistics", '"pilot": footers of files, and some row groups for long queries; "footers"; "full": all first',
        one_of("pilot", "footers", "full"), lambda: "pilot",
    ),
    SessionOption(
        "policy", '"greedy": the plan that ends first on the share at hand; or "cheapest"',
        one_of(*POLICIES), lambda: POLICIES[0],
    ),
    SessionOption("tenant", "all queries are for the same one", as_it_is, lambda: "", settable=True),
    SessionOption(
        "tenants", "every tenant has the weight 1, that of the jobs of views 0.5", tenant_weights, dict, trusted=True
    ),
    SessionOption("priority", "5, of 1 to 10", number, lambda: USUAL_PRIORITY, settable=True),
    SessionOption("deadline", "none: seconds by which answers are needed", seconds, lambda: math.inf, settable=True),
    SessionOption(
        "error_goal", "0.01: how narrow the intervals of growing answers are to be; 0: until they are exact",
        part, lambda: 0.01, argument=False, settable=True,
    ),
    SessionOption(
        "confidence", "0.95: the chance that these intervals hold the truth", chance,
        lambda: 0.95, argument=False, settable=True,
    ),
    SessionOption(
        "exact_within", "1: an answer that should be exact in that many seconds does not grow; 0: any may",
        seconds, lambda: 1.0, argument=False, settable=True,
    ),
    SessionOption(
        "scheduler", '"max_min": by weight; or "finish_time", "urgency", "quality"', policy_name,
        lambda: SCHEDULERS[0],
    ),
    SessionOption(
        "view_sharing", '"max-min": where views lack time, the worst is as good as can be; or "max-sum", "fair"',
        one_of("max-min", "max-sum", "fair"), lambda: "max-min",
    ),
    SessionOption(
        "local_frames", "true: queries find data frames among the program's variables", on_or_off, lambda: True
    ),
    SessionOption(
        "watch_machine",
        "true in the shell and in a control group with limits: slots and memory follow the machine",
        on_or_off,
        settable=True,
    ),
    SessionOption(
        "most_jobs", "no limit on jobs that run at a time; others queue", jobs, lambda: math.inf, trusted=True
    ),
    SessionOption("most_queued", "no limit on jobs that queue", jobs, lambda: math.inf, trusted=True),
    SessionOption("wait_for_capacity", "600 seconds", seconds, lambda: 600.0),
    SessionOption("plan_cache", "with the checkpoints, if these have a folder", folder, blank=True, trusted=True),
    SessionOption(
        "trace", "nothing is traced", folder, blank=True, trusted=True,
        flag=Flag("write what happens there, for `qoop replay`", "FILE"),
    ),
    SessionOption("tables", "tables that are created live in memory", folder, blank=True, trusted=True),
    SessionOption(
        "ray", "no Ray: tasks run on this machine", as_it_is, blank=True, trusted=True,
        flag=Flag("run on the nodes of that Ray cluster; auto: of the one here", "ADDRESS"),
    ),
    SessionOption(
        "ray_reserve", "true: Ray gives the resources of its nodes to no other program", on_or_off, lambda: True
    ),
    SessionOption(
        "node_queue", "0: at the nodes of Ray no task waits for another to end", length, lambda: 0, trusted=True
    ),
    SessionOption(
        "exchange", '"at-once": a task reads from several nodes of Ray at a time; "in-turn": from one after the other',
        one_of("at-once", "in-turn"), lambda: "at-once", argument=False,
    ),
    SessionOption("ray_tls", "where RAY_TLS_… name certificates: nodes talk by TLS", on_or_off, trusted=True),
    SessionOption("runtime_env", "what is installed on the nodes of Ray", as_it_is, text=False),
    SessionOption(
        "locked", "false: SQL reads what files it names, and writes where it says", on_or_off, lambda: False,
        trusted=True,
        flag=Flag("SQL reads the tables of --data, and nothing else"),
    ),
    SessionOption(
        "copy_to", "nowhere: folders that a locked session may COPY to, between colons", folders, tuple, trusted=True
    ),
    SessionOption(
        "isolation",
        '"thread": tasks run in threads of the process; "process": in child processes, which the system ends first; '
        '"auto": in threads, but long ones in child processes where a control group limits memory',
        one_of("auto", "thread", "process"), lambda: "auto",
    ),
    SessionOption(
        "guard", '"meet": outputs are digested where two meet; "always": all are', always, lambda: False,
        field="guard_always", argument=False,
    ),
)  # fmt: skip


class ConnectOptions(TypedDict, total=False):
    """The options of a session, as arguments of :func:`qoop.connect`.

    slots: tasks at a time, each a thread; by default the CPUs this process may use.
    memory: bytes, or a text such as "2GB", that all tasks together may use; by default 80 % of the memory that
        the process may use, less below 1.9 GB.
    checkpoints: a folder for outputs that survive the process, or a place that machines share: ``file:///folder``
        or ``s3://bucket/prefix`` (see docs/stores.md); by default they live in memory.
    replan: whether jobs may change plan while they run.
    wait_for_capacity: seconds, 600 by default, that a query waits without any slot (see `Session.resize`) before it
        fails with NoCapacity; ``math.inf``: no limit.
    plan_cache: a folder for plans, where other sessions and processes find them; by default one within that of the
        checkpoints. Without checkpoints, plans are stored for the session only.
    checkpoint_budget: bytes, or a text such as "10GB", that the folder of checkpoints may take. Above it, outputs that
        no running job of any process needs are removed, the least valuable first. By default a tenth of its file
        system, at most 100 GB, and no limit for a place that machines share.
    reuse: whether a query uses the outputs of earlier ones, and its own outputs serve later ones: within the session
        in a sixteenth of the memory at most, and between processes through the folder of checkpoints. Equal outputs
        are found by content (text, tables and their versions, settings), so answers do not depend on it. True by
        default; on Ray only with a folder of checkpoints.
    trace: a file for the record of events and decisions, or a folder of such files; `qoop replay` reads it.
    persist: which outputs go to the folder of checkpoints: "all", or only the "worthwhile" ones, for which the work
        that a failure would cost exceeds the cost of writing (:mod:`qoop.adaptive.replanning.worthwhile`). "learned",
        the default, is "all" until queries at that folder have run for ten minutes without the loss of a process; from
        then on it is "worthwhile", by the losses there.
    staged: whether queries run in stages only. False by default: DuckDB's own plan of the whole query is one of the
        alternatives, and the usual one for a short query.
    policy: how plans are chosen (:mod:`qoop.adaptive.replanning.policies`): "greedy" assumes that the present share
        lasts; "cheapest" uses the least resources with which the query ends by its deadline, if it has one.
    tenant: the tenant of queries for which `Session.submit` names none: slots are shared between tenants
        first, then between the jobs of each.
    tenants: the weights of tenants, such as ``{"dashboards": 2}``; those of others are 1.
    priority: of the queries among those of their tenant, 1 to 10 and 5 by default; for schedulers that use it.
    deadline: seconds from its submission by which the answer of a query is needed; none by default. A job that misses
        it continues. The status of the job shows whether it will be met, and schedulers may use it.
    scheduler: how jobs share the slots: "max_min", by weight; "finish_time": the job that is furthest
        behind the end that it would reach on its own part goes first; "urgency": tenants by weight, and of each the
        most urgent by deadline and priority.
    view_sharing: how views with lag goals share the time of their thread where they lack it: "max-min": the worst lag
        and error are as good as can be; "max-sum": the sum of all; "fair": equal parts.
    most_jobs: jobs that run at a time; no limit by default. Others queue, and tenants take turns.
    most_queued: jobs that wait in the queue; no limit by default. Above it, `submit` raises Overloaded.
    local_frames: whether a query finds tables of Arrow, pandas, Polars, NumPy among the variables of the program, under
        names that no table has (:mod:`qoop.query.statements.local_frames`). A locked session never does.
    tables: a folder for the tables that are created, as Parquet files; those in it are registered at the
        start. By default they live in memory, as long as the session.
    ray: "auto", for the Ray cluster that this machine is part of, or the "host:port" of the head of one. Tasks then
        run on its nodes, with the slots and the memory that Ray reports, so `slots` and `memory` cannot be
        set. Paths of tables and checkpoints must mean the same on all nodes. Needs the extra ``qoop[ray]``.
    watch_machine: whether slots and memory follow the resources that other programs and the limits of control groups
        leave free (:mod:`qoop.adaptive.monitor`). `slots` and `memory` are upper limits, and `resize` overrides it. By
        default true in a control group that limits this process, else false. Linux only.
    ray_reserve: whether Ray counts the slots and the memory of its nodes as taken while there are sessions, and so
        places nothing else there; true by default.
    node_queue: tasks that wait at each node of the Ray cluster for others to end, besides those that run there, so
        that one starts without a message from the session; 0 by default. See docs/ray.md.
    ray_tls: whether the processes of the session on the nodes talk by TLS, with certificates on both sides, which
        are those that RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT name for Ray. By default if
        these are set, unless the nodes are on a loopback address.
    runtime_env: the environment of the processes on the nodes, as for ``ray.init``; such as a wheel of qoop if it
        is not installed there: ``{"py_modules": ["qoop-....whl"]}``. Only for a process that is not connected to Ray
        yet.
    locked: whether SQL reads registered tables and nothing else: no file by its name, no option but those that
        change results, no COPY but into the folders of `copy_to`; see docs/security.md. Tables
        that the program registers, options that it sets and files that it writes are not restricted. False by default.
    copy_to: folders that a locked session may COPY to; none by default.
    statistics: "footers": plans are made at once from the footers of files and from statistics that were collected
        before (`Session.statistics`). "pilot", the default: for queries that should take long, also from one to two
        per cent of the row groups, of the columns in their filters. "full": missing statistics are collected from
        all data before the first plan.
    pack: whether a place that machines share stores many outputs in one file, to save requests (see
        docs/stores.md). True by default; a folder of this machine never does.
    isolation: "process": tasks run in child processes. Where a control group is short of memory, the system ends these
        first; their tasks run again, and the session lives on. Functions of Python, and tables in stores, stay in this
        process. Linux only. "thread": tasks run in threads, which is faster where they are short. "auto", the default:
        where a control group limits the memory, tasks of a second and more run in child processes, once 15 seconds of
        such work have come; all others in threads.
    checkpoint_full: the reaction if that folder, or its disk, has no space for an output. "warn", the default, warns
        once for each query; it continues, but starts again if it is killed. "error" fails the query.
    """

    slots: int | None
    memory: int | str | None
    checkpoints: str | os.PathLike[str] | None
    replan: bool | None
    wait_for_capacity: float | None
    plan_cache: str | os.PathLike[str] | None
    checkpoint_budget: int | str | None
    reuse: bool | None
    trace: str | os.PathLike[str] | None
    persist: str | None
    staged: bool | None
    policy: str | None
    tenant: str | None
    tenants: Mapping[str, float] | str | None
    priority: float | None
    deadline: float | str | None
    scheduler: str | None
    view_sharing: str | None
    most_jobs: float | None
    most_queued: float | None
    local_frames: bool | None
    tables: str | os.PathLike[str] | None
    ray: str | None
    watch_machine: bool | None
    ray_reserve: bool | None
    node_queue: int | None
    ray_tls: bool | None
    runtime_env: Mapping[str, object] | None
    locked: bool | None
    copy_to: Sequence[str | os.PathLike[str]] | None
    statistics: str | None
    pack: bool | None
    checkpoint_full: str | None
    isolation: str | None


VARIABLES = {
    "QOOP_CACHE_DIR": "the user's folder of caches: statistics, parts of what lies in a store",
    "QOOP_CACHE_BUDGET": "4 GB for those parts",
    "QOOP_CONFIG": "the two files qoop.toml",
    "QOOP_KEY": "the key in the user's own folder, which is made when it is needed",
    "QOOP_KEY_FILE": "the same: a file that holds the key",
    "QOOP_HISTORY": "`~/.local/state/qoop/history`: what was typed into the shell",
}
"""Options that only the environment sets, with their defaults."""

IN_FILES = tuple(option.name for option in OPTIONS if option.text)
"""The options that a qoop.toml can set."""

GOALS = ("error_goal", "confidence", "exact_within")
"""Options of answers that grow."""

SETTABLE = tuple(option.name for option in OPTIONS if option.settable)
"""The options that SET changes, besides those of DuckDB that change results."""

FLAGS = {option.name: option.flag for option in OPTIONS if option.flag is not None}
"""The options of the command line."""
