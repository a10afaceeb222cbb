"""Formats in which an answer is printed or written to a file: for people, and for other programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from qoop.catalog.errors import ConfigError, DiskFull
from qoop.query.drawing.table_text import USUAL, PrintStyle, table_text
from qoop.query.drawing.terminal import Terminal, width_of

if TYPE_CHECKING:
    from qoop.query.result import Result

FORMATS = ("table", "markdown", "csv", "tsv", "json", "jsonlines", "vertical")
"""Those that are text. Files may be of Arrow (.arrow, .feather) and Parquet (.parquet), too."""

EXPLANATION = ("explain_key", "explain_value")
"""The columns of the rows of EXPLAIN, by which clients recognise them."""

_ALIASES = {"box": "table", "duckbox": "table", "line": "vertical", "md": "markdown", "ndjson": "jsonlines"}
_OF_FILES = {
    ".csv": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "jsonlines", ".ndjson": "jsonlines", ".md": "markdown",
    ".txt": "table",
}  # fmt: skip


def checked_format(name: str) -> str:
    """One of FORMATS. Raises ConfigError for another name, listing them."""
    known = _ALIASES.get(name.lower(), name.lower())
    if known not in FORMATS:
        raise ConfigError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    return known


def write(
    result: Result, form: str, stream: TextIO, terminal: Terminal | None = None, style: PrintStyle = USUAL
) -> None:
    """Print an answer in one of FORMATS."""
    for piece in pieces(result, form, terminal or Terminal.of(stream), style):
        stream.write(piece)


def pieces(result: Result, form: str, terminal: Terminal | None = None, style: PrintStyle = USUAL) -> Iterator[str]:
    """An answer in one of FORMATS, piece by piece: of those for programs whole lines, and of CSV the names alone."""
    return _WRITERS[checked_format(form)](result, terminal or Terminal(), style)


def explanation(result: Result) -> str | None:
    """The text of an EXPLAIN, which is read as it is and not as a cell of a table; None for another answer."""
    if result.columns != list(EXPLANATION):
        return None
    return "\n".join(str(text) for _, text in result.fetchall())


def save(result: Result, path: str | os.PathLike[str]) -> Path:
    """Write an answer to a file in the format of its ending. Raises ConfigError for another ending, DiskFull."""
    file = Path(path).expanduser()
    ending = file.suffix.lower()
    try:
        if ending in (".arrow", ".feather"):
            _save_arrow(result, file)
        elif ending in (".parquet", ".pq"):
            import pyarrow.parquet as parquet

            parquet.write_table(result.arrow(), file)
        elif ending in _OF_FILES:
            with file.open("w", encoding="utf-8", newline="") as stream:
                write(result, _OF_FILES[ending], stream)
        else:
            known = ", ".join([".arrow", ".parquet", *_OF_FILES])
            raise ConfigError(f"cannot tell from {file.name!r} how to write it: let it end with one of {known}")
    except OSError as error:
        raise DiskFull(f"cannot write {file}: {error.strerror or error}") from error
    return file


def _save_arrow(result: Result, file: Path) -> None:
    import pyarrow as pa

    table = result.arrow()
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _table(result: Result, terminal: Terminal, style: PrintStyle) -> Iterator[str]:
    yield table_text(result, terminal, style=style) + "\n"


def _separated(delimiter: str) -> Callable[[Result, Terminal, PrintStyle], Iterator[str]]:
    def texts(result: Result, _: Terminal, style: PrintStyle) -> Iterator[str]:
        from qoop.query.drawing.separated import separated  # most answers are printed as tables

        return separated(result, delimiter, style)

    return texts


def _json(result: Result, terminal: Terminal, style: PrintStyle) -> Iterator[str]:
    separator = "["
    for row in result.json_rows():
        yield f"{separator}{row}"
        separator = ",\n"
    yield "]\n" if separator != "[" else "[]\n"


def _json_lines(result: Result, terminal: Terminal, style: PrintStyle) -> Iterator[str]:
    return (f"{row}\n" for row in result.json_rows())


def _markdown(result: Result, terminal: Terminal, style: PrintStyle) -> Iterator[str]:
    null = "NULL" if style.null is None else style.null
    yield _marked(result.columns)
    yield _marked(["---"] * len(result.columns))
    for row in result.text_rows():
        yield _marked([null if value is None else value for value in row])


def _marked(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), '<br>') for cell in cells)} |\n"


def _vertical(result: Result, terminal: Terminal, style: PrintStyle) -> Iterator[str]:
    null = terminal.paint("NULL" if style.null is None else style.null, "faint")
    widest = max(map(width_of, result.columns), default=0)
    for number, row in enumerate(result.text_rows(), 1):
        yield terminal.paint(f"── row {number} ".ljust(min(40, terminal.width), "─"), "faint") + "\n"
        for name, value in zip(result.columns, row, strict=True):
            shown = null if value is None else value
            yield f"{' ' * (widest - width_of(name))}{terminal.paint(name, 'bold')} = {shown}\n"


_WRITERS: dict[str, Callable[[Result, Terminal, PrintStyle], Iterator[str]]] = {
    "table": _table,
    "markdown": _markdown,
    "csv": _separated(","),
    "tsv": _separated("\t"),
    "json": _json,
    "jsonlines": _json_lines,
    "vertical": _vertical,
}
