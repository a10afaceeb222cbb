"""Does qoop answer a text as DuckDB does? One text, in one mode, over one set of tables.

Names, types and rows must be equal, and their order as far as the text asks for one (:mod:`qoop.tpcds.oracle`). Both
sides may refuse a text, for whatever reason they give. Where one refuses and the other does not, that is a difference,
but for an error in a value that may or may not be computed (a CAST behind a filter, say, is raised or not as the
optimizer likes): qoop may do without the value, and where it is qoop that raises, DuckDB is asked again with its
optimizer off, and with the parts of it off that go by what the rows are; it excuses qoop if it raises then too. In
stages alone a value may be computed that DuckDB never needs (a key to hash by, of a join with nothing): a usual session
goes over to DuckDB's plan then, so this is counted and no difference.

Where other rows come out, DuckDB is asked again over the same tables with their rows in other orders, below views. If
it gives our rows then, or other floats where ours differ from the first by less than 1e-9, the text has no answer to be
held to: sums that cancel to 1e-16, and constants of 1.5.5 that are NULL or not as a view has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from fuzz_forms import planning_as
from fuzz_tables import Hosts

import qoop
from qoop.engine.failures import is_fatal
from qoop.tpcds import ordering as orders
from qoop.tpcds.oracle import Difference, compare

TOO_MANY = 300_000  # rows of an answer that is not worth comparing
_OF_VALUES = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)
_FEW = 2_000
_FLOAT = re.compile(r"\d+\.\d{9,}(?:e-?\d+)?")
_DIGITS = 11
_OPTIMIZERS = ("", "join_filter_pushdown,join_order,build_side_probe_side,statistics_propagation")

NO_VALUES = "PIVOT without values, which docs/statements.md refuses"
EQUAL, REFUSED, UNSURE = "equal", "refused by both", "a value that need not be computed"
BROKEN = "DuckDB fails, by its own account through a mistake of its own"
MISSING = "DuckDB runs into what it has not got"
CONTRADICTS = "DuckDB itself answers otherwise where the same rows lie otherwise"
IN_STAGES = "a value that stages alone compute"
LITTLE = "it needs more memory than a slot has, in DuckDB as well"
NO_KEY = "a MAP with a NULL among its keys, which docs/statements.md refuses"
DIGITS = "floats in lists or texts, which DuckDB summed in another order"
UNWRITTEN = "cut, and sqlglot cannot write it without its LIMIT"


@dataclass(frozen=True)
class Theirs:
    """The answer of DuckDB: rows and types, or an error."""

    rows: pa.Table | None
    types: tuple[str, ...] = ()
    error: duckdb.Error | None = None
    fetch: Callable[[], list[tuple[object, ...]]] = list

    @cached_property
    def values(self) -> list[str] | None:
        """The rows as values of Python, in some order; DuckDB is asked for them once. None: it has none for a type."""
        try:
            return sorted(map(repr, self.fetch()))
        except (duckdb.Error, OverflowError):
            return None


def asked(connection: duckdb.DuckDBPyConnection, text: str) -> Theirs:
    """DuckDB's answer."""
    try:
        cursor = connection.execute(text)
        types = tuple(str(column[1]) for column in cursor.description or ())
        return Theirs(cursor.to_arrow_table(), types, fetch=lambda: connection.execute(text).fetchall())
    except duckdb.Error as error:
        return Theirs(None, (), error)


def judged(hosts: Hosts, text: str, mode: str, theirs: Theirs) -> Difference | str:
    """A difference, or in a word what came of it. mode: ``whole``, or one of the forms of :mod:`fuzz_forms`."""
    session = hosts.whole if mode == "whole" else hosts.staged
    try:
        with nullcontext() if mode == "whole" else planning_as(mode):
            result = session.sql(text)
            ours = result.arrow()
    except qoop.QoopError as error:
        return _of_our_error(hosts, text, mode, theirs, error)
    except Exception as error:  # whatever it is, it is not what a user should meet
        return Difference("crash", f"raised {type(error).__name__}: {error}")
    if theirs.rows is None:
        if theirs.error is not None and is_fatal(theirs.error):
            return BROKEN
        if isinstance(theirs.error, duckdb.NotImplementedException) and (mode == "whole" or _raises_whole(hosts, text)):
            return MISSING
        if isinstance(theirs.error, _OF_VALUES):
            return UNSURE
        return Difference("accepted", f"{ours.num_rows} rows, but DuckDB refuses: {theirs.error}")
    return _of_rows(hosts, text, theirs, ours, result)


def _of_our_error(hosts: Hosts, text: str, mode: str, theirs: Theirs, error: qoop.QoopError) -> Difference | str:
    if theirs.rows is None:
        return REFUSED
    if str(error).startswith("PIVOT finds no values"):
        return NO_VALUES
    if isinstance(error, qoop.ExecutionError) and _raises_unoptimized(hosts.duckdb, text):
        return UNSURE
    if mode == "whole" and isinstance(error.__cause__, _OF_VALUES):
        return UNSURE  # DuckDB's own plan, of tables that it knows less of: it computes for an empty one, too
    if isinstance(error.__cause__, _OF_VALUES):
        return IN_STAGES
    if isinstance(error.__cause__, duckdb.NotImplementedException):
        return IN_STAGES if mode != "whole" and not _raises_whole(hosts, text) else MISSING
    if isinstance(error, qoop.OutOfMemory) and _needs_more(hosts.duckdb, text):
        return LITTLE
    return Difference("raised", f"{type(error).__name__}: {error}")


def _needs_more(connection: duckdb.DuckDBPyConnection, text: str) -> bool:
    """True if DuckDB runs out of memory, too, with that of one of the two slots of a session."""
    connection.execute("SET memory_limit = '250MB'")
    try:
        return isinstance(asked(connection, text).error, duckdb.OutOfMemoryException)
    finally:
        connection.execute("SET memory_limit = '500MB'")


def _raises_whole(hosts: Hosts, text: str) -> bool:
    """True if DuckDB's own plan of the text fails in a session, too."""
    try:
        hosts.whole.sql(text).arrow()
    except qoop.QoopError as error:
        return isinstance(error.__cause__, duckdb.NotImplementedException)
    return False


def _raises_unoptimized(connection: duckdb.DuckDBPyConnection, text: str) -> bool:
    return any(_raises_without(connection, text, parts) for parts in _OPTIMIZERS)


def _raises_without(connection: duckdb.DuckDBPyConnection, text: str, parts: str) -> bool:
    """True if a value cannot be computed where these parts of the optimizer are off; empty: all of it."""
    off, on = (f"SET disabled_optimizers = '{parts}'", "RESET disabled_optimizers")
    if not parts:
        off, on = "PRAGMA disable_optimizer", "PRAGMA enable_optimizer"
    connection.execute(off)
    try:
        return isinstance(asked(connection, text).error, _OF_VALUES)
    finally:
        connection.execute(on)


def _of_rows(hosts: Hosts, text: str, theirs: Theirs, ours: pa.Table, result: qoop.Result) -> Difference | str:
    assert theirs.rows is not None
    types = tuple(result.types)
    if types != theirs.types:
        return Difference("types", f"the types are {', '.join(types)}, but should be {', '.join(theirs.types)}")
    order = _ordering(text, tuple(theirs.rows.column_names))
    try:
        difference = (
            None
            if ours.equals(theirs.rows)
            else compare(ours, theirs.rows, order=order, unlimited=lambda: _whole(hosts, order, ours.schema))
        )  # most answers have their rows in the same places
    except (duckdb.Error, _Unwritten):
        return UNWRITTEN
    if difference is not None and difference.kind == "rows":
        if _equal_but_for_digits(ours, theirs.rows):
            return DIGITS
        if order.unlimited is None and any(_excused(one, ours, theirs.rows) for one in _otherwise(hosts, text)):
            return CONTRADICTS
    return difference or _of_values(order, result, theirs) or EQUAL


def _otherwise(hosts: Hosts, text: str) -> Iterator[pa.Table]:
    """The answers of DuckDB to the text where the rows of the tables lie otherwise."""
    for schema in hosts.otherwise:
        hosts.duckdb.execute(f"SET schema = '{schema}'")
        other = asked(hosts.duckdb, text)
        if other.error is not None and is_fatal(other.error):
            hosts.renew()
            return
        hosts.duckdb.execute("RESET schema")
        if other.rows is not None:
            yield other.rows


def _excused(other: pa.Table, ours: pa.Table, theirs: pa.Table) -> bool:
    """True if DuckDB's other answer is not its first, and ours is the other one, or is the first but for next to
    nothing in the floats in which the two differ."""
    if other.num_rows != theirs.num_rows or compare(other, theirs) is None:
        return False
    if compare(ours, other) is None:
        return True
    unsure = [
        at
        for at, field in enumerate(theirs.schema)
        if pa.types.is_floating(field.type) and compare(other.select([at]), theirs.select([at])) is not None
    ]
    return bool(unsure) and compare(_rounded(ours, unsure), _rounded(theirs, unsure)) is None


def _rounded(rows: pa.Table, places: Sequence[int]) -> pa.Table:
    """The rows with the floats at these places to nine decimals."""
    for at in places:
        rows = rows.set_column(at, rows.schema.field(at), pc.round(rows.column(at), ndigits=9))
    return rows


def _equal_but_for_digits(ours: pa.Table, theirs: pa.Table) -> bool:
    """True if lists or texts hold floats that differ by the order of summation, and nothing else differs."""
    try:
        return ours.num_rows <= _FEW and _to_digits(ours) == _to_digits(theirs)
    except (OverflowError, ValueError):  # Python has no such day
        return False


def _to_digits(rows: pa.Table) -> list[str]:
    """The rows, in some order, with every float in them, or in a text of them, to eleven digits."""
    texts = (
        repr(tuple(row.values()))
        for row in rows.rename_columns([str(at) for at in range(rows.num_columns)]).to_pylist()
    )
    return sorted(_FLOAT.sub(lambda found: f"{float(found[0]):.{_DIGITS}g}", text) for text in texts)


@lru_cache(maxsize=1)
def _ordering(text: str, names: tuple[str, ...]) -> orders.Ordering:
    """Each text is judged in two modes."""
    return orders.ordering(text, list(names))


class _Unwritten(Exception):
    """The text that sqlglot wrote is another query."""


def _whole(hosts: Hosts, order: orders.Ordering, schema: pa.Schema) -> pa.Table:
    rows = hosts.duckdb.execute(order.unlimited or "").to_arrow_table()
    if rows.schema.types[: len(schema)] != schema.types:
        raise _Unwritten
    return rows


def _of_values(order: orders.Ordering, result: qoop.Result, theirs: Theirs) -> Difference | str | None:
    """Are the values in Python the same, too? Asked where floats and ties cannot make them differ."""
    rows = theirs.rows
    assert rows is not None
    if order.cut or rows.num_rows > _FEW or "float" in str(rows.schema) or "double" in str(rows.schema):
        return None
    try:
        ours = sorted(map(repr, result.fetchall()))
    except qoop.ExecutionError as error:
        if theirs.values is None:
            return None
        return NO_KEY if "NULL as map key" in str(error) else Difference("values", f"fetchall() fails: {error}")
    if theirs.values is None:
        return Difference("values", "fetchall() gives rows, but DuckDB cannot")
    wrong = [(mine, other) for mine, other in zip(ours, theirs.values, strict=False) if mine != other]
    if not wrong and len(ours) == len(theirs.values):
        return None
    return Difference("values", f"fetchall() gives {wrong[0][0]}, but should give {wrong[0][1]}")
