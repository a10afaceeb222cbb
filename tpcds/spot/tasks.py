"""The classes of work, and their texts in the dialect of an engine: written by sqlglot, none mended by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sqlglot
from sqlglot.errors import SqlglotError

from qoop.tpcds.queries import texts
from qoop.tpcds.spot import chain
from qoop.tpcds.spot.course import Work

LONG, BATCH, CHAIN = "long", "batch", "chain"
CLASSES = (LONG, BATCH, CHAIN)


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one run: a query of the class *long*, all queries of *batch* in order, or all tables of *chain*.

    texts: their names.
    """

    work_class: str
    name: str
    texts: tuple[str, ...]

    @property
    def judged(self) -> tuple[str, ...]:
        """The texts whose answers are judged."""
        return chain.RESULTS if self.work_class == CHAIN else self.texts


def long_task(query: int) -> Task:
    """One of the long queries.

    >>> long_task(7).name
    'q7'
    """
    return Task(LONG, f"q{query}", (f"q{query}",))


def batch_task(queries: tuple[int, ...]) -> Task:
    """The queries in order, one after the other. The name says which, if they are not all."""
    name = BATCH if len(queries) == 99 else f"{BATCH}-" + "-".join(map(str, queries))
    return Task(BATCH, name, tuple(f"q{query}" for query in queries))


CHAIN_TASK = Task(CHAIN, CHAIN, tuple(chain.CHAIN))


def works(task: Task, dialect: str, directory: Path, answers: Path) -> list[Work]:
    """The texts of a task for an engine; answers go to files in a folder. Raises ConfigError."""
    written = in_dialect(dialect, directory)
    if task.work_class == CHAIN:
        return [Work(name, written[name], str(answers / f"{name}.parquet"), name) for name in task.texts]
    return [Work(name, written[name], str(answers / f"{name}.arrow")) for name in task.texts]


@cache
def in_dialect(dialect: str, directory: Path) -> Mapping[str, str]:
    """All texts in a dialect of sqlglot's, by name. One that it cannot write goes as it is. Raises ConfigError."""
    queries = {f"q{number}": text for number, text in texts(directory=directory).items()}
    found = {**queries, **chain.CHAIN}
    return found if dialect == "duckdb" else {name: _written(text, dialect) for name, text in found.items()}


def _written(text: str, dialect: str) -> str:
    try:
        return sqlglot.transpile(text, read="duckdb", write=dialect)[0]
    except SqlglotError:
        return text
