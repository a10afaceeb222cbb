"""The statements of one client: simple ones, and those that are prepared, bound and executed."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from qoop.catalog.errors import Cancelled, QoopError, QueryError, TooMuch
from qoop.interfaces.server.postgres import messages
from qoop.interfaces.server.postgres.catalog import CatalogQuestion, PgCatalog, is_of_catalog
from qoop.interfaces.server.postgres.copying import copy_of
from qoop.interfaces.server.postgres.messages import Gone, Reader, Wire
from qoop.interfaces.server.postgres.parameters import expression
from qoop.interfaces.server.postgres.portals import (
    Answer,
    Portal,
    Prepared,
    all_rows,
    columns_of,
    described,
    setting_rows,
)
from qoop.interfaces.server.postgres.rows import Columns, Write, description, formats_of, rows
from qoop.interfaces.server.postgres.session_statements import session_statement
from qoop.interfaces.server.postgres.sqlstates import FAILED_TRANSACTION, failed
from qoop.interfaces.server.queries import UserQuery
from qoop.interfaces.server.service import as_ours
from qoop.query.statements.parameters import with_texts
from qoop.query.statements.statement import parameters_of
from qoop.query.statements.words import split

if TYPE_CHECKING:
    from qoop.interfaces.server.service import Service
    from qoop.interfaces.server.users import User
    from qoop.query.result import Result

_MOST, _MOST_BYTES = 1000, 8 << 20  # statements, and portals, that a client may keep, and bytes of their texts
_BLOCK = 1 << 18  # bytes that are sent at once
_Kept = TypeVar("_Kept", Prepared, Portal)
_TEXT = 25  # type of a parameter of which nothing is said


class Client:
    """One client that was let in; `run` answers it until it goes. Another thread may `cancel` what it runs."""

    def __init__(self, wire: Wire, service: Service, user: User, pg_catalog: PgCatalog) -> None:
        self._wire, self._service, self._user, self._pg_catalog = wire, service, user, pg_catalog
        self._status = "I"
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._kept = 0  # bytes of the texts of both
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
                kind, body = self._wire.receive()
                if kind == b"X":
                    return
                self._answer_message(kind, body)
        finally:
            self._close_portals(Cancelled("the client has gone"))
            for name in list(self._prepared):
                self._forget(self._prepared, name)

    def _answer_message(self, kind: bytes, body: Reader) -> None:
        text = ""
        try:
            match kind:
                case b"Q":
                    text = body.text()
                    self._simple(text)
                case b"S":
                    self._skipping = False
                    if self._status != "T":  # within a transaction they last until its end
                        self._close_portals()
                    self._ready()
                case b"H":
                    self._wire.flush()
                case _ if not self._skipping:
                    text = self._extended(kind, body)
        except Gone:
            raise
        except Exception as error:
            self._failed(as_ours(error, "a statement of PostgreSQL's protocol"), text)
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
            if answer.columns and answer.copy is None:
                self._wire.put(description(answer.columns, answer.formats))
            self._send(answer, 0)
        self._ready()

    def _extended(self, kind: bytes, body: Reader) -> str:
        """Answer one message of the extended protocol; returns the text that it is about, for errors."""
        match kind:
            case b"P":
                return self._parse(body)
            case b"B":
                self._bind(body)
            case b"D":
                self._describe(body.raw(1), body.text())
            case b"E":
                portal = self._portal(body.text())
                self._execute(portal, body.number(4))
            case b"C":
                self._close(body.raw(1), body.text())
            case b"F":
                raise QueryError("functions are called in SQL here, not by their number")
            case b"d" | b"c" | b"f":
                pass  # what is left of a COPY that was refused
            case _:
                raise QueryError(f"a message {kind!r} is not known here")
        return ""

    def _parse(self, body: Reader) -> str:
        name, text, types = body.text(), body.text(), body.numbers(4)
        statements = split(text)
        if len(statements) > 1:
            raise QueryError(f"one statement is prepared at a time, not {len(statements)}")
        statement = Prepared(statements[0] if statements else "", [one & 0xFFFFFFFF for one in types])
        self._keep(self._prepared, name, statement)
        self._wire.put(messages.message(b"1"))
        return text

    def _bind(self, body: Reader) -> None:
        name, statement = body.text(), self._statement(body.text())
        forms = body.numbers(2)
        sizes = body.number(2)
        data = [None if (size := body.number(4)) < 0 else body.raw(size) for _ in range(sizes)]
        if len(forms) not in (0, 1, sizes):
            raise QueryError(f"there are {len(forms)} forms of {sizes} values")
        forms = forms if len(forms) == sizes else [*forms, 0][:1] * sizes
        types = [*statement.types, *[0] * (sizes - len(statement.types))]
        values = {str(n): expression(*one) for n, one in enumerate(zip(types, forms, data, strict=False), 1)}
        formats = body.numbers(2)
        self._forget_portal(name)
        self._keep(
            self._portals, name, Portal(with_texts(statement.text, values) if values else statement.text, formats)
        )
        self._wire.put(messages.message(b"2"))

    def _describe(self, kind: bytes, name: str) -> None:
        if kind == b"P":
            answer = self._of_portal(self._portal(name))
            self._wire.put(described(() if answer.copy else answer.columns, answer.formats))
            return
        statement = self._statement(name)
        types = self._types(statement)
        self._wire.put(messages.message(b"t", messages.short(len(types)), *map(messages.unsigned, types)))
        self._wire.put(described(self._columns(statement, types), ()))

    def _types(self, statement: Prepared) -> list[int]:
        names = {name for _, found in parameters_of(statement.text) for name in found} if statement.text else set()
        types = [one or _TEXT for one in statement.types]
        return [*types, *[_TEXT] * (len(names) - len(types))]

    def _columns(self, statement: Prepared, types: Sequence[int]) -> Columns:
        """The columns of a statement whose parameters have no values yet."""
        values = {str(number): expression(oid, 0, None) for number, oid in enumerate(types, 1)}
        text = with_texts(statement.text, values) if values else statement.text
        if not text or copy_of(text) is not None:
            return ()
        if (change := session_statement(text, self._status)) is not None:
            return () if change.row is None else ((change.row[0], "VARCHAR"),)
        if is_of_catalog(text):
            answer = self._catalog(text)
            if answer is not None:
                return columns_of(answer)
        found = self._service.described(self._user, text, "postgres")
        if found is None:
            raise QueryError("the columns of this statement are known once it is bound: describe the portal")
        return found[0]

    def _execute(self, portal: Portal, most: int) -> None:
        if not portal.text:
            self._wire.put(messages.message(b"I"))
            return
        self._send(self._of_portal(portal), most)

    def _close(self, kind: bytes, name: str) -> None:
        if kind == b"S":
            self._forget(self._prepared, name)
        else:
            self._forget_portal(name)
        self._wire.put(messages.message(b"3"))

    def _keep(self, kept: dict[str, _Kept], name: str, one: _Kept) -> None:
        """Keep a statement or a portal in the place of that of its name. Raises TooMuch."""
        self._forget(kept, name)
        size = len(one.text.encode())
        if len(kept) >= _MOST or self._kept + size > _MOST_BYTES:
            raise TooMuch(f"a client keeps at most {_MOST:,} statements and portals each, of {_MOST_BYTES:,} bytes")
        self._service.quota.take(self._user.name, size)
        self._kept += size
        kept[name] = one

    def _forget(self, kept: dict[str, _Kept], name: str) -> _Kept | None:
        one = kept.pop(name, None)
        if one is not None:
            size = len(one.text.encode())
            self._service.quota.leave(self._user.name, size)
            self._kept -= size
        return one

    def _forget_portal(self, name: str, error: Exception | None = None) -> None:
        portal = self._forget(self._portals, name)
        if portal is not None and portal.answer is not None:
            portal.answer.end(error)

    def _close_portals(self, error: Exception | None = None) -> None:
        for name in list(self._portals):
            self._forget_portal(name, error)
        self._runs = None

    def _statement(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise QueryError(f"there is no prepared statement {name!r}")
        return self._prepared[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise QueryError(f"there is no portal {name!r}")
        return self._portals[name]

    def _of_portal(self, portal: Portal) -> Answer:
        if portal.answer is None:
            portal.answer = self._begun(portal.text, portal.formats) if portal.text else Answer()
        return portal.answer

    def _begun(self, text: str, formats: Sequence[int] = ()) -> Answer:
        """The answer to a statement, whose first rows are there. Raises QoopError."""
        change = session_statement(text, self._status)
        if self._status == "E" and (change is None or change.status != "I"):
            raise _BrokenTransaction("the transaction has failed: ROLLBACK first")
        if change is not None:
            columns: Columns = () if change.row is None else ((change.row[0], "VARCHAR"),)
            return Answer(columns, formats_of(formats, columns), setting_rows(change), change)
        if (copy := copy_of(text)) is not None:
            return replace(self._rows_of(copy.query, copy.requested_formats, copy.writer()), copy=copy)
        return self._rows_of(text, formats)

    def _rows_of(self, text: str, requested_formats: Sequence[int], write: Write | None = None) -> Answer:
        if is_of_catalog(text):
            answer = self._catalog(text)
            if answer is not None:
                columns = columns_of(answer)
                formats = formats_of(requested_formats, columns)
                return Answer(columns, formats, rows(answer, formats, write))
        return self._query(text, requested_formats, write)

    def _catalog(self, text: str) -> Result | None:
        question, since = CatalogQuestion(self._pg_catalog, self._user.name), time.monotonic()
        self._runs = question
        try:
            found = question.answer(text)
        except QoopError as error:
            self._service.noted(self._user, text, "postgres", since, error=error)
            raise
        finally:
            self._runs = None
        if found is not None:
            self._service.noted(self._user, text, "postgres", since, len(found))
        return found

    def _query(self, text: str, requested_formats: Sequence[int], write: Write | None) -> Answer:
        query = self._service.admit(self._user, text, "postgres")
        with self._lock:
            self._runs = query
        try:
            parts = query.parts()
            first = next(parts)
            columns = columns_of(first)
            formats = formats_of(requested_formats, columns)
        except BaseException as error:
            self._runs = None
            query.end(error if isinstance(error, Exception) else None)
            raise
        return Answer(columns, formats, all_rows(first, parts, formats, write), query=query)

    def _send(self, answer: Answer, most: int) -> None:
        """Send rows, then whether these were all. most: rows that are sent before the client asks again; 0: all."""
        self._runs = answer.query
        if answer.copy is not None:
            self._wire.put(answer.copy.begin(answer.columns))
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

    def _completed(self, answer: Answer) -> None:
        answer.end()
        if answer.statement is not None and answer.statement.status:
            self._status = answer.statement.status
        if answer.copy is not None:
            self._wire.put(answer.copy.end(answer.sent))
        self._wire.put(messages.complete(answer.tag))


class _BrokenTransaction(QueryError):
    """A transaction has failed, and nothing is done in it any more."""
