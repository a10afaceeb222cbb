"""What running an operator tree costs: cpu seconds of one thread, and peak memory.

The constants that ship are rounded from what ``qoop calibrate`` measured for one thread of DuckDB on a machine of the
day; what it measures elsewhere, later sessions take instead (:mod:`qoop.calibration`).  They
need not be exact to order joins: plans are compared with each other, and only ratios matter for that.  What matters is
that a row probing a small hash table is cheap, that one entering a hash table is dear, and that everything else is in
between.  To foretell when a plan ends they do have to be near.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import log2

from qoop.planner.cardinality import Cardinality
from qoop.planner.expr import Column, columns_of, steps
from qoop.planner.packing import SERIAL_PART, on_threads
from qoop.planner.relation import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Scan,
    SetOp,
    Shared,
    Sort,
    Window,
)
from qoop.planner.skipping import scanned


@dataclass(frozen=True)
class CostModel:
    """Seconds on one thread per row or byte, and what hash tables and sorts take beside the rows themselves.

    scan_row, scan_byte: reading and decoding Parquet. filter_row: one function of a row, a comparison mostly, in
        filters and wherever else expressions are computed.
    build_row, build_byte: putting a row into a hash table. probe_row: looking one up in a table that fits the
    cache; miss_row: more for one that is far larger (:meth:`probe`). output_row: a row that a join puts out.
    nested_pair: one pair of rows tried by a join without an equality.
    aggregate_row, key_byte, group_row: looking up the group of a row, a byte of its keys, and a group coming out.
    aggregate_value: a value that goes into an aggregate function.
    sort_row: times log2(rows). exchange_row, exchange_byte: reading (or writing) Arrow at a stage border.
    task_overhead_seconds: starting and committing a task, whatever it does. operator_seconds: planning and starting
        one operator of it, however few its rows.
    serial_part: of a task with several threads, the part of its seconds that only one of them can do.
    hash_entry_bytes: memory of a hash table entry beside its columns.
    cached_rows: rows of a hash table of which half miss the cache when it is probed.
    """

    scan_row: float = 1e-9
    scan_byte: float = 0.6e-9
    filter_row: float = 1.6e-9
    build_row: float = 60e-9
    build_byte: float = 2.2e-9
    probe_row: float = 8e-9
    miss_row: float = 30e-9
    more_keys_row: float = 5e-9
    output_row: float = 8e-9
    nested_pair: float = 2.1e-9
    aggregate_row: float = 15e-9
    key_byte: float = 0.8e-9
    group_row: float = 100e-9
    aggregate_value: float = 1e-9
    sort_row: float = 4e-9
    exchange_row: float = 0.3e-9
    exchange_byte: float = 0.2e-9
    task_overhead_seconds: float = 0.002
    operator_seconds: float = 0.00025
    serial_part: float = SERIAL_PART
    hash_entry_bytes: float = 24.0
    cached_rows: float = 50_000.0

    def on_threads(self, seconds: float, threads: float) -> float:
        """How long so many seconds of one thread take on several (:func:`~qoop.planner.packing.on_threads`)."""
        return on_threads(seconds, threads, self.serial_part)

    def times(self, factor: float) -> CostModel:
        """The constants of a machine, or an engine, that takes so many times as long for everything."""
        seconds = {
            item.name: getattr(self, item.name) * factor for item in fields(self) if item.name not in _NO_SECONDS
        }
        return replace(self, **seconds)

    def build(self, rows: float, width: float) -> float:
        """Seconds to put rows of `width` bytes into a hash table."""
        return rows * (self.build_row + self.build_byte * width)

    def probe(self, rows: float, build_rows: float) -> float:
        """Seconds to look rows up in a hash table; the larger the table, the more of them miss the cache."""
        missing = build_rows / (build_rows + self.cached_rows)
        return rows * (self.probe_row + self.miss_row * missing)

    def hash_join(self, probe_rows: float, build_rows: float, build_width: float, output_rows: float) -> float:
        """Seconds of a hash join beyond producing its inputs."""
        return self.build(build_rows, build_width) + self.probe(probe_rows, build_rows) + output_rows * self.output_row

    def nested_loops(self, left_rows: float, right_rows: float, output_rows: float) -> float:
        """Seconds of a join that has to try all pairs."""
        return left_rows * right_rows * self.nested_pair + output_rows * self.output_row

    def seconds(self, relation: Relation, cardinality: Cardinality) -> float:
        """Cpu seconds of one thread to run the operator tree; an Exchange below costs reading it."""
        own = self.own_seconds(relation, cardinality)
        if isinstance(relation, Exchange):
            return own
        below = sum(self.seconds(child, cardinality) for child in relation.inputs)
        return own + max(0.0, below - self.spared_seconds(relation, cardinality))

    def spared_seconds(self, relation: Relation, cardinality: Cardinality) -> float:
        """Seconds that the operator spares the scan below it, of which only a part is read."""
        if not isinstance(relation, Join | Filter):
            return 0.0
        part = cardinality.part_read(relation)
        scan = scanned(relation) if part < 1.0 else None
        return (1.0 - part) * self.own_seconds(scan, cardinality) if scan is not None else 0.0

    def own_seconds(self, relation: Relation, cardinality: Cardinality) -> float:
        """Cpu seconds of the top operator alone."""
        rows = cardinality.rows(relation)
        match relation:
            case Scan():
                return rows * (self.scan_row + self.scan_byte * cardinality.width(relation.columns))
            case Exchange():
                return self.transfer(rows, cardinality.width(relation.columns))
            case Filter():
                return cardinality.rows(relation.input) * self.filter_row * sum(map(steps, relation.predicates))
            case Project():
                return rows * self.filter_row * sum(steps(expr) for _, expr in relation.exprs)
            case Join():
                return self._join(relation, cardinality)
            case Aggregate():
                return self._aggregate(relation, cardinality)
            case Window() | Sort():
                return _sorted_rows(rows) * self.sort_row + rows * self.output_row
            case SetOp() if not (relation.all and relation.kind == "union"):
                return sum(cardinality.rows(branch) for branch in relation.branches) * self.aggregate_row
            case Limit() if is_top(relation):  # in place of the sort, each row is compared with the last one kept
                entering = cardinality.rows(relation.input)
                return entering * self.filter_row - self.own_seconds(relation.input, cardinality)
        return rows * self.output_row

    def transfer(self, rows: float, width: float) -> float:
        """Seconds to read (or write) rows at a stage border."""
        return rows * (self.exchange_row + self.exchange_byte * width)

    def memory(self, relation: Relation, cardinality: Cardinality) -> float:
        """Peak bytes that the operators of the tree hold at once: hash tables, groups, sorted rows."""
        own = self.own_memory(relation, cardinality)
        if isinstance(relation, Exchange):
            return own
        return own + sum(self.memory(child, cardinality) for child in relation.inputs)

    def own_memory(self, relation: Relation, cardinality: Cardinality) -> float:
        """Bytes that the top operator holds."""
        match relation:
            case Join():
                return self.table_bytes(cardinality.rows(relation.right), cardinality.width(relation.right.columns))
            case Aggregate() | Shared():
                return self.table_bytes(cardinality.rows(relation), cardinality.width(relation.columns))
            case SetOp() if not (relation.all and relation.kind == "union"):
                return self.table_bytes(cardinality.rows(relation), cardinality.width(relation.columns))
            case Limit() if isinstance(relation.input, Sort):
                return cardinality.bytes(relation) - cardinality.bytes(relation.input)  # a top-N keeps only its rows
            case Sort() | Window():
                return cardinality.bytes(relation)
        return 0.0

    def table_bytes(self, rows: float, width: float) -> float:
        """Bytes of a hash table."""
        return rows * (width + self.hash_entry_bytes)

    def _aggregate(self, aggregate: Aggregate, cardinality: Cardinality) -> float:
        """Its functions' arguments, then for each grouping the lookup of the group and all functions."""
        entering = cardinality.rows(aggregate.input)
        computed = sum(steps(expr) for one in aggregate.aggregations for expr in one.exprs) * self.filter_row
        each = len(aggregate.aggregations) * self.aggregate_value
        if aggregate.keys:
            each += self.aggregate_row + cardinality.width(aggregate.keys) * self.key_byte
        groupings = len(aggregate.grouping_sets or ((),))
        return entering * (computed + each * groupings) + cardinality.rows(aggregate) * self.group_row

    def _join(self, join: Join, cardinality: Cardinality) -> float:
        left = cardinality.rows(join.left) * cardinality.part_read(join)
        right, output = cardinality.rows(join.right), cardinality.rows(join)
        keys = equal_keys(join)
        if keys:
            more = left * self.more_keys_row * (keys - 1)
            return more + self.hash_join(left, right, cardinality.width(join.right.columns), output)
        return self.nested_loops(left, right, output)


_NO_SECONDS = frozenset({"serial_part", "hash_entry_bytes", "cached_rows"})

TOP_ROWS = 5000
"""Of more rows than these DuckDB sorts all, if they are no tiny part."""

DEFAULT = CostModel()
"""The constants that ship, for a usual machine."""


def is_top(limit: Limit) -> bool:
    """True if DuckDB keeps the first rows of a sort alone and does not sort the others."""
    return isinstance(limit.input, Sort) and limit.limit is not None and limit.limit + limit.offset <= TOP_ROWS


def has_equality(join: Join) -> bool:
    """True if the join can be done by hashing: one condition equates the left with the right."""
    return equal_keys(join) > 0


def equal_keys(join: Join) -> int:
    """How many of the conditions equate the left with the right."""
    left, right = frozenset(join.left.columns), frozenset(join.right.columns)
    return sum(_equates(condition, left, right) for condition in join.on)


def _equates(condition: object, left: frozenset[Column], right: frozenset[Column]) -> bool:
    if getattr(condition, "op", None) != "=":
        return False
    first, second = (columns_of(arg) for arg in condition.args)  # type: ignore[attr-defined]
    return bool(first and second) and ((first <= left and second <= right) or (first <= right and second <= left))


def _sorted_rows(rows: float) -> float:
    return rows * log2(rows + 2.0)
