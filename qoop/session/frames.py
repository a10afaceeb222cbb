"""The variables of the program that queries read: each is a table for as long as a query reads it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import quoted
from qoop.planner.sql.sources import OF_PROGRAM
from qoop.query.tables import SessionTables

_FROM = re.compile(r"\bfrom\b", re.I)


@dataclass
class _Frame:
    """The value of a variable as a table. texts: the number that is planned over it now. jobs: the ends of those that
    read it."""

    value: object
    table: str
    texts: int = 0
    jobs: list[Future[Any]] = field(default_factory=list)

    @property
    def in_use(self) -> bool:
        self.jobs = [end for end in self.jobs if not end.done()]
        return bool(self.texts or self.jobs)


class Frames:
    """Finds variables for texts. Thread-safe: threads may have different values under one name.

    The table of a variable has a name that no text has, so it never stands in the place of a table, a view or a query
    of a WITH. It stays for the queries to come until one of them finds another value under the name.
    """

    def __init__(self, tables: SessionTables) -> None:
        self._tables = tables
        self._lock = threading.Lock()
        self._frames: dict[str, list[_Frame]] = {}  # by the name of the variable

    def named(self, text: str) -> Mapping[str, object]:
        """The variables that a text may read, by name: no table and no view has the name."""
        from qoop.query.statements.local_frames import names_where_tables_stand, variables

        names = self._tables.unknown(names_where_tables_stand(text))
        return variables(names) if names else {}

    @contextmanager
    def read_by(self, text: str) -> Iterator[str]:
        """The text with a table in the place of each variable that it reads. The tables stay until the block ends, and
        for the jobs that started within it."""
        found = self.named(text)
        read = _read(text, found) if found else ()
        if not read:
            yield text
            return
        from qoop.query.statements.plain_names import renamed

        frames: dict[str, _Frame] = {}
        try:
            for name in read:
                frames[name] = self._frame(name, found[name])
            tables = {name: frame.table for name, frame in frames.items()}
            yield self._with_columns(renamed(text, {name.lower(): table for name, table in tables.items()}), tables)
        finally:
            with self._lock:
                for frame in frames.values():
                    frame.texts -= 1

    def _with_columns(self, text: str, tables: Mapping[str, str]) -> str:
        """The text with the column names of the program's text: DuckDB derives some from inner queries.

        tables: by names of variables.
        """
        if len(_FROM.findall(text)) < 2:  # no query within it
            return text
        try:
            now = [name for name, _ in self._tables.binder.describe(text)]
        except QueryError:
            return text  # planning reports the fault
        written_names = [_as_written(name, tables) for name in now]
        if written_names == now:
            return text
        from qoop.query.statements.macros.naming import with_names

        return with_names(text, now, written_names)

    def started(self, job: JobHandle, tables: Mapping[str, object]) -> None:
        """A job reads some tables, which may be those of variables. tables: by name in lower case."""
        with self._lock:
            for frame in (frame for frames in self._frames.values() for frame in frames if frame.table in tables):
                frame.jobs.append(job.done)

    def _frame(self, name: str, value: object) -> _Frame:
        """The table of a variable for a text; tables of earlier values are dropped."""
        from qoop.query.statements.local_frames import may_change

        with self._lock:
            used = [frame for frame in self._frames.get(name, ()) if frame.in_use or frame.value is value]
            frame = next((frame for frame in used if frame.value is value and not may_change(value)), None)
            if frame is None:
                used = [frame for frame in used if frame.in_use]
                frame = _Frame(value, self._free_name(name, {frame.table for frame in used}))
                self._tables.register(frame.table, value)
                used.append(frame)
            frame.texts += 1
            for table in {before.table for before in self._frames.get(name, ())} - {one.table for one in used}:
                self._tables.forget(table)
            self._frames[name] = used
            return frame

    def _free_name(self, name: str, taken: set[str]) -> str:
        """A free table name for a variable; other variables may differ from it only in case."""
        taken = taken | {frame.table for other, frames in self._frames.items() if other != name for frame in frames}
        tried = (f"{name.lower()}{number or ''}{OF_PROGRAM}" for number in count())
        return next(table for table in tried if table not in taken)


def _as_written(column: str, tables: Mapping[str, str]) -> str:
    """The name of a column without the tables of variables.

    >>> _as_written('(SELECT max(n) FROM "df of the program" AS DF)', {"df": "df of the program"})
    '(SELECT max(n) FROM DF)'
    """
    for name, table in tables.items():
        alias = rf"(?: AS ({re.escape(quoted(name))}|{re.escape(name)})(?!\w))?"
        column = re.sub(re.escape(quoted(table)) + alias, partial(_alias, name), column, flags=re.I)
    return column


def _alias(name: str, found: re.Match[str]) -> str:
    return found[1] or name


def _read(text: str, names: Mapping[str, object]) -> list[str]:
    """Those of the names that a text reads and does not define in a WITH."""
    from qoop.planner.sql.sources import tables_read

    return [name for name in tables_read(text) if name in names]
