"""The choice of small pieces of a created table that become one. Pure.

Each INSERT adds a piece, and each piece costs its readers a little. So pieces at the end of a table are packed, once
there are enough of a size: a row is written again three times until it is in a piece that is large, and stays there.
"""

from __future__ import annotations

from collections.abc import Sequence

_MOST = 7
"""Pieces of one size that stay apart."""

_SIZES = (128 << 10, 1 << 20, 8 << 20, 64 << 20)
"""Bytes below which a piece is of the first, second, third or fourth size. Larger ones stay as they are."""


def first_packed(pieces: Sequence[int]) -> int | None:
    """The first of the last pieces that become one; None: all stay. pieces: bytes of each, in order.

    >>> first_packed([100 << 20, *[10] * 7]), first_packed([100 << 20, *[10] * 8])
    (None, 1)
    >>> first_packed([*[200_000] * 8, *[10] * 3]), first_packed([*[200_000] * 12, *[10] * 3])
    (None, 0)
    """
    for kinds, size in enumerate(_SIZES, 1):
        first = len(pieces)
        while first and pieces[first - 1] < size:
            first -= 1
        if len(pieces) - first > _MOST * kinds:
            return first
    return None
