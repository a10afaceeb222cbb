"""Plans of texts that were planned before: found again without parsing, binding or planning anything.

    text ──normal_text──> digest + tables' versions + settings + resources + cost model ──key_of──> key ──find──> Entry

All that a plan follows from is in the key, so nothing stale is ever found: a text is found again only over the same
versions of all tables that it might name.  Decisions alone are found again where files were added to tables, too; plans
are made along them again.  What a plan holds of the moment it was made (``now()``), or of files that
no version stands for, is not kept (:func:`may_be_kept`).

Entries live in memory, the most recently used ones, and, given a folder, in one JSON file each, written next to its
place and renamed into it: two processes may share the folder.  Texts over tables that only this process can see stay
in memory.  A file is believed only if it bears the seal of the user's key (:mod:`qoop.catalog.user_key`) and each of
its stages is one SELECT over its inputs (:mod:`qoop.engine.stage_sql`).  One that is damaged, that somebody else has
put there, or that another version of the planner wrote, counts as none and is replaced.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import duckdb

from qoop.catalog.duckdb_introspection import ask
from qoop.catalog.errors import ConfigError, PlanError
from qoop.catalog.signed_json import opened, sealed
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.table import Table
from qoop.catalog.user_key import user_key
from qoop.catalog.value import value
from qoop.catalog.written import codec
from qoop.planner import plan_json
from qoop.planner.plan import Plan
from qoop.planner.search.candidate import Alternatives
from qoop.planner.search.decisions import PlanDecision
from qoop.query.statements.normal_text import NormalText, normal_text

FORMAT = 3
"""Raised when a file means something else than before."""

Key = str
Kind = Literal["plan", "alternatives", "decisions"]
Settings = tuple[tuple[str, str], ...]

_MOMENTS = ("current_timestamp", "current_time", "current_localtime", "current_localtimestamp", "localtime",
            "localtimestamp", "rand", "getvariable", "current_setting")  # fmt: skip
_PER_STAGE, _PER_COLUMN, _PER_DECISION = 2_000, 150, 2_000


@value
class Entry:
    """The facts known of a text. tables: those it reads, version by lower-case name; none if other versions will do.
    guessed: of these the columns that only footers told of: once statistics of one are collected, plans get better.

    plans: the one that was made for some size, or those that are worth keeping on a grid; none if other literals are in
        the text. decisions: how they were found. alternatives: the same with all that the search has looked at.
    """

    tables: Mapping[str, str]
    plans: tuple[Plan, ...] = ()
    decisions: tuple[PlanDecision, ...] = ()
    alternatives: Alternatives | None = field(default=None, compare=False, repr=False)
    guessed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def bytes(self) -> int:
        """About what it holds of memory."""
        pool = () if self.alternatives is None else self.alternatives.pool.candidates
        plans = (*self.plans, *(one.plan for one in pool))
        stages = {id(stage): stage for plan in plans for stage in plan.stages}  # plans have many in common
        texts = sum(len(stage.sql) + _PER_COLUMN * len(stage.columns) for stage in stages.values())
        return texts + _PER_STAGE * len(stages) + _PER_DECISION * len(self.decisions)


class PlanCache:
    """Entries by key; the least recently used one goes first. Thread-safe.

    directory: where entries also go that other processes can use; None: nowhere.
    most, most_bytes: of the entries in memory. The folder holds ten times as many files at most.
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
        """The entry under the key, None if nothing was or it is gone."""
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

    def keep(self, key: Key, entry: Entry, shared: bool = False) -> None:
        """Keep an entry. shared: other processes see the same tables, so it may go to the folder."""
        with self._lock:
            self._add(key, entry)
        if shared and self._files is not None:
            self._files.save(key, entry)

    def forget(self, key: Key) -> None:
        """Drop an entry that turned out to be a bad one; the next to plan the text puts a better one in its place."""
        with self._lock:
            self._drop(key)
        if self._files is not None:
            self._files.remove(key)

    def tables_changed(self, versions: Mapping[str, str]) -> None:
        """Drop the entries in memory that read other versions of these tables (given by lower-case name)."""
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


def key_of(kind: str, text: str, settings: Settings, tables: Mapping[str, Table], *circumstances: object) -> Key:
    """The key of a text's plans.

    kind: what is kept. tables: all there are, by lower-case name. circumstances: whatever else plans follow from (the
    resources, the cost model), as values whose repr says all.
    """
    normal = normal_text(text)
    told = _place_of if kind == "decisions" else _version_of
    named = sorted(f"{name} {told(table)}" for name, table in named_tables(normal, tables))
    said = normal.pattern if kind == "decisions" else normal.digest
    return _digest(kind, said, repr(settings), *named, *map(repr, circumstances), planner_version())


def _version_of(table: Table) -> str:
    return f"{table.version} {table.max_parts()}"


def _place_of(table: Table) -> str:
    """The identity of a table as long as it stands at one place, whatever is added there.

    Decisions hold for about as many rows, which :func:`~qoop.planner.search.decisions.replay` sees to.
    """
    return _version_of(table) if table.origin is None else repr((table.origin, table.columns))


def may_be_kept(text: str, plans: Iterable[Plan]) -> bool:
    """True if the plans of a text are worth finding again: neither depends on the moment or the session it is met in,
    and the plans say all about the query (what an opaque stage calls, or reads, the planner does not know)."""
    if any(stage.opaque is not None for plan in plans for stage in plan.stages):
        return False
    return is_steady(text)  # asked last: DuckDB needs 10 ms to list its functions


def is_steady(text: str) -> bool:
    """True if a text means the same at another moment and in another session."""
    return not normal_text(text).words & _unsteady_words()


def named_tables(normal: NormalText, tables: Mapping[str, Table]) -> Iterable[tuple[str, Table]]:
    """The tables that the text might name: all words of the name are somewhere in the text."""
    for name, table in tables.items():
        if name in normal.words or (not name.isidentifier() and _words(name) <= normal.words):
            yield name, table


@cache
def _words(name: str) -> frozenset[str]:
    return normal_text(name).words


@cache
def _unsteady_words() -> frozenset[str]:
    """Names that stand for something else at another moment, in another session or in another query."""
    rows = ask(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT' "
        "OR macro_definition ILIKE '%current_timestamp%' OR macro_definition ILIKE '%now()%'"
    )
    return frozenset((*(str(name).lower() for (name,) in rows), *_MOMENTS))


@cache
def planner_version() -> str:
    """Digest of the code that makes and writes plans, of DuckDB's version and of its options where none is set."""
    folder = Path(plan_json.__file__).parent
    sources = (path.read_bytes() for path in (*sorted(folder.rglob("*.py")), Path(codec.__file__)))
    code = blake2b(b"\0".join(sources), digest_size=16).hexdigest()
    [zone] = ask("SELECT current_setting('TimeZone'), current_setting('Calendar')")
    return _digest(code, duckdb.__version__, str(zone), str(FORMAT), str(plan_json.FORMAT))


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


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
        data = {
            "format": FORMAT, "key": key, "tables": dict(entry.tables), "plans": list(map(plan_json.dump, entry.plans)),
            "decisions": list(map(plan_json.write, entry.decisions)),
            "guessed": {name: sorted(columns) for name, columns in entry.guessed.items()},
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
        """Every so often, remove the files that were not used for longest."""
        self._saved += 1
        if self._saved % 64 != 1:
            return
        ages = sorted((item.stat().st_mtime, item.path) for item in os.scandir(self._folder))
        for _, path in ages[: max(0, len(ages) - self._most)]:
            Path(path).unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._folder / f"{key}.json"


def _entry(data: dict[str, Any]) -> Entry:
    tables = {str(name): str(version) for name, version in data["tables"].items()}
    decisions = tuple(plan_json.read(PlanDecision, item) for item in data["decisions"])
    plans = tuple(map(plan_json.load, data["plans"]))
    if plans:
        from qoop.engine.stage_sql import check_plan

        for plan in plans:
            check_plan(plan)
    guessed = {str(name): frozenset(map(str, columns)) for name, columns in data["guessed"].items()}
    return Entry(tables, plans, decisions, guessed=guessed)


def all_shared(tables: Iterable[Table]) -> bool:
    """True if every other process that registers the same sources sees the same versions."""
    return all(table.source.shared for table in tables)
