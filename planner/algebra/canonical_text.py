"""Canonical text of expressions: equal for expressions that always have equal values, as far as it can tell.

Names of columns are the caller's business. In blocks (:mod:`qoop.planner.identity.block`) a column is called
``<number of its leaf>:<its own name>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b

from qoop.catalog.by_text import by_text
from qoop.planner.algebra.expr import Call, Column, Expr, Literal, binary

Name = Callable[[Column], str]

_EXACT = (int, bool, str, Decimal, date)  # a constant of these is its value, however it is written
_MIRRORED = {">": "<", ">=": "<="}
_COMMUTATIVE = frozenset({"=", "<>", "+", "*"})


def text_of(expr: Expr, name: Name) -> str:
    """Canonical text of an expression: terms of commutative operators sorted, comparisons turned to < and <=."""
    if isinstance(expr, Column):
        return name(expr)
    if isinstance(expr, Literal):
        known = type(expr.value) in _EXACT
        return f"<{expr.value if known else expr.sql!r}:{expr.type}>"
    op = expr.op
    if op == "between":
        parts = halves(expr)
        if len(parts) > 1:
            return f"and({','.join(sorted(text_of(part, name) for part in parts))})"
    if op in ("and", "or"):
        return f"{op}({','.join(_flattened(expr, name))})"
    args = [text_of(arg, name) for arg in expr.args]
    if op == "equal" and not expr.template:  # a class of equal values
        return f"equal({','.join(sorted(set(args)))})"
    if is_plain(expr, _infix(op)):
        if op in _MIRRORED:
            op, args = _MIRRORED[op], args[::-1]
        if op in _COMMUTATIVE and not expr.type.endswith("]"):  # + joins lists
            args.sort()
        return f"({op}:{expr.type} {','.join(args)})"
    if op == "in" and expr.template.startswith("({0} IN ({1}"):
        values = sorted(set(args[1:]))
        if len(values) == 1 and expr.args[0].type == expr.args[1].type:
            return text_of(binary("=", expr.args[0], expr.args[1]), name)
        return f"in({args[0]};{','.join(values)})"
    template = expr.template.lower() if expr.template.lower() == f"{op}({{0}})" else expr.template
    return f"{op}[{template!r}:{expr.type}]({','.join(args)})"


@lru_cache(maxsize=256)
def _infix(op: str) -> str:
    return f"({{0}} {op.upper()} {{1}})"


def halves(predicate: Expr) -> tuple[Expr, ...]:
    """``x BETWEEN a AND b`` as two comparisons; any other predicate as it is."""
    if isinstance(predicate, Call) and predicate.op == "between" and is_plain(predicate, "({0} BETWEEN {1} AND {2})"):
        x, low, high = predicate.args
        return binary("<=", low, x), binary("<=", x, high)
    return (predicate,)


def _flattened(expr: Expr, name: Name) -> list[str]:
    op = getattr(expr, "op", "")

    def parts(node: Expr) -> Iterable[str]:
        if isinstance(node, Call) and node.op == op:
            for arg in node.args:
                yield from parts(arg)
        elif op == "and" and len(both := halves(node)) > 1:
            yield from (text_of(half, name) for half in both)
        else:
            yield text_of(node, name)

    return sorted(set(parts(expr)))


def is_plain(expr: Expr, template: str) -> bool:
    """True if the call prints as the operator does and holds nothing else (such as a COLLATE)."""
    return isinstance(expr, Call) and expr.template == template


def leaf_number(column: Column) -> int:
    return _leaf_number(column.name)


@lru_cache(maxsize=65536)
def _leaf_number(name: str) -> int:
    return int(name.partition(":")[0])


def own_name(column: Column) -> str:
    return column.name.partition(":")[2]


def digest_of(*parts: str) -> str:
    framed = (len(encoded).to_bytes(8, "little") + encoded for encoded in map(str.encode, parts))
    return blake2b(b"".join(framed), digest_size=20).hexdigest()


def scan_digest(table: str, version: str) -> str:
    """The digest of a factor that is a table."""
    return digest_of("scan", table, version)


def leaf_name(settings: str, digest: str) -> str:
    """The name of a factor in facts. settings: those that change results, sorted, as text."""
    return digest_of(settings, digest)


def readable_names(texts: Mapping[Column, str]) -> dict[Column, str]:
    """Readable names that depend on the canonical texts alone; columns of one text (and value) are numbered."""
    taken: dict[str, int] = {}
    names: dict[Column, str] = {}
    for column in sorted(texts, key=lambda column: texts[column]):
        base = _readable_name(texts[column])
        taken[base] = taken.get(base, 0) + 1
        names[column] = base if taken[base] == 1 else f"{base}_{taken[base]}"
    return names


@by_text(most=8192)
def _readable_name(text: str) -> str:
    return f"{_readable(text)}_{digest_of(text)[:10]}"


_LONGEST = 96
_WORD = re.compile(r"^(?:key |[^a-z_])*([a-z_][a-z0-9_]*)")


def short(text: str) -> str:
    """The text, or its digest with a readable start, so that names do not grow with the depth of the query."""
    return text if len(text) <= _LONGEST else f"{_readable(text)} {digest_of(text)}"


def _readable(text: str) -> str:
    """The first word of the text: a column's own name or a function."""
    found = _WORD.match(text.lower())
    return found[1][:32] if found else "column"
