"""The interactive shell: ``qoop``, ``qoop DIR``, ``qoop file.duckdb``.

::

    shell.py          what commands act on: runs and prints, without a prompt
    interactive.py    the shell at a terminal: a prompt, texts that are typed ahead
    tokens.py         the words of SQL in an unfinished text
    typed.py          what is typed: commands and statements, whole or not
    commands.py       all commands by name; \\help, \\q
    table_commands.py     \\d, \\functions, \\register …
    query_commands.py     \\bg, \\jobs, \\cancel, \\suspend …
    sweep_commands.py     \\sweep, \\sweeps
    engine_commands.py    \\resize, \\profile, \\explain …
    answer_commands.py    \\mode, \\save, \\page, \\o …
    command.py        a command
    habits.py         \\e, \\watch, \\!, \\set, .import, as in psql and DuckDB
    variables.py      :name in a statement
    names.py          names of keywords, functions, tables and columns
    completer.py      what may come next
    highlighting.py   colours of a query while it is typed
    growing_table.py  an answer that grows, on the screen
    jobs.py           queries of this session, in front and in the background
    live.py           a running query on the screen, with a line for commands
"""
