"""Statements of DuckDB that a session does not run: errors name each, and a reason or a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.errors import QueryError

if TYPE_CHECKING:
    from qoop.query.statements.words import Words

_BETWEEN = ("OR", "REPLACE", "TEMP", "TEMPORARY", "PERSISTENT", "UNIQUE", "MATERIALIZED", "RECURSIVE")
"""Words between CREATE, or DROP, and the word for what is created."""

_REASONS = {
    "CHECKPOINT": "each change of a table is kept as soon as it is made",
    "FORCE CHECKPOINT": "each change of a table is kept as soon as it is made",
    "ANALYZE": "statistics are collected when plans need them, and by Session.statistics(table)",
    "VACUUM": "changes of a table pack its small pieces and remove old ones by themselves",
    "COMMENT": "tables and columns keep no comments",
    "COPY FROM DATABASE": "EXPORT DATABASE and IMPORT DATABASE move all tables",
    "UPDATE EXTENSIONS": "INSTALL downloads an extension, LOAD loads it",
    "ALTER DATABASE": "DETACH and ATTACH give a database another name",
    "ALTER SEQUENCE": "there are no sequences; row_number() OVER () numbers rows",
    "ALTER VIEW": "CREATE OR REPLACE VIEW name AS … and DROP VIEW change views",
    "CREATE INDEX": "tables have no indexes; filters skip parts of a table by its statistics",
    "CREATE SECRET": "credentials come from the environment, see docs/stores.md",
    "CREATE SEQUENCE": "there are no sequences; row_number() OVER () numbers rows",
    "CREATE TRIGGER": "tables have no triggers",
    "CREATE TYPE": "a query can cast to any type that it writes out, such as ENUM ('a', 'b')",
    "DROP INDEX": "tables have no indexes",
    "DROP SECRET": "a session keeps no secrets",
    "DROP SEQUENCE": "there are no sequences",
    "DROP TRIGGER": "tables have no triggers",
    "DROP TYPE": "a session keeps no types",
    "PRAGMA IMPORT_DATABASE": "IMPORT DATABASE 'folder' does it",
    "PRAGMA COPY_DATABASE": "EXPORT DATABASE and IMPORT DATABASE move all tables",
    "PRAGMA ENABLE_PROFILING": "EXPLAIN ANALYZE query shows what each stage takes",
    "PRAGMA ENABLE_PROFILE": "EXPLAIN ANALYZE query shows what each stage takes",
}

_RUNS = (
    "it runs SELECT, VALUES, FROM, WITH, CREATE and DROP of VIEW, TABLE, SCHEMA and MACRO, INSERT, UPDATE, DELETE, "
    "MERGE, TRUNCATE, ALTER TABLE, COPY, EXPORT, IMPORT, SET, RESET, PREPARE, EXECUTE, CALL, BEGIN, COMMIT, ATTACH, "
    "DETACH, USE, INSTALL, LOAD, EXPLAIN, DESCRIBE, SUMMARIZE, SHOW TABLES and SHOW FUNCTIONS"
)


def not_for_a_session(statement: Words) -> QueryError:
    """The error for a statement that a session does not run.

    >>> from qoop.query.statements.words import Words
    >>> print(not_for_a_session(Words("CREATE UNIQUE INDEX i ON t (a)")))
    CREATE INDEX is not for a session: tables have no indexes; filters skip parts of a table by its statistics
    """
    name = statement_name(statement)
    return QueryError(f"{name} is not for a session: {_REASONS.get(name.upper(), _RUNS)}")


def statement_name(statement: Words) -> str:
    """The words that name the kind of a statement.

    >>> from qoop.query.statements.words import Words
    >>> [statement_name(Words(text)) for text in ("force checkpoint", "PRAGMA enable_profiling", "VACUUM t")]
    ['FORCE CHECKPOINT', 'PRAGMA enable_profiling', 'VACUUM']
    """
    words = [word.text for word in statement.left]
    first = words[0].upper() if words else ""
    if first == "COPY":
        return " ".join(word.upper() for word in words[:3])
    if first == "PRAGMA":
        return " ".join(["PRAGMA", *words[1:2]])
    if first in ("CREATE", "DROP", "ALTER"):
        return " ".join([first, *[word.upper() for word in words[1:] if word.upper() not in _BETWEEN][:1]])
    return " ".join([first, *(word.upper() for word in words[1:2])]) if first in ("FORCE", "UPDATE") else first
