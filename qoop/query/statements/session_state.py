"""The prepared statements and the variables of a session.

A prepared statement is a text, and a variable is a literal. Both are inserted into a query before it is planned, so
plans and statistics are for the values.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import Lexeme, lexed
from qoop.query.statements.parameters import literal, with_texts
from qoop.query.statements.prepared import Deallocate, Execute, Prepare, Transaction
from qoop.query.statements.statement import Statement, folded, parameters_of, statements
from qoop.query.statements.words import Words


class SessionState:
    """The prepared statements and the variables of a session, and its transaction. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prepared: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._begun = False
        self._changed = False

    def prepare(self, statement: Prepare) -> None:
        """Store a statement, in place of one of that name. Raises ParseError, QueryError."""
        if len(parameters_of(statement.text)) != 1:
            raise QueryError("PREPARE takes a single statement")
        with self._lock:
            self._prepared[folded(statement.name)] = statement.text

    def execute(self, statement: Execute) -> tuple[Statement, ...]:
        """The statements of a prepared text with these values. Raises QueryError."""
        with self._lock:
            text, names = self._prepared.get(folded(statement.name)), list(self._prepared)
        if text is None:
            raise QueryError(
                f"there is no prepared statement {statement.name}; there are: {', '.join(names) or 'none'}"
            )
        return statements(with_texts(text, {folded(name): f"({value})" for name, value in statement.values}))

    def deallocate(self, statement: Deallocate) -> None:
        """Remove a statement, or all. Raises QueryError."""
        with self._lock:
            if statement.name is None:
                self._prepared.clear()
            elif self._prepared.pop(folded(statement.name), None) is None:
                known = ", ".join(self._prepared) or "none"
                raise QueryError(f"there is no prepared statement {statement.name}; there are: {known}")

    def set_variable(self, name: str, found: object, type_: str) -> None:
        """Store a value, with its DuckDB type. Raises QueryError for a type without literals."""
        text = f"CAST({literal(found)} AS {type_})" if type_ != '"NULL"' else "NULL"
        with self._lock:
            self._variables[folded(name)] = text

    def forget_variable(self, name: str) -> None:
        """Remove a variable, if it exists; if not, this is no error, as in DuckDB."""
        with self._lock:
            self._variables.pop(folded(name), None)

    def written_out(self, text: str) -> str:
        """The text with the values of variables in place of getvariable('name'); NULL for variables that are not
        set."""
        with self._lock:
            variables = dict(self._variables)
        return _without_variables(text, variables)

    def transact(self, statement: Transaction) -> None:
        """Begin or end a transaction. Each statement takes effect at once, so BEGIN and COMMIT do nothing else. Raises
        QueryError for a ROLLBACK after changes, and for statements that DuckDB refuses there."""
        with self._lock:
            begun, changed = self._begun, self._changed
            if (statement.word == "BEGIN") == begun:
                raise QueryError("there is a transaction already" if begun else "there is no transaction: BEGIN first")
            self._begun, self._changed = statement.word == "BEGIN", False  # a ROLLBACK that is refused ends it, too
            if statement.word == "ROLLBACK" and changed:
                raise QueryError(
                    "nothing is rolled back: each statement takes effect at once, and tables have changed since BEGIN"
                )

    def changed(self) -> None:
        """A statement has changed tables or views."""
        with self._lock:
            self._changed = True


def _without_variables(text: str, variables: Mapping[str, str]) -> str:
    words = lexed(text).words
    pieces, done = [], 0
    for place in range(len(words) - 3):
        name = _variable(words[place : place + 4])
        if name is not None:
            pieces += [text[done : words[place].start], variables.get(name, "NULL")]
            done = words[place + 3].end
    return "".join((*pieces, text[done:]))


def _variable(words: tuple[Lexeme, ...]) -> str | None:
    """The name in getvariable('name'), None for other words."""
    first, opened, name, closed = words
    if first.says("GETVARIABLE") and opened.text == "(" and closed.text == ")" and name.kind == "string":
        return folded(str(Words(name.text).string()))
    return None
