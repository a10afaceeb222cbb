"""Commands on tables: ``\\d``, ``\\functions``, ``\\register``, ``\\databases``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import size, span
from qoop.interfaces.repl.command import Command
from qoop.interfaces.repl.habits import import_file

if TYPE_CHECKING:
    from qoop.catalog.statistics.stats import ColumnStats, Scalar
    from qoop.catalog.table import Table
    from qoop.interfaces.repl.shell import Shell


def _tables(shell: Shell, name: str) -> None:
    if name:
        _describe(shell, name)
        return
    tables = shell.session.tables().values()
    columns = {
        "table": [table.name for table in tables],
        "rows": [f"{table.rows:,}" for table in tables],
        "columns": [str(len(table.columns)) for table in tables],
        "kept in": [_kind(table) for table in tables],
    }
    if not tables:
        shell.say("no tables; \\register PATH makes some known, or FROM 'file.parquet'")
        return
    shell.show_rows(columns, right=("rows", "columns"))


def _functions(shell: Shell, _: str) -> None:
    functions = shell.session.functions().values()
    if not functions:
        shell.tell("no functions of Python; Session.register_function makes some known, in a program")
        return
    taken = shell.session.planning.row_seconds()
    columns = {
        "function": [one.signature for one in functions],
        "called by": ["vector" if one.vectorised else "row" for one in functions],
        "for 1,000 rows": [span(1e3 * taken[one.key]) if one.key in taken else "" for one in functions],
    }
    shell.show_rows(columns, right=("for 1,000 rows",))


def _kind(table: Table) -> str:
    return type(table.source).__name__.removesuffix("Source").removeprefix("Created").lower()


def _describe(shell: Shell, name: str) -> None:
    table = shell.session.tables().get(name.strip('"'))
    stats = shell.session.statistics(name.strip('"') if table is None else table.name)
    named = (one for one in shell.session.tables().values() if one.name.lower() == name.lower())
    table = table or next(named, None)
    if table is None:  # a query has read a file of that path
        raise ConfigError(f"{name} is no table; \\register {name} makes one of it")
    shell.say(f"{table.name}: {stats.rows:,.0f} rows, about {size(stats.bytes)}, kept in {_kind(table)}")
    known = [(column, type_, stats.columns.get(column)) for column, type_ in table.columns]
    columns: dict[str, Sequence[str | None]] = {
        "column": [column for column, _, _ in known],
        "type": [type_.lower() for _, type_, _ in known],
        "distinct": [None if one is None else f"{one.distinct:,.0f}" for _, _, one in known],
        "nulls": [None if one is None else f"{one.nulls / max(1.0, stats.rows):.1%}" for _, _, one in known],
        "least": [_extreme(one.minimum if one else None, type_) for _, type_, one in known],
        "most": [_extreme(one.maximum if one else None, type_) for _, type_, one in known],
    }
    if shell.terminal().width >= _WIDE:
        columns["most common"] = [_common(one, type_) for _, type_, one in known]
    shell.show_rows(columns, right=("nulls", "distinct"))


_WIDE = 120
"""Characters of a screen that shows the most common values."""


def _extreme(value: Scalar | None, type_: str) -> str | None:
    """A value of the statistics as its type writes it.

    >>> _extreme(2.0, "DATE"), _extreme(86400.5, "TIMESTAMP"), _extreme(3.0, "INTEGER")
    ('1970-01-03', '1970-01-02 00:00:00.500000', '3')
    """
    if value is None or isinstance(value, str):
        return value
    if type_ == "DATE" and abs(value) < 1e6:
        return str(date(1970, 1, 1) + timedelta(days=value))
    if type_.startswith("TIMESTAMP") and abs(value) < 1e11:
        return str(datetime(1970, 1, 1) + timedelta(seconds=value))
    return f"{value:.10g}"


def _common(stats: ColumnStats | None, type_: str) -> str | None:
    common = [] if stats is None else [(value, part) for value, part in stats.common[:2] if part >= 0.01]
    return ", ".join(f"{_extreme(value, type_)} {part:.0%}" for value, part in common)


def _register(shell: Shell, line: str) -> None:
    words = shlex.split(line)
    if len(words) not in (1, 2):
        raise ConfigError("\\register PATH, or \\register NAME PATH")
    before = set(shell.session.tables())
    if len(words) == 2:
        shell.session.register(words[0], words[1])
    else:
        shell.session.register_path(words[0])
    shell.forget_names()
    shell.confirm(f"tables: {', '.join(sorted(set(shell.session.tables()) - before)) or 'replaced'}")


def _databases(shell: Shell, _: str) -> None:
    shell.run_script("SHOW DATABASES")


TABLE_COMMANDS = (
    Command(("d", "describe", "tables", "dt", "schema"), "[TABLE]", "tables, or one with its statistics", _tables),
    Command(("functions", "df"), "", "functions of Python, and what they have taken", _functions),
    Command(
        ("register", "open", "attach"),
        "[NAME] PATH",
        "make a file, folder or database known",
        _register,
        "in turn",
    ),
    Command(("import",), "FILE TABLE", "put the rows of a file into a table", import_file, "after"),
    Command(("databases",), "", "the databases that are attached", _databases, "after"),
)
