"""The larger sub-commands of ``qoop``; `qoop/__main__.py` has the others.

::

    calibration.py   ``qoop calibrate``: the constants of this machine
    cluster.py       ``qoop cluster``: nodes of a Ray cluster, and the sessions on them
    loading.py       loads Arrow without NumPy
    profile.py       ``qoop profile``: list, show, draw, convert, statistics
    replay.py        ``qoop replay``: tells a trace and checks it
    resume.py        ``qoop resume``: goes on with a suspended job
    run.py           ``qoop run`` and ``qoop runs``: queries that survive their processes
    serve.py         ``qoop serve``: its options, the session, the end at a signal
    serve_check.py   ``qoop serve --check-config``: all faults of a configuration
    serve_loading.py loads what the first long query of a server needs
    words.py         the words of a command line in the order in which argparse takes them
"""
