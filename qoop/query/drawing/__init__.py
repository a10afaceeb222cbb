"""Output for people: text, SVG, HTML.

::

    explaining.py   EXPLAIN in its forms
    analysis.py     lines on stages that have run, for EXPLAIN ANALYZE
    html.py         results and jobs in a notebook
    formats.py      an answer as a table, CSV or JSON
    separated.py    an answer as lines of CSV
    table_text.py   an answer fitted to the terminal
    value_text.py   values as texts, as DuckDB writes them
    view.py         a running query as lines
    drawing.py      a plan as boxes
    timeline.py     a job as bars over time
    profiles.py     capacity over time
    axis.py         marks of an axis
    terminal.py     size and colours of the terminal
    picture.py      SVG as a file, as PNG, in a page
"""
