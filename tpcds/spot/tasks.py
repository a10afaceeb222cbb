"""The classes of work, and their texts in the dialect of an engine: written by sqlglot, none mended by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

import sqlglot
from sqlglot.errors import SqlglotError

from qoop.tpcds.load.arrivals import Queries, Tenant, arrivals
from qoop.tpcds.queries import texts
from qoop.tpcds.spot import chain
from qoop.tpcds.spot.course import Work

LONG, BATCH, CHAIN, LOAD, RESIZED = "long", "batch", "chain", "load", "resized"
CLASSES = (LONG, BATCH, CHAIN, LOAD, RESIZED)

_OFFERED, _LOAD_LENGTH = 0.6, 100.0
"""Of *load*: the work that arrives, as a part of what the reference can do; and for how many mean times of a query."""
_TENANTS = (
    Tenant("dashboard", "dashboard"), Tenant("analyst 1", "analyst"), Tenant("analyst 2", "analyst"),
    Tenant("night", "batch"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one run: a query of the class *long* or *resized*, all queries of *batch* in order, all tables of
    *chain*, or the queries of *load* as they arrive.

    texts: their names; of *load* ``TEXT NUMBER``, since some arrive more than once. arrivals: the second of each.
    """

    work_class: str
    name: str
    texts: tuple[str, ...]
    arrivals: tuple[float, ...] = ()

    @property
    def judged(self) -> tuple[str, ...]:
        """The texts whose answers are judged."""
        return chain.RESULTS if self.work_class == CHAIN else self.texts


def long_task(query: int, work_class: str = LONG) -> Task:
    """One of the long queries.

    >>> long_task(7).name
    'q7'
    """
    return Task(work_class, f"q{query}", (f"q{query}",))


def load_task(seconds: Mapping[int, float], seed: int, slots: float = 1.0) -> Task:
    """Queries of four people as they arrive, 100 mean times long. seconds: of each query on the machine alone.

    >>> task = load_task({1: 0.1, 2: 0.2, 3: 1.5}, 1)
    >>> len(task.texts) == len(task.arrivals) > 20
    True
    """
    length = _LOAD_LENGTH * fmean(seconds.values())
    found = arrivals(Queries(seconds), slots, _OFFERED, length, seed, _TENANTS)
    texts = tuple(f"q{one.query} {number}" for number, one in enumerate(found))
    return Task(LOAD, LOAD, texts, tuple(round(one.at, 4) for one in found))


def text_name(work: str) -> str:
    """The name of the text of a work.

    >>> text_name("q7 12"), text_name("q7")
    ('q7', 'q7')
    """
    return work.partition(" ")[0]


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
    times = task.arrivals or (None,) * len(task.texts)
    return [
        Work(name, written[text_name(name)], str(answers / f"{name}.arrow"), arrives=at)
        for name, at in zip(task.texts, times, strict=True)
    ]


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
