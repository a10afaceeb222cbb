"""Rewrites that are wrong: each is a mistake that a rule could make, as a change of a small query's relation.

:data:`WRONG` names them. A change is given the relation as it is built from the text, before any rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from changes import (
    Change,
    above,
    as_membership,
    average_of_averages,
    below_input,
    by_join,
    calls,
    column,
    counted_groups,
    distinct,
    edit,
    filter_to_where,
    filtered,
    integer,
    into_branches,
    into_on,
    into_shared,
    join,
    member,
    number,
    on_side,
    projected,
    pushed_left,
    pushed_right,
    retyped,
    same,
    scans,
    summed_early,
    swap,
    turned,
    windowed,
    with_key,
    without_key,
)

from qoop.planner.algebra.expr import (
    Call,
    Column,
    binary,
    conjunction,
    equals,
    is_not_null,
    is_null,
    negate,
)
from qoop.planner.algebra.relation import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Project,
    SetOp,
    Sort,
    with_inputs,
)

TABLES = """
create table t as select * from (values
  (1, 1, 0, 'a', 1.50, date '2020-01-01'), (1, 1, 0, 'a', 1.50, date '2020-01-01'), (1, 2, 1, 'A', 2.00, null),
  (2, null, 1, 'b', null, date '2020-01-02'), (2, 1, null, null, 3.25, date '2020-01-03'),
  (3, 3, 2, 'c ', 1.55, date '2020-01-01'), (null, 1, 3, 'a', 2.00, date '2020-01-02'),
  (null, null, null, null, null, null), (4, 2, 2, 'b', 1.00, date '2020-01-04'), (1, 2, 3, 'A', 2.00, null),
  (1, 3, 3, 'd', 0.50, null), (1, 2, 6, 'd', 0.50, date '2020-01-01'), (3, 4, 1, 'c', 1.55, null))
  v(k, a, b, s, d, day);
create table u as select * from (values
  (1, 1, 1, 'a', 1.500, timestamp '2020-01-01 00:00:00'), (1, 2, 0, 'B', 2.004, timestamp '2020-01-02 12:00:00'),
  (1, 2, 0, 'B', 2.004, timestamp '2020-01-02 12:00:00'), (2, null, 1, 'c', 1.551, timestamp '2020-01-03 00:00:00'),
  (null, 1, null, null, null, null), (3, 0, -1, 'A', 3.250, timestamp '2020-01-01 08:00:00'),
  (5, 3, 2, 'b', 1.000, null)) v(k, e, f, s, d, moment);
create table v as select * from (values (1, 7), (1, 7), (2, 8), (null, 7), (3, null), (6, 9)) v(k, g);
create table w as select * from (values (1, 7), (2, 8), (3, 5), (null, 7)) v(k, g);
"""
TABLES = TABLES.replace("1.50,", "1.50::decimal(7, 2),", 1).replace("1.500,", "1.500::decimal(9, 3),", 1)


@dataclass(frozen=True)
class Wrong:
    """A wrong rewrite of a query. rows: whether its rows differ on :data:`TABLES`; its signature always must."""

    text: str
    change: Change
    rows: bool = True


A, B, E, F = integer("a"), integer("b"), integer("e"), integer("f")
K, K2 = integer("k"), integer("k_2")

LEFT = "select t.k, a, e from t left join u on t.k = u.k"
FULL = "select t.k, u.k as uk, a, f from t full join u on t.k = u.k and f = 1"
INNER = "select t.k, a, e from t join u on t.k = u.k"
IN = "select t.k from t where k in (select k from u)"
NOT_IN = "select t.k, a from t where k not in (select k from u where k > 1)"
EXISTS = "select t.k, a from t where exists (select 1 from u where u.k = t.k and u.e > t.a)"
NOT_EXISTS = "select t.k from t where not exists (select 1 from u where u.k = t.k)"
GROUP = "select k, count(*) n, count(a) c, sum(b) s, min(b) l, count(distinct a) x from t group by k having sum(b) > 1"
TOTAL = "select sum(b) as s, count(b) as n from t where b > 100"
AVERAGE = "select k, avg(b) as m from t group by k"
LIMIT = "select k, a, b from t order by k, a nulls first, b limit 4 offset 1"
FILTER = "select k, a, b from t where a between 1 and 2 and b in (0, 1, 3)"
WINDOW = "select k, a, sum(b) over (partition by k order by a, b rows between 1 preceding and current row) as r from t"
RANK = "select k, a, rank() over (partition by k order by a) as r from t"
TWICE = (
    "with c as (select k, sum(b) as s from t group by k) select x.k, y.s from c x join c y on x.k <> y.k where x.s > 1"
)
JOINED = "select t.k, g, sum(t.b) as s, count(*) as n from t join v on t.k = v.k group by t.k, g"

WRONG: dict[str, Wrong] = {
    # filters
    "filter dropped": Wrong(f"{LEFT} where b < 2", edit(Filter, lambda node: node.input)),
    "conjunct dropped": Wrong(FILTER, edit(Filter, lambda node: replace(node, predicates=node.predicates[:1]))),
    "other conjunct dropped": Wrong(FILTER, edit(Filter, lambda node: replace(node, predicates=node.predicates[1:]))),
    "constant off by one": Wrong("select k from t where b < 2", filtered(swap(number(2), number(3)))),
    "constant below a sum": Wrong("select k, b + 1 as c from t", projected(swap(number(1), number(2)))),
    "comparison made loose": Wrong(
        "select k from t where b < 2", filtered(calls("<", lambda c: binary("<=", *c.args)))
    ),
    "comparison turned": Wrong("select k from t where b < a", filtered(calls("<", lambda c: binary(">", *c.args)))),
    "other column compared": Wrong("select k from t where b < 2", filtered(swap(B, A))),
    "BETWEEN without its ends": Wrong(
        FILTER,
        filtered(
            calls(
                "between", lambda c: conjunction((binary("<", c.args[1], c.args[0]), binary("<", c.args[0], c.args[2])))
            )
        ),
    ),
    "BETWEEN without its upper end": Wrong(
        FILTER,
        filtered(
            calls(
                "between",
                lambda c: conjunction((binary("<=", c.args[1], c.args[0]), binary("<", c.args[0], c.args[2]))),
            )
        ),
    ),
    "upper bound of BETWEEN dropped": Wrong(
        FILTER, filtered(calls("between", lambda c: binary("<=", c.args[1], c.args[0])))
    ),
    "element of IN dropped": Wrong(
        FILTER, filtered(calls("in", lambda c: Call("in", c.args[:3], "({0} IN ({1}, {2}))", "BOOLEAN")))
    ),
    "OR made AND": Wrong(
        "select k, a from t where a = 1 or b = 2", filtered(calls("or", lambda c: conjunction(c.args)))
    ),
    "NOT dropped": Wrong("select k, a from t where not (a = 1 and b = 2)", filtered(calls("not", lambda c: c.args[0]))),
    "NOT moved into AND": Wrong(
        "select k, a, b from t where not (a = 1 and b = 2)",
        filtered(calls("not", lambda c: conjunction(map(negate, c.args[0].args)))),  # type: ignore[union-attr]
    ),
    "IS NULL forgotten next to <>": Wrong(
        "select k, a from t where a is distinct from 1",
        edit(Filter, lambda node: Filter(node.input, (binary("<>", A, number(1)),))),
    ),
    "x = x taken for true": Wrong("select k, a from t where a = a", edit(Filter, lambda node: node.input)),
    "x <> x + 0 taken for x is not null": Wrong(
        "select k, a from t where a <> b", edit(Filter, lambda node: Filter(node.input, (is_not_null(A),)))
    ),
    # filters and outer joins
    "filter of the preserved side moved into ON": Wrong(f"{LEFT} where b < 2", edit(Filter, into_on)),
    "ON of the preserved side moved to its input": Wrong(f"{LEFT} and b < 2", edit(Join, on_side("left"))),
    "ON of the padded side moved above": Wrong(f"{LEFT} and f > 0", edit(Join, above)),
    "ON dropped from the padded side": Wrong(f"{LEFT} and f > 0", edit(Join, lambda j: replace(j, on=j.on[:1]))),
    "IS NULL pushed to the padded side": Wrong(f"{LEFT} where e is null", edit(Filter, pushed_right)),
    "filter pushed to the padded side": Wrong(f"{LEFT} where e < 2", edit(Filter, pushed_right)),
    "filter pushed below a full join": Wrong(
        "select t.k, a, u.k as uk from t full join u on t.k = u.k where a < 2", edit(Filter, pushed_left)
    ),
    "ON of a full join pushed down": Wrong(FULL, edit(Join, on_side("right"))),
    "equality of a left join used on its left": Wrong(
        f"{LEFT} and u.k = 1", edit(Join, lambda j: replace(j, left=Filter(j.left, (equals(K, number(1)),))))
    ),
    "outer turned inner without a filter": Wrong(LEFT, join(kind="inner")),
    "outer turned inner under IS NULL": Wrong(f"{LEFT} where e is null", join(kind="inner")),
    "outer turned inner under COALESCE": Wrong(f"{LEFT} where coalesce(e, 0) < 2", join(kind="inner")),
    "outer turned inner under OR": Wrong(f"{LEFT} where e < 2 or a = 2", join(kind="inner")),
    "full turned left": Wrong(FULL, join(kind="left")),
    "full turned right": Wrong(FULL, join(kind="right")),
    "full turned inner": Wrong(FULL, join(kind="inner")),
    "inner turned left": Wrong(INNER, join(kind="left")),
    "sides of a left join swapped": Wrong(LEFT, edit(Join, lambda j: Join(j.right, j.left, "left", j.on))),
    "left turned right": Wrong(LEFT, join(kind="right")),
    # semi and anti joins, NULL
    "sides of a semi join swapped": Wrong(IN, edit(Project, turned)),
    "sides of an anti join swapped": Wrong(NOT_EXISTS, edit(Project, turned)),
    "semi turned inner": Wrong(IN, join(kind="inner")),
    "semi turned anti": Wrong(IN, join(kind="anti")),
    "semi without its second condition": Wrong(EXISTS, edit(Join, lambda j: replace(j, on=j.on[:1]))),
    "semi taken for all rows": Wrong(IN, edit(Join, lambda j: j.left)),
    "inner turned semi over a key that repeats": Wrong("select t.k, a from t join v on t.k = v.k", join(kind="semi")),
    "NOT IN as an anti join": Wrong(NOT_IN, edit(Filter, member)),
    "NOT EXISTS as NOT IN": Wrong(NOT_EXISTS, edit(Join, as_membership)),
    "unknown membership taken for false": Wrong(
        "select k in (select k from u) as known, a from t",
        projected(lambda e: Call("coalesce", (e,), "COALESCE({0}, false)", "BOOLEAN") if e.type == "BOOLEAN" else e),
    ),
    "membership and its rest swapped": Wrong(
        "select t.k, a, t.k in (select u.k from u where u.e = t.a) as known from t",
        edit(Join, lambda j: replace(j, on=j.on[::-1])),
    ),
    "= taken for IS NOT DISTINCT FROM": Wrong(INNER, edit(Join, lambda j: replace(j, on=(same(K, K2),)))),
    "IS NOT DISTINCT FROM taken for =": Wrong(
        "select t.k, a, e from t join u on t.k is not distinct from u.k",
        edit(Join, lambda j: replace(j, on=(equals(K, K2),))),
    ),
    "NULL keys kept by IS NULL OR": Wrong(
        INNER,
        edit(Join, lambda j: replace(j, on=(Call("or", (equals(K, K2), is_null(K)), "({0} OR {1})", "BOOLEAN"),))),
    ),
    # join keys
    "key dropped": Wrong(
        "select t.k, a from t join u on t.k = u.k and t.a = u.e", edit(Join, lambda j: replace(j, on=j.on[:1]))
    ),
    "all keys dropped": Wrong(INNER, join(on=())),
    "other key": Wrong(INNER, edit(Join, lambda j: replace(j, on=(equals(A, K2),)))),
    "key of another join": Wrong(
        "select t.k, a, g from t join u on t.k = u.k join v on u.e = v.k",
        edit(Join, lambda j: replace(j, on=(equals(K2, integer("k_3")),))),
    ),
    "which side of a self-join": Wrong(
        "select x.a from t x join t y on x.k = y.b", projected(lambda e: integer("a_2") if e == A else e)
    ),
    "DATE compared with TIMESTAMP by day": Wrong(
        "select t.k, a from t join u on t.day = u.moment",
        edit(
            Join,
            lambda j: replace(
                j, on=(equals(column(j, "day"), Call("cast", (column(j, "moment"),), "CAST({0} AS DATE)", "DATE")),)
            ),
        ),
    ),
    "decimals compared at the smaller scale": Wrong(
        "select t.k, a from t join u on t.d = u.d",
        edit(
            Join,
            lambda j: replace(
                j,
                on=(
                    equals(
                        column(j, "d"), Call("cast", (column(j, "d_2"),), "CAST({0} AS DECIMAL(7,2))", "DECIMAL(7,2)")
                    ),
                ),
            ),
        ),
    ),
    "text compared without regard to case": Wrong(
        "select t.k, a from t join u on t.s = u.s",
        edit(
            Join,
            lambda j: replace(
                j,
                on=(
                    equals(
                        *(
                            Call("collate", (column(j, name),), "({0} COLLATE NOCASE)", "VARCHAR")
                            for name in ("s", "s_2")
                        )
                    ),
                ),
            ),
        ),
    ),
    "text compared without trailing blanks": Wrong(
        "select t.k, a from t join u on t.s = u.s",
        edit(
            Join,
            lambda j: replace(
                j, on=(equals(Call("rtrim", (column(j, "s"),), "rtrim({0})", "VARCHAR"), column(j, "s_2")),)
            ),
        ),
    ),
    "cast dropped": Wrong(
        "select k, d from t where cast(d as integer) = 2",
        filtered(calls("cast", lambda c: c.args[0])),
    ),
    # duplicates
    "DISTINCT dropped": Wrong("select distinct k, a from t", edit(Aggregate, lambda node: node.input)),
    "DISTINCT added": Wrong("select k, a from t", distinct),
    "UNION turned UNION ALL": Wrong(
        "select k, a from t union select k, e from u", edit(SetOp, lambda n: replace(n, all=True))
    ),
    "UNION ALL turned UNION": Wrong(
        "select k, a from t union all select k, e from u", edit(SetOp, lambda n: replace(n, all=False))
    ),
    "branch of UNION ALL dropped": Wrong(
        "select k, a from t union all select k, e from u union all select k, g from v",
        edit(SetOp, lambda n: replace(n, branches=n.branches[:-1])),
    ),
    "columns of a branch swapped": Wrong(
        "select k, a from t union all select k, e from u",
        edit(
            SetOp,
            lambda n: replace(
                n,
                branches=(
                    n.branches[0],
                    Project(
                        n.branches[1], tuple((Column(f"{c.name}_x", c.type), c) for c in n.branches[1].columns[::-1])
                    ),
                ),
            ),
        ),
    ),
    "INTERSECT ALL turned INTERSECT": Wrong(
        "select k, a from t intersect all select k, a from t where k = 1", edit(SetOp, lambda n: replace(n, all=False))
    ),
    "EXCEPT ALL turned EXCEPT": Wrong(
        "select k, a from t except all select k, e from u", edit(SetOp, lambda n: replace(n, all=False))
    ),
    "INTERSECT as a semi join by =": Wrong(
        "select k, a from t intersect select k, a from t where k is null or a = 1", edit(SetOp, by_join("semi"))
    ),
    "EXCEPT as an anti join by =": Wrong(
        "select k, a from t except select k, a from t where k is null", edit(SetOp, by_join("anti"))
    ),
    "sides of EXCEPT swapped": Wrong(
        "select k, a from t except select k, e from u", edit(SetOp, lambda n: replace(n, branches=n.branches[::-1]))
    ),
    "EXCEPT turned INTERSECT": Wrong(
        "select k, a from t except select k, e from u", edit(SetOp, lambda n: replace(n, kind="intersect"))
    ),
    # aggregates
    "grouping key dropped": Wrong("select k, a, sum(b) as s from t group by k, a", edit(Aggregate, without_key)),
    "grouping key added": Wrong("select k, sum(b) as s from t group by k", edit(Aggregate, with_key("a"))),
    "NULL group dropped": Wrong(
        "select k, sum(b) as s from t group by k",
        edit(Aggregate, lambda n: replace(n, input=Filter(n.input, (is_not_null(K),)))),
    ),
    "grouping set dropped": Wrong(
        "select k, a, sum(b) as s from t group by rollup (k, a)",
        edit(Aggregate, lambda n: replace(n, grouping_sets=n.grouping_sets[:-1])),
    ),
    "ROLLUP taken for GROUP BY": Wrong(
        "select k, a, sum(b) as s from t group by rollup (k, a)",
        edit(Aggregate, lambda n: replace(n, grouping_sets=None)),
    ),
    "filter pushed below ROLLUP": Wrong(
        "select * from (select k, a, sum(b) as s from t group by rollup (k, a)) r where a = 1",
        edit(Filter, below_input),
    ),
    "count(*) turned count(x)": Wrong(
        GROUP,
        edit(
            Aggregate,
            lambda n: replace(
                n,
                aggregations=tuple(
                    replace(a, call=Call("count", (A,), "count({0})", "BIGINT")) if a.call.op == "count_star" else a
                    for a in n.aggregations
                ),
            ),
        ),
    ),
    "count(x) turned count(*)": Wrong("select k, count(a) as c from t group by k", retyped("count", "count(*)")),
    "count(DISTINCT x) turned count(x)": Wrong(
        "select k, count(distinct a) as c from t group by k", retyped("count", "count({0})")
    ),
    "sum of distinct values": Wrong("select k, sum(b) as s from t group by k", retyped("sum", "sum(DISTINCT {0})")),
    "sum turned avg": Wrong(
        "select k, sum(d) as s from t group by k", retyped("sum", "CAST(avg({0}) AS DECIMAL(38,2))")
    ),
    "min turned max": Wrong("select k, min(b) as s from t group by k", retyped("min", "max({0})")),
    "min turned first": Wrong("select k, min(b) as s from t group by k", retyped("min", "arg_min({0}, -{0})")),
    "average of averages": Wrong(AVERAGE, edit(Aggregate, average_of_averages)),
    "average over NULLs too": Wrong(AVERAGE, retyped("avg", "sum({0}) / count(*)")),
    "average cut to an integer": Wrong(AVERAGE, retyped("avg", "CAST(sum({0}) // count({0}) AS DOUBLE)")),
    "sum over nothing is 0": Wrong(TOTAL, retyped("sum", "coalesce(sum({0}), 0)")),
    "no row for nothing": Wrong(TOTAL, edit(Aggregate, lambda n: Filter(n, (is_not_null(column(n, "sum_b")),)))),
    "FILTER of an aggregate dropped": Wrong(
        "select k, count(*) filter (where a > 1) as n from t group by k",
        edit(Aggregate, lambda n: replace(n, aggregations=tuple(replace(a, filter=None) for a in n.aggregations))),
    ),
    "FILTER of an aggregate made WHERE": Wrong(
        "select k, count(*) filter (where a > 1) as n from t group by k", edit(Aggregate, filter_to_where)
    ),
    "HAVING dropped": Wrong(GROUP, edit(Filter, lambda node: node.input)),
    "HAVING off by one": Wrong(GROUP, filtered(swap(number(1), number(2)))),
    "HAVING made WHERE": Wrong(
        GROUP, edit(Filter, lambda n: with_inputs(n.input, (Filter(n.input.inputs[0], (binary(">", B, number(1)),)),)))
    ),
    "duplicates lost by early aggregation": Wrong(JOINED, edit(Aggregate, summed_early)),
    "groups counted for rows": Wrong(
        "select t.k, g, count(*) as n from t join v on t.k = v.k group by t.k, g", edit(Aggregate, counted_groups)
    ),
    # subqueries
    "count over nothing is NULL": Wrong(
        "select t.k, (select count(*) from u where u.k = t.k) as s from t",
        projected(calls("coalesce", lambda c: c.args[0])),
    ),
    "rows without a subquery's value dropped": Wrong(
        "select t.k, (select sum(e) from u where u.k = t.k) as s from t", join(kind="inner")
    ),
    "subquery's value by another key": Wrong(
        "select t.k, (select sum(e) from u where u.k = t.k) as s from t",
        edit(Join, lambda j: replace(j, on=(equals(A, K2),))),
    ),
    "scalar subquery of several rows": Wrong(
        "select t.k, (select max(e) from u) as s from t",
        edit(Aggregate, lambda n: Project(n.input, ((n.columns[0], E),))),
    ),
    "reader's filter put on a shared subplan": Wrong(TWICE, into_shared),
    # order, limit, windows
    "limit off by one": Wrong(LIMIT, edit(Limit, lambda n: replace(n, limit=n.limit + 1))),
    "limit dropped": Wrong(LIMIT, edit(Limit, lambda n: n.input)),
    "offset dropped": Wrong(LIMIT, edit(Limit, lambda n: replace(n, offset=0))),
    "order turned": Wrong(
        LIMIT, edit(Sort, lambda n: replace(n, keys=(replace(n.keys[0], descending=True), *n.keys[1:])))
    ),
    "first key of the order dropped": Wrong(LIMIT, edit(Sort, lambda n: replace(n, keys=n.keys[1:]))),
    "NULLs first or last": Wrong(
        LIMIT, edit(Sort, lambda n: replace(n, keys=tuple(replace(k, nulls_first=not k.nulls_first) for k in n.keys)))
    ),
    "filter moved below a limit": Wrong(
        "select * from (select k, a, b from t order by k, a, b limit 4) x where b > 0",
        edit(Filter, lambda n: with_inputs(n.input, tuple(Filter(i, n.predicates) for i in n.input.inputs))),
    ),
    "limit moved into the branches": Wrong(
        "select k, a from t union all select k, e from u order by 1, 2 limit 3", edit(Limit, into_branches)
    ),
    "partition dropped": Wrong(RANK, windowed("PARTITION BY {0}", "")),
    "order of a window turned": Wrong(RANK, windowed("{1}", "{1} DESC")),
    "rank turned dense_rank": Wrong(RANK, windowed("RANK()", "dense_rank()")),
    "frame widened": Wrong(WINDOW, windowed("1 preceding", "2 preceding")),
    "frame by value": Wrong(WINDOW, windowed("rows BETWEEN 1 preceding", "RANGE BETWEEN UNBOUNDED preceding")),
    "filter moved below a window": Wrong(
        "select * from (select k, a, b, rank() over (partition by k order by a) as r from t) x where b > 0",
        edit(Filter, below_input),
    ),
    # expressions
    "ELSE dropped": Wrong(
        "select case when a > 1 then b else 0 end as c from t",
        projected(calls("case", lambda c: Call("case", c.args[:2], "(CASE WHEN {0} THEN {1} END)", c.type))),
    ),
    "COALESCE dropped": Wrong("select coalesce(b, 0) as z from t", projected(calls("coalesce", lambda c: c.args[0]))),
    "// taken for /": Wrong(
        "select k, cast(a // 2 as double) as h from t",
        projected(calls("//", lambda c: Call("/", c.args, "({0} / {1})", c.type))),
    ),
    "columns swapped": Wrong(
        "select a, b from t",
        edit(Project, lambda n: Project(n.input, tuple(zip(n.columns, n.columns[::-1], strict=True)))),
    ),
    # tables
    "other table": Wrong("select t.k, a, g from t join v on t.k = v.k", scans(table="w")),
    "other version": Wrong(INNER, scans(version="v2"), rows=False),
}
