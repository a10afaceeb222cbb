"""Sessions of tools that speak PostgreSQL's protocol, statement by statement, against any server of it.

``python tests/interfaces/server/bi_sessions.py postgresql://ana@localhost:5432/shop`` prints the share of statements
that are answered, by tool. The files are in ``sessions``: statements with ``;`` at the end of a line, and before one

    -- refused      it writes, and the server must say that it only reads
    --= a|b         a row of its answer; all rows, if there is any such line
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

SESSIONS = sorted((Path(__file__).parent / "sessions").glob("*.sql"))
_ANSWERED = (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.EMPTY_QUERY)


@dataclass(frozen=True)
class Statement:
    """A statement of a session. rows: of its answer, as texts; empty: any."""

    text: str
    refused: bool = False
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a statement. wrong: empty if all is as it must be."""

    statement: Statement
    wrong: str


def statements_of(session: Path) -> Iterator[Statement]:
    refused, rows, lines = False, [], []
    for line in session.read_text().splitlines():
        if line == "-- refused":
            refused = True
        elif line.startswith("--= "):
            rows.append(line[4:])
        elif not line.startswith("--"):
            lines.append(line)
            if line.endswith(";"):
                yield Statement("\n".join(lines), refused, tuple(rows))
                refused, rows, lines = False, [], []
    assert not lines, f"{session.name}: a statement has no end: {lines}"


def outcomes(url: str, session: Path) -> Iterator[Outcome]:
    """The outcomes of all statements of a session, on one connection, by the simple protocol."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements_of(session):
            yield Outcome(statement, _wrong(connection.pgconn, statement))


def _wrong(connection: psycopg.pq.abc.PGconn, statement: Statement) -> str:
    result = connection.exec_(statement.text.encode())
    error = (result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
    if statement.refused:
        refused = "Forbidden" in error and len(error) > 30
        if connection.transaction_status == psycopg.pq.TransactionStatus.INERROR:
            connection.exec_(b"ROLLBACK")
        return "" if refused else f"it was not refused: {error or 'answered'}"
    if result.status not in _ANSWERED:
        return error or str(result.status)
    rows = tuple(
        "|".join(_text(result, row, column) for column in range(result.nfields)) for row in range(result.ntuples)
    )
    return f"its rows are {rows}" if statement.rows and rows != statement.rows else ""


def _text(result: psycopg.pq.abc.PGresult, row: int, column: int) -> str:
    value = result.get_value(row, column)
    return "" if value is None else value.decode()


def main(url: str) -> None:
    all_of, right = 0, 0
    for session in SESSIONS:
        found = list(outcomes(url, session))
        good = sum(not one.wrong for one in found)
        print(f"{session.stem:16} {good} of {len(found)}")
        for one in found:
            if one.wrong:
                print(f"    {one.wrong[:200]}\n      {' '.join(one.statement.text.split())[:150]}")
        all_of, right = all_of + len(found), right + good
    print(f"{'all':16} {right} of {all_of} on psycopg {psycopg.__version__}")


if __name__ == "__main__":
    main(sys.argv[1])
