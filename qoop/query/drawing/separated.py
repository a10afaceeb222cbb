"""Answers as lines of CSV or of tabs, byte for byte as DuckDB's COPY writes them.

DuckDB writes the lines of many rows, so no value becomes one of Python. For few rows, opening a DuckDB would take
longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from qoop.query.drawing.table_text import USUAL, PrintStyle

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.query.result import Result

FEW = 1_000
"""Rows that Python writes."""

_PLAIN = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT|U?INTEGER|DECIMAL\(.*|DOUBLE|FLOAT|BOOLEAN|DATE|TIMESTAMP|UUID")
"""Types whose texts need no quotes."""


def separated(result: Result, delimiter: str, style: PrintStyle = USUAL) -> Iterator[str]:
    """The line of the names, then those of the rows, many at a time."""
    null = _cell(style.null, delimiter) if style.null else ""
    if style.headers:
        yield _line(result.columns, delimiter)
    if len(result) <= FEW:
        yield from (_line(row, delimiter, null) for row in result.text_rows())
    else:
        yield from map(_joined, result.expressed(_expression(result.types, result.text_casts(), delimiter, null)))


def _line(cells: Sequence[str | None], delimiter: str, null: str = "") -> str:
    r"""A line of cells. null: stands for NULL.

    >>> _line(["a", None, "", "b,c", 'say "x" twice'], ",")
    'a,,"","b,c","say ""x"" twice"\n'
    """
    return delimiter.join(null if cell is None else _cell(cell, delimiter) for cell in cells) + "\n"


def _cell(text: str, delimiter: str) -> str:
    if text and not any(mark in text for mark in _marks(delimiter)):
        return text
    return '"' + text.replace('"', '""') + '"'


def _marks(delimiter: str) -> str:
    """The characters for whose sake a text is quoted; # might begin a comment."""
    return f'{delimiter}"#\n\r'


def _expression(types: Sequence[str], casts: Sequence[str], delimiter: str, null: str) -> str:
    """The SQL of a line. concat takes NULL for nothing."""
    cells = [
        cast if _PLAIN.fullmatch(type_) else _quoted_cell(cast, delimiter)
        for type_, cast in zip(types, casts, strict=True)
    ]
    if null:
        text = null.replace("'", "''")
        cells = [f"coalesce({cell}, '{text}')" for cell in cells]
    marks = [f"chr({ord(mark)})" for mark in delimiter * (len(cells) - 1) + "\n"]
    parts = chain.from_iterable(zip(cells, marks, strict=True))
    return f"concat({', '.join(parts)})"


def _quoted_cell(cast: str, delimiter: str) -> str:
    needs_quotes = " OR ".join([f"{cast} = ''", *(f"contains({cast}, chr({ord(mark)}))" for mark in _marks(delimiter))])
    return f"CASE WHEN {needs_quotes} THEN '\"' || replace({cast}, '\"', '\"\"') || '\"' ELSE {cast} END"


def _joined(lines: pa.Array) -> str:
    """The lines of a batch as one text, which lie one behind the other already."""
    import pyarrow as pa
    from pyarrow import compute

    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return str(compute.binary_join(whole, "")[0].as_py())
