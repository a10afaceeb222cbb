"""A result as a table that fits the screen: names, types, values, and a line that says what is not shown.

Where there are more rows than fit, the first and the last are shown; where there are more columns, the first and the
last; where values are wide, the widest columns are narrowed first, all to the same width.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.query.drawing.terminal import Terminal, shortened, width_of

if TYPE_CHECKING:
    from qoop.query.result import Result

NARROWEST = 12
"""Cells that a column keeps, if it is that wide, before whole columns are left out."""

_FRAME = 9
"""Lines of a table, the prompt before it and the one after it that are not rows."""

_NUMBERS = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BIGNUM|DOUBLE|FLOAT|DECIMAL\(.*\))", re.I)
_UNSEEN = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {10: "\\n", 13: "\\r", 9: "\\t"}

Row = tuple[str | None, ...]


@value
class PrintStyle:
    """The choices of a user for printed answers.

    headers: whether the names of the columns are printed, where a format can be without. null: the text that stands
    for NULL; None: what the format has for it. widths: cells that columns of a table take at least, from the left.
    most_rows: rows of a table that are shown; None: as many as fit the screen."""

    headers: bool = True
    null: str | None = None
    widths: tuple[int, ...] = ()
    most_rows: int | None = None


USUAL = PrintStyle()


@value
class _Column:
    """right: values stand at the right. null: stands for NULL. least: cells that it takes at least. gap: stands for
    columns that are left out."""

    name: str
    type: str
    right: bool
    values: tuple[str | None, ...]
    null: str = "NULL"
    least: int = 1
    gap: bool = False

    @property
    def width(self) -> int:
        cells = (width_of(self.null if value is None else value) for value in self.values)
        return max(width_of(self.name), width_of(self.type), *cells, self.least)


def table_text(result: Result, terminal: Terminal, note: str = "", style: PrintStyle = USUAL) -> str:
    """The table, and a line that says how many rows there are; by default it shows as many as fit the screen, but at
    least ten. note: the end of that line.
    """
    most = max(10, terminal.height - _FRAME) if style.most_rows is None else style.most_rows
    head, tail = shown_rows(len(result), most)
    rows = [*islice(result.slice(0, head).text_rows(), head), *result.slice(len(result) - tail, tail).text_rows()]
    null = "NULL" if style.null is None else _visible(style.null)
    least = (*style.widths, *[1] * len(result.columns))
    columns = [
        _Column(_visible(name), shortened(type_.lower(), 24), bool(_NUMBERS.fullmatch(type_)), values, null, cells)
        for name, type_, values, cells in zip(
            result.columns, result.types, _turned(rows, len(result.columns)), least[: len(result.columns)], strict=True
        )
    ]
    fitted, widths, left_out = _fit(columns, terminal.width)
    lines = _lines(fitted, widths, head if tail else None, terminal)
    if not style.headers:
        del lines[1:4]
    total = _total(len(result), head + tail, len(columns), left_out)
    return "\n".join([*lines, terminal.paint(total + note, "faint")])


def plain_table(columns: Mapping[str, Sequence[str | None]], right: Collection[str], terminal: Terminal) -> str:
    """Texts in columns under their names, all rows. right: the columns that stand at the right."""
    made = [_Column(name, "", name in right, tuple(value or "" for value in columns[name])) for name in columns]
    fitted, widths, _ = _fit(made, terminal.width)
    lines = _lines(fitted, widths, None, terminal)
    return "\n".join([*lines[:2], *lines[3:]])


def shown_rows(rows: int, most: int) -> tuple[int, int]:
    """The numbers of first and of last rows to show.

    >>> shown_rows(5, 10), shown_rows(100, 10), shown_rows(100, 11)
    ((5, 0), (5, 5), (6, 5))
    """
    return (rows, 0) if rows <= most else (most - most // 2, most // 2)


def _turned(rows: Sequence[Row], columns: int) -> list[tuple[str | None, ...]]:
    return [
        tuple(None if row[index] is None else _visible(row[index] or "") for row in rows) for index in range(columns)
    ]


def _visible(text: str) -> str:
    return text.translate(_UNSEEN)


def _fit(columns: Sequence[_Column], width: int) -> tuple[list[_Column], list[int], int]:
    """The columns that are shown, their widths, and how many are left out."""
    shown = list(columns)
    left_out = 0
    while True:
        with_gap = _with_gap(shown, left_out)
        widths = narrowed([column.width for column in with_gap], width - 3 * len(with_gap) - 1)
        if widths is not None or len(shown) == 1:
            return with_gap, widths or [max(1, width - 4 - 4 * (len(with_gap) - 1)), 1][: len(with_gap)], left_out
        del shown[(len(shown) + 1) // 2]
        left_out += 1


def _with_gap(shown: list[_Column], left_out: int) -> list[_Column]:
    if not left_out:
        return shown
    middle = (len(shown) + 1) // 2
    gap = _Column("…", "", False, ("…",) * len(shown[0].values), gap=True)
    return [*shown[:middle], gap, *shown[middle:]]


def narrowed(widths: Sequence[int], width: int) -> list[int] | None:
    """The widths made to fit, the widest cut first; None if one would be cut to less than `NARROWEST`.

    >>> narrowed([3, 30, 20], 40), narrowed([3, 30, 20], 60), narrowed([12, 12], 10)
    ([3, 19, 18], [3, 30, 20], None)
    """
    if sum(widths) <= width:
        return list(widths)
    limit = max(widths)
    while limit >= NARROWEST and sum(min(width, limit) for width in widths) > width:
        limit -= 1
    if limit < NARROWEST:
        return None
    spare = width - sum(min(width, limit) for width in widths)
    cut = []
    for width in widths:
        more = int(spare > 0 and width > limit)
        spare -= more
        cut.append(min(width, limit) + more)
    return cut


def _lines(columns: Sequence[_Column], widths: Sequence[int], dots_after: int | None, terminal: Terminal) -> list[str]:
    def edge(left: str, middle: str, right: str) -> str:
        return terminal.paint(left + middle.join("─" * (width + 2) for width in widths) + right, "faint")

    def line(cells: Sequence[str]) -> str:
        bar = terminal.paint("│", "faint")
        return f"{bar} " + f" {bar} ".join(cells) + f" {bar}"

    pairs = list(zip(columns, widths, strict=True))
    names = [terminal.paint(_centred(column.name, width), "bold") for column, width in pairs]
    types = [terminal.paint(_centred(column.type, width), "faint") for column, width in pairs]
    lines = [edge("┌", "┬", "┐"), line(names), line(types), edge("├", "┼", "┤")]
    for place in range(len(columns[0].values) if columns else 0):
        if place == dots_after:
            lines.append(line([terminal.paint(_centred("·", width), "faint") for width in widths]))
        lines.append(line([_value(column, place, width, terminal) for column, width in pairs]))
    return [*lines, edge("└", "┴", "┘")]


def _value(column: _Column, place: int, width: int, terminal: Terminal) -> str:
    value = column.values[place]
    text = shortened(column.null if value is None else value, width)
    space = " " * (width - width_of(text))
    painted = terminal.paint(text, "faint") if value is None or column.gap else text
    return space + painted if column.right else painted + space


def _centred(text: str, width: int) -> str:
    text = shortened(text, width)
    space = width - width_of(text)
    return " " * (space // 2) + text + " " * (space - space // 2)


def _total(rows: int, shown: int, columns: int, left_out: int) -> str:
    """The table's content, in words.

    >>> _total(1, 1, 2, 0), _total(1000, 40, 30, 24)
    ('1 row', '1,000 rows, 40 of them shown; 6 of 30 columns shown')
    """
    text = f"{rows:,} row{'' if rows == 1 else 's'}"
    text += f", {shown} of them shown" if shown < rows else ""
    return text + (f"; {columns - left_out} of {columns} columns shown" if left_out else "")
