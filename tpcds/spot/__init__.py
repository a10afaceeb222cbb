"""SQL engines under recorded spot markets: the cost of an answer on machines that come and go.

::

    markets.py     recorded traces, by name and digest
    timeline.py    from a trace to the times at which a machine is up
    tasks.py       the classes of work, and their texts
    chain.py       the texts of the class *chain*
    entrants.py    the engines, each in an environment of its own
    adapters/      their programs
    course.py      one run, without process or clock
    machine.py     the processes of a run
    limits.py      the CPUs and memory of a machine that is resized
    driver.py      the driver, a process of its own
    driving.py     starts it
    answers.py     the judge
    records.py     the records of runs
    measures.py    the measures
    summary.py     the figures of the page
    bench.py       makes the runs
    sent.py        checks results that others send
    page.py        the page
    commands.py    ``qoop bench spot``
"""
