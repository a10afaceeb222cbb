"""The filters of a stage whose predicates may run in any order, inside one kernel.

See `ordering` and `fused_filter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import get_ident

import duckdb
import pyarrow as pa

from qoop.catalog.functions.function import UserFunction
from qoop.catalog.lexer import quoted
from qoop.engine.functions.calls import Calls
from qoop.engine.functions.fused_filter import InTurn, OneCall, as_one_call
from qoop.engine.functions.measured import Ledger, Meter, row_seconds
from qoop.engine.functions.ordering import (
    AT_FIRST,
    COUNTED,
    ORDER,
    PASSED,
    Counter,
    Order,
    PredicateCounts,
    best,
    filters_of,
    in_orders,
    orders_of,
)

Texts = tuple[str, ...]
AddTo = Callable[[duckdb.DuckDBPyConnection], None]

_REFUSED = (duckdb.DataError, duckdb.InvalidInputException)
"""Errors of DuckDB about values: those that an argument cannot be cast to, and those that a predicate gives."""


class Filters:
    """The filters of the task that a kernel runs now. ledger: shared with other kernels. calls: the kernel's."""

    def __init__(self, ledger: Ledger, calls: Calls) -> None:
        self._ledger, self._calls = ledger, calls
        self._filters: list[_Filter] = []
        self._fused: dict[Texts, tuple[_Filter, OneCall, InTurn]] = {}
        self._answered: dict[tuple[int, int], tuple[int, int]] = {}

    @property
    def moved(self) -> bool:
        """True if the task has called predicates in another order than that of the text."""
        return any(one.moved for one in self._filters)

    def begin(self, sql: str, functions: tuple[UserFunction, ...]) -> str:
        """The SQL of a stage as it is to run."""
        self._filters = [self._of(texts, functions) for texts in filters_of(sql)]
        self._answered = {}
        if not self._filters:
            return sql
        calls = {n: self._fused[one.texts][1] for n, one in enumerate(self._filters) if one.is_one_call}
        printed = {n: f"{quoted(_name(self._filters[n]))}({', '.join(call.arguments)})" for n, call in calls.items()}
        return in_orders(sql, [one.orders for one in self._filters], printed)

    def keep_to_text(self) -> None:
        """From now on these filters run in the order of the text."""
        self._ledger.as_written.update(one.texts for one in self._filters)

    def apart_after(self, error: duckdb.Error) -> bool:
        """After an error of DuckDB's: True if predicates were fused, which they are not from now on."""
        texts = [one.texts for one in self._filters if one.is_one_call]
        if not isinstance(error, _REFUSED) or not texts:
            return False
        self._ledger.apart.update(texts)
        return True

    def settle(self) -> None:
        """Count the calls of the task that have not been counted yet."""
        for one in self._filters:
            if one.is_one_call:
                self._fused[one.texts][2].settle()

    def needed(self) -> Mapping[str, AddTo]:
        """By name what a connection must know to run the filters."""
        found: dict[str, AddTo] = {}
        for one in self._filters:
            if one.is_one_call:
                found[_name(one)] = partial(self._add_fused, one.texts)
            else:
                found[ORDER] = self._add_asking
        return found

    def _of(self, texts: Texts, functions: tuple[UserFunction, ...]) -> _Filter:
        """A filter of the task. One that is one call goes on from task to task: DuckDB has its function."""
        if texts in self._ledger.as_written or texts in self._ledger.apart:
            return _Filter(texts, functions, self._ledger)
        if texts not in self._fused:
            call = as_one_call(texts, functions)
            if call is None:
                return _Filter(texts, functions, self._ledger)
            one = _Filter(texts, functions, self._ledger, is_one_call=True)
            self._fused[texts] = one, call, InTurn(call.predicates, self._calls, one.again)
        known, _, turn = self._fused[texts]
        known.moved = False
        turn.begin()
        return known

    def _add_fused(self, texts: Texts, connection: duckdb.DuckDBPyConnection) -> None:
        one, call, turn = self._fused[texts]
        types = [duckdb.sqltype(type_) for type_ in call.types]
        connection.create_function(  # type: ignore[call-overload]
            _name(one), turn.row, types, duckdb.sqltype("BOOLEAN"), null_handling="special", side_effects=True
        )

    def _add_asking(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Have a connection know how to ask for an order, and to tell what a predicate has left."""
        integer, boolean = duckdb.sqltype("INTEGER"), duckdb.sqltype("BOOLEAN")
        options = {"type": "arrow", "side_effects": True}
        connection.create_function(ORDER, self._order, [integer], integer, **options)  # type: ignore[call-overload]
        argument_types = [integer, integer, boolean]
        connection.create_function(  # type: ignore[call-overload]
            PASSED, self._passed, argument_types, boolean, null_handling="special", **options
        )

    def _order(self, numbers: pa.ChunkedArray) -> pa.Array:
        """The branch for a vector, and the same one until DuckDB has read every WHEN up to it."""
        number = numbers[0].as_py()
        asker = number, get_ident()
        branch, again = self._answered.get(asker) or (0, 0)
        if not again:
            branch = self._filters[number].branch()
            again = 1 + min(branch, 2 * len(self._filters[number].orders) - 2)
        self._answered[asker] = branch, again - 1
        return pa.repeat(pa.scalar(branch, pa.int32()), len(numbers))

    def _passed(self, numbers: pa.ChunkedArray, places: pa.ChunkedArray, flags: pa.ChunkedArray) -> pa.ChunkedArray:
        import pyarrow.compute as pc  # few kernels call functions of Python

        with self._ledger.lock:
            passed = pc.sum(_numbers(flags)).as_py() or 0
            self._filters[numbers[0].as_py()].count(places[0].as_py(), len(flags), passed)
        return flags


class _Filter:
    """One filter. is_one_call: DuckDB is given one function for it. orders: what is chosen among. moved: another order
    than that of the text was used."""

    def __init__(
        self, texts: Texts, functions: Sequence[UserFunction], ledger: Ledger, is_one_call: bool = False
    ) -> None:
        self.texts, self.is_one_call, self.moved = texts, is_one_call, False
        self._ledger = ledger
        self._requested, self._weight = 0, 1
        meters = {one.key: ledger.functions.setdefault(one.key, []) for one in functions}
        self._counters = [ledger.predicates.setdefault(p, Counter()) for p in texts]
        self._meters = [[m for key, m in meters.items() if key in p] for p in texts]
        self.orders = self._choices()

    def branch(self) -> int:
        """The best order, as it is or, for some vectors, counted."""
        place = best(self.orders, self._observed())
        self._note(self.orders[place])
        self._requested += 1
        at_first = self._requested <= AT_FIRST
        self._weight = 1 if at_first else COUNTED
        return place + len(self.orders) if at_first or self._requested % COUNTED == 0 else place

    def count(self, place: int, rows: int, passed: int) -> None:
        """Count the rows of a vector for one of the predicates."""
        self._counters[place].add(self._weight * rows, self._weight * passed)

    def again(self, counts: Sequence[tuple[int, int]]) -> Order:
        """The best order from now on. counts: rows that each predicate was called for, and has passed, since."""
        with self._ledger.lock:
            for counter, (rows, passed) in zip(self._counters, counts, strict=True):
                counter.add(rows, passed)
        orders = self._choices()
        order = orders[best(orders, self._observed())]
        self._note(order)
        return order

    def _note(self, order: Order) -> None:
        self.moved = self.moved or order != tuple(range(len(order)))

    def _choices(self) -> list[Order]:
        if self.texts in self._ledger.as_written:
            return [tuple(range(len(self.texts)))]
        ranks = [(one.selectivity - 1.0) / (one.seconds or 1.0) for one in self._observed()]
        return orders_of(len(self.texts), tuple(sorted(range(len(self.texts)), key=ranks.__getitem__)))

    def _observed(self) -> list[PredicateCounts]:
        """The facts known of the predicates."""
        return [
            PredicateCounts(counter.rows, counter.passed, _seconds(meters))
            for counter, meters in zip(self._counters, self._meters, strict=True)
        ]


def _name(one: _Filter) -> str:
    """The name of the function that stands for a filter."""
    return " AND ".join(one.texts)


def _numbers(flags: pa.ChunkedArray) -> pa.ChunkedArray:
    """BOOLEANs as they can be summed: where no value may lose anything DuckDB gives them as bytes."""
    if getattr(flags.type, "extension_name", "") != "arrow.bool8":
        return flags
    return pa.chunked_array([chunk.storage for chunk in flags.chunks], pa.int8())


def _seconds(functions: list[list[Meter]]) -> float | None:
    """Seconds of a row of a predicate that calls these functions, as far as they are known."""
    known = [seconds for meters in functions if (seconds := row_seconds(meters)) is not None]
    return sum(known) if known else None
