"""Implication among predicates that hold for all rows: weaker ranges, longer lists, parts of an OR. And which of them
exclude each other.

All answers are one-sided: True is proven, False means not known. Expressions are compared by their canonical text
under `name`, so the columns of a class of equal ones are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache
from itertools import combinations

from qoop.catalog.value import value
from qoop.planner.algebra.canonical_text import Name, halves, is_plain, text_of
from qoop.planner.algebra.expr import Call, Column, Expr, Literal, columns_of, conjuncts, disjuncts

_RANGES = ("<", "<=", ">", ">=")


def follows(weak: Expr, terms: Sequence[Expr], name: Name) -> bool:
    """True if a predicate is true wherever all of the terms are."""
    return Implication(name).follows(weak, terms)


def exclusive(predicates: Sequence[Expr], name: Name) -> bool:
    """True if no row satisfies two of the predicates: each two compare one expression with disjoint constants.

    >>> from qoop.planner.algebra.expr import binary
    >>> month, three = Column("month", "INTEGER"), Literal("3", "INTEGER")
    >>> early, late = (binary(op, month, three, "BOOLEAN") for op in ("<", ">"))
    >>> exclusive([early, late], lambda column: column.name)
    True
    >>> exclusive([early, binary("<=", month, three, "BOOLEAN")], lambda column: column.name)
    False
    """
    return Implication(name).exclusive(predicates)


def essential(predicates: Sequence[Expr], name: Name) -> list[Expr]:
    """The predicates without those that follow from others.

    Candidates are ORs, and ranges and lists over expressions that other predicates, or all branches of an OR, compare.
    """
    some_or = any(map(_is_or, predicates))
    if not some_or and sum(_may_compare(predicate) for predicate in predicates) < 2:
        return list(predicates)
    return Implication(name).essential(predicates, some_or)


def _is_or(predicate: Expr) -> bool:
    return isinstance(predicate, Call) and predicate.op == "or"


def _may_compare(predicate: Expr) -> bool:
    return isinstance(predicate, Call) and predicate.op in (*_RANGES, "in", "=")


@value
class _PredicateFacts:
    """The facts of one predicate: its text, and its comparison with constants, if it has one."""

    text: str
    range: ConstantBound | None
    listed: tuple[str, frozenset[Literal]] | None

    @property
    def subject(self) -> str | None:
        if self.range is not None:
            return self.range.text
        return None if self.listed is None else self.listed[0]

    def weaker_than(self, strong: _PredicateFacts) -> bool:
        """True if this range or list holds wherever the other, of the same subject, does."""
        if self.range is not None and strong.range is not None:
            return self.range.covers(strong.range)
        if strong.listed is None:
            return False
        if self.range is not None:
            return all(map(self.range.holds, strong.listed[1]))
        return self.listed is not None and strong.listed[1] <= self.listed[1]

    def excludes(self, other: _PredicateFacts) -> bool:
        """True if no number is in this range or list and in the other, of the same subject."""
        mine, theirs = self._spans(), other._spans()
        return bool(mine and theirs) and all(one.excludes(two) for one in mine for two in theirs)

    def _spans(self) -> Sequence[_Span]:
        """The range, or the items of the list; nothing where these are no numbers."""
        if self.range is not None:
            return (self.range.span(),)
        numbers = [_number(item) for item in self.listed[1]] if self.listed is not None else []
        return [_Span(one, one, False) for one in numbers if one is not None] if None not in numbers else ()


@value
class _Index:
    """Predicates by text, and those that compare with constants by subject."""

    texts: frozenset[str]
    compared: Mapping[str, Sequence[_PredicateFacts]]

    def implies(self, weak: _PredicateFacts) -> bool:
        if weak.text in self.texts:
            return True
        subject = weak.subject
        return subject is not None and any(map(weak.weaker_than, self.compared.get(subject, ())))

    def excludes(self, other: _Index) -> bool:
        """True if not all of these predicates hold where all of the other ones do."""
        return any(
            mine.excludes(theirs)
            for subject in self.compared.keys() & other.compared.keys()
            for mine in self.compared[subject]
            for theirs in other.compared[subject]
        )


@lru_cache(maxsize=8192)
def _analysed(expr: Expr, names: tuple[tuple[Column, str], ...]) -> _PredicateFacts:
    name = dict(names).__getitem__
    return _PredicateFacts(text_of(expr, name), ConstantBound.of(expr, name), _listed(expr, name))


@lru_cache(maxsize=2048)
def _branches(either: Expr) -> tuple[tuple[Expr, ...], ...]:
    """Of an OR, the conjuncts of each branch."""
    return tuple(tuple(half for p in conjuncts(branch) for half in halves(p)) for branch in disjuncts(either))


class Implication:
    """Answers under one naming of columns; each expression is analysed once."""

    def __init__(self, name: Name) -> None:
        self._name = name
        self._known: dict[int, tuple[Expr, _PredicateFacts]] = {}
        self._indexes: dict[int, tuple[tuple[Expr, ...], _Index]] = {}

    def follows(self, weak: Expr, terms: Sequence[Expr]) -> bool:
        """See :func:`follows`."""
        base = self._index(terms)
        if self._holds(weak, (base,)):
            return True
        return any(
            all(self._holds(weak, (base, self._indexed(part))) for part in _branches(term))
            for term in terms
            if _is_or(term)
        )

    def exclusive(self, predicates: Sequence[Expr]) -> bool:
        """See :func:`exclusive`."""
        each = [[self._index(part) for part in _branches(predicate)] for predicate in predicates]
        return all(one.excludes(two) for mine, theirs in combinations(each, 2) for one in mine for two in theirs)

    def essential(self, predicates: Sequence[Expr], some_or: bool) -> list[Expr]:
        """See :func:`essential`."""
        kept = list(predicates)
        subjects = [self._analyse(predicate).subject for predicate in predicates]
        bounded = self._bounded(predicates) if some_or else frozenset()
        for predicate, subject in zip(predicates, subjects, strict=True):
            if _is_or(predicate) or (subject is not None and (subject in bounded or subjects.count(subject) > 1)):
                others = [other for other in kept if other is not predicate]
                if len(others) < len(kept) and self.follows(predicate, others):
                    kept = others
        return kept

    def _bounded(self, predicates: Iterable[Expr]) -> frozenset[str]:
        """The expressions that every branch of some OR compares with constants."""
        found = set[str]()
        for either in filter(_is_or, predicates):
            branches = (self._indexed(part).compared.keys() for part in _branches(either))
            found |= set.intersection(*map(set, branches))
        return frozenset(found)

    def _holds(self, weak: Expr, indexes: Sequence[_Index]) -> bool:
        known = self._analyse(weak)
        if any(index.implies(known) for index in indexes):
            return True
        return _is_or(weak) and any(
            all(any(index.implies(self._analyse(part)) for index in indexes) for part in parts)
            for parts in _branches(weak)
        )

    def _analyse(self, expr: Expr) -> _PredicateFacts:
        found = self._known.get(id(expr))
        if found is None:
            names = tuple((column, self._name(column)) for column in columns_of(expr))
            found = self._known[id(expr)] = (expr, _analysed(expr, names))
        return found[1]

    def _indexed(self, parts: tuple[Expr, ...]) -> _Index:
        found = self._indexes.get(id(parts))
        if found is None:
            found = self._indexes[id(parts)] = (parts, self._index(parts))
        return found[1]

    def _index(self, terms: Iterable[Expr]) -> _Index:
        known = [self._analyse(term) for term in terms]
        compared: dict[str, list[_PredicateFacts]] = {}
        for one in known:
            if one.subject is not None:
                compared.setdefault(one.subject, []).append(one)
        return _Index(frozenset(one.text for one in known), compared)


_LEAST, _MOST = Decimal("-Infinity"), Decimal("Infinity")
_CLOSE = Decimal("1e-6")


def _may_be_one(one: Decimal, other: Decimal) -> bool:
    """True if two constants are, or may be where they are compared with a FLOAT, one number."""
    return one == other or abs(one - other) <= _CLOSE * max(abs(one), abs(other))


@value
class _Span:
    """Numbers from `low` to `high`. open: without the one of them that is finite."""

    low: Decimal
    high: Decimal
    open: bool

    def excludes(self, other: _Span) -> bool:
        """True if the spans share no number."""
        return any(
            (high < low and not _may_be_one(high, low)) or (high == low and (self.open or other.open))
            for high, low in ((self.high, other.low), (other.high, self.low))
            if high < _MOST and low > _LEAST
        )


@value
class ConstantBound:
    """``expression op constant``: up to the constant (sign 1), or from it on (sign -1)."""

    text: str
    sign: int
    bound: Decimal
    open: bool

    @classmethod
    def of(cls, predicate: Expr, name: Name) -> ConstantBound | None:
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

    def covers(self, other: ConstantBound) -> bool:
        """True if the other range lies within this one."""
        if (self.text, self.sign) != (other.text, other.sign):
            return False
        mine, theirs = self.sign * self.bound, self.sign * other.bound
        return theirs <= mine and (not _may_be_one(mine, theirs) or other.open or not self.open)

    def span(self) -> _Span:
        """The numbers of the range."""
        low, high = (_LEAST, self.bound) if self.sign > 0 else (self.bound, _MOST)
        return _Span(low, high, self.open)

    def holds(self, item: Literal) -> bool:
        """True if the constant, of the type of the range's own, lies in it."""
        value = _number(item)
        return value is not None and self.covers(ConstantBound(self.text, self.sign, value, False))


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
    """The expression, and the type of the other side, on which the comparison depends."""
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
