"""Measurements of the planner's estimates against the facts.

::

    alternatives.py   how many different plans each query has
    qerror.py         estimated rows against counted rows
    stage_cost.py     estimated seconds against measured seconds
"""
