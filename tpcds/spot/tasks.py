"""The classes of work, and their texts in the dialect of an engine: written by sqlglot, none mended by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sqlglot
from sqlglot.errors import SqlglotError

from qoop.tpcds.queries import texts
from qoop.tpcds.spot.course import Work

LONG, BATCH = "long", "batch"
CLASSES = (LONG, BATCH)


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one run: a query of the class *long*, or all queries of *batch* in order."""

    work_class: str
    name: str
    queries: tuple[int, ...]


def long_task(query: int) -> Task:
    """One of the long queries.

    >>> long_task(7).name
    'q7'
    """
    return Task(LONG, f"q{query}", (query,))


def batch_task(queries: tuple[int, ...]) -> Task:
    """The queries in order, one after the other. The name says which, if they are not all."""
    name = BATCH if len(queries) == 99 else f"{BATCH}-" + "-".join(map(str, queries))
    return Task(BATCH, name, queries)


def works(task: Task, dialect: str, directory: Path, answers: Path) -> list[Work]:
    """The texts of a task for an engine; answers go to files in a folder. Raises ConfigError."""
    written = in_dialect(dialect, directory)
    return [Work(f"q{number}", written[number], str(answers / f"q{number}.arrow")) for number in task.queries]


@cache
def in_dialect(dialect: str, directory: Path) -> Mapping[int, str]:
    """All queries in a dialect of sqlglot's. A text that it cannot write goes as it is. Raises ConfigError."""
    found = texts(directory=directory)
    return found if dialect == "duckdb" else {number: _written(text, dialect) for number, text in found.items()}


def _written(text: str, dialect: str) -> str:
    try:
        return sqlglot.transpile(text, read="duckdb", write=dialect)[0]
    except SqlglotError:
        return text
