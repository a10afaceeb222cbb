"""Relations and expressions: immutable trees, and what can be proven about them.

::

    expr.py             scalar expressions
    relation.py         logical operators
    types.py            types and constant values of expressions, by DuckDB
    query_timestamp.py           the time that ``now()`` means in all tasks of a query
    traversal.py        walks and rebuilds relations
    properties.py       what holds for an expression or a relation
    fold_constants.py   simplifies expressions
    factor.py           takes common factors out of an OR
    implication.py      which predicates follow from others
    canonical_text.py   equal text for equal expressions
    two_phase.py        partial aggregates and their merge
    grouping_sets.py    grouping sets in two branches
    cascade.py          grouping sets made from each other
    float_order.py      sums whose last digits decide something
    facts.py            the factors and predicates of a stage's rows, for containment
    interning.py        one object for equal relations
    outline.py          a relation in one line
"""
