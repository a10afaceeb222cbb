"""Things that a client keeps: prepared statements, portals, and the answers that these hand out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from qoop.catalog.errors import QueryError, TooMuch
from qoop.interfaces.server.postgres import messages
from qoop.interfaces.server.postgres.catalog.column_names import column_names
from qoop.interfaces.server.postgres.catalog.types import sized
from qoop.interfaces.server.postgres.parameters import with_expressions
from qoop.interfaces.server.postgres.rows import Columns, Write, description, rows

if TYPE_CHECKING:
    from qoop.interfaces.server.limits import TextQuota
    from qoop.interfaces.server.postgres.copying import Copy
    from qoop.interfaces.server.postgres.utility_statements import Execute, Prepare
    from qoop.interfaces.server.queries import UserQuery
    from qoop.query.result import Result


@dataclass
class Prepared:
    """A prepared statement. types: of its parameters, as PostgreSQL numbers them; 0: not given. casts: the same, as an
    SQL text has them."""

    text: str
    types: Sequence[int]
    casts: Sequence[str] = ()


@dataclass
class Portal:
    """A statement with its values. formats: of its columns, as they were asked for."""

    text: str
    formats: Sequence[int] = ()
    answer: Answer | None = None


_Kept = TypeVar("_Kept", Prepared, Portal)


class KeptTexts:
    """Bounds the number of statements and portals that a client keeps, and the bytes of their texts.

    quota: of all clients of the user.
    """

    MOST, BYTES = 1000, 8 << 20

    def __init__(self, quota: TextQuota, user: str) -> None:
        self._quota, self._user, self._bytes = quota, user, 0

    def keep(self, kept: dict[str, _Kept], name: str, one: _Kept) -> None:
        """Keep a statement or a portal in the place of that of its name. Raises TooMuch."""
        self.forget(kept, name)
        size = len(one.text.encode())
        if len(kept) >= self.MOST or self._bytes + size > self.BYTES:
            raise TooMuch(f"a client keeps at most {self.MOST:,} statements and portals each, of {self.BYTES:,} bytes")
        self._quota.take(self._user, size)
        self._bytes += size
        kept[name] = one

    def forget(self, kept: dict[str, _Kept], name: str) -> _Kept | None:
        """Forget the one of a name, and return it; None: there is none."""
        one = kept.pop(name, None)
        if one is not None:
            size = len(one.text.encode())
            self._quota.leave(self._user, size)
            self._bytes -= size
        return one


class PreparedStatements:
    """The prepared statements of a client, by name: those of the protocol, and those of SQL."""

    def __init__(self, kept: KeptTexts) -> None:
        self._kept = kept
        self._by_name: dict[str, Prepared] = {}

    def __getitem__(self, name: str) -> Prepared:
        """Raises QueryError if there is none."""
        if name not in self._by_name:
            raise QueryError(f"there is no prepared statement {name!r}")
        return self._by_name[name]

    def keep(self, name: str, one: Prepared) -> None:
        """Keep a statement in the place of that of its name. Raises TooMuch."""
        self._kept.keep(self._by_name, name, one)

    def forget(self, name: str) -> None:
        """Forget the one of a name, if there is one."""
        self._kept.forget(self._by_name, name)

    def prepare(self, statement: Prepare) -> None:
        """PREPARE in SQL. Raises QueryError if there is one of that name, TooMuch."""
        if statement.name in self._by_name:
            raise QueryError(f'there is a prepared statement "{statement.name}" already: DEALLOCATE it first')
        self.keep(statement.name, Prepared(statement.query, (), statement.types))

    def executed(self, statement: Execute) -> str:
        """The query of an EXECUTE in SQL, with its values. Raises QueryError."""
        found, count = self[statement.name], len(statement.values)
        if found.casts and count != len(found.casts):
            raise QueryError(f'"{statement.name}" has {len(found.casts)} parameters, and there are {count} values')
        casts = (*found.casts, *[""] * count)
        pairs = zip(statement.values, casts, strict=False)
        return with_expressions(found.text, [f"CAST({one} AS {cast})" if cast else f"({one})" for one, cast in pairs])

    def deallocate(self, name: str | None) -> None:
        """DEALLOCATE in SQL of one, or of all: None. Raises QueryError if there is none of that name."""
        for each in [*self._by_name] if name is None else [name]:
            self[each]
            self.forget(each)


@dataclass
class Answer:
    """The answer to a statement: columns, and messages of rows after their numbers.

    words: what says that it is done, of a statement that is no query; counted: with the number of rows. copy: its rows
    are those of a COPY. after: what is done once all is sent.
    """

    columns: Columns = ()
    formats: Sequence[int] = ()
    rows: Iterator[tuple[int, bytes]] = field(default_factory=lambda: iter(()))
    words: str = ""
    counted: bool = False
    after: Callable[[], None] | None = None
    query: UserQuery | None = None
    copy: Copy | None = None
    sent: int = 0
    left_over: tuple[int, bytes] = (0, b"")

    def take(self, most: int) -> Iterator[bytes]:
        """The messages of the next rows, at most that many; 0: of all, as always for a COPY."""
        left = most = 0 if self.copy else most
        while most == 0 or left > 0:
            count, data = self.left_over if self.left_over[0] else next(self.rows, (0, b""))
            self.left_over = (0, b"")
            if not count:
                return
            if most and count > left:
                cut = behind(data, left)
                self.left_over, count, data = (count - left, data[cut:]), left, data[:cut]
            self.sent += count
            left -= count
            yield data

    @property
    def is_over(self) -> bool:
        """True if there are no more rows."""
        if not self.left_over[0]:
            self.left_over = next(self.rows, (0, b""))
        return self.left_over[0] == 0

    @property
    def tag(self) -> str:
        """The words that say that it is done."""
        if self.words:
            return f"{self.words} {self.sent}" if self.counted else self.words
        return f"{'COPY' if self.copy else 'SELECT'} {self.sent}"

    def end(self, error: Exception | None = None) -> None:
        """Report to the service that the client requests no more rows."""
        if self.query is not None:
            self.query.end(error)


def columns_of(part: Result) -> Columns:
    """The names and types of a part's columns."""
    return tuple(zip(part.columns, part.types, strict=True))


def described(columns: Columns, formats: Sequence[int]) -> bytes:
    """The message that says which columns an answer has, or that it has none."""
    return description(columns, formats) if columns else messages.message(b"n")


def all_rows(
    first: Result, parts: Iterator[Result], formats: Sequence[int], write: Write | None
) -> Iterator[tuple[int, bytes]]:
    """The messages of all rows, as `rows` gives them."""
    for part in chain([first], parts):
        yield from rows(part, formats, write)


def text_rows(rows: Sequence[Sequence[str]]) -> Iterator[tuple[int, bytes]]:
    """The rows of a statement that needs no query: texts."""
    for row in rows:
        values = (sized(one.encode()) for one in row)
        yield 1, messages.message(b"D", messages.short(len(row)), *values)


def behind(data: bytes, count: int) -> int:
    """The place behind that many messages."""
    at = 0
    for _ in range(count):
        at += 1 + int.from_bytes(data[at + 1 : at + 5], "big")
    return at


def named_as_postgres(text: str, columns: Columns) -> Columns:
    """The columns of a query by the names that PostgreSQL has for those that the text does not name."""
    names = column_names(text)
    if names is None or len(names) != len(columns):
        return columns
    return tuple((name or own, type_) for name, (own, type_) in zip(names, columns, strict=True))


class BrokenTransaction(QueryError):
    """A transaction has failed, and nothing is done in it any more."""
