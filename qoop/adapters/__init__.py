"""Adapters to what other tools speak; each is an extra, and loaded by the tool that asks for it.

::

    alchemy.py     a dialect of SQLAlchemy 2: ``create_engine("qoop:///DIR")``
    types.py       types of DuckDB as SQLAlchemy's
"""
