"""A filter whose predicates are nothing but calls of functions of Python, as one function.

DuckDB takes half a millisecond to call a function over Arrow, whatever it does, so to ask for an order with every
vector, and to count what each predicate leaves, takes as long as calling a quick function. Where all predicates of a
filter are calls for one row each, return BOOLEAN and have columns for arguments, DuckDB is given one function instead:

    "f@1"(a) AND "g@1"(a, b)    ──>    "f@1"(a) AND "g@1"(a, b) as one call of (a, b)

It asks the predicates one after the other until one says no, in the order that is the best by then, and counts as it
goes. So the order can change with any row, and 64 rows are enough to find out what an expensive predicate costs.

All arguments are made for all rows, also those that another predicate would have guarded. Where that fails, or a
predicate gives something else than True, False or None, DuckDB is given the predicates one by one
(:mod:`~qoop.engine.functions.ordering`), and the task runs again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from qoop.catalog.functions.function import UserFunction
from qoop.catalog.lexer import quoted
from qoop.catalog.value import value
from qoop.engine.functions.calls import NO_NULL, Calls
from qoop.engine.functions.measured import Meter, row_seconds
from qoop.engine.functions.ordering import AT_FIRST, COUNTED

FEW_ROWS, MOST_CHECKS = 64, 32
"""Rows between two looks at whether the task is to end, and how many looks there are at most until the order is chosen
again: one at first, and twice as many each time."""

QUICK = 10e-6
"""Seconds of a call that need not be measured, and cannot keep a task from ending."""

_ARGUMENT = r'[A-Za-z_]\w*|"(?:[^"]|"")+"'
_ARGUMENTS = re.compile(f"(?:{_ARGUMENT})(?:, (?:{_ARGUMENT}))*")

Ask = Callable[[Sequence[Any]], Any]
Again = Callable[[Sequence[tuple[int, int]]], Sequence[int]]


@value
class PlainCall:
    """A predicate that is a call of a function, whose arguments are columns. picks: their places among those of the
    filter."""

    function: UserFunction
    picks: tuple[int, ...]

    def bare(self, calls: Calls) -> Ask:
        """The predicate as a function of all arguments of the filter, of which one is its own. It is neither measured
        nor stopped, and so takes a third as long."""
        function, (place,) = self.function, self.picks
        call, takes_null = function.call, function.takes_null

        def ask(values: Sequence[Any]) -> Any:
            own = values[place]
            if own is None and not takes_null:
                return None
            try:
                made = call(own)
                if made is None and not takes_null:
                    raise TypeError(NO_NULL)
            except BaseException as error:
                raise calls.failed(function, error) from error
            return made

        return ask

    def measured(self, calls: Calls) -> Ask:
        """The predicate as a function of all arguments of the filter."""
        call, takes_null = calls.of_one_row(self.function), self.function.takes_null
        if len(self.picks) > 1:
            return _of_several(call, self.picks, takes_null)
        (place,) = self.picks
        if takes_null:
            return lambda values: call(values[place])
        return lambda values: None if values[place] is None else call(values[place])


def _of_several(call: Callable[..., Any], picks: tuple[int, ...], takes_null: bool) -> Ask:
    def ask(values: Sequence[Any]) -> Any:
        own = [values[place] for place in picks]
        return call(*own) if takes_null or not any(one is None for one in own) else None

    return ask


@value
class OneCall:
    """A filter as one call. arguments, types: of the call. predicates: in the order of the text."""

    arguments: tuple[str, ...]
    types: tuple[str, ...]
    predicates: tuple[PlainCall, ...]


def as_one_call(texts: Sequence[str], functions: Sequence[UserFunction]) -> OneCall | None:
    """The predicates as one call; None where one of them is something else than a plain call.

    >>> f = UserFunction("f", "1", ("BIGINT",), "BOOLEAN")
    >>> g = UserFunction("g", "1", ("VARCHAR", "BIGINT"), "BOOLEAN")
    >>> found = as_one_call(['"f@1"(a)', '"g@1"(b, a)'], [f, g])
    >>> found.arguments, [one.picks for one in found.predicates]
    (('a', 'b'), [(0,), (1, 0)])
    >>> as_one_call(['"f@1"(a)', '"f@1"(a + 1)'], [f])
    """
    places: dict[tuple[str, str], int] = {}
    predicates = []
    for text in texts:
        found = next((one for one in functions if text.startswith(f"{quoted(one.key)}(")), None)
        arguments = () if found is None else _columns(text.removeprefix(quoted(found.key)))
        if found is None or not arguments or found.vectorised or found.return_type != "BOOLEAN":
            return None
        typed = zip(arguments, found.parameters, strict=True)
        predicates.append(PlainCall(found, tuple(places.setdefault(one, len(places)) for one in typed)))
    return OneCall(tuple(text for text, _ in places), tuple(type_ for _, type_ in places), tuple(predicates))


def _columns(text: str) -> tuple[str, ...]:
    """The columns in parentheses; none if there is anything else in them."""
    within = text[1:-1]
    return tuple(re.findall(_ARGUMENT, within)) if text[-1:] == ")" and _ARGUMENTS.fullmatch(within) else ()


class NoTruthValue(Exception):
    """A predicate gave something else than True, False or None: DuckDB knows what to make of it."""


class InTurn:
    """Asks predicates for one row after the other, each until one says no.

    predicates: in the order of the text. calls: of the kernel. again: takes how many rows each was called for and has
    passed since the last time, and returns the order from now on. Threads of one task share it: what they count may be
    off by some rows.

    To count and to measure takes longer than a quick function does. So it is done for the first rows, and then for one
    step in :data:`~qoop.engine.functions.ordering.COUNTED`; in between, the predicate that is called for every row is
    called as it is where it is a quick one.
    """

    def __init__(self, predicates: Sequence[PlainCall], calls: Calls, again: Again) -> None:
        self._calls, self._again = calls, again
        self._meters = [calls.meter(one.function) for one in predicates]
        self._measured = [one.measured(calls) for one in predicates]
        self._bare = {n: one.bare(calls) for n, one in enumerate(predicates) if len(one.picks) == 1}
        self._counts = [[0, 0] for _ in predicates]
        self._counted = [_counted(ask, box) for ask, box in zip(self._measured, self._counts, strict=True)]
        self.begin()

    def begin(self) -> None:
        """A task begins: the first row chooses the order."""
        self._choices = self._checks = self._rows = self._left = 0
        self._unmeasured: Meter | None = None
        self._order: Sequence[Ask] = ()

    def row(self, *values: Any) -> bool:
        """True if all predicates are true for the row."""
        if self._left <= 0:
            self._next()
        self._left -= 1
        for ask in self._order:
            made = ask(values)
            if made is not True:
                if made is None or made is False:
                    return False
                raise NoTruthValue
        return True

    def settle(self) -> None:
        """Count the calls that were not measured, up to now."""
        if self._unmeasured is not None:
            self._unmeasured.count(self._rows - self._left)
        self._rows = self._left

    def _next(self) -> None:
        """Go on to the next few rows, after a look at whether the task is to end."""
        self.settle()
        self._calls.check()
        if self._checks <= 0:
            self._choose()
        self._checks -= 1
        self._rows = self._left = FEW_ROWS

    def _choose(self) -> None:
        """The order from now on, for twice as many rows as the last one up to a vector's."""
        first, *others = self._again([(COUNTED * rows, COUNTED * passed) for rows, passed in self._taken()])
        self._checks = min(1 << self._choices, MOST_CHECKS)
        self._choices += 1
        self._unmeasured = None
        if self._choices <= AT_FIRST or self._choices % COUNTED == 0:
            self._order = [self._counted[place] for place in (first, *others)]
        elif first in self._bare and (row_seconds([self._meters[first]]) or 1.0) < QUICK:
            self._unmeasured = self._meters[first]
            self._order = [self._bare[first], *(self._measured[place] for place in others)]
        else:
            self._order = [self._measured[place] for place in (first, *others)]

    def _taken(self) -> list[tuple[int, int]]:
        """The rows that were counted since the last time."""
        taken = [(rows, passed) for rows, passed in self._counts]
        for box in self._counts:
            box[:] = 0, 0
        return taken


def _counted(ask: Ask, box: list[int]) -> Ask:
    def counted(values: Sequence[Any]) -> Any:
        box[0] += 1
        made = ask(values)
        if made is True:
            box[1] += 1
        return made

    return counted
