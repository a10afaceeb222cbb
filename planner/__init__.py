"""From SQL text to plans, with an estimate of when each plan finishes. Pure: no IO, no clock.

::

    planner.py     the steps from a bound query to a plan
    parse_tree.py  DuckDB's parse tree of a query, and the one walk over it
    sql/           text -> relation
    rules/         relation -> relation, without statistics
    algebra/       relations and expressions, and proofs about them
    estimate/      rows and costs
    join_order/    the order of joins
    arrange/       rewrites that need estimates
    exchange/      where rows move between tasks, and stages as SQL
    plan.py        stages and plans, which the engine runs
    packing.py     places tasks on machines
    finish.py      estimates when a plan finishes on a share of the resources
    shared_links.py  the network links of the machines of a share
    identity/      the identity of outputs: signatures and containment
    search/        many plans for one query, and their common parts
    whole_query.py DuckDB's own plan of a query
    variants.py    the choices a planner makes, as values
    explain.py     a plan as text
    readable.py    the operators of a stage in words that its user knows
    plan_json.py   plans as JSON
    lock.py        the rights of SQL in a locked session
    light.py       the texts that cannot take much memory or time
    options.py     DuckDB's options that change results
    ending.py      ends a search whose plans are of no use any more
    collector.py   pauses garbage collection while a query is planned
"""
