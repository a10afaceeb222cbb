"""The statements of one client: simple ones, and those that are prepared, bound and executed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qoop.catalog.errors import Cancelled, QoopError, QueryError, TooMuch
from qoop.server.postgres import messages
from qoop.server.postgres.catalog import CatalogQuestion, is_of_catalog
from qoop.server.postgres.given import expression
from qoop.server.postgres.messages import Gone, Reader, Wire
from qoop.server.postgres.rows import Columns, description, formats_of, rows
from qoop.server.postgres.said import Said, said, split
from qoop.server.postgres.sqlstates import FAILED_TRANSACTION, failed
from qoop.server.queries import UserQuery, only_statement
from qoop.statements.parameters import with_texts
from qoop.statements.pivots import is_open
from qoop.statements.statement import Query, parameters_of

if TYPE_CHECKING:
    from qoop.result import Result
    from qoop.server.service import Service
    from qoop.server.users import User

_MOST = 1000  # statements and portals that a client may keep
_BLOCK = 1 << 18  # bytes that are sent at once
_TEXT = 25  # type of a parameter of which nothing is said


@dataclass
class _Prepared:
    text: str
    types: Sequence[int]


@dataclass
class _Portal:
    """A statement with its values. formats: of its columns, as they were asked for."""

    text: str
    formats: Sequence[int] = ()
    answer: _Answer | None = None


@dataclass
class _Answer:
    """The answer to a statement: columns, and messages of rows after their numbers. said: it is no query."""

    columns: Columns = ()
    formats: Sequence[int] = ()
    rows: Iterator[tuple[int, bytes]] = field(default_factory=lambda: iter(()))
    said: Said | None = None
    query: UserQuery | None = None
    sent: int = 0
    left_over: tuple[int, bytes] = (0, b"")

    def take(self, most: int) -> Iterator[bytes]:
        """The messages of the next rows, at most that many; 0: of all."""
        left = most
        while most == 0 or left > 0:
            count, data = self.left_over if self.left_over[0] else next(self.rows, (0, b""))
            self.left_over = (0, b"")
            if not count:
                return
            if most and count > left:
                cut = _behind(data, left)
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

    def end(self, error: Exception | None = None) -> None:
        """Say to the service that nobody asks for more rows."""
        if self.query is not None:
            self.query.end(error)


class Client:
    """One client that was let in; `run` answers it until it goes. Another thread may `cancel` what it runs."""

    def __init__(self, wire: Wire, service: Service, user: User) -> None:
        self._wire, self._service, self._user = wire, service, user
        self._status = "I"
        self._prepared: dict[str, _Prepared] = {}
        self._portals: dict[str, _Portal] = {}
        self._skipping = False  # until Sync, after an error
        self._lock = threading.Lock()
        self._runs: UserQuery | CatalogQuestion | None = None

    @property
    def is_running(self) -> bool:
        """True while a statement runs, so that the client has nothing to send."""
        return self._runs is not None

    def cancel(self, why: str) -> None:
        """Stop what runs, from any thread."""
        with self._lock:
            runs = self._runs
        if isinstance(runs, UserQuery):
            runs.cancel(why)
        elif runs is not None:
            runs.stop(why)

    def run(self) -> None:
        """Answer until the client says goodbye. Raises Gone, and TooMuch for a message that cannot be read over."""
        try:
            while True:
                kind, asked = self._wire.receive()
                if kind == b"X":
                    return
                self._answer_message(kind, asked)
        finally:
            self._close_portals(Cancelled("the client has gone"))

    def _answer_message(self, kind: bytes, asked: Reader) -> None:
        text = ""
        try:
            match kind:
                case b"Q":
                    text = asked.text()
                    self._simple(text)
                case b"S":
                    self._skipping = False
                    if self._status != "T":  # within a transaction they last until its end
                        self._close_portals()
                    self._ready()
                case b"H":
                    self._wire.flush()
                case _ if not self._skipping:
                    text = self._extended(kind, asked)
        except QoopError as error:
            self._failed(error, text)
            self._skipping = kind != b"Q"
            if kind == b"Q":
                self._ready()

    def _ready(self) -> None:
        self._wire.put(messages.ready(self._status))
        self._wire.flush()

    def _failed(self, error: QoopError, text: str) -> None:
        broken = isinstance(error, _BrokenTransaction)
        self._status = "E" if self._status != "I" else "I"
        self._wire.put(failed(error, text, FAILED_TRANSACTION if broken else ""))

    def _simple(self, text: str) -> None:
        statements = split(text)
        if not statements:
            self._wire.put(messages.message(b"I"))
        for statement in statements:
            answer = self._begun(statement)
            if answer.columns:
                self._wire.put(description(answer.columns, answer.formats))
            self._send(answer, 0)
        self._ready()

    def _extended(self, kind: bytes, asked: Reader) -> str:
        """Answer one message of the extended protocol; returns the text that it is about, for errors."""
        match kind:
            case b"P":
                return self._parse(asked)
            case b"B":
                self._bind(asked)
            case b"D":
                self._describe(asked.raw(1), asked.text())
            case b"E":
                portal = self._portal(asked.text())
                self._execute(portal, asked.number(4))
            case b"C":
                self._close(asked.raw(1), asked.text())
            case b"F":
                raise QueryError("functions are called in SQL here, not by their number")
            case b"d" | b"c" | b"f":
                pass  # what is left of a COPY that was refused
            case _:
                raise QueryError(f"a message {kind!r} is not known here")
        return ""

    def _parse(self, asked: Reader) -> str:
        name, text, types = asked.text(), asked.text(), asked.numbers(4)
        statements = split(text)
        if len(statements) > 1:
            raise QueryError(f"one statement is prepared at a time, not {len(statements)}")
        if len(self._prepared) >= _MOST:
            raise TooMuch(f"a client keeps at most {_MOST} prepared statements")
        self._prepared[name] = _Prepared(statements[0] if statements else "", [one & 0xFFFFFFFF for one in types])
        self._wire.put(messages.message(b"1"))
        return text

    def _bind(self, asked: Reader) -> None:
        name, statement = asked.text(), self._statement(asked.text())
        forms = asked.numbers(2)
        sizes = asked.number(2)
        data = [None if (size := asked.number(4)) < 0 else asked.raw(size) for _ in range(sizes)]
        if len(forms) not in (0, 1, sizes):
            raise QueryError(f"there are {len(forms)} forms of {sizes} values")
        forms = forms if len(forms) == sizes else [*forms, 0][:1] * sizes
        types = [*statement.types, *[0] * (sizes - len(statement.types))]
        given = {str(n): expression(*one) for n, one in enumerate(zip(types, forms, data, strict=False), 1)}
        formats = asked.numbers(2)
        self._forget_portal(name)
        if len(self._portals) >= _MOST:
            raise TooMuch(f"a client keeps at most {_MOST} portals")
        self._portals[name] = _Portal(with_texts(statement.text, given) if given else statement.text, formats)
        self._wire.put(messages.message(b"2"))

    def _describe(self, kind: bytes, name: str) -> None:
        if kind == b"P":
            answer = self._of_portal(self._portal(name))
            self._wire.put(_described(answer.columns, answer.formats))
            return
        statement = self._statement(name)
        types = self._types(statement)
        self._wire.put(messages.message(b"t", messages.short(len(types)), *map(messages.unsigned, types)))
        self._wire.put(_described(self._columns(statement, types), ()))

    def _types(self, statement: _Prepared) -> list[int]:
        names = {name for _, found in parameters_of(statement.text) for name in found} if statement.text else set()
        told = [one or _TEXT for one in statement.types]
        return [*told, *[_TEXT] * (len(names) - len(told))]

    def _columns(self, statement: _Prepared, types: Sequence[int]) -> Columns:
        """The columns of a statement whose parameters have no values yet."""
        given = {str(number): expression(oid, 0, None) for number, oid in enumerate(types, 1)}
        text = with_texts(statement.text, given) if given else statement.text
        if not text or (told := said(text, self._status)) is not None:
            return () if not text or told is None or told.row is None else ((told.row[0], "VARCHAR"),)
        if is_of_catalog(text):
            answer = CatalogQuestion(self._service.session, self._user.name).answer(text)
            if answer is not None:
                return _columns_of(answer)
        if not isinstance(only_statement(text), Query) or is_open(text):
            raise QueryError("the columns of this statement are known once it is bound: describe the portal")
        return self._service.session.planning.plan(text).plan.columns

    def _execute(self, portal: _Portal, most: int) -> None:
        if not portal.text:
            self._wire.put(messages.message(b"I"))
            return
        self._send(self._of_portal(portal), most)

    def _close(self, kind: bytes, name: str) -> None:
        if kind == b"S":
            self._prepared.pop(name, None)
        else:
            self._forget_portal(name)
        self._wire.put(messages.message(b"3"))

    def _forget_portal(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None and portal.answer is not None:
            portal.answer.end()

    def _close_portals(self, error: Exception | None = None) -> None:
        portals, self._portals = self._portals, {}
        for portal in portals.values():
            if portal.answer is not None:
                portal.answer.end(error)
        self._runs = None

    def _statement(self, name: str) -> _Prepared:
        if name not in self._prepared:
            raise QueryError(f"there is no prepared statement {name!r}")
        return self._prepared[name]

    def _portal(self, name: str) -> _Portal:
        if name not in self._portals:
            raise QueryError(f"there is no portal {name!r}")
        return self._portals[name]

    def _of_portal(self, portal: _Portal) -> _Answer:
        if portal.answer is None:
            portal.answer = self._begun(portal.text, portal.formats) if portal.text else _Answer()
        return portal.answer

    def _begun(self, text: str, asked: Sequence[int] = ()) -> _Answer:
        """The answer to a statement, whose first rows are there. Raises QoopError."""
        told = said(text, self._status)
        if self._status == "E" and (told is None or told.status != "I"):
            raise _BrokenTransaction("the transaction has failed: ROLLBACK first")
        if told is not None:
            columns: Columns = () if told.row is None else ((told.row[0], "VARCHAR"),)
            return _Answer(columns, formats_of(asked, columns), _told(told), told)
        if is_of_catalog(text):
            answer = self._catalog(text)
            if answer is not None:
                columns = _columns_of(answer)
                formats = formats_of(asked, columns)
                return _Answer(columns, formats, rows(answer, formats))
        return self._query(text, asked)

    def _catalog(self, text: str) -> Result | None:
        question = CatalogQuestion(self._service.session, self._user.name)
        self._runs = question
        try:
            found = question.answer(text)
        except QoopError as error:
            self._service.noted(self._user, text, "postgres", 0, error)
            raise
        finally:
            self._runs = None
        if found is not None:
            self._service.noted(self._user, text, "postgres", len(found))
        return found

    def _query(self, text: str, asked: Sequence[int]) -> _Answer:
        query = self._service.admit(self._user, text, "postgres")
        with self._lock:
            self._runs = query
        try:
            parts = query.parts()
            first = next(parts)
            columns = _columns_of(first)
            formats = formats_of(asked, columns)
        except BaseException as error:
            self._runs = None
            query.end(error if isinstance(error, Exception) else None)
            raise
        return _Answer(columns, formats, _all_rows(first, parts, formats), query=query)

    def _send(self, answer: _Answer, most: int) -> None:
        """Send rows, then whether these were all. most: rows that are sent before the client asks again; 0: all."""
        self._runs = answer.query
        try:
            unsent = 0
            for data in answer.take(most):
                self._wire.put(data)
                unsent += len(data)
                if unsent > _BLOCK:
                    self._wire.flush()
                    unsent = 0
            is_over = answer.is_over
        except (QoopError, Gone) as error:
            answer.end(error if isinstance(error, QoopError) else Cancelled("the client has gone"))
            raise
        finally:
            self._runs = None
        if is_over:
            self._completed(answer)
        else:
            self._wire.put(messages.message(b"s"))

    def _completed(self, answer: _Answer) -> None:
        answer.end()
        if answer.said is not None and answer.said.status:
            self._status = answer.said.status
        self._wire.put(messages.complete(answer.said.tag if answer.said is not None else f"SELECT {answer.sent}"))


class _BrokenTransaction(QueryError):
    """A transaction has failed, and nothing is done in it any more."""


def _columns_of(part: Result) -> Columns:
    return tuple(zip(part.columns, part.types, strict=True))


def _described(columns: Columns, formats: Sequence[int]) -> bytes:
    return description(columns, formats) if columns else messages.message(b"n")


def _all_rows(first: Result, parts: Iterator[Result], formats: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    yield from rows(first, formats)
    for part in parts:
        yield from rows(part, formats)


def _told(told: Said) -> Iterator[tuple[int, bytes]]:
    if told.row is not None:
        yield 1, messages.message(b"D", messages.short(1), messages.sized(told.row[1].encode()))


def _behind(data: bytes, count: int) -> int:
    """The place behind that many messages."""
    at = 0
    for _ in range(count):
        at += 1 + int.from_bytes(data[at + 1 : at + 5], "big")
    return at
