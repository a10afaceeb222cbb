"""Containment, the test that one output holds all that another needs: select-project-join blocks matched with a view.

After J. Goldstein and P.-Å. Larson, "Optimizing Queries Using Materialized Views", SIGMOD 2001, on the blocks of
:mod:`qoop.planner.identity.provenance`. With the same factors, in the same numbers, a block restricted by more
predicates has a sub-bag of the rows of one restricted by fewer: ``σ[p and q](X) = σ[q](σ[p](X))``, whatever X is. So
the question is sound for any factors (aggregates, windows, LIMIT, padded sides of outer joins, scans): what happens
inside of a factor is part of its name, and nothing is claimed of two that differ. It remains to show that

- each predicate of the kept output follows from those of the requested one: it is one of them, an equality that theirs
  imply, or a weaker range or a larger list over the same expression;
- each requested predicate that the kept output lacks can be evaluated on its columns, by an expression that cannot
  fail on additional rows (law 12);
- each requested column is one of its columns, or an expression over them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qoop.planner.algebra.canonical_text import Name, text_of
from qoop.planner.algebra.expr import Call, Column, Expr, Literal, equals
from qoop.planner.algebra.facts import Facts, Served
from qoop.planner.algebra.implication import follows
from qoop.planner.algebra.properties import is_total
from qoop.planner.identity.block import equal_columns, merged_names


def served(kept: Facts, requested: Facts, types: Mapping[str, str]) -> Served | None:
    """The expressions by which the kept output serves the requested one; None if that cannot be shown.

    types: of the kept stage's columns, by name.
    """
    if requested.ordered or [name for name, _ in kept.leaves] != [name for name, _ in requested.leaves]:
        return None
    return _Matching(kept, requested, types).served()


class _Matching:
    """One kept block against one requested block over factors of the same names."""

    def __init__(self, kept: Facts, requested: Facts, types: Mapping[str, str]) -> None:
        self.kept, self.requested = kept, requested
        self.kept_classes, self.kept_others = equal_columns(kept.predicates)
        self.classes, self.others = equal_columns(requested.predicates)
        self.strict = merged_names(_plain_name, self.kept_classes)
        self.name = merged_names(_plain_name, self.classes)
        self.columns = [(Column(name, types[name]), expr) for name, expr in kept.columns]

    def served(self) -> Served | None:
        if not self.same_arguments() or not self.equalities_hold():
            return None
        mine = {text_of(predicate, self.name): predicate for predicate in self.others}
        theirs = {text_of(predicate, self.name): predicate for predicate in self.kept_others}
        if not all(text in mine or follows(predicate, self.others, self.name) for text, predicate in theirs.items()):
            return None
        joined = self.missing_equalities()
        rest = [self.over_kept(predicate) for text, predicate in mine.items() if text not in theirs]
        columns = [(name, self.over_kept(expr)) for name, expr in self.requested.columns]
        if joined is None or not all(expr is not None and is_total(expr) for expr in rest):
            return None
        found = tuple((name, expr) for name, expr in columns if expr is not None)
        residual = (*joined, *(expr for expr in rest if expr is not None))
        return Served(residual, found) if len(found) == len(columns) else None

    def same_arguments(self) -> bool:
        """True if factors that depend on others depend on equal columns of them."""
        pairs = zip(self.kept.leaves, self.requested.leaves, strict=True)
        return all(self.texts(mine) == self.texts(theirs) for (_, mine), (_, theirs) in pairs)

    def texts(self, exprs: Sequence[Expr]) -> list[str]:
        return [text_of(expr, self.name) for expr in exprs]

    def equalities_hold(self) -> bool:
        """True if all columns that the kept rows equate are equal in the requested ones."""
        return all(len(set(map(self.name, members))) == 1 for members in self.kept_classes.values())

    def missing_equalities(self) -> list[Expr] | None:
        """Equalities between those columns of each requested class that the kept rows do not equate yet."""
        found: list[Expr] = []
        exact = self.by_text(self.strict)
        for members in dict.fromkeys(self.classes.values()):
            parts = list(dict.fromkeys(map(self.strict, members)))
            columns = [exact[part] for part in parts if part in exact]
            if len(parts) > 1 and len(columns) < len(parts):
                return None
            found += [equals(columns[0], column) for column in columns[1:]]
        return found

    def by_text(self, name: Name) -> dict[str, Column]:
        """The kept columns by the texts of their expressions, where their types are those of the expressions."""
        return {text_of(expr, name): column for column, expr in self.columns if expr.type == column.type}

    def over_kept(self, expr: Expr) -> Expr | None:
        """The expression over the kept columns; None if it cannot be computed from them."""
        return _translated(expr, self.by_text(self.name), self.name)


def _plain_name(column: Column) -> str:
    return column.name


def _translated(expr: Expr, kept: Mapping[str, Column], name: Name) -> Expr | None:
    found = kept.get(text_of(expr, name))
    if found is not None:
        return found if found.type == expr.type else None
    if isinstance(expr, Literal):
        return expr
    if isinstance(expr, Column) or expr.op in ("semi", "anti", "mark"):  # a join, not a function
        return None
    args = [_translated(arg, kept, name) for arg in expr.args]
    if any(arg is None for arg in args):
        return None
    return Call(expr.op, tuple(arg for arg in args if arg is not None), expr.template, expr.type)
