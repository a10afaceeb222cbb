"""Estimators from pieces that were drawn at random without replacement. Each names the source of its formula.

A piece is the unit that is drawn (cluster sampling), so rows within a piece may be as alike as they like.

::

    total.py      a sum, or a number of rows
    ratio.py      an average, or a ratio of two sums
    variance.py   the variance of rows, and their standard deviation
    distinct.py   the number of distinct values
    order.py      quantiles of the rows, such as the median
    look.py       a look at the answer, and the ends of intervals at it
    moments.py    sums of the powers of totals of pieces
    of_values.py  intervals of distinct counts and quantiles
    skewness.py   whether a normal interval may be trusted yet
    student.py    quantiles of Student's distribution
    unseen.py     the most that groups may be in, of which nothing was seen
"""
