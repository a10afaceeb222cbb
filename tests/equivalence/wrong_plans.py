"""Mistakes made where a relation is cut into stages: the signatures say what was meant, so only rows can tell.

Each is a change of the plan of a query over :data:`TABLES`, whose scans are split, whose aggregates have two phases
and whose larger joins are hashed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from qoop.planner.estimate.cost import CostModel
from qoop.planner.plan import Layout, Plan, Stage, StageInput, TableInput
from qoop.planner.variants import Thresholds

Change = Callable[[Plan], Plan]

TABLES = """
create table facts as select i, case when i % 13 = 0 then null else (i * 7) % 9 end as k, (i * 31) % 50 as a,
  case when i % 7 = 0 then null else (i * 17) % 23 end as b, ((i % 9) * 1.5)::decimal(7, 2) as d from range(900) t(i);
create table dims as select i as k, i % 3 as m from range(1, 12) t(i) union all select 3, 1 union all select null, 2;
create table other as select case when i % 11 = 0 then null else (i * 5) % 14 end as k, i % 6 as e,
  ((i % 10) * 1.5)::decimal(9, 3) as d from range(400) t(i);
"""
SCALE = 1e4  # times as many rows as there are, for the planner
LIMITS = Thresholds(
    spread_seconds=0, task_seconds=1e-5, single_seconds=0, stage_seconds=0, hash_row=0, gather_rows=0, most_parts=5
)
COST = CostModel(build_row=1e-3, probe_row=1e-3)


@dataclass(frozen=True)
class WrongPlan:
    """A query and a change of its plan."""

    text: str
    change: Change


def stages(change: Callable[[Stage], Stage]) -> Change:
    """Change every stage."""

    def changed(plan: Plan) -> Plan:
        found = replace(plan, stages=tuple(map(change, plan.stages)))
        assert found != plan, "nothing was changed"
        return found

    return changed


def tables(split: bool) -> Change:
    """Split all scans of stages of several tasks, or none."""

    def change(stage: Stage) -> Stage:
        inputs = (replace(i, split=split) if isinstance(i, TableInput) else i for i in stage.inputs)
        return replace(stage, inputs=tuple(inputs)) if stage.width > 1 else stage

    return stages(change)


def read(was: str, now: str, last: bool = False) -> Change:
    """Read the outputs of other stages in another way; last: only the last such input of a stage."""

    def change(stage: Stage) -> Stage:
        fitting = [i for i in stage.stage_inputs if i.mode == was]
        chosen = fitting[-1:] if last else fitting
        inputs = (
            replace(i, mode=now) if isinstance(i, StageInput) and i in chosen else i  # type: ignore[arg-type]
            for i in stage.inputs
        )
        return replace(stage, inputs=tuple(inputs))

    return stages(change)


def hashed(change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Change:
    """Cut the output of the first stage that is hashed by other keys."""

    def changed(plan: Plan) -> Plan:
        first = next(stage for stage in plan.stages if stage.layout.keys)
        keys = change(first.layout.keys)
        assert keys != first.layout.keys
        other = replace(first, layout=Layout(keys, first.layout.parts))
        return replace(plan, stages=tuple(other if stage is first else stage for stage in plan.stages))

    return changed


def sql(place: int, old: str, new: str) -> Change:
    """Another text of the stage at a place."""

    def changed(plan: Plan) -> Plan:
        stage = plan.stages[place]
        text = stage.sql.replace(old, new)
        assert text != stage.sql, stage.sql
        found = list(plan.stages)
        found[place] = replace(stage, sql=text)
        return replace(plan, stages=tuple(found))

    return changed


GROUPED = "select k, count(*) as n, sum(b) as s, min(b) as l, avg(b) as m from facts group by k"
LOOKED_UP = "select i, facts.k, m from facts left join dims on facts.k = dims.k"
BOTH = "select i, o.k from facts f full join other o on f.k = o.k and f.a = o.e"
SEMI = "select i from facts where k in (select k from dims where m > 0)"
ANTI = "select i from facts where not exists (select 1 from dims where dims.k = facts.k)"
TOP = "select k, a, i from facts order by k, a, i limit 7"
EXCEPT = "select k from other except select k from facts where a > 20"
SETS = "select k, m, sum(b) as s from facts join dims using (k) group by rollup (k, m)"
COUNTED_SETS = SETS.replace("sum(b) as s", "count(*) as n, grouping(k, m) as g")
RANKED = "select i, k, rank() over (partition by k order by b desc) as r from facts qualify r <= 2"
SIX_RANKED = RANKED.replace("<= 2", "<= 6")
DECIMALS = "select f.i, o.e, f.a from facts f full join other o on f.d = o.d and f.k = o.k"

WRONG_PLANS: dict[str, WrongPlan] = {
    "split scan read whole by every task": WrongPlan(LOOKED_UP, tables(split=False)),
    "small side of a left join read in parts": WrongPlan(LOOKED_UP, read("all", "forward")),
    "small side of a semi join read in parts": WrongPlan(SEMI, read("all", "forward")),
    "small side of an anti join read in parts": WrongPlan(ANTI, read("all", "forward")),
    "hashed sides read whole": WrongPlan(BOTH, read("partition", "all")),
    "one hashed side of a full join read whole": WrongPlan(BOTH, read("partition", "all", last=True)),
    "sides hashed by other keys": WrongPlan(BOTH, hashed(lambda keys: keys[:1])),
    "keys of one side in another order": WrongPlan(BOTH, hashed(lambda keys: keys[::-1])),
    "decimals hashed at their own scales": WrongPlan(
        DECIMALS, hashed(lambda keys: tuple(key.removeprefix("CAST(").partition(" AS ")[0] for key in keys))
    ),
    "EXCEPT hashed on one side only": WrongPlan(EXCEPT, hashed(lambda keys: tuple(f"{key} + 1" for key in keys))),
    "partial counts counted": WrongPlan(GROUPED, sql(-1, 'sum("count:part")', 'count("count:part")')),
    "partial sums averaged": WrongPlan(GROUPED, sql(-1, 'sum("sum_b:part")', 'avg("sum_b:part")')),
    "least of partial minima turned greatest": WrongPlan(GROUPED, sql(-1, 'min("min_b:part")', 'max("min_b:part")')),
    "average of partial averages": WrongPlan(
        GROUPED,
        sql(-1, 'sum("avg_b:sum") AS DOUBLE) / sum("avg_b:count")', 'avg("avg_b:sum" / "avg_b:count") AS DOUBLE) / 1'),
    ),
    "average over all rows, NULLs too": WrongPlan(GROUPED, sql(-1, 'sum("avg_b:count")', 'sum("count:part")')),
    "partial groups not finished": WrongPlan(
        "select k, sum(b) as s from facts group by k", sql(-1, " GROUP BY k", ' GROUP BY k, "sum_b:part"')
    ),
    "DISTINCT of each task taken for that of all": WrongPlan(
        "select distinct k from facts", sql(-1, " GROUP BY k", "")
    ),
    "count of distinct values added up": WrongPlan(
        "select count(distinct a) as x from facts", sql(-1, "COUNT(DISTINCT a)", "COUNT(a)")
    ),
    "count over no partial groups is NULL": WrongPlan(
        "select count(*) as n, sum(b) as s, count(distinct a) as x from facts where i < 0",
        sql(-1, "coalesce(CAST(sum(\"count:part\") AS BIGINT), CAST('0' AS BIGINT))", 'sum("count:part")'),
    ),
    "grouping set lost in the final phase": WrongPlan(SETS, sql(-2, "((k), ())", "((k))")),
    "grouping sets in both phases": WrongPlan(
        SETS, sql(1, "GROUP BY k, m", "GROUP BY GROUPING SETS ((k, m), (k), ())")
    ),
    "coarser grouping sets put out by every task": WrongPlan(SETS, read("partition", "all", last=True)),
    "coarser grouping sets of each task put out": WrongPlan(
        SETS, sql(-2, 'sum("sum_b:part") AS sum_b', 'unnest(list("sum_b:part")) AS sum_b')
    ),
    "partial counts counted for the coarser grouping sets": WrongPlan(
        COUNTED_SETS, sql(2, 'sum("count:part")', 'count("count:part")')
    ),
    "key of none of the coarser grouping sets left filled": WrongPlan(
        SETS, sql(-2, "CAST(CAST(NULL AS BIGINT) AS BIGINT) AS m", "CAST(7 AS BIGINT) AS m")
    ),
    "GROUPING of a key of none of the coarser sets": WrongPlan(COUNTED_SETS, sql(-2, "(1 + 2 *", "(0 + 2 *")),
    "too few first ranks of a task": WrongPlan(SIX_RANKED, sql(-2, "<= 6", "<= 1")),
    "ranks in each task in another order": WrongPlan(RANKED, sql(-2, "BY b DESC", "BY b ASC")),
    "NULLs ranked first in each task": WrongPlan(RANKED, sql(-2, "BY b DESC", "BY b DESC NULLS FIRST")),
    "first ranks of each task not ranked again": WrongPlan(RANKED, sql(-1, "(rank_2 <= 2)", "true")),
    "ranks in each task within other partitions": WrongPlan(SIX_RANKED, sql(-2, "PARTITION BY k ORDER", "ORDER")),
    "first rows of each task not cut again": WrongPlan(TOP, sql(-1, "LIMIT 7", "")),
    "too few first rows of a task": WrongPlan(TOP, sql(-2, "LIMIT 7", "LIMIT 1")),
    "first rows of a task in another order": WrongPlan(TOP, sql(-2, "k ASC", "k DESC")),
    "first rows of a task with NULLs first": WrongPlan(
        "select k, a, i from facts order by k desc nulls last, a, i limit 12", sql(-2, "NULLS LAST", "NULLS FIRST")
    ),
    "offset taken in every task": WrongPlan(
        "select k, a, i from facts order by k, a, i limit 7 offset 3", sql(-2, "LIMIT 10", "LIMIT 7 OFFSET 3")
    ),
    "UNION ALL of the tasks' UNIONs": WrongPlan(
        "select k from facts union select k from other", sql(-1, " GROUP BY k_3", "")
    ),
}
