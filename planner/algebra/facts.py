"""Facts about a stage's rows, besides their digest: they show that another stage holds a superset of its rows.

A signature decides whether two outputs are the same. :class:`Facts` describe an output independently of its plan: the
factors, the predicates that restrict them, and the columns. They are the normal form of
:mod:`qoop.planner.identity.provenance` with factors named by their digests. Only the comparison with outputs of other
plans needs them, so a stage has :class:`LazyFacts`, which are computed at first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from qoop.catalog.errors import PlanError
from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, Literal


@value
class Facts:
    """``SELECT columns FROM leaves WHERE predicates``.

    leaves: names of the factors of a product, sorted, with the expressions over other factors that each depends on (the
        padded side of a left join). Factors of equal names have equal rows. One that occurs twice is numbered.
    predicates, columns: expressions over the factors' columns, which are called ``<factor>:<own name>``.
    columns: by the names that the stage's columns have.
    ordered: the order of the rows is part of their meaning.
    """

    leaves: tuple[tuple[str, tuple[Expr, ...]], ...]
    predicates: tuple[Expr, ...]
    columns: tuple[tuple[str, Expr], ...]
    ordered: bool = False


class LazyFacts:
    """The facts of a stage, made at first use; None where there are none."""

    __slots__ = ("_facts", "_make")

    def __init__(self, make: Callable[[], Facts | None]) -> None:
        self._make: Callable[[], Facts | None] | None = make
        self._facts: Facts | None = None

    @property
    def value(self) -> Facts | None:
        make = self._make
        if make is not None:  # two threads may come here at once, and make the same
            self._facts = make()
            self._make = None
        return self._facts

    def __reduce__(self) -> tuple[Any, ...]:
        return from_json, (self.to_json(),)

    def to_json(self) -> Any:
        """The facts as values that json can write."""
        facts = self.value
        if facts is None:
            return None
        return [
            [[name, [_dump(arg) for arg in args]] for name, args in facts.leaves],
            [_dump(predicate) for predicate in facts.predicates],
            [[name, _dump(expr)] for name, expr in facts.columns],
            facts.ordered,
        ]


def nothing() -> None:
    """No facts."""
    return


NO_FACTS = LazyFacts(nothing)
"""For a stage without known facts."""


@value
class Served:
    """The expressions that make the requested rows from the kept ones, over the columns of the kept stage.

    predicates: those that still restrict the kept rows. columns: by the names of the requested stage's columns.
    """

    predicates: tuple[Expr, ...]
    columns: tuple[tuple[str, Expr], ...]


def from_json(data: Any) -> LazyFacts:
    """The facts that :meth:`LazyFacts.to_json` wrote, read at first use. Damage raises PlanError then."""
    return NO_FACTS if data is None else LazyFacts(lambda: _facts(data))


def _facts(data: Any) -> Facts:
    try:
        leaves, predicates, columns, ordered = data
        return Facts(
            tuple((str(name), tuple(map(_load, args))) for name, args in leaves),
            tuple(map(_load, predicates)),
            tuple((str(name), _load(expr)) for name, expr in columns),
            bool(ordered),
        )
    except (TypeError, ValueError) as error:
        raise PlanError(f"damaged facts of a stage: {error}") from error


_VALUES: dict[str, Callable[[str], object]] = {
    "int": int, "str": str, "bool": "True".__eq__, "Decimal": Decimal, "date": date.fromisoformat,
}  # fmt: skip


def _dump(expr: Expr) -> list[Any]:
    match expr:
        case Column():
            return ["@column", expr.name, expr.type]
        case Literal():
            kind = type(expr.value).__name__
            return ["@literal", expr.sql, expr.type, kind, str(expr.value) if kind in _VALUES else ""]
        case Call():
            return [expr.op, expr.template, expr.type, *map(_dump, expr.args)]


def _load(data: Sequence[Any]) -> Expr:
    match data:
        case ["@column", str(name), str(type_)]:
            return Column(name, type_)
        case ["@literal", str(sql), str(type_), str(kind), str(text)]:
            return Literal(sql, type_, _VALUES[kind](text) if kind in _VALUES else None)
        case [str(op), str(template), str(type_), *args]:
            return Call(op, tuple(map(_load, args)), template, type_)
    raise PlanError(f"{data!r} is no expression")
