"""The statements of one client: simple ones, and those that are prepared, bound and executed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from qoop.catalog.errors import Cancelled, QoopError, QueryError, TooMuch
from qoop.interfaces.server.postgres import messages
from qoop.interfaces.server.postgres.catalog.questions import CatalogAnswer, CatalogQuestion, PgCatalog, is_of_catalog
from qoop.interfaces.server.postgres.catalog.text_functions import with_duckdb_calls
from qoop.interfaces.server.postgres.catalog.viewer import Viewer
from qoop.interfaces.server.postgres.copying import copy_of
from qoop.interfaces.server.postgres.cursors import Cursors, SqlCursor
from qoop.interfaces.server.postgres.explaining import Explained, explained_plan, explaining
from qoop.interfaces.server.postgres.messages import Gone, Reader, Wire
from qoop.interfaces.server.postgres.parameter_types import parameter_types
from qoop.interfaces.server.postgres.parameters import expression, parameter_count, unbound, with_expressions
from qoop.interfaces.server.postgres.portals import (
    Answer,
    BrokenTransaction,
    KeptTexts,
    Portal,
    Prepared,
    PreparedStatements,
    all_rows,
    columns_of,
    described,
    named_as_postgres,
    text_rows,
)
from qoop.interfaces.server.postgres.public_schema import without_public, without_system_columns
from qoop.interfaces.server.postgres.rows import Columns, Write, description, formats_of, in_style, rows
from qoop.interfaces.server.postgres.sqlstates import FAILED_TRANSACTION, failed
from qoop.interfaces.server.postgres.utility_statements import (
    CloseCursor,
    Deallocate,
    Declare,
    Execute,
    Fetch,
    Prepare,
    Reset,
    Set,
    Show,
    Transaction,
    Utility,
    utility,
)
from qoop.interfaces.server.queries import UserQuery
from qoop.interfaces.server.service import as_ours
from qoop.planner.sql.bind import in_zone
from qoop.query.statements.words import split

if TYPE_CHECKING:
    from qoop.interfaces.server.service import Service
    from qoop.interfaces.server.users import User
    from qoop.query.result import Result

_BLOCK = 1 << 18  # bytes that are sent at once
_MOST_CURSORS = 100
_SHOW_ALL = (("name", "VARCHAR"), ("setting", "VARCHAR"), ("description", "VARCHAR"))
_TEXT = 25  # type of a parameter of which nothing is said


class Client:
    """One client that was let in; `run` answers it until it goes. Another thread may `cancel` what it runs."""

    def __init__(self, wire: Wire, service: Service, user: User, pg_catalog: PgCatalog, viewer: Viewer) -> None:
        self._wire, self._service, self._user, self._pg_catalog = wire, service, user, pg_catalog
        self._viewer, self._cursors = viewer, Cursors()
        assert viewer.client_settings is not None
        self.settings = viewer.client_settings
        self.text, self.text_since = "", datetime.now(UTC)
        self._status = "I"
        self._kept = KeptTexts(service.quota, user.name)
        self._prepared = PreparedStatements(self._kept)
        self._portals: dict[str, Portal] = {}
        self._skipping = False  # until Sync, after an error
        self._lock = threading.Lock()
        self._runs: UserQuery | CatalogQuestion | None = None

    @property
    def is_running(self) -> bool:
        """True while a statement runs, so that the client has nothing to send."""
        return self._runs is not None

    @property
    def state(self) -> str:
        """Its state in the words of pg_stat_activity."""
        if self.is_running:
            return "active"
        return {"T": "idle in transaction", "E": "idle in transaction (aborted)"}.get(self._status, "idle")

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
            self._cursors.close(None, Cancelled("the client has gone"))
            self._prepared.deallocate(None)

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
        self._wire.put(*(messages.with_status(*one) for one in self.settings.changes().items()))
        self._wire.put(messages.ready(self._status))
        self._wire.flush()

    def _failed(self, error: QoopError, text: str) -> None:
        broken = isinstance(error, BrokenTransaction)
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
        self._prepared.keep(name, statement)
        self._wire.put(messages.message(b"1"))
        return text

    def _bind(self, body: Reader) -> None:
        name, statement = body.text(), self._prepared[body.text()]
        forms = body.numbers(2)
        sizes = body.number(2)
        data = [None if (size := body.number(4)) < 0 else body.raw(size) for _ in range(sizes)]
        if len(forms) not in (0, 1, sizes):
            raise QueryError(f"there are {len(forms)} forms of {sizes} values")
        forms = forms if len(forms) == sizes else [*forms, 0][:1] * sizes
        by_place = 1 in forms or any(one[:1] == b"{" for one in data if one)  # a text may be a list
        types = self._types(statement, 0) if by_place else statement.types
        types = [*types, *[0] * (sizes - len(types))]
        values = [expression(*one) for one in zip(types, forms, data, strict=False)]
        formats = body.numbers(2)
        self._forget_portal(name)
        self._kept.keep(self._portals, name, Portal(with_expressions(statement.text, values), formats))
        self._wire.put(messages.message(b"2"))

    def _describe(self, kind: bytes, name: str) -> None:
        if kind == b"P" and name in self._cursors and name not in self._portals:
            self._wire.put(described(self._cursors[name].columns, ()))
            return
        if kind == b"P":
            answer = self._of_portal(self._portal(name))
            self._wire.put(described(() if answer.copy else answer.columns, answer.formats))
            return
        statement = self._prepared[name]
        types = self._types(statement)
        self._wire.put(messages.message(b"t", messages.short(len(types)), *map(messages.unsigned, types)))
        self._wire.put(described(self._columns(statement, types), ()))

    def _types(self, statement: Prepared, otherwise: int = _TEXT) -> list[int]:
        """The types of its parameters: as the client says, else as the text does."""
        count = max(parameter_count(statement.text), len(statement.types))
        known = parameter_types(statement.text, self._service.session) if count else {}
        types = [*statement.types, *[0] * (count - len(statement.types))]
        return [one or known.get(number, otherwise) for number, one in enumerate(types, 1)]

    def _columns(self, statement: Prepared, types: Sequence[int]) -> Columns:
        """The columns of a statement whose parameters have no values yet."""
        by_text = parameter_types(statement.text, self._service.session) if types else {}
        nulls = [unbound(oid, by_text.get(number) == oid) for number, oid in enumerate(types, 1)]
        text = with_expressions(statement.text, nulls)
        if not text or copy_of(text) is not None:
            return ()
        if (found := utility(text, self._status)) is not None:
            return self._utility_columns(found)
        if (explained := explaining(text)) is not None:
            return explained.columns
        return self._query_columns(text)

    def _utility_columns(self, statement: Utility) -> Columns:
        match statement:
            case Show(name=""):
                return _SHOW_ALL
            case Show(name=name):
                return ((name, "VARCHAR"),)
            case Fetch(moves=False):
                return self._cursors[statement.name].columns
            case Execute():
                return self._query_columns(self._prepared.executed(statement))
        return ()

    def _query_columns(self, text: str) -> Columns:
        if is_of_catalog(text) and (answer := self._catalog(text, run=False)) is not None:
            return answer.columns
        with in_zone(self.settings.zone):
            found = self._service.described(self._user, self._plain(text), "postgres")
        if found is None:
            raise QueryError("the columns of this statement are known once it is bound: describe the portal")
        return named_as_postgres(text, found[0])

    def _execute(self, portal: Portal, most: int) -> None:
        if not portal.text:
            self._wire.put(messages.message(b"I"))
            return
        self._send(self._of_portal(portal), most)

    def _close(self, kind: bytes, name: str) -> None:
        if kind == b"S":
            self._prepared.forget(name)
        else:
            self._forget_portal(name)
        self._wire.put(messages.message(b"3"))

    def _forget_portal(self, name: str, error: Exception | None = None) -> None:
        portal = self._kept.forget(self._portals, name)
        if portal is not None and portal.answer is not None:
            portal.answer.end(error)

    def _close_portals(self, error: Exception | None = None) -> None:
        for name in list(self._portals):
            self._forget_portal(name, error)
        self._runs = None

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
        self.text, self.text_since = text, datetime.now(UTC)
        found = utility(text, self._status)
        ends = isinstance(found, Transaction) and (found.status == "I" or "ROLLBACK" in found.tag)
        if self._status == "E" and not ends:
            raise BrokenTransaction("the transaction has failed: ROLLBACK first")
        with in_zone(self.settings.zone):
            if found is not None:
                return self._utility(found, formats)
            if (copy := copy_of(text)) is not None:
                return replace(self._rows_of(copy.query, copy.requested_formats, copy.writer()), copy=copy)
            if (explained := explaining(text)) is not None:
                return self._explained(explained, formats)
            return self._rows_of(text, formats)

    def _utility(self, statement: Utility, requested: Sequence[int]) -> Answer:
        match statement:
            case Transaction(tag=tag, status=status):
                return Answer(words=tag, after=lambda: self._transaction(tag, status))
            case Set(name=name, to=to, local=local, tag=tag):
                self.settings.set(name, to, local)
                return Answer(words=tag)
            case Show(name=""):
                columns: Columns = _SHOW_ALL
                rows = [(name, value, "") for name, value in sorted(self.settings.all().items())]
                return Answer(columns, formats_of(requested, columns), text_rows(rows), "SHOW")
            case Show(name=name):
                columns = ((name, "VARCHAR"),)
                return Answer(columns, formats_of(requested, columns), text_rows([(self.settings[name],)]), "SHOW")
            case Reset(tag=tag, everything=everything):
                self.settings.reset()
                if everything:
                    self._discard()
                return Answer(words=tag)
            case Prepare():
                self._prepared.prepare(statement)
                return Answer(words="PREPARE")
            case Execute():
                return self._rows_of(self._prepared.executed(statement), requested)
            case Deallocate(name=one):
                self._prepared.deallocate(one)
                return Answer(words="DEALLOCATE ALL" if one is None else "DEALLOCATE")
            case Declare():
                self._declare(statement)
                return Answer(words="DECLARE CURSOR")
            case Fetch():
                return self._fetch(statement, requested)
            case CloseCursor(name=one):
                self._cursors.close(one)
                return Answer(words="CLOSE CURSOR ALL" if one is None else "CLOSE CURSOR")

    def _transaction(self, tag: str, status: str) -> None:
        """A transaction begins or ends, once the client has the answer."""
        if status == "T" and tag == "BEGIN":
            self.settings.begin()
        elif status == "I":
            kept = tag == "COMMIT"
            self.settings.end(kept)
            self._cursors.end_transaction(kept)
        self._status = status or self._status

    def _discard(self) -> None:
        """DISCARD ALL: what the client keeps goes."""
        self._cursors.close(None)
        self._prepared.deallocate(None)

    def _declare(self, statement: Declare) -> None:
        if statement.name in self._cursors:
            raise QueryError(f'there is a cursor "{statement.name}" already: CLOSE it first')
        if self._status != "T" and not statement.hold:
            raise QueryError("DECLARE CURSOR without WITH HOLD is for transactions: BEGIN first")
        if len(self._cursors) >= _MOST_CURSORS:
            raise TooMuch(f"a client has at most {_MOST_CURSORS} cursors")
        if is_of_catalog(statement.query) and (found := self._catalog(statement.query)) is not None:
            cursor = SqlCursor(statement, found.columns, iter([found.rows]), None, self._cursors.keep_few)
        else:
            query, first, parts = self._started(statement.query)
            columns = named_as_postgres(statement.query, columns_of(first))
            cursor = SqlCursor(statement, columns, chain([first], parts), query, self._cursors.keep_few)
            self._runs = None
        self._cursors.add(cursor)

    def _fetch(self, statement: Fetch, requested: Sequence[int]) -> Answer:
        cursor = self._cursors[statement.name]
        columns = () if statement.moves else cursor.columns
        formats = formats_of(requested or ([1] if cursor.declared.binary else []), columns)
        found = self._fetched(cursor, statement)
        if statement.moves:
            return Answer(rows=((len(part), b"") for part in found), words="MOVE", counted=True)
        types = [type_ for _, type_ in columns]
        messages_of = (one for part in found for one in rows(part, formats, types=types))
        return Answer(columns, formats, messages_of, "FETCH", counted=True)

    def _fetched(self, cursor: SqlCursor, statement: Fetch) -> Iterator[Result]:
        """The rows of a FETCH, while which the cursor's query runs."""
        self._runs = cursor.query
        try:
            yield from cursor.fetch(statement)
        finally:
            self._runs = None

    def _explained(self, explained: Explained, requested: Sequence[int]) -> Answer:
        if is_of_catalog(explained.query) and self._catalog(explained.query, run=False) is not None:
            plan = explained.of_catalog()
        else:
            query = self._plain(explained.query)
            plan = explained_plan(self._service, self._user, explained, query)
        return Answer(explained.columns, formats_of(requested, explained.columns), text_rows(plan), "EXPLAIN")

    def _rows_of(self, text: str, requested: Sequence[int], write: Write | None = None) -> Answer:
        if is_of_catalog(text):
            answer = self._catalog(text)
            if answer is not None:
                columns = answer.columns
                formats = formats_of(requested, columns)
                types = [type_ for _, type_ in columns]
                return Answer(columns, formats, rows(answer.rows, formats, write, types))
        return self._query(text, requested, write)

    def _catalog(self, text: str, run: bool = True) -> CatalogAnswer | None:
        question, since = CatalogQuestion(self._pg_catalog, self._viewer), time.monotonic()
        self._runs = question
        try:
            found = question.answer(text) if run else question.described(text)
        except QoopError as error:
            self._service.noted(self._user, text, "postgres", since, error=error)
            raise
        finally:
            self._runs = None
        if found is not None:
            self._service.noted(self._user, text, "postgres", since, len(found.rows))
        return found

    def _query(self, text: str, requested: Sequence[int], write: Write | None) -> Answer:
        query, first, parts = self._started(text)
        try:
            columns = named_as_postgres(text, columns_of(first))
            formats = in_style(formats_of(requested, columns), columns, self.settings["intervalstyle"])
        except BaseException as error:
            self._runs = None
            query.end(error if isinstance(error, Exception) else None)
            raise
        return Answer(columns, formats, all_rows(first, parts, formats, write), query=query)

    def _plain(self, text: str) -> str:
        """A query without what PostgreSQL alone has: its name for the schema of the tables, and some functions."""
        session = self._service.session
        return with_duckdb_calls(without_system_columns(without_public(text, session, self._viewer.database), session))

    def _started(self, text: str) -> tuple[UserQuery, Result, Iterator[Result]]:
        """A query that has begun, its first part, and the others."""
        query = self._service.admit(self._user, self._plain(text), "postgres")
        with self._lock:
            self._runs = query
        try:
            parts = query.parts()
            return query, next(parts), parts
        except BaseException as error:
            self._runs = None
            query.end(error if isinstance(error, Exception) else None)
            raise

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
        if answer.after is not None:
            answer.after()
        if answer.copy is not None:
            self._wire.put(answer.copy.end(answer.sent))
        self._wire.put(messages.complete(answer.tag))
