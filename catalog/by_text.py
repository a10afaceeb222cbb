"""A cache of functions of texts: for many short texts, and for the last long one.

A text may have a megabyte, and its result a hundred: a cache that only counts texts has no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

LONG = 1 << 14
"""Characters from which on a text is long."""

_Others = ParamSpec("_Others")
_Found = TypeVar("_Found")
_OfText = Callable[Concatenate[str, _Others], _Found]


def by_text(most: int) -> Callable[[_OfText[_Others, _Found]], _OfText[_Others, _Found]]:
    """Cache the results of a function by its first argument, a text, and the others. most: short texts.

    >>> calls = []
    >>> @by_text(most=100)
    ... def length(text):
    ...     calls.append(text[:1])
    ...     return len(text)
    >>> [length(one * LONG * 2) for one in "xxyx"], [length(one) for one in "abab"], calls
    ([32768, 32768, 32768, 32768], [1, 1, 1, 1], ['x', 'y', 'x', 'a', 'b'])
    """

    def remembering(function: _OfText[_Others, _Found]) -> _OfText[_Others, _Found]:
        short, long = lru_cache(most)(function), lru_cache(1)(function)

        @wraps(function)
        def found(text: str, /, *others: _Others.args, **named: _Others.kwargs) -> _Found:
            return (short if len(text) <= LONG else long)(text, *others, **named)  # type: ignore[arg-type]

        return found

    return remembering
