"""The interactive shell: ``qoop``, ``qoop DIR``, ``qoop file.duckdb``.

::

    typed.py         what is typed: a command, or statements, whole or not
    names.py         what there is to be named: keywords, functions, tables, columns
    completer.py     what may come next               highlighting.py   what it looks like
    view.py          a running query as lines         live.py           the same on the screen, with a line for commands
    jobs.py          queries of this session, in front and in the background
    commands.py      \\d, \\resize, \\jobs …            shell.py          reads, runs, prints
"""
