"""The filters of a stage whose predicates may run in any order, inside one kernel (see `ordering`)."""

from __future__ import annotations

import threading
from threading import get_ident

import duckdb
import pyarrow as pa

from qoop.catalog.functions.function import UserFunction
from qoop.engine.functions.measured import Meter, row_seconds
from qoop.engine.functions.ordering import (
    AT_FIRST,
    COUNTED,
    ORDER,
    PASSED,
    Counter,
    Order,
    Seen,
    best,
    filters_of,
    in_orders,
    orders_of,
)


class Ledger:
    """The facts that the kernels of one process have seen of functions and predicates, for the tasks to come.

    functions: by key, a meter for each kernel. predicates: by text. as_written: filters that failed in another order
    than that of the text. lock: of the counters, which kernels and their threads share.
    """

    def __init__(self) -> None:
        self.functions: dict[str, list[Meter]] = {}
        self.predicates: dict[str, Counter] = {}
        self.as_written: set[tuple[str, ...]] = set()
        self.lock = threading.Lock()


class Filters:
    """The filters of the task that a kernel runs now. ledger: shared with other kernels."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._texts: list[tuple[str, ...]] = []
        self._orders: list[list[Order]] = []
        self._counters: list[list[Counter]] = []
        self._meters: list[list[list[list[Meter]]]] = []
        self._asked: list[int] = []
        self._weights: list[int] = []
        self._answered: dict[tuple[int, int], tuple[int, int]] = {}
        self.moved = False

    def begin(self, sql: str, functions: tuple[UserFunction, ...]) -> str:
        """The SQL of a stage as it is to run."""
        self._texts, self.moved = filters_of(sql), False
        if not self._texts:
            return sql
        meters = {one.key: self._ledger.functions.setdefault(one.key, []) for one in functions}
        self._counters = [[self._ledger.predicates.setdefault(p, Counter()) for p in texts] for texts in self._texts]
        self._meters = [[[m for key, m in meters.items() if key in p] for p in texts] for texts in self._texts]
        self._orders = [self._choices(number) for number in range(len(self._texts))]
        self._asked, self._weights = [0] * len(self._texts), [1] * len(self._texts)
        self._answered = {}
        return in_orders(sql, self._orders)

    def keep_to_text(self) -> None:
        """From now on these filters run in the order of the text."""
        self._ledger.as_written.update(self._texts)

    def add_to(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Have a connection know how to ask for an order, and to tell what a predicate has left."""
        integer, boolean = duckdb.sqltype("INTEGER"), duckdb.sqltype("BOOLEAN")
        asked = {"type": "arrow", "side_effects": True}
        connection.create_function(ORDER, self._order, [integer], integer, **asked)  # type: ignore[call-overload]
        told = [integer, integer, boolean]
        connection.create_function(  # type: ignore[call-overload]
            PASSED, self._passed, told, boolean, null_handling="special", **asked
        )

    def _choices(self, number: int) -> list[Order]:
        texts = self._texts[number]
        if texts in self._ledger.as_written:
            return [tuple(range(len(texts)))]
        seen = self._seen(number)
        ranks = [(one.selectivity - 1.0) / (one.seconds or 1.0) for one in seen]
        return orders_of(len(texts), tuple(sorted(range(len(texts)), key=ranks.__getitem__)))

    def _seen(self, number: int) -> list[Seen]:
        """The facts known of the predicates of a filter."""
        return [
            Seen(counter.rows, counter.passed, _seconds(meters))
            for counter, meters in zip(self._counters[number], self._meters[number], strict=True)
        ]

    def _order(self, numbers: pa.ChunkedArray) -> pa.Array:
        """The branch for a vector, and the same one until DuckDB has asked for every WHEN up to it."""
        number = numbers[0].as_py()
        asker = number, get_ident()
        branch, again = self._answered.get(asker) or (0, 0)
        if not again:
            branch = self._branch(number)
            again = 1 + min(branch, 2 * len(self._orders[number]) - 2)
        self._answered[asker] = branch, again - 1
        return pa.repeat(pa.scalar(branch, pa.int32()), len(numbers))

    def _branch(self, number: int) -> int:
        """The best order, as it is or, for some vectors, counted."""
        orders = self._orders[number]
        place = best(orders, self._seen(number))
        self.moved = self.moved or orders[place] != tuple(range(len(orders[place])))
        self._asked[number] += 1
        at_first = self._asked[number] <= AT_FIRST
        self._weights[number] = 1 if at_first else COUNTED
        return place + len(orders) if at_first or self._asked[number] % COUNTED == 0 else place

    def _passed(self, numbers: pa.ChunkedArray, places: pa.ChunkedArray, flags: pa.ChunkedArray) -> pa.ChunkedArray:
        import pyarrow.compute as pc  # few kernels call functions of Python

        with self._ledger.lock:
            number = numbers[0].as_py()
            counter, weight = self._counters[number][places[0].as_py()], self._weights[number]
            counter.add(weight * len(flags), weight * (pc.sum(_numbers(flags)).as_py() or 0))
        return flags


def _numbers(flags: pa.ChunkedArray) -> pa.ChunkedArray:
    """BOOLEANs as they can be summed: where no value may lose anything DuckDB gives them as bytes."""
    if getattr(flags.type, "extension_name", "") != "arrow.bool8":
        return flags
    return pa.chunked_array([chunk.storage for chunk in flags.chunks], pa.int8())


def _seconds(functions: list[list[Meter]]) -> float | None:
    """Seconds of a row of a predicate that calls these functions, as far as they are known."""
    known = [seconds for meters in functions if (seconds := row_seconds(meters)) is not None]
    return sum(known) if known else None
