"""The plans of texts that were planned before, in memory and in files.

    the same text, tables, settings, resources -> the plans themselves                     (well under 2 ms)
    the same but for literals, or rows added   -> plans made along the decisions of before (no search)
    anything else                              -> the search

`PlanStore` holds entries by key (:mod:`qoop.query.plan_keys`): the most recently used ones in memory and, with a
folder, each in one JSON file, which is written next to its place and renamed into it.  Two processes may share the
folder.  Texts over tables that only this process can see stay in memory.  `SessionPlans` finds and adds the entries of
one session's texts.  Plans that hold a moment (``now()``), or files that no version stands for, are not stored.

A file is valid with the seal of the user's key (:mod:`qoop.catalog.user_key`), if each of its stages is one SELECT over
its inputs (:mod:`qoop.engine.stage_sql`).  A file that is damaged, from another user, or from another version of the
planner is ignored and replaced.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from math import inf, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import ConfigError, PlanError
from qoop.catalog.signed_json import opened, sealed
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.table import Table
from qoop.catalog.user_key import user_key
from qoop.catalog.value import value
from qoop.planner.collector import collector_waits
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.observed import MISJUDGED
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Alternatives, Candidate, Grid
from qoop.planner.sql.bind import Binder, Bound
from qoop.query.config import Statistics
from qoop.query.job import Prepared
from qoop.query.plan_keys import FORMAT, Key, Kind, all_shared, key_of, may_be_kept, versions

if TYPE_CHECKING:
    from qoop.planner.search.decisions import PlanDecision

_PER_STAGE, _PER_COLUMN, _PER_DECISION = 2_000, 150, 2_000
_BEGUN = 4
"""Plans of a text that runs have begun with, of which the store keeps the last."""


@value
class Entry:
    """The plans of a text, and the tables that they read.

    tables: the version of each table that the text reads, by lower-case name; empty if other versions will do.
    plans: the plan for one size, or those worth keeping on a grid; empty if the entry is for other literals, too.
    decisions: the steps of the search that lead to the plans. alternatives: the plans with the pool of the search.
    guessed: columns, by table, with statistics from footers alone. Statistics that are collected later improve the
        plans. duckdb_seconds: the estimate by statistics for DuckDB's own plan, in seconds of one thread, if known: a
        process that starts again compares plans without loading the planner. life: the least seconds of a process that
        the plans were made for.
    """

    tables: Mapping[str, str]
    plans: tuple[Plan, ...] = ()
    decisions: tuple[PlanDecision, ...] = ()
    alternatives: Alternatives | None = field(default=None, compare=False, repr=False)
    guessed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    duckdb_seconds: float | None = None
    life: float = inf

    @cached_property
    def bytes(self) -> int:
        """An estimate of its memory in bytes."""
        pool = () if self.alternatives is None else self.alternatives.pool.candidates
        plans = (*self.plans, *(one.plan for one in pool))
        stages = {id(stage): stage for plan in plans for stage in plan.stages}  # plans have many in common
        texts = sum(len(stage.sql) + _PER_COLUMN * len(stage.columns) for stage in stages.values())
        return texts + _PER_STAGE * len(stages) + _PER_DECISION * len(self.decisions)


class PlanStore:
    """Entries by key; the least recently used one is removed first. Thread-safe.

    directory: the folder of entries that other processes can use, too; None: all stay in memory.
    most, most_bytes: limits of the entries in memory. The folder has ten times as many files at most.
    """

    def __init__(self, directory: Path | None = None, most: int = 512, most_bytes: int = 64 << 20) -> None:
        self._files = _Files(directory, 10 * most) if directory is not None else None
        self._most, self._most_bytes = most, most_bytes
        self._lock = threading.Lock()
        self._entries: dict[Key, Entry] = {}
        self._bytes = 0
        self.hits = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        """True if it is in memory; does not count as a use."""
        return key in self._entries

    def find(self, key: Key) -> Entry | None:
        """The entry under the key; None: there is none, or it was dropped."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._entries[key] = entry  # the youngest now
                self.hits += 1
                return entry
        entry = self._files.load(key) if self._files is not None else None
        with self._lock:
            if entry is None:
                return None
            self.hits += 1
            self._add(key, entry)
        return entry

    def add(self, key: Key, entry: Entry, shared: bool = False) -> None:
        """Add an entry, or replace it. shared: other processes see the same tables, so it may go to the folder."""
        with self._lock:
            self._add(key, entry)
        if shared and self._files is not None:
            self._files.save(key, entry)

    def drop(self, key: Key) -> None:
        """Drop an entry whose plan is a bad one. The next planning of the text adds a better one."""
        with self._lock:
            self._drop(key)
        if self._files is not None:
            self._files.remove(key)

    def tables_changed(self, versions: Mapping[str, str]) -> None:
        """Drop the entries in memory that read other versions of these tables (by lower-case name)."""
        with self._lock:
            for key, entry in list(self._entries.items()):
                if any(versions.get(name, version) != version for name, version in entry.tables.items()):
                    self._drop(key)

    def _add(self, key: Key, entry: Entry) -> None:
        self._drop(key)
        self._entries[key] = entry
        self._bytes += entry.bytes
        while len(self._entries) > self._most or (self._bytes > self._most_bytes and len(self._entries) > 1):
            self._drop(next(iter(self._entries)))

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.bytes


class _Files:
    """Entries in a folder, a file each. Problems with files never fail a query: planning again is always right."""

    def __init__(self, directory: Path, most: int) -> None:
        self._folder = directory / "plans"
        self._most = most
        self._saved = 0

    def load(self, key: Key) -> Entry | None:
        path = self._path(key)
        try:
            data = opened(path.read_bytes(), user_key())
            if (data["format"], data["key"]) != (FORMAT, key):
                return None
            entry = _entry(data)
            with suppress(OSError):  # a folder that cannot be written
                os.utime(path)  # the least recently used go first
        except (OSError, ValueError, KeyError, TypeError, AttributeError, PlanError, ConfigError):
            return None
        return entry

    def save(self, key: Key, entry: Entry) -> None:
        from qoop.planner import plan_json  # as the modules below: a process that runs one short query stores no plan

        data = {
            "format": FORMAT, "key": key, "tables": dict(entry.tables), "plans": list(map(plan_json.dump, entry.plans)),
            "decisions": list(map(plan_json.write, entry.decisions)),
            "guessed": {name: sorted(columns) for name, columns in entry.guessed.items()},
            "duckdb_seconds": entry.duckdb_seconds, "life": None if entry.life == inf else entry.life,
        }  # fmt: skip
        try:
            write_whole(self._path(key), sealed(data, user_key()))
            self._trim()
        except (OSError, ConfigError) as error:
            warnings.warn(f"plans cannot be kept in {self._folder}: {error}", RuntimeWarning, stacklevel=2)

    def remove(self, key: Key) -> None:
        with suppress(OSError):  # a folder that cannot be written: the file stays what it was, right but slow
            self._path(key).unlink(missing_ok=True)

    def _trim(self) -> None:
        """From time to time, remove the least recently used files."""
        self._saved += 1
        if self._saved % 64 != 1:
            return
        ages = sorted((item.stat().st_mtime, item.path) for item in os.scandir(self._folder))
        for _, path in ages[: max(0, len(ages) - self._most)]:
            Path(path).unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._folder / f"{key}.json"


def _entry(data: dict[str, Any]) -> Entry:
    from qoop.planner import plan_json
    from qoop.planner.search.decisions import PlanDecision

    tables = {str(name): str(version) for name, version in data["tables"].items()}
    decisions = tuple(plan_json.read(PlanDecision, item) for item in data["decisions"])
    plans = tuple(map(plan_json.load, data["plans"]))
    if plans:
        from qoop.engine.stage_sql import check_plan

        for plan in plans:
            check_plan(plan)
    guessed = {str(name): frozenset(map(str, columns)) for name, columns in data["guessed"].items()}
    seconds, life = data["duckdb_seconds"], inf if data["life"] is None else float(data["life"])
    return Entry(tables, plans, decisions, None, guessed, None if seconds is None else float(seconds), life)


class SessionPlans:
    """The plans of one session's texts, in a store that sessions may share. Thread-safe.

    lock: of changes to tables. statistics: the option of the session.
    calls: the seconds a row of functions of Python, as far as they have run.
    """

    def __init__(
        self,
        store: PlanStore,
        catalog: Catalog,
        binder: Binder,
        lock: threading.RLock,
        cost: CostModel,
        statistics: Statistics,
        calls: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._store, self._catalog, self._binder, self._lock, self._cost = store, catalog, binder, lock, cost
        self._statistics, self._calls = statistics, calls

    def plan(self, text: str, available: Resources) -> tuple[Bound, Plan, Mapping[str, Table]] | None:
        """The plan of a text for some resources, with its tables, pinned."""
        entry = self._find(self._key("plan", text, available))
        found = None if entry is None else self._bound(text, entry)
        return None if entry is None or found is None else (found[0], entry.plans[0], found[1])

    def _bound(self, text: str, entry: Entry) -> tuple[Bound, Mapping[str, Table]] | None:
        """The text as the plans of an entry read it, with its tables."""
        with self._lock:
            tables = {name: self._catalog.table(name) for name in entry.tables}
        if versions(tables) != entry.tables:  # they have just changed
            return None
        plan = entry.plans[0]
        schemas = {name: (table.version, table.columns) for name, table in tables.items()}
        functions = self._binder.functions(text)
        return Bound(text.strip(), None, schemas, plan.columns, plan.settings, functions=functions), tables

    def duckdb_seconds(self, text: str, available: Resources) -> float | None:
        """The estimate by statistics that was stored with the plan of a text for some resources."""
        entry = self._find(self._key("plan", text, available))
        return None if entry is None else entry.duckdb_seconds

    def add_plan(
        self, text: str, available: Resources, prepared: Prepared, plan: Plan, duckdb_seconds: float | None = None
    ) -> None:
        """Add the plan of a text for some resources. duckdb_seconds: as of an `Entry`."""
        entry = self._entry(prepared, (plan,), duckdb_seconds=duckdb_seconds)
        self._add(text, self._key("plan", text, available), prepared, entry)

    def begun(self, text: str) -> tuple[Plan, ...]:
        """The plans that runs of a text have begun with, on any resources; the last first. Their outputs may exist."""
        return self._begun(self._key("begun", text))

    def begun_as(self, text: str) -> tuple[Bound, Mapping[str, Table]] | None:
        """The text as these plans read it, with its tables; None if there are none."""
        entry = self._find(self._key("begun", text))
        return None if entry is None else self._bound(text, entry)

    def begun_for(self, text: str) -> float:
        """The least seconds of a process that these plans were made for; infinite: they were not made for one."""
        entry = self._find(self._key("begun", text))
        return inf if entry is None else entry.life

    def add_begun(self, text: str, prepared: Prepared, plan: Plan, life: float = inf) -> None:
        """A run of a text begins with a plan. life: seconds of a process that it was made for."""
        key = self._key("begun", text)
        others = [one for one in self._begun(key) if one != plan]
        life = min(life, self.begun_for(text))
        self._add(text, key, prepared, self._entry(prepared, (plan, *others)[:_BEGUN], life=life))

    def _begun(self, key: Key) -> tuple[Plan, ...]:
        entry = self._find(key)
        return () if entry is None else entry.plans

    @collector_waits()
    def alternatives(self, text: str, grid: Grid, prepare: Callable[[], Prepared]) -> Alternatives:
        """The plans of a text worth keeping: those of the store, else those of a search."""
        from qoop.planner.search.decisions import decisions, replay

        key = self._key("alternatives", text, grid)
        stored = self._stored(key, grid)
        if stored is not None:
            return stored
        prepared = prepare()
        pattern = self._key("decisions", text, grid)
        before = self._find(pattern)
        planning = prepared.planning()
        found = replay(planning, grid, before.decisions) if before is not None else None
        if found is None:
            from qoop.planner.search.alternatives import keep, pool  # loads the planner

            found = keep(pool(planning, grid))
            self._add(text, pattern, prepared, replace(self._entry(prepared, decisions=decisions(found)), tables={}))
        kept = tuple(one.plan for one in found.kept)
        self._add(text, key, prepared, self._entry(prepared, kept, decisions=decisions(found), alternatives=found))
        return found

    def has_alternatives(self, text: str, grid: Grid) -> bool:
        """True if they are in memory."""
        if not len(self._store):  # a process that has just started: its key digests the planner's code, 20 ms
            return False
        return self._key("alternatives", text, grid) in self._store

    def kept(self, text: str, grid: Grid) -> Sequence[Candidate]:
        """The plans worth keeping that are in the store; empty if the text has none there."""
        stored = self._stored(self._key("alternatives", text, grid), grid)
        return () if stored is None else stored.kept

    def _stored(self, key: Key, grid: Grid) -> Alternatives | None:
        """The alternatives under a key. An entry from a file becomes like one that was added here."""
        entry = self._find(key)
        if entry is None or entry.alternatives is not None:
            return None if entry is None else entry.alternatives
        from qoop.planner.search.decisions import recalled

        found = recalled(zip(entry.plans, entry.decisions, strict=True), grid, self._cost)
        self._store.add(key, replace(entry, alternatives=found))
        return found

    def forget(self, text: str, available: Resources, grid: Grid) -> None:
        """Drop the plans of a text, because the estimates of one were far off."""
        for key in (self._key("plan", text, available), self._key("alternatives", text, grid)):
            self._store.drop(key)

    def _key(self, kind: Kind, text: str, *circumstances: object) -> Key:
        tables = {name.lower(): table for name, table in self._catalog.tables().items()}
        functions = self._binder.functions(text).values()
        row_seconds = self._calls() if functions else {}
        calls = [f"{one.key} {_about(row_seconds.get(one.key))}" for one in functions]
        about = (*circumstances, self._cost, self._statistics, *calls)
        return key_of(kind, text, self._binder.settings, tables, *about)

    def _find(self, key: Key) -> Entry | None:
        """The entry under a key, if it fits the present tables and settings."""
        entry = self._store.find(key)
        if entry is None:
            return None
        settings, present = self._binder.settings, versions(self._catalog.tables())
        fits = all(present.get(name) == version for name, version in entry.tables.items())
        if not fits or any(plan.settings != settings for plan in entry.plans):
            return None
        if self._is_behind(entry):
            self._store.drop(key)
            return None
        return entry

    def _is_behind(self, entry: Entry) -> bool:
        """True if statistics were collected later for columns that it knows from footers alone."""
        return any(columns & set(self._catalog.collected(name)) for name, columns in entry.guessed.items())

    def _entry(self, prepared: Prepared, plans: tuple[Plan, ...] = (), **more: Any) -> Entry:
        """An entry for the present versions of the tables. more: its other fields."""
        guessed = {name.lower(): one.guessed for name, one in prepared.stats.items() if one.guessed}
        return Entry(versions(prepared.tables), plans, guessed=guessed, **more)

    def _add(self, text: str, key: str, prepared: Prepared, entry: Entry) -> None:
        if may_be_kept(text, entry.plans):
            self._store.add(key, entry, all_shared(prepared.tables.values()))


def _about(row_seconds: float | None) -> int | None:
    """The seconds a row of a function, rounded to a factor: plans for other seconds have another key."""
    return None if row_seconds is None else round(log(max(row_seconds, 1e-9), MISJUDGED))
