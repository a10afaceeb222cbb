"""An answer as bytes, piece by piece: as Arrow, JSON, JSON lines or CSV, never whole in memory."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from qoop.query.drawing.formats import pieces

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.query.result import Result

_ROWS = 20_000
"""Rows that are turned into text at a time."""

Block: TypeAlias = bytes | memoryview
"""Bytes of an answer; a view shows those of a column, which are sent without a copy."""

_BATCH, _MOST_ROWS = 1 << 22, 100_000
"""Bytes, and rows, that a batch of Arrow has at most, or one row."""

BLOCK = 1 << 18
"""Bytes that are sent at once, at least: a small answer is known to be whole before its first byte is sent."""


def as_arrow(parts: Iterator[Result]) -> Iterator[Block]:
    """A stream of Arrow's IPC format."""
    import pyarrow as pa

    sink, writer = _Sink(), None
    for part in parts:
        batches = part.batches()
        if writer is None:
            writer = pa.ipc.new_stream(pa.PythonFile(sink, "w"), batches.schema)
        for batch in sendable(batches):
            writer.write_batch(batch)
            yield from sink.taken()
    assert writer is not None  # an answer has a part, if only an empty one
    writer.close()
    yield from sink.taken()


def sendable(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches small enough to be sent one at a time, so that a slow client holds up few of them."""
    for batch in batches:
        rows = max(1, min(_MOST_ROWS, batch.num_rows * _BATCH // max(1, batch.nbytes)))
        for first in range(0, batch.num_rows, rows):
            yield batch.slice(first, rows)


def as_csv(parts: Iterator[Result]) -> Iterator[bytes]:
    """Lines of CSV, of which the first names the columns."""
    for number, part in enumerate(_small(parts)):
        lines = pieces(part, "csv")
        yield "".join(islice(lines, 1 if number else 0, None)).encode()


def as_json_lines(parts: Iterator[Result]) -> Iterator[bytes]:
    """A JSON object for each row, on a line of its own."""
    for part in _small(parts):
        yield "".join(pieces(part, "jsonlines")).encode()


def as_json(parts: Iterator[Result]) -> Iterator[bytes]:
    """A JSON array of an object for each row."""
    before = "["
    for part in _small(parts):
        rows = ",\n".join(part.json_rows())
        if rows:
            yield f"{before}{rows}".encode()
            before = ",\n"
    yield b"[]\n" if before == "[" else b"]\n"


FORMS: dict[str, Callable[[Iterator[Result]], Iterator[Block]]] = {
    "application/json": as_json,
    "application/vnd.apache.arrow.stream": as_arrow,
    "application/x-ndjson": as_json_lines,
    "text/csv": as_csv,
}
"""The writers of answers, by the media type that a request accepts; the first is the usual one."""


def chosen_form(accept: str) -> str | None:
    """The media type among FORMS that an Accept header likes most; None if it takes none of them.

    >>> chosen_form("text/csv;q=0.5, application/json;q=0.4"), chosen_form("*/*"), chosen_form("image/png")
    ('text/csv', 'application/json', None)
    """
    liked = sorted(_liked(accept), reverse=True, key=lambda kind: kind[1])
    for kind, quality in liked:
        group = kind.removesuffix("*")
        found = [form for form in FORMS if form == kind or (kind.endswith("/*") and form.startswith(group))]
        if quality > 0 and (found or kind == "*/*"):
            return found[0] if found else next(iter(FORMS))
    return None


def _liked(accept: str) -> Iterator[tuple[str, float]]:
    for kind in accept.split(","):
        name, *options = (word.strip().lower() for word in kind.split(";"))
        weight = next((option[2:] for option in options if option.startswith("q=")), "1")
        yield name, float(weight) if weight.replace(".", "", 1).isdecimal() else 0.0


def in_blocks(found: Iterable[Block]) -> Iterator[Block]:
    """The same bytes in pieces that are worth sending: small ones together, large ones as they are.

    >>> [len(block) for block in in_blocks([b"a", b"b", bytes(BLOCK), b"c"])]
    [2, 262144, 1]
    """
    held: list[Block] = []
    size = 0
    for piece in found:
        if held and len(piece) >= BLOCK:
            yield b"".join(held)
            held, size = [], 0
        held.append(piece)
        size += len(piece)
        if size >= BLOCK:
            yield _joined(held)
            held, size = [], 0
    if held:
        yield _joined(held)


def _joined(pieces: list[Block]) -> Block:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _small(parts: Iterator[Result]) -> Iterator[Result]:
    """The same rows in results of few each; at least one, which says what the columns are."""
    for part in parts:
        for first in range(0, max(1, len(part)), _ROWS):
            yield part.slice(first, _ROWS)


class _Sink(io.RawIOBase):
    """A file that collects what Arrow writes until `taken`."""

    def __init__(self) -> None:
        self._held: list[Block] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self._held.append(data if isinstance(data, bytes) else memoryview(data))  # type: ignore[arg-type]
        return len(self._held[-1])

    def taken(self) -> Iterator[Block]:
        held, self._held = self._held, []
        return iter(held)
