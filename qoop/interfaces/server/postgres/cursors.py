"""SQL cursors: DECLARE, FETCH, MOVE and CLOSE over the rows of a query, which are computed once.

A cursor keeps the rows behind it, up to 8 MB for a client, so that it goes back. Past that, or with NO SCROLL, it goes
forward only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from qoop.catalog.errors import QueryError
from qoop.interfaces.server.postgres.rows import Columns
from qoop.interfaces.server.postgres.utility_statements import Declare, Fetch

if TYPE_CHECKING:
    from qoop.interfaces.server.queries import UserQuery
    from qoop.query.result import Result

MOST_KEPT = 8 << 20
"""Bytes of rows that the cursors of a client keep behind them, together."""


class SqlCursor:
    """A cursor. Its position is that of a row, from 1; 0 is before the first, and one more than all is behind the last.

    parts: of the answer, in order. query: that computes them; None: they are there. keep_few: is called as it goes on,
    to drop rows behind it.
    """

    def __init__(
        self,
        declared: Declare,
        columns: Columns,
        parts: Iterator[Result],
        query: UserQuery | None,
        keep_few: Callable[[SqlCursor], None],
    ) -> None:
        self.declared, self.columns, self.query = declared, columns, query
        self._parts, self._keep_few = parts, keep_few
        self._kept: list[tuple[int, Result]] = []  # and the position of the row before each part
        self._first = 0  # rows that are kept no more
        self._known = 0  # rows of all parts so far
        self._is_whole = False
        self._at = 0

    def fetch(self, step: Fetch) -> Iterator[Result]:
        """Move, and hand out the rows passed, or the row moved to. Raises QueryError for rows that are kept no more,
        and what the query raises."""
        if step.to != "steps" or step.count == 0:
            return self._one(step)
        return self._back(step.count) if step.backward else self._forward(step.count)

    @property
    def kept(self) -> int:
        """Bytes of the rows behind the position."""
        return sum(part.lossless().nbytes for part in self._behind())

    def drop(self, most: int) -> None:
        """Keep at most that many bytes of rows behind the position."""
        size = self.kept
        for part in self._behind() if size > most else []:
            if size <= most:
                break
            size -= part.lossless().nbytes
            self._kept.pop(0)
            self._first += len(part)

    def end(self, error: Exception | None = None) -> None:
        """Forget the rows, and end the query."""
        self._kept, self._is_whole = [], True
        if self.query is not None:
            self.query.end(error)

    def _one(self, step: Fetch) -> Iterator[Result]:
        assert step.count is not None
        goal = step.count if step.to == "absolute" else self._at + step.count
        if step.to == "absolute" and step.count < 0:
            self._read_to(None)
            goal = self._known + 1 + step.count
        self._read_to(goal)
        self._check_kept(goal)
        self._at = max(0, min(goal, self._known + 1))
        yield from self._between(goal, goal)

    def _forward(self, count: int | None) -> Iterator[Result]:
        left = count
        while left is None or left > 0:
            self._read_to(self._at + 1)
            if self._known <= self._at:
                self._at = self._known + 1
                return
            end = self._known if left is None else min(self._known, self._at + left)
            found = list(self._between(self._at + 1, end))
            left = None if left is None else left - (end - self._at)
            self._at = end
            self._keep_few(self)
            yield from found

    def _back(self, count: int | None) -> Iterator[Result]:
        first = 1 if count is None else max(1, self._at - count)
        last = min(self._at - 1, self._known)
        if last >= 1:
            self._check_kept(first)
        self._at = 0 if count is None or self._at - count < 1 else first
        for part in reversed(list(self._between(first, last))):
            for place in range(len(part) - 1, -1, -1):
                yield part.slice(place, 1)

    def _read_to(self, position: int | None) -> None:
        """Have the rows up to that position; None: all."""
        while not self._is_whole and (position is None or self._known < position):
            part = next(self._parts, None)
            if part is None:
                self._is_whole = True
            elif len(part):
                self._kept.append((self._known, part))
                self._known += len(part)

    def _between(self, first: int, last: int) -> Iterator[Result]:
        for before, part in self._kept:
            start, end = max(first - 1 - before, 0), min(last - before, len(part))
            if start < end:
                yield part.slice(start, end - start)

    def _behind(self) -> list[Result]:
        return [part for before, part in self._kept if before + len(part) < self._at]

    def _check_kept(self, first: int) -> None:
        if self._first and first <= self._first:
            raise QueryError(
                f"the cursor {self.declared.name} goes forward only: of the rows behind it at most "
                f"{MOST_KEPT >> 20} MB are kept"
            )
        if self.declared.scroll is False and first < self._at:
            raise QueryError(f"the cursor {self.declared.name} goes forward only: it was declared with NO SCROLL")


class Cursors:
    """The cursors of one client, by their names."""

    def __init__(self) -> None:
        self._cursors: dict[str, SqlCursor] = {}
        self._of_transaction: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._cursors

    def __len__(self) -> int:
        return len(self._cursors)

    def __getitem__(self, name: str) -> SqlCursor:
        """The cursor of that name. Raises QueryError."""
        if name not in self._cursors:
            there = ", ".join(self._cursors) or "none"
            raise QueryError(f'there is no cursor "{name}". Cursors here: {there}')
        return self._cursors[name]

    def add(self, cursor: SqlCursor) -> None:
        """Keep a cursor; it was made in the transaction that lasts."""
        self._cursors[cursor.declared.name] = cursor
        self._of_transaction.add(cursor.declared.name)

    def close(self, name: str | None, error: Exception | None = None) -> None:
        """Close the cursor of that name, or all: None. Raises QueryError where there is none of the name."""
        for one in [*self._cursors] if name is None else [name]:
            self[one].end(error)
            del self._cursors[one]
            self._of_transaction.discard(one)

    def end_transaction(self, kept: bool) -> None:
        """Close those that end with the transaction: all that it made if it is undone, else those without HOLD."""
        for name in [*self._of_transaction]:
            if not kept or not self._cursors[name].declared.hold:
                self.close(name)
        self._of_transaction.clear()

    def keep_few(self, cursor: SqlCursor) -> None:
        """Drop rows behind a cursor that goes on: all with NO SCROLL, else those past the limit."""
        others = sum(one.kept for one in self._cursors.values() if one is not cursor)
        cursor.drop(0 if cursor.declared.scroll is False else max(0, MOST_KEPT - others))
