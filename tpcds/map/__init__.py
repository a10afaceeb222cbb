"""A map of where changing plan pays: single queries in virtual time, in a grid of changes and in the paper's classes.

::

    cells.py        the axes of the map, and which queries go through them
    systems.py      the compared systems, in one situation
    simulate.py     one item of the map: a query in a cell
    clairvoyant.py  the ceiling: schedules of plans with the future known
    classes.py      the classes of profiles that are nearer to the paper's
    cluster.py      what the jobs of a simulated Tetris cluster hold
    records.py      results, and what follows from them
    pictures.py     heat maps
    commands.py     ``qoop bench map | paper``
"""
