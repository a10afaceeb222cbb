"""The options of DuckDB for one task: threads, memory, and the optimizers that must not change the plan."""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa

from qoop.catalog.by_text import by_text
from qoop.catalog.sources.memory import ArrowSource
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Resources, Stage

# Law: the plan costed is the plan run. DuckDB takes every Arrow input for one row and would re-order by that.
_AS_PLANNED = "join_order,build_side_probe_side"
_PUSHES_INTO_ARROW = duckdb.__version__.startswith("1.")
_STEP_BITS = 7  # that a limit of memory has
_NARROW = hasattr(pa, "decimal32")  # pyarrow knows decimals of fewer than 128 bits
_AS_VIEWS = re.compile("BLOB|BIT|BIGNUM|GEOMETRY|VARIANT")
_AHEAD = 32 << 20  # bytes that DuckDB makes before they are read; they count as its memory


def options_of(spec: TaskSpec) -> dict[str, object]:
    """The options of DuckDB for one task."""
    requested: dict[str, object] = dict(spec.settings)
    requested |= resource_options(spec.resources, spec.most)
    requested["streaming_buffer_size"] = f"{_ahead(spec)}B"
    arrow = any(isinstance(spec.tables[item.table].source, ArrowSource) for item in spec.stage.table_inputs)
    requested["parquet_metadata_cache"] = spec.stage.opaque is None or not _may_read_files(spec.stage.sql)
    requested["disabled_optimizers"] = disabled_optimizers(spec.stage, arrow)
    # A hash-partitioned output has no order to keep, and is made in half the time by two threads.
    requested["preserve_insertion_order"] = spec.stage.layout.parts == 1
    requested["arrow_output_version"] = "1.5" if _is_narrow(spec) else "1.0"
    return requested


def _is_narrow(spec: TaskSpec) -> bool:
    """True if decimals of up to 18 digits leave in 4 or 8 bytes in place of 16. Users, and their functions, get what
    DuckDB gives them by default; views of bytes come with it, which Arrow cannot reorder."""
    stage = spec.stage
    if not _NARROW or spec.answer or stage.opaque is not None:
        return False
    views = any(_AS_VIEWS.search(type_) for _, type_ in stage.columns)
    return not views and not any(one.key in stage.sql for one in spec.functions)


def resource_options(resources: Resources, most: int) -> dict[str, object]:
    """Options for these slots and this memory. most: slots that there may be later."""
    return {**_threads(resources, most), **_memory_limit(resources)}


def disabled_optimizers(stage: Stage, arrow_tables: bool = False) -> str:
    """DuckDB's optimizers that must not touch this fragment. arrow_tables: some base table is held by pyarrow."""
    disabled = [] if stage.opaque is not None else [_AS_PLANNED]
    if _PUSHES_INTO_ARROW and (arrow_tables or not stage.join_filters):
        disabled.append("join_filter_pushdown")
    return ",".join(disabled)


def _threads(resources: Resources, most: int) -> dict[str, object]:
    """Options for as many threads as there are slots.

    most: slots that there may be later, where that is 2 or more. DuckDB divides the work by `threads` and starts as
    many as are not `external_threads`, which are lent to it: one is ours, which asks for the
    rows, and the others never come. So their number says how many do not work. A thread can only be taken back
    between two pieces of work if it takes turns (`scheduler_process_partial`).
    """
    slots = max(1, int(resources.cpu))
    if most < 2:
        return {"threads": slots}
    whole = max(slots, most)
    return {"threads": whole, "external_threads": whole - slots + 1, "scheduler_process_partial": True}


def _memory_limit(resources: Resources) -> dict[str, object]:
    return {"memory_limit": f"{whole_steps(int(resources.memory))}B"} if resources.memory > 0 else {}


def whole_steps(memory: int) -> int:
    """At most that many bytes, and at least 63/64 of them: a multiple of a power of two.

    Each answer that is kept takes a few KB off what tasks may use. To give DuckDB another limit takes 2 to 9 ms, in
    which it returns all free memory to the system: the next query has to be given it again.

    >>> whole_steps(4_499_997_987) == whole_steps(4_499_988_583) == 67 << 26
    True
    >>> whole_steps(100)
    100
    """
    step = 1 << max(0, memory.bit_length() - _STEP_BITS)
    return memory // step * step


_READS_FILES = re.compile(r"parquet|read_|scan", re.I)


@by_text(most=256)
def _may_read_files(text: str) -> bool:
    """True if a text of the user's may read files that are not checked, by a function of DuckDB's or an extension's."""
    return _READS_FILES.search(text) is not None


def _ahead(spec: TaskSpec) -> int:
    """Bytes that may wait to be read. A single thread makes no more than is read."""
    if spec.resources.cpu < 2 or spec.resources.memory <= 0:
        return 1 << 20
    return int(min(_AHEAD, max(1 << 20, spec.resources.memory / 16)))
