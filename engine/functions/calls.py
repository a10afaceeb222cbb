"""The functions of Python that a kernel's DuckDB calls: measured, stoppable, failing in our words.

DuckDB calls a registered function (`create_function`) in the thread of the task, for one row or, vectorised,
for up to 2048. An exception comes out of DuckDB as a text, so the first one is kept here and becomes the cause of ours.
A function may take long for each row, and DuckDB heeds `interrupt` between vectors only, so each call first asks
whether the task is to end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter
from typing import Any

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_output
from qoop.catalog.errors import FunctionFailed
from qoop.catalog.functions.function import UserFunction
from qoop.engine.failures import Stopped
from qoop.engine.functions.measured import FunctionCalls, Ledger, Meter, plain
from qoop.engine.task import TaskSpec

_RESULT = re.compile("Failed to cast value|Unable to transform python value")
NO_NULL = "it returned None, which null_handling='special' would allow"
_PAUSE = 0.02  # seconds between checks whether the task is to end
_TELL = 0.1  # seconds of a task until the first report of its functions; then whenever that time has doubled

Tell = Callable[[tuple[FunctionCalls, ...]], None]


class Calls:
    """The functions of one kernel, which runs one task at a time. ledger: shared with other kernels."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.meters: dict[str, Meter] = {}
        self._before: dict[str, tuple[int, int, float]] = {}
        self._between: Callable[[], None] = lambda: None
        self._tell: Tell = lambda _: None
        self._began, self._reported = 0.0, 0.0
        self._raised: BaseException | None = None
        self._checked = 0.0

    def begin(self, between: Callable[[], None], tell: Tell = lambda _: None) -> None:
        """A task begins. between: raises Stopped if it is to end. tell: takes what was measured while it runs."""
        self._before = {key: (meter.rows, meter.timed, meter.seconds) for key, meter in self.meters.items()}
        self._between, self._tell, self._raised = between, tell, None
        self._began, self._reported = perf_counter(), _TELL

    def observed(self) -> tuple[FunctionCalls, ...]:
        """The calls of the task so far."""
        found = []
        for key, meter in sorted(self.meters.items()):
            rows, timed, seconds = self._before.get(key, (0, 0, 0.0))
            called, checked = meter.rows - rows, meter.timed - timed
            if called:
                each = (meter.seconds - seconds) / checked if checked else meter.seconds / max(1, meter.timed)
                found.append(FunctionCalls(key, called, each * called))
        return tuple(found)

    def raise_cause(self, error: duckdb.Error, spec: TaskSpec) -> None:
        """After an error of DuckDB's: raise what a function raised, or Stopped if one was to stop."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        if spec.functions and _RESULT.search(str(error)):
            names = " or ".join(
                one.signature for one in spec.functions if one.key in {found.function for found in self.observed()}
            )
            raise FunctionFailed(f"the function {names} returned a value of another type: {error}") from error

    def add_to(self, connection: duckdb.DuckDBPyConnection, function: UserFunction, name: str) -> None:
        """Have a connection know the function under a name."""
        if function.vectorised:
            wrapped = self._vectorised(function, _arrow_type(connection, function.return_type))
        else:
            wrapped = self.of_one_row(function)
        connection.create_function(  # type: ignore[call-overload]
            name,
            wrapped,
            [duckdb.sqltype(one) for one in function.parameters],
            duckdb.sqltype(function.return_type),
            type="arrow" if function.vectorised else "native",
            null_handling="special" if function.takes_null else "default",
            side_effects=not function.deterministic,
        )

    def meter(self, function: UserFunction) -> Meter:
        """The rows and seconds of a function in this kernel."""
        meter = self.meters.get(function.key)
        if meter is None:
            meter = self.meters[function.key] = Meter()
            self._ledger.functions.setdefault(function.key, []).append(meter)
        return meter

    def of_one_row(self, function: UserFunction) -> Callable[..., Any]:
        """The function as it is called for one row: measured, stoppable, failing in our words."""
        call, meter, takes_null = function.call, self.meter(function), function.takes_null

        def one_row(*values: Any) -> Any:
            try:
                if meter.skip:
                    meter.skip -= 1
                    made = call(*values)
                else:
                    began = perf_counter()
                    if began - self._checked > _PAUSE:
                        self._check(began)
                    made = call(*values)
                    meter.add(1, perf_counter() - began)
                if made is None and not takes_null:
                    raise TypeError(NO_NULL)
            except BaseException as error:
                raise self.failed(function, error) from error
            return made

        return one_row

    def check(self) -> None:
        """Between calls that are not measured: raise Stopped if the task is to end."""
        now = perf_counter()
        if now - self._checked > _PAUSE:
            try:
                self._check(now)
            except BaseException as error:
                self._raised = self._raised or error
                raise

    def _vectorised(self, function: UserFunction, declared: pa.DataType) -> Callable[..., Any]:
        call, meter = function.call, self.meter(function)

        def rows(*columns: pa.ChunkedArray) -> pa.ChunkedArray:
            began = perf_counter()
            try:
                self._check(began)
                made = _array(call(*map(plain, columns)), len(columns[0]), declared)
                if made.null_count and not function.takes_null:
                    raise TypeError("it returned NULLs, which null_handling='special' would allow")
            except BaseException as error:
                raise self.failed(function, error) from error
            meter.add(len(made), perf_counter() - began)
            return made

        return rows

    def _check(self, now: float) -> None:
        self._checked = now
        self._between()
        if now - self._began >= self._reported and (observed := self.observed()):
            self._reported = 2 * (now - self._began)
            self._tell(observed)

    def failed(self, function: UserFunction, error: BaseException) -> BaseException:
        """The error as it is to come out of the task."""
        found: BaseException = error
        if isinstance(error, Exception) and not isinstance(error, Stopped):
            found = FunctionFailed(f"the function {function.signature} failed with {type(error).__name__}: {error}")
            found.__cause__ = error
        self._raised = self._raised or found
        return found


def _arrow_type(connection: duckdb.DuckDBPyConnection, type_: str) -> pa.DataType:
    """The Arrow type of values of one of DuckDB's types."""
    return plain(arrow_output.table(connection, f"SELECT CAST(NULL AS {type_}) AS a").column(0)).type


def _array(made: Any, rows: int, declared: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The result of a vectorised function, as it must be. Raises TypeError."""
    if not isinstance(made, pa.Array | pa.ChunkedArray):
        raise TypeError(f"it returned {type(made).__name__} in place of an Arrow array")
    if len(made) != rows:
        raise TypeError(f"it returned {len(made)} values for {rows} rows")
    if made.type != declared and not _fits(made.type, declared):
        raise TypeError(f"it returned an array of {made.type}, where {declared} was declared")
    return made


def _fits(made: pa.DataType, declared: pa.DataType) -> bool:
    """True if DuckDB turns the one into the other without a question: numbers, and texts of any layout."""
    return all(kind(made) for kind in (_is_number, _is_text, pa.types.is_boolean) if kind(declared))


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or type_ == pa.string_view())
