"""The statements of a stream, as in warehouses: a part of them repeat earlier ones, and tables change between.

Of Amazon's Redset the parts of repeats are known, from under 10 % of the queries of a user to over 90 %. Ten streams
have one such decile each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from qoop.tpcds.streams.constants import Constants

DECILES = 10
EVERY = 20
"""The number of statements of which the last one changes a table."""
_TRIES = 8  # draws until constants are others
_KNOWN = 0.5  # of the statements that repeat nothing, those of a template that was there before

Kind = Literal["new", "constants", "repeat", "change"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement. template: its number, 0 for a change of a table. text: empty for a change."""

    kind: Kind
    template: int = 0
    text: str = ""


def repetition(stream: int) -> float:
    """The part of repeats in a stream: the middle of its decile.

    >>> repetition(0), repetition(9)
    (0.05, 0.95)
    """
    return (stream + 0.5) / DECILES


def statements(templates: Mapping[int, str], constants: Constants, stream: int, count: int) -> Sequence[Statement]:
    """The statements of a stream, which are the same each time."""
    return list(_Stream(templates, constants, stream).statements(count))


class _Stream:
    def __init__(self, templates: Mapping[int, str], constants: Constants, stream: int) -> None:
        self._chance = random.Random(stream)
        self._templates, self._constants = templates, constants
        self._repetition = repetition(stream)
        self._unused = self._chance.sample(sorted(templates), len(templates))
        self._before: list[Statement] = []
        self._texts: set[str] = set()

    def statements(self, count: int) -> Iterator[Statement]:
        for number in range(1, count + 1):
            yield Statement("change") if number % EVERY == 0 else self._next()

    def _next(self) -> Statement:
        if self._before and self._chance.random() < self._repetition:
            earlier = self._chance.choice(self._before)
            return Statement("repeat", earlier.template, earlier.text)
        known = list(dict.fromkeys(one.template for one in self._before))
        if known and (not self._unused or self._chance.random() < _KNOWN):
            self._chance.shuffle(known)
            found = next((one for template in known if (one := self._drawn("constants", template))), None)
            if found is not None:
                return found
        while self._unused:
            if found := self._drawn("new", self._unused.pop()):
                return found
        earlier = self._chance.choice(self._before)
        return Statement("repeat", earlier.template, earlier.text)

    def _drawn(self, kind: Kind, template: int) -> Statement | None:
        """A statement of a template that was not there before."""
        for _ in range(_TRIES):
            text = self._constants.drawn(self._templates[template], self._chance)
            if text not in self._texts:
                self._texts.add(text)
                self._before.append(Statement(kind, template, text))
                return self._before[-1]
        return None
