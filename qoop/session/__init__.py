"""A session: `Session` is its interface; each other module does one part of its work.

::

    opening.py        `connect`, `sql` and `resume`
    session.py        `Session`
    programs.py       what it runs that is more than one job: its base class
    registration.py   its tables and functions
    starting.py       starts jobs by their plans
    parts.py          machines, cluster and trace, made of a configuration; all end with the session
    options.py        SET: slots and memory, the terms of jobs, the goal of answers that grow
    texts.py          queries with the values of variables and PIVOTs
    cursors.py        connections and cursors of PEP 249, and their errors
    frames.py         data frames of the program, found by the names of its variables
    execution.py      runs each statement of a text
    rare.py           statements that few sessions run: databases, macros, extensions, prepared ones, moves
    explanations.py   EXPLAIN in its forms
    earlier_runs.py   runs that did not end: why a new run cannot use their outputs, how often processes are lost
    until_done.py     runs a query over the lives of many processes
    lives.py          the records of such runs, and their list
    stops.py          announced ends of the process: signals, its time, notices
    slices.py         a query in slices of time; `lambda_handler`
    pages.py          the live page, loaded by its name
    suspension.py     writes a job to a bundle, and goes on with one
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qoop.session.opening import connect, resume, sql
    from qoop.session.session import Session

__all__ = ["Session", "connect", "resume", "sql"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    from qoop.session import opening

    return getattr(opening, name)
