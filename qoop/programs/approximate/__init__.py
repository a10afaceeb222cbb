"""Answers that grow: a query with aggregates is computed from a growing part of its largest table.

    text ──`eligibility`──> a `Growth` ──`round_sql`──> a query over some pieces of the table, run as any job
    its answer ──`totals`──> sums of the groups so far ──`estimators/`──> estimates with intervals ──> an edition

`qoop.programs.rounds` decides what comes next, without IO and without a clock: another round, an edition, the end.

::

    answer.py        a growing answer: the result of `Session.approximate`
    start.py         from a query to a growing answer, or to the reason why it does not grow
    core.py          the sums of a query, and the query around them
    edition.py       one state of the answer with notes on it, and the sequence of states
    explaining.py    the growth of an answer, in words
    eligibility.py   which queries can grow, and from which sums
    figures.py       the columns of an answer as sums that merge
    worth_it.py      predicts by statistics which answers would grow in vain
    target.py        the width and confidence of intervals; options of an answer; the gain of a round
    growth.py        a query that grows, as values
    intervals.py     intervals of the figures of all groups
    names.py         the column or item that a name means
    planning.py      the rounds of an answer, and plans of their queries
    final_round.py   the last round: the pieces that are left, or the query itself
    round_sql.py     the query of a round, and that of an edition
    schedule.py      the pieces of each round, and the confidence of each interim edition
    status.py        predicts when an answer meets its target and when it is exact
    totals.py        sums of the groups over all rounds
    universe.py      joins of large tables by buckets of their key
    values.py        observed values of figures that do not add up
    estimators/      a formula a file, with its source
"""
