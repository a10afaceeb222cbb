"""Rows of a large text, counted without a reader.

A reader of CSV takes a text apart to count its rows, which takes as long as a query over it. Where no mark stands for
anything but itself, a row is a line.
"""

from __future__ import annotations

from collections.abc import Collection

from qoop.catalog.sources.file_stamp import reading

_CHUNK = 1 << 20
_END = 10


def plain_lines(path: str, marks: Collection[bytes]) -> int | None:
    """The lines of a file; None if it holds one of the marks, an empty line, or ends of lines other than ``\\n``.

    marks: those for quotes, escapes and comments. Raises SourceError if it cannot be read.
    """
    import numpy as np  # only for large files

    others = {b'"', b"\r", b"\0", *marks}
    lines, last = 0, _END
    with reading(path), open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            ends = np.frombuffer(chunk, np.uint8) == _END
            empty = (last == _END and ends[0]) or bool(np.any(ends[1:] & ends[:-1]))
            if empty or any(mark in chunk for mark in others):
                return None
            lines += int(np.count_nonzero(ends))
            last = chunk[-1]
    return lines + (last != _END)
