"""The options in which a benchmark opens its sessions: the default options, and stages only."""

from __future__ import annotations

DEFAULT, STAGED = "default", "staged"
MODES = (DEFAULT, STAGED)
"""The usual modes of a benchmark, in order: the default options first, and stages next to them."""


def described(mode: str) -> str:
    """The options in words, for the head of a table.

    >>> described("default"), described("staged")
    ('default options', 'in stages only (staged=True)')
    """
    return "in stages only (staged=True)" if mode == STAGED else "default options"
