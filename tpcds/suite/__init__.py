"""The paper's evaluation (paper section 6) in virtual time: parts that are measured, kept, drawn and reported.

::

    commands.py     ``qoop bench suite`` and ``qoop bench report``
    situations.py   which query meets which profile
    micro.py        single queries under profiles
    macro.py        many jobs on one cluster
    ablation.py     one part of re-planning changed at a time
    toy.py          the toy query of figure 2.4
    markets.py      what the profiles are like
    runs.py         records of single-query runs
    runner.py       items -> processes -> a file of results
    versions.py     which code a result comes from
    criteria.py     what the evaluation must show, and whether it does
    figures.py      the figures of single queries, and the list of all
    cluster_figures.py  the figures of many jobs, of capacity and of the simulator
    charts.py       charts in one style
    report.py       the page
"""
