"""The query of a round, and the end of that of an edition.

For each group a round returns the number of its pieces. For each measure it returns ``t``, its value over all pieces
read, in its own type; ``s``, ``q`` and ``c``, the sums of the pieces' values, squares and cubes; and ``g``, the
greatest value. For pairs of measures it returns the sums of the products ``yx``, ``yyx`` and ``yxx``; for a total and
the sizes of pieces ``yr``, ``yyr`` and ``yrr``; for triples ``yzx``. For measures that do not merge it returns ``v``,
the values of each piece. The last round is then the query itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one

from qoop.catalog.sources.pieces import PIECE, PIECE_ROWS
from qoop.programs.approximate.names import SETS

if TYPE_CHECKING:
    from qoop.programs.approximate.figures import Reading
    from qoop.programs.approximate.growth import Measure
    from qoop.programs.approximate.names import Names

MEASURED = "qoop_measured"
"""The name of the measures of pieces where the sizes of pieces stand next to them."""


def round_sql(
    select: exp.Select,
    fact: str,
    keys: Sequence[exp.Expression],
    measures: Sequence[Measure],
    pairs: Collection[tuple[int, int]],
    triples: Collection[tuple[int, int, int]] = (),
    totals: Collection[int] = (),
) -> str:
    """The query of a round. fact: the name of the table of pieces in it. totals: the measures whose products with the
    rows of pieces, `PIECE_ROWS`, are needed."""
    piece = exp.Alias(this=exp.column(PIECE, fact, quoted=True), alias="piece")
    within = _grouped(select, [piece], keys, measures, "m")
    columns = ", ".join([*(f"k{place}" for place in range(len(keys))), *_sums(measures, pairs, triples, totals)])
    ending = f" GROUP BY {', '.join(str(place + 1) for place in range(len(keys)))}" if keys else ""
    if totals:
        within = f"SELECT *, ({PIECE_ROWS})::DOUBLE AS size FROM ({within}) AS {MEASURED}"
    return f"SELECT {columns} FROM ({within}) AS per_piece{ending}"


def rest_sql(select: exp.Select, keys: Sequence[exp.Expression], measures: Sequence[Measure]) -> str:
    """The query of the last round: the measures of the exact answer alone, without separate pieces."""
    return _grouped(select, [], keys, measures, "t")


def _grouped(
    select: exp.Select,
    first: Sequence[exp.Expression],
    keys: Sequence[exp.Expression],
    measures: Sequence[Measure],
    prefix: str,
) -> str:
    """The measures of all rows of the query, by its keys and by the columns before these."""
    within = select.copy()
    group = within.args.get("group")
    for clause in ("group", "having", "qualify", "order", "limit", "offset"):
        within.set(clause, None)
    named = [exp.Alias(this=key.copy(), alias=f"k{place}") for place, key in enumerate(keys)]
    measured = [exp.alias_(parse_one(one.sql, read="duckdb"), f"{prefix}{place}") for place, one in enumerate(measures)]
    within.set("expressions", [*first, *named, *measured])
    by = [str(place + 1) for place in range(len(first) + len(keys))]
    if group is not None and group.find(*SETS):
        by = [*by[: len(first)], *(one.sql("duckdb") for one in group.expressions)]
    return within.sql("duckdb") + (f" GROUP BY {', '.join(by)}" if by else "")


def _sums(
    measures: Sequence[Measure],
    pairs: Collection[tuple[int, int]],
    triples: Collection[tuple[int, int, int]],
    totals: Collection[int],
) -> Iterator[str]:
    yield "count(*) AS pieces"
    for place, measure in enumerate(measures):
        if measure.merged_by == "values":
            yield f"list({{'p': piece, 'v': m{place}}}) FILTER (WHERE m{place} IS NOT NULL) AS v{place}"
            continue
        yield f"{measure.merged_by}(m{place}) AS t{place}"
        if measure.merged_by == "sum":
            double = f"coalesce(m{place}, 0)::DOUBLE"
            yield from (f"sum({double}{power}) AS {name}{place}" for name, power in _POWERS)
            yield f"max(abs({double})) AS g{place}"
    for y, x in sorted(pairs):
        yield from _products(f"coalesce(m{y}, 0)::DOUBLE", f"coalesce(m{x}, 0)::DOUBLE", "x", f"_{y}_{x}")
    for y in sorted(totals):
        yield from _products(f"coalesce(m{y}, 0)::DOUBLE", "size", "r", f"{y}")
    for y, z, x in triples:
        yield f"sum({' * '.join(f'coalesce(m{one}, 0)::DOUBLE' for one in (y, z, x))}) AS yzx_{y}_{z}_{x}"


def _products(a: str, b: str, name: str, of: str) -> Iterator[str]:
    yield f"sum({a} * {b}) AS y{name}{of}"
    yield f"sum({a} * {a} * {b}) AS yy{name}{of}"
    yield f"sum({a} * {b} * {b}) AS y{name}{name}{of}"


_POWERS = (("s", ""), ("q", " ** 2"), ("c", " ** 3"))


def tail_sql(select: exp.Select, reading: Reading, names: Names) -> str:
    """HAVING, QUALIFY, ORDER BY and LIMIT, over the columns of the estimates."""
    parts = []
    order = select.args.get("order")
    for clause, word in (("having", "WHERE"), ("qualify", "QUALIFY")):
        if (one := select.args.get(clause)) is not None:
            parts.append(f"{word} {reading.final(names.resolved(one.this, prefer_columns=True))}")
    if order is not None:
        items = []
        for one in order.expressions:
            ordered = one.copy()
            ordered.set("this", names.item_at(one.this) or names.resolved(one.this, prefer_columns=False))
            items.append(reading.final(ordered))
        parts.append(f"ORDER BY {', '.join(items)}")
    parts += [select.args[one].sql("duckdb").strip() for one in ("limit", "offset") if select.args.get(one) is not None]
    return " ".join(parts)
