"""A growing answer on the screen: the table of its last edition, which the next edition replaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING

from qoop.query.drawing.table_text import plain_table
from qoop.query.drawing.terminal import Terminal

if TYPE_CHECKING:
    from qoop.programs.approximate.edition import Edition
    from qoop.query.result import Result

ROWS = 10
"""Rows shown of an answer that still grows; the last edition shows all."""


class ReplacedText:
    """A text that the next one replaces. say: prints a text. terminal: the screen as it is now; without escape codes
    nothing is replaced."""

    def __init__(self, say: Callable[[str], object], terminal: Callable[[], Terminal]) -> None:
        self._say, self._terminal = say, terminal
        self._lines = 0

    def show(self, text: str) -> None:
        """Replace the previous text on the screen."""
        self.clear()
        self._lines = text.count("\n") + 1
        self._say(text)

    def clear(self) -> None:
        """Remove the text from the screen; the line above it stays."""
        if self._lines and self._terminal().colours:
            self._say(f"\x1b[{self._lines}F\x1b[J\x1b[A")
        self._lines = 0


class GrowingTable:
    """say: prints a text. terminal: the screen as it is now; one without escape codes gets a line for each edition."""

    def __init__(self, say: Callable[[str], object], terminal: Callable[[], Terminal]) -> None:
        self._terminal, self._shown = terminal, ReplacedText(say, terminal)

    def show(self, edition: Edition) -> None:
        """Replace the previous edition on the screen."""
        terminal = self._terminal()
        lines = wrap(f"{edition}", max(30, terminal.width - 1), subsequent_indent="  ")
        if terminal.colours and not edition.exact:
            lines.append(plain_table(*compact(edition), terminal))
        self._shown.show("\n".join(lines))

    def clear(self) -> None:
        """Remove the table from the screen; the line above it stays."""
        self._shown.clear()


def compact(edition: Edition) -> tuple[Mapping[str, Sequence[str]], list[str]]:
    """The columns of the first rows as texts, ``±`` after each estimated one, and the names of the numeric ones."""
    result = edition.result
    rows = list(islice(result.slice(0, ROWS).text_rows(), ROWS))
    columns: dict[str, list[str]] = {}
    right = []
    for at, bounded in edition.places():
        name = _free(result.columns[at], columns)
        columns[name] = ["NULL" if row[at] is None else f"{row[at]}" for row in rows]
        if bounded:
            half = _free(f"± {name}", columns)
            columns[half] = [half_width(row[at + 1], row[at + 2]) for row in rows]
            right += [name, half]
    return columns, right


def with_half_widths(edition: Edition) -> Result:
    """The rows of an edition with ``±`` after each estimated column, in place of its bounds; an exact edition has the
    columns of the query."""
    import pyarrow as pa

    if edition.exact:
        return edition.plain()
    rows, plain = edition.result, edition.plain()
    texts = list(rows.text_rows())
    data, columns = [], []
    for place, (at, bounded) in enumerate(edition.places()):
        name, type_ = plain.columns[place], plain.types[place]
        data.append(plain.lossless().column(place))
        columns.append((name, type_))
        if bounded:
            data.append(pa.array([half_width(row[at + 1], row[at + 2]) for row in texts], pa.string()))
            columns.append((f"± {name}", "VARCHAR"))
    from qoop.query.result import Result

    names = [f"c{place}" for place in range(len(data))]
    return Result(pa.Table.from_arrays(data, names), tuple(columns), rows.settings)


def half_width(low: str | None, high: str | None) -> str:
    """Half of an interval relative to its middle, as a text.

    >>> half_width("90", "110"), half_width(None, None), half_width("0.0", "0.0")
    ('10.00%', '?', '0%')
    """
    if low is None or high is None:
        return "?"
    bottom, top = float(low), float(high)
    if bottom == top:
        return "0%"
    return f"{(top - bottom) / abs(top + bottom):.2%}" if top + bottom else "∞"


def _free(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "'"
    return name
