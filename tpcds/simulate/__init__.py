"""The duration of tasks in a simulation, and of steps of sweeps.

::

    workload.py         the queries with their plans, as the paper's cluster runs them
    measuring.py        measures stages on small data
    extrapolation.py    from small data to large
    ground_truth.py     what happens to the tasks
    replica.py          a real machine as the simulator sees it
    fidelity.py         real runs against their simulation
    fidelity_figures.py its figures
    shared_cluster.py   the cluster that many jobs share
    sweeps.py           sweeps of known curves
"""
