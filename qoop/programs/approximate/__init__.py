"""Answers that grow: a query with aggregates is computed from more and more of its largest table.

    text ──`eligibility`──> what grows ──`round_sql`──> a query over some pieces of the table, run as any job
    its answer ──`totals`──> sums of the groups so far ──`estimators/`──> estimates with intervals ──> an edition

`qoop.programs.rounds` says what happens next, without IO and without a clock: another round, an edition, the end.

::

    answer.py        a growing answer: what `Session.approximate` gives
    start.py         from a query to a growing answer, or to the reason why it does not grow
    core.py          the sums of a query, and what stands around them
    edition.py       one state of the answer, what else is to be known of it, the states one after the other
    explaining.py    how an answer would grow, in words
    eligibility.py   which queries can grow, and from what sums
    figures.py       what the columns of an answer are made of
    worth_it.py      answers that would grow in vain, by statistics
    target.py        how narrow intervals are to be, and how sure; the gain of a round
    growth.py        what is known of a query that grows: values
    intervals.py     intervals of the figures of all groups
    names.py         which column or item a name means
    planning.py      plans the query of a round
    final_round.py   what the last round reads
    round_sql.py     the query of a round, and that of an edition
    schedule.py      which pieces each round reads, and how sure each look must be
    status.py        when an answer should meet its target, and be exact
    totals.py        sums of the groups over all rounds
    universe.py      joins of large tables by buckets of their key
    values.py        the values seen of figures that do not add up
    estimators/      a formula a file, with its source
"""
