"""Facts about the terminal that a text is for: its size, and whether it takes colours.

Colours are those of the terminal's palette, so they suit dark and light ones; yellow and cyan are hard to read on white
and not used. A file, a pipe, ``NO_COLOR`` (if it is not empty: no-color.org) and ``TERM=dumb`` turn colours off.
"""

from __future__ import annotations

import os
import shutil
from typing import Literal, TextIO

from qoop.catalog.value import value

Paint = Literal["bold", "faint", "red", "green", "blue", "magenta"]

_CODES: dict[Paint, int] = {"bold": 1, "faint": 2, "red": 31, "green": 32, "blue": 34, "magenta": 35}


_NO_CELL = frozenset(map(chr, range(0x7F, 0xA0)))
"""Control characters beyond ASCII's first ones."""

_PAGE = 49
"""Lines if the output is no terminal: 40 rows of a table."""


@value
class Terminal:
    """width, height: in characters. colours: whether escape codes may be written."""

    width: int = 80
    height: int = 24
    colours: bool = False

    @classmethod
    def of(cls, stream: TextIO) -> Terminal:
        """The terminal behind a stream as it is now; if there is none, a width that suits a page."""
        if not stream.isatty():
            return cls(width=_columns(120), height=_PAGE)
        size = shutil.get_terminal_size()
        colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(size.columns, size.lines, colours)

    def paint(self, text: str, *paints: Paint) -> str:
        """The text in a colour or weight.

        >>> Terminal(colours=True).paint("x", "red"), Terminal().paint("x", "red")
        ('\\x1b[31mx\\x1b[0m', 'x')
        """
        if not self.colours or not text or not paints:
            return text
        return f"\x1b[{';'.join(str(_CODES[paint]) for paint in paints)}m{text}\x1b[0m"


def _columns(otherwise: int) -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() and int(columns) > 0 else otherwise


def width_of(text: str) -> int:
    """Cells of a terminal that the text takes: Chinese takes two a character, combining marks none.

    >>> width_of("abc"), width_of("表")
    (3, 2)
    """
    if _has_a_cell_each(text):
        return len(text)
    from rich.cells import cell_len  # only few texts need it

    return cell_len(text)


def _has_a_cell_each(text: str) -> bool:
    """True if each character of a text takes one cell by its range alone: Latin ones, and "·"."""
    return text.isascii() or (max(text) < "\u0300" and min(text) >= " " and _NO_CELL.isdisjoint(text))


def between_words(text: str, width: int) -> str:
    """The text with lines that are too long broken between words; a line that ^^^ underlines stays as it is.

    >>> print(between_words("there is no such table\\nline 1: FROM tt, items\\n             ^^", 16))
    there is no such
      table
    line 1: FROM tt, items
                 ^^
    """
    from textwrap import wrap

    lines = text.split("\n")
    marks = [set(line.strip()) == {"^"} for line in [*lines, ""]]
    broken: list[str] = []
    for line, mark, below in zip(lines, marks, marks[1:], strict=False):
        if mark or below or len(line) <= width:
            broken.append(line)
        else:
            indent = line[: len(line) - len(line.lstrip())] + "  "
            broken += wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(broken)


def shortened(text: str, width: int) -> str:
    """The text in at most that many cells, its end given as … if it does not fit.

    >>> shortened("abcdef", 4), shortened("abc", 4), shortened("表表表", 4)
    ('abc…', 'abc', '表…')
    """
    if width_of(text) <= width:
        return text
    if _has_a_cell_each(text):
        return text[: max(0, width - 1)] + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, max(0, width - 1)).rstrip() + "…"
