"""The check that the rows outside DuckDB's sample of a CSV file have the detected types.

Detection chooses for each column the narrowest type that fits all rows of its sample: BOOLEAN, BIGINT, DOUBLE, TIME,
DATE, TIMESTAMP, else VARCHAR. Quotes and comments follow from the first rows of the file. The result holds for all rows
if every other row fits, too. This module checks their texts in one scan with all threads. It is strict, since a reader
would round 1.5 for a BIGINT, and cut the time off a date. A doubt counts as a misfit.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping

from qoop.catalog.errors import SourceError
from qoop.catalog.sources.files import sql_name, sql_string
from qoop.catalog.table import Columns

SAMPLE = 20_480
"""Rows in DuckDB's sample by default."""

_MARKS = (b'"', b"'", b"#")
"""Those for quotes and comments that DuckDB tries."""


class Unlike(SourceError):
    """A row that detection has not seen is unlike those that it has."""


def unlike(columns: Columns, formats: Mapping[str, str]) -> list[str]:
    """Aggregates in SQL, one of which is true if the texts of a column are not all of the type that was detected.

    formats: of dates and timestamps, by type.
    """
    texts = [(sql_name(name), type_) for name, type_ in columns if type_ != "VARCHAR"]
    return [f"coalesce(bool_or(NOT ({_like(name, type_, formats)})), false)" for name, type_ in texts]


def _like(name: str, type_: str, formats: Mapping[str, str]) -> str:
    """A condition on a text; of NULL nothing is known."""
    if type_ in formats:
        return f"{name} IS NULL OR try_strptime({name}, {sql_string(formats[type_])}) IS NOT NULL"
    if type_ == "DOUBLE":
        return f"{name} IS NULL OR (TRY_CAST({name} AS DOUBLE) IS NOT NULL AND NOT contains({name}, '_'))"
    return f"CAST(TRY_CAST({name} AS {type_}) AS VARCHAR) IS NOT DISTINCT FROM {name}"


def empty_in_sample(columns: Columns) -> list[str]:
    """Aggregates over the sample, one of which is 0 if a column has no text there: its type was not detected."""
    return [f"count({sql_name(name)})" for name, type_ in columns if type_ == "VARCHAR"]


def has_other_marks(path: str, known: str) -> bool:
    """True if a file holds a mark for quotes or comments that was not detected; it may come first after the sample."""
    if not os.path.getsize(path):
        return False
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(mark) >= 0 for mark in _MARKS if mark.decode() not in known)
