"""The cost of rows and bytes: cpu seconds of one thread, and bytes in memory, by the constants of a machine.

The default constants are rounded measurements of ``qoop calibrate`` for one thread of DuckDB on a current machine.
Measurements on another machine replace them in later sessions (:mod:`qoop.interfaces.commands.calibration`).  They need
not be exact to order joins: plans are compared with each other, and only ratios matter for that.  A row that probes a
small hash table must be cheap, a row that enters a hash table expensive, and everything else in between.  The predicted
end of a plan needs near values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from math import exp, log2
from typing import Any

from qoop.catalog.value import value
from qoop.planner.packing import SERIAL_PART, on_threads

SPREAD, UNEVEN = 0.15, 0.3
"""Estimates for real machines: the best prediction of plans of `qoop bench exchanges`, on ten of its plans of each kind
(seeds from 100 on)."""

SPILL_BYTE = 2e-9
"""Seconds for a byte that does not fit the memory of its share: written to disk once and read once."""

BASE_MEMORY = 32 << 20
"""Bytes that any task gets at least."""


@value
class CostModel:
    """Seconds on one thread per row or byte, and the memory of hash tables and sorts besides the rows themselves.

    scan_row, scan_byte: reading and decoding Parquet. filter_row: one function of a row, a comparison mostly, in
        filters and wherever else expressions are computed.
    build_row, build_byte: putting a row into a hash table. probe_row: looking one up in a table that fits the
    cache; miss_row: more for one that is far larger (:meth:`probe`). output_row: a row that a join puts out.
    nested_pair: one pair of rows tried by a join without an equality.
    aggregate_row, key_byte, group_row: looking up the group of a row, a byte of its keys, and a group coming out.
    aggregate_value: a value that goes into an aggregate function.
    state_miss: more for each key and aggregate of a row whose group misses the cache (:meth:`group`).
    sort_row: times log2(rows). window_row: putting a row with the others of its partition, once for each order.
    frame_row: a value of a function over a frame that moves from row to row.
    exchange_row, exchange_byte: reading Arrow at a stage border. output_byte: putting it out there, where DuckDB's
        vectors are copied into fresh memory. output_text: more for each
        text, which is copied by itself.
    apart: the slowdown of rows in several tasks against one with as many threads: each task plans, opens files and
        allocates memory separately, and none takes over the rest of another's work.
    grouped_together: the slowdown of grouping by several threads of one task, which share no table: each groups what it
        reads, and then the groups of some keys.
    task_overhead_seconds: starting and committing a task, whatever it does. operator_seconds: planning and starting
        one operator of it, however few its rows.
    serial_part: of a task with several threads, the part of its seconds that only one of them can do.
    hash_entry_bytes: memory of a hash table entry besides its columns.
    cached_rows: rows of a hash table of which half miss the cache when it is probed.
    cached_groups: groups of which half miss the cache when a row is added to them.
    spread, uneven: for several machines, the standard deviations of the logarithm of two quantities: the seconds of a
        stage's tasks, and the bytes of links in one exchange; 0: all are equal.
    calls: seconds a row of the functions of Python that the query at hand may call, by their keys. They are no
        constants of a machine, and models that differ only in them compare as equal.
    """

    scan_row: float = 0.5e-9
    scan_byte: float = 0.52e-9
    filter_row: float = 1.25e-9
    build_row: float = 24e-9
    build_byte: float = 1.1e-9
    probe_row: float = 3.5e-9
    miss_row: float = 10e-9
    more_keys_row: float = 3e-9
    output_row: float = 5e-9
    nested_pair: float = 2.1e-9
    aggregate_row: float = 3.5e-9
    key_byte: float = 0.5e-9
    group_row: float = 45e-9
    aggregate_value: float = 0.4e-9
    state_miss: float = 9e-9
    sort_row: float = 2.5e-9
    window_row: float = 35e-9
    frame_row: float = 75e-9
    exchange_row: float = 0.2e-9
    exchange_byte: float = 0.1e-9
    output_byte: float = 0.8e-9
    output_text: float = 16e-9
    apart: float = 1.2
    grouped_together: float = 1.6
    task_overhead_seconds: float = 0.002
    operator_seconds: float = 0.0003
    serial_part: float = SERIAL_PART
    hash_entry_bytes: float = 24.0
    cached_rows: float = 50_000.0
    cached_groups: float = 200_000.0
    spread: float = 0.0
    uneven: float = 0.0
    calls: Mapping[str, float] = field(default_factory=dict, compare=False)

    def across_machines(self) -> CostModel:
        """For several machines that are as unlike each other as real ones."""
        return replace(self, spread=SPREAD, uneven=UNEVEN)

    def on_threads(self, seconds: float, threads: float) -> float:
        """The seconds that work of one thread takes on several (:func:`~qoop.planner.packing.on_threads`)."""
        return on_threads(seconds, threads, self.serial_part)

    def having(self, constants: Mapping[str, float]) -> CostModel:
        """The model with other constants, by name."""
        changed: dict[str, Any] = dict(constants)
        return replace(self, **changed)

    def times(self, factor: float) -> CostModel:
        """The constants of a machine, or an engine, that takes `factor` times as long for everything."""
        times = (item.name for item in fields(self) if item.name not in _NO_SECONDS)
        return self.having({name: getattr(self, name) * factor for name in times})

    def calling(self, rows: Mapping[str, float]) -> float:
        """Seconds to call functions of Python. rows: for how many rows each."""
        return sum(self.calls.get(key, 0.0) * count for key, count in rows.items())

    def build(self, rows: float, width: float) -> float:
        """Seconds to put rows of `width` bytes into a hash table."""
        return rows * (self.build_row + self.build_byte * width)

    def probe(self, rows: float, build_rows: float) -> float:
        """Seconds to look rows up in a hash table; the larger the table, the more of them miss the cache."""
        missing = build_rows / (build_rows + self.cached_rows)
        return rows * (self.probe_row + self.miss_row * missing)

    def hash_join(
        self, probe_rows: float, build_rows: float, build_width: float, output_rows: float, parts: float = 1.0
    ) -> float:
        """Seconds of a hash join beyond producing its inputs; in that many tables, of different keys."""
        probe = self.probe(probe_rows, build_rows / parts)
        return self.build(build_rows, build_width) + probe + output_rows * self.output_row

    def nested_loops(self, left_rows: float, right_rows: float, output_rows: float) -> float:
        """Seconds of a join that has to try all pairs."""
        return left_rows * right_rows * self.nested_pair + output_rows * self.output_row

    def group(self, rows: float, groups: float, keys: int, key_width: float, values: int, parts: float = 1.0) -> float:
        """Seconds to add rows to groups by `keys` columns of together `key_width` bytes, with `values` aggregates each.

        The more groups a table has, the more rows miss the cache, each with all columns of its group. parts: the number
        of tables, each with other groups.
        """
        here = groups / parts
        missing = here / (here + self.cached_groups) * (keys + values) * self.state_miss
        each = self.aggregate_row + key_width * self.key_byte + values * self.aggregate_value
        return rows * (each + missing) + groups * self.group_row

    def sort(self, rows: float) -> float:
        """Seconds to sort rows."""
        return rows * (log2(rows + 2.0) * self.sort_row + self.output_row)

    def window(self, rows: float, orders: int, partitions: int, frames: int) -> float:
        """Seconds of window functions.

        orders: of rows in their partitions, each of which sorts all rows. partitions: without an order. frames: that
        move from row to row.
        """
        return orders * self.sort(rows) + rows * ((orders + partitions) * self.window_row + frames * self.frame_row)

    def moving(self, read: float, written: float) -> float:
        """Seconds to take bytes of Arrow in and to put others out at stage borders."""
        return read * self.exchange_byte + written * self.output_byte

    def reading(self, rows: float, width: float) -> float:
        """Seconds to read rows at a stage border."""
        return rows * (self.exchange_row + self.exchange_byte * width)

    def transfer(self, rows: float, width: float) -> float:
        """Seconds that rows take at either side of a stage border, in the mean of both."""
        return rows * (self.exchange_row + 0.5 * (self.exchange_byte + self.output_byte) * width)

    def table_bytes(self, rows: float, width: float) -> float:
        """Bytes of a hash table."""
        return rows * (width + self.hash_entry_bytes)


_NO_SECONDS = frozenset(
    {
        *("serial_part", "hash_entry_bytes", "cached_rows", "cached_groups", "spread", "uneven", "apart", "calls"),
        "grouped_together",
    }
)

DEFAULT = CostModel()
"""The constants that ship, for a usual machine."""


def slowest(count: int, spread: float) -> float:
    """The largest of a number of values, as a multiple of their median, where logarithms are normally distributed with
    that deviation (Blom, "Statistical Estimates and Transformed Beta-Variables", 1958).

    >>> slowest(1, 0.2), round(slowest(20, 0.2), 2)
    (1.0, 1.45)
    """
    if not spread or count <= 1:
        return 1.0
    from statistics import NormalDist  # loads what a short query has no use for, in 2 ms

    return exp(spread * NormalDist().inv_cdf((count - 0.375) / (count + 0.25)))
