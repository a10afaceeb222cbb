"""Materialized views: the answer to a query is kept, and refreshed at the cost of what has changed.

    new files ──a query over these alone──> partial groups, a leaf of the tree ──merged by eight──> nodes
    open nodes ──merged and finished──> the rows of an edition, written with the record of its files

Nothing is ever subtracted: a replaced, removed or late file changes its leaf and the nodes above.

::

    tree.py         which parts there are, by content; pure
    delta.py        which sums of a query have partial groups, or the reason why they have none
    distinct.py     DISTINCT rows as groups
    below/          groups below joins, which are joined again when a dimension has changed
    incremental.py  a query that is computed by parts, and the parts of one refresh
    merging.py      merges partial groups and finishes them
    planning.py     plans over pinned tables
    small_leaves.py computes the parts of few rows without a job
    query_limit.py  interrupts queries that take long after all
    sampling.py     new files that are read in part, and the intervals of sums over them
    refreshing.py   computes the rows of an edition
    edition.py      the record of an edition and the definition of a view
    history.py      the lags of a view over time
    sharing.py      the shares of views where their thread lacks time; pure
    freshness.py    when to refresh a view with a lag goal; pure
    allocation.py   shares and qualities of views, by MAXMIN or MAXSUM of their utilities; fair shares; pure
    owner.py        the thread that refreshes the views of a session by their goals
    watching.py     folders of tables that the system reports changes of
    views.py        the views of a session
    statements.py   their statements
    chains.py       views that read views; pure
"""
