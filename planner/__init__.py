"""From SQL text to plans, and when each plan would finish. Pure: no IO, no clock.

::

    planner.py     the way from a bound query to a plan, one step a line
    sql/           text -> relation
    rules/         relation -> relation, without statistics
    algebra/       relations and expressions, and what can be proven about them
    estimate/      rows and costs
    join_order/    the order of joins
    arrange/       rewrites that need estimates
    exchange/      where rows change tasks, and stages as SQL
    plan.py        stages and plans: what the engine runs
    packing.py     which task fits where
    finish.py      when a plan finishes on a share of the resources
    identity/      what an output means: signatures and containment
    search/        many plans for one query, and what they have in common
    whole_query.py DuckDB's own plan of a query
    variants.py    the choices a planner makes, as values
    explain.py     a plan as text
    codec.py       dataclasses as JSON values
    plan_json.py   plans as JSON
    lock.py        what the SQL of a locked session may do
    options.py     DuckDB's options that change results
    collector.py   garbage collection waits while a query is planned
"""
