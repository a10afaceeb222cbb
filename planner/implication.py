"""What follows from what, among predicates that hold for all rows: weaker ranges, longer lists, parts of an OR.

All answers are one-sided: True is proven, False means not known. Expressions are compared by their canonical text
under `name`, so the columns of a class of equal ones are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from qoop.planner.canonical_text import Name, halves, is_plain, text_of
from qoop.planner.expr import Call, Expr, Literal, conjuncts, disjuncts

_RANGES = ("<", "<=", ">", ">=")


def follows(weak: Expr, terms: Sequence[Expr], name: Name) -> bool:
    """True if a predicate is true wherever all of the terms are."""
    text = text_of(weak, name)
    if any(text == text_of(term, name) or _is_weaker(weak, term, name) for term in terms):
        return True
    if _is_or(weak) and any(_all_follow(_terms(part), terms, name) for part in disjuncts(weak)):
        return True
    plain = [term for term in terms if not _is_or(term)]
    ors = (term for term in terms if _is_or(term))
    return any(all(_follows_simply(weak, (*_terms(p), *plain), name) for p in disjuncts(term)) for term in ors)


def _terms(predicate: Expr) -> list[Expr]:
    return [half for part in conjuncts(predicate) for half in halves(part)]


def _all_follow(parts: Iterable[Expr], terms: Sequence[Expr], name: Name) -> bool:
    return all(_follows_simply(part, terms, name) for part in parts)


def _follows_simply(weak: Expr, terms: Sequence[Expr], name: Name) -> bool:
    """As `follows`, but without taking the terms' own ORs apart."""
    text = text_of(weak, name)
    if any(text == text_of(term, name) or _is_weaker(weak, term, name) for term in terms):
        return True
    return _is_or(weak) and any(
        all(any(text_of(p, name) == text_of(t, name) or _is_weaker(p, t, name) for t in terms) for p in _terms(part))
        for part in disjuncts(weak)
    )


def essential(predicates: Sequence[Expr], name: Name) -> list[Expr]:
    """The predicates without those that follow from others.

    Only ORs, and ranges and lists over an expression that has several, are looked at: nothing else follows.
    """
    kept = list(predicates)
    subjects = [_subject(predicate, name) for predicate in kept]
    some_or = any(map(_is_or, kept))
    for predicate, subject in zip(predicates, subjects, strict=True):
        if _is_or(predicate) or (subject is not None and (some_or or subjects.count(subject) > 1)):
            others = [other for other in kept if other is not predicate]
            if len(others) < len(kept) and follows(predicate, others, name):
                kept = others
    return kept


def _subject(predicate: Expr, name: Name) -> str | None:
    found = Range.of(predicate, name)
    if found is not None:
        return found.text
    listed = _listed(predicate, name)
    return None if listed is None else listed[0]


def _is_or(predicate: Expr) -> bool:
    return isinstance(predicate, Call) and predicate.op == "or"


def _is_weaker(weak: Expr, strong: Expr, name: Name) -> bool:
    """True if a range or list holds wherever a narrower one of the same expression does."""
    wide, few = Range.of(weak, name), _listed(strong, name)
    if wide is not None:
        narrow = Range.of(strong, name)
        if narrow is not None:
            return wide.covers(narrow)
        return few is not None and few[0] == wide.text and all(wide.holds(item) for item in few[1])
    many = _listed(weak, name)
    return many is not None and few is not None and many[0] == few[0] and few[1] <= many[1]


@dataclass(frozen=True)
class Range:
    """``expression op constant``: up to the constant (sign 1), or from it on (sign -1)."""

    text: str
    sign: int
    bound: Decimal
    open: bool

    @classmethod
    def of(cls, predicate: Expr, name: Name) -> Range | None:
        """The range of a comparison with a constant; None for other predicates."""
        if not isinstance(predicate, Call) or predicate.op not in _RANGES:
            return None
        if not is_plain(predicate, f"({{0}} {predicate.op} {{1}})"):
            return None
        left, right = predicate.args
        upper = predicate.op in ("<", "<=")
        if isinstance(left, Literal):
            left, right, upper = right, left, not upper
        bound = _number(right)
        if bound is None or isinstance(left, Literal):
            return None
        return cls(_against(left, right, name), 1 if upper else -1, bound, len(predicate.op) == 1)

    def covers(self, other: Range) -> bool:
        """True if what is in the other range is in this one."""
        if (self.text, self.sign) != (other.text, other.sign):
            return False
        mine, theirs = self.sign * self.bound, self.sign * other.bound
        return theirs < mine or (theirs == mine and (other.open or not self.open))

    def holds(self, item: Literal) -> bool:
        """True if the constant, of the type of the range's own, lies in it."""
        value = _number(item)
        return value is not None and self.covers(Range(self.text, self.sign, value, False))


def _listed(predicate: Expr, name: Name) -> tuple[str, frozenset[Literal]] | None:
    """The expression and the constants, all of one type, of ``x IN (…)`` or ``x = constant``."""
    if not isinstance(predicate, Call) or predicate.op not in ("in", "="):
        return None
    first, *rest = predicate.args
    if predicate.op == "=" and isinstance(first, Literal):
        first, rest = rest[0], [first]
    plain = "({0} = {1})" if predicate.op == "=" else _in_template(len(rest))
    items = [Literal(item.sql, item.type) for item in rest if isinstance(item, Literal)]
    if not is_plain(predicate, plain) or isinstance(first, Literal) or len(items) < len(rest):
        return None
    return (_against(first, items[0], name), frozenset(items)) if len({item.type for item in items}) == 1 else None


def _in_template(items: int) -> str:
    return "({0} IN (" + ", ".join(f"{{{i}}}" for i in range(1, items + 1)) + "))"


def _against(expr: Expr, constant: Expr, name: Name) -> str:
    """The expression, and the type of what it is compared with, on which the comparison depends."""
    return f"{text_of(expr, name)} against {constant.type}"


_DECIMAL = re.compile(r"-?\d{1,9}(\.\d{1,6})?")  # few digits: as a DOUBLE, too, they are in the same order
_DATE = re.compile(r"CAST\('(\d{4}-\d\d-\d\d)' AS DATE\)")


def _number(expr: Expr) -> Decimal | None:
    """The constant as a number in the order of its type, days for dates; None for other types."""
    if not isinstance(expr, Literal) or expr.type == "VARCHAR":
        return None
    if _DECIMAL.fullmatch(expr.sql):
        return Decimal(expr.sql)
    day = _DATE.fullmatch(expr.sql) if expr.type == "DATE" else None
    return Decimal(date.fromisoformat(day[1]).toordinal()) if day else None
