"""Measurements of the planner's estimates against the facts.

::

    alternatives.py   how many different plans each query has
"""
