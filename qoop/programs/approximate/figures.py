"""The figures of a query: its columns as expressions over sums that merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp, parse_one

from qoop.programs.approximate.growth import Figure, Kind, Measure, MergedBy, Op, Term
from qoop.programs.approximate.names import Names, Refused

_OPS: dict[type[exp.Expression], Op] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
    exp.Variance: "var_samp", exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp", exp.StddevSamp: "stddev_samp", exp.StddevPop: "stddev_pop",
}  # fmt: skip
_KINDS: dict[Op, Kind] = {
    "count": "total", "sum": "total", "avg": "ratio", "min": "extreme", "max": "extreme",
    "var_samp": "variance", "var_pop": "variance", "stddev_samp": "deviation", "stddev_pop": "deviation",
    "distinct": "distinct", "quantile_cont": "quantile", "quantile_disc": "quantile",
}  # fmt: skip
_QUANTILES: tuple[tuple[type[exp.Expression], Op, str], ...] = (
    (exp.PercentileCont, "quantile_cont", "expression"),
    (exp.PercentileDisc, "quantile_disc", "expression"),
    (exp.Quantile, "quantile_disc", "quantile"),
)
_NEITHER = "cannot be estimated, nor merged from parts"
"""The reason for growing answers, and for views."""
_FRACTIONS = ("DECIMAL", "DOUBLE", "FLOAT")


class Reading:
    """Finds aggregates and keys in expressions, and numbers their terms and measures.

    hashed: hashes stand for distinct values."""

    def __init__(self, names: Names, keys: Sequence[exp.Expression], hashed: bool = True) -> None:
        self._hashed = hashed
        self._names = names
        self._keys = {names.same(key): place for place, key in enumerate(keys)}
        self._terms: dict[str, int] = {}
        self.terms: list[Term] = []
        self.measures: list[Measure] = []

    def final(self, expr: exp.Expression, ratio: bool = False) -> str:
        """The expression over the columns of the estimates: ``k0`` … and ``e0`` …, or ``u0`` … in a ratio, whose value
        does not depend on the number of rows read.

        Raises Refused if it has other columns.
        """
        return self._replaced(expr.copy(), "u" if ratio else "e").sql("duckdb")

    def _replaced(self, node: exp.Expression, prefix: str) -> exp.Expression:
        place = self._keys.get(self._names.same(node))
        if place is not None:
            return exp.column(f"k{place}")
        if isinstance(node, exp.Grouping):
            return self._grouping(node)
        if isinstance(node, exp.Window):
            return self._over(node, prefix)
        if is_aggregate(node):
            return exp.column(f"{prefix}{self.term(node)}")
        if isinstance(node, exp.Column):
            raise Refused(f"{node.sql('duckdb')} is not grouped by")
        if isinstance(node, exp.Query | exp.AggFunc) or (isinstance(node, exp.Anonymous) and not node.expressions):
            raise Refused(f"{node.sql('duckdb')} {_NEITHER}")
        for name, child in list(node.args.items()):
            if isinstance(child, exp.Expression):
                node.set(name, self._replaced(child, prefix))
            elif isinstance(child, list):
                node.set(
                    name, [self._replaced(one, prefix) if isinstance(one, exp.Expression) else one for one in child]
                )
        return node

    def _over(self, node: exp.Window, prefix: str) -> exp.Expression:
        """A function over a window of groups. It stays; its arguments and its window are over estimates."""
        call = node.this.this if isinstance(node.this, exp.IgnoreNulls | exp.RespectNulls) else node.this
        for inside in (call, node):
            for name, child in list(inside.args.items()):
                if isinstance(child, exp.Expression) and child is not node.this and child is not call:
                    inside.set(name, self._replaced(child, prefix))
                elif isinstance(child, list):
                    inside.set(name, [self._replaced(one, prefix) for one in child if isinstance(one, exp.Expression)])
        return node

    def _grouping(self, node: exp.Grouping) -> exp.Expression:
        """The bits of the arguments that the grouping set of a row leaves out."""
        last = len(self._keys) - 1
        bits = []
        for shift, one in enumerate(reversed(node.expressions)):
            place = self._keys[self._names.same(one)]
            bits.append(f"(((k{last} >> {last - 1 - place}) & 1) << {shift})")
        return exp.Paren(this=parse_one(" | ".join(bits), read="duckdb"))

    def term(self, node: exp.Expression) -> int:
        """The number of an aggregate."""
        text = self._names.same(node)
        if text not in self._terms:
            made = self._term(node)
            self._terms[text] = len(self.terms)
            self.terms.append(made)
        return self._terms[text]

    def _term(self, node: exp.Expression) -> Term:
        call = node.this if isinstance(node, exp.Filter) else node
        made = self._of_values(node, call)
        if made is not None:
            return made
        op = _OPS.get(type(call))
        if op is None or call.find(exp.Distinct) is not None or call.find(exp.Order) is not None:
            raise Refused(f"{node.sql('duckdb')} {_NEITHER}")
        if len(call.args.get("expressions") or []):
            raise Refused(f"{node.sql('duckdb')} has several arguments")
        if op == "min" or op == "max":
            return Term(op, self.measure(node.sql("duckdb"), op))
        if op == "avg":
            return Term(op, self.measure(_as(node, exp.Sum)), self.measure(_as(node, exp.Count)))
        if _KINDS[op] in ("variance", "deviation"):
            value = exp.cast(exp.paren(call.this.copy()), "DOUBLE")
            squares = self.measure(_as(node, exp.Sum, exp.Mul(this=value.copy(), expression=value.copy())))
            return Term(op, squares, self.measure(_as(node, exp.Count)), self.measure(_as(node, exp.Sum, value)))
        return Term(op, self.measure(node.sql("duckdb")))

    def _of_values(self, node: exp.Expression, call: exp.Expression) -> Term | None:
        """A distinct count or a quantile, which need all values; None: it is neither."""
        if isinstance(call, exp.Count) and isinstance(call.this, exp.Distinct) and len(call.this.expressions) == 1:
            return Term("distinct", self._values(node, call, call.this.expressions[0], self._hashed, distinct=True))
        if isinstance(call, exp.Median):
            return Term("quantile_cont", self._values(node, call, call.this))
        for kind, op, name in _QUANTILES:
            level = _number(call.args[name]) if isinstance(call, kind) and call.args.get(name) is not None else None
            if level is not None and 0 < level < 1 and call.find(exp.Order) is None:
                return Term(op, self._values(node, call, call.this), level=level)
        return None

    def _values(
        self,
        node: exp.Expression,
        call: exp.Expression,
        of: exp.Expression,
        hashed: bool = False,
        distinct: bool = False,
    ) -> int:
        """The number of the measure of an aggregate's input values. hashed: their hashes."""
        kept = exp.paren(of.copy()).sql("duckdb")
        where = [f"{kept} IS NOT NULL", *([f"({node.expression.this.sql('duckdb')})"] if node is not call else [])]
        item = f"hash({kept})" if hashed else kept
        listed = f"list(DISTINCT {item})" if distinct else f"list({item})"
        return self.measure(f"{listed} FILTER (WHERE {' AND '.join(where)})", "values")

    def measure(self, sql: str, merged_by: MergedBy = "sum") -> int:
        """The number of a measure."""
        made = Measure(sql, merged_by)
        if made not in self.measures:
            self.measures.append(made)
        return self.measures.index(made)


def is_aggregate(node: exp.Expression) -> bool:
    """True for an aggregate, with its FILTER."""
    call = node.this if isinstance(node, exp.Filter) else node
    return isinstance(call, exp.AggFunc) and not isinstance(call, exp.Grouping)


def _as(node: exp.Expression, kind: type[exp.AggFunc], of: exp.Expression | None = None) -> str:
    """The same aggregate with another function. of: another argument."""
    made = node.copy()
    call = made.this if isinstance(made, exp.Filter) else made
    other = kind(this=call.this.copy() if of is None else of)
    if call is made:
        return other.sql("duckdb")
    call.replace(other)
    return made.sql("duckdb")


def figure_of(reading: Reading, place: int, expr: exp.Expression) -> Figure:
    """The figure that a column of the answer estimates; without a formula it has no interval."""
    if expr.find(exp.Window, exp.Grouping):
        return Figure(place, "derived", 0)
    return replace(_linear(reading, expr) or Figure(0, "derived", 0), place=place)


def _linear(reading: Reading, expr: exp.Expression) -> Figure | None:
    """A figure without its place; None: the expression is not linear in aggregates."""
    if is_aggregate(expr):
        term = reading.terms[reading.term(expr)]
        return Figure(
            0, _KINDS[term.op], term.y, term.x, z=term.z, of_sample=term.op.endswith("samp"),
            level=term.level, continuous=term.op.endswith("cont"),
        )  # fmt: skip
    match expr:
        case exp.Paren():
            return _linear(reading, expr.this)
        case exp.Cast() if expr.to.sql("duckdb").startswith(_FRACTIONS):
            return _linear(reading, expr.this)
        case exp.Coalesce() if len(expr.expressions) == 1 and _number(expr.expressions[0]) == 0:
            found = _linear(reading, expr.this)
            return found if found is not None and found.kind == "total" else None
        case exp.Add() | exp.Sub():
            return _added(reading, expr)
        case exp.Neg():
            return _scaled(_linear(reading, expr.this), -1.0)
        case exp.Mul():
            left, right = _number(expr.this), _number(expr.expression)
            if right is not None:
                return _scaled(_linear(reading, expr.this), right)
            return None if left is None else _scaled(_linear(reading, expr.expression), left)
        case exp.Div():
            right = _number(expr.expression)
            if right:
                return _scaled(_linear(reading, expr.this), 1 / right)
            return _ratio(_linear(reading, expr.this), _linear(reading, expr.expression))
    return None


def _added(reading: Reading, expr: exp.Expression) -> Figure | None:
    """A sum or difference of totals, which is the total of a measure of pieces."""
    texts = []
    for part in (expr.this, expr.expression):
        found = _linear(reading, part)
        if found is None or found.kind != "total":
            return None
        texts.append(f"coalesce({reading.measures[found.y].sql}, 0)::DOUBLE * {found.scale!r}")
    sign = "+" if isinstance(expr, exp.Add) else "-"
    return Figure(0, "total", reading.measure(f"{texts[0]} {sign} ({texts[1]})"))


def _scaled(found: Figure | None, by: float) -> Figure | None:
    return None if found is None or found.kind in ("extreme", "derived") else replace(found, scale=found.scale * by)


def _ratio(above: Figure | None, below: Figure | None) -> Figure | None:
    if above is None or below is None or (above.kind, below.kind) != ("total", "total"):
        return None
    return Figure(0, "ratio", above.y, below.y, above.scale / below.scale)


def _number(expr: exp.Expression) -> float | None:
    """The value of a literal number."""
    while isinstance(expr, exp.Paren | exp.Cast):
        expr = expr.this
    if isinstance(expr, exp.Neg):
        value = _number(expr.this)
        return None if value is None else -value
    return float(expr.name) if isinstance(expr, exp.Literal) and not expr.is_string else None
