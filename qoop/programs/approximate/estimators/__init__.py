"""Estimators from pieces that were drawn at random without replacement. Each names the source of its formula.

The drawn unit is a piece (cluster sampling), so the rows within a piece may be alike.

::

    total.py      a sum, or a number of rows
    ratio.py      an average, or a ratio of two sums
    variance.py   the variance of rows, and their standard deviation
    distinct.py   the number of distinct values
    order.py      quantiles of the rows, such as the median
    interim.py    an interim analysis of the answer, and the ends of its intervals
    moments.py    sums of the powers of totals of pieces
    of_values.py  intervals of distinct counts and quantiles
    skewness.py   the pieces that a normal interval needs
    student.py    quantiles of Student's distribution
    unseen.py     the largest part of the pieces that an unobserved group may be in
"""
