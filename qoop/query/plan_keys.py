"""The identity of a text's plans: a digest of everything that determines them.

    text ──normal_text──> digest + tables' versions + settings + resources + cost model ──key_of──> key

A text has the same key only over the same versions of all tables that it might name, so no plan is found that is out of
date.  Decisions alone have a key that stays where files are added to tables; plans are made along them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import duckdb

from qoop.catalog.duckdb_introspection import ask
from qoop.catalog.table import Table
from qoop.planner.plan import Plan
from qoop.query.statements.normal_text import NormalText, is_steady, normal_text

FORMAT = 4
"""The version of files of plans. It rises when the meaning of a file changes."""

Key = str
Kind = Literal["plan", "alternatives", "decisions", "begun"]
Settings = tuple[tuple[str, str], ...]


def key_of(kind: str, text: str, settings: Settings, tables: Mapping[str, Table], *circumstances: object) -> Key:
    """The key of a text's plans.

    kind: of the entry. tables: all tables of the session, by lower-case name. circumstances: the other inputs of plans
    (the resources, the cost model), as values with a complete repr.
    """
    normal = normal_text(text)
    identity = _place_of if kind == "decisions" else _version_of
    named = sorted(f"{name} {identity(table)}" for name, table in named_tables(normal, tables))
    meaning = normal.pattern if kind == "decisions" else normal.digest
    return _digest(kind, meaning, repr(settings), *named, *map(repr, circumstances), planner_version())


def _version_of(table: Table) -> str:
    return f"{table.version} {table.max_parts()}"


def _place_of(table: Table) -> str:
    """The identity of a table by its place, whatever rows are added there.

    Decisions hold for about as many rows, which :func:`~qoop.planner.search.decisions.replay` sees to.
    """
    return _version_of(table) if table.origin is None else repr((table.origin, table.columns))


def may_be_kept(text: str, plans: Iterable[Plan]) -> bool:
    """True if the plans of a text may be stored: neither depends on the moment or the session, and the plans say all
    about the query (the planner does not know what an opaque stage calls or reads)."""
    if any(stage.opaque is not None for plan in plans for stage in plan.stages):
        return False
    return is_steady(text)  # last: DuckDB has to list its functions


def named_tables(normal: NormalText, tables: Mapping[str, Table]) -> Iterable[tuple[str, Table]]:
    """The tables that the text might name: all words of the name are somewhere in the text."""
    for name, table in tables.items():
        if name in normal.words or (not name.isidentifier() and _words(name) <= normal.words):
            yield name, table


@cache
def _words(name: str) -> frozenset[str]:
    return normal_text(name).words


@cache
def planner_version() -> str:
    """Digest of the code that makes and writes plans, of DuckDB's version and of its options where none is set."""
    from qoop.catalog.written import codec  # a process that runs one short query needs no key
    from qoop.planner import plan_json

    folder = Path(plan_json.__file__).parent
    sources = (path.read_bytes() for path in (*sorted(folder.rglob("*.py")), Path(codec.__file__)))
    code = blake2b(b"\0".join(sources), digest_size=16).hexdigest()
    [zone] = ask("SELECT current_setting('TimeZone'), current_setting('Calendar')")
    return _digest(code, duckdb.__version__, str(zone), str(FORMAT), str(plan_json.FORMAT))


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def all_shared(tables: Iterable[Table]) -> bool:
    """True if every other process that registers the same sources sees the same versions."""
    return all(table.source.shared for table in tables)


def versions(tables: Mapping[str, Table]) -> dict[str, str]:
    """Versions by lower-case name."""
    return {name.lower(): table.version for name, table in tables.items()}


def about(plan: Plan, tables: Mapping[str, str], settings: Settings) -> bool:
    """True if a plan reads no other versions of tables than these (by lower-case name), under these settings."""
    read: Sequence[tuple[str, str]] = [(item.table, item.version) for s in plan.stages for item in s.table_inputs]
    return plan.settings == settings and all(tables.get(name.lower()) == version for name, version in read)
