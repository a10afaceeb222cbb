"""Texts of users that are bound in child processes, with limits of their own.

::

    text_isolation.py  decides which texts these are, and binds them
    fair_turns.py      a few of them at a time, and tenants take turns
    isolated_texts.py  the functions of a child process for such a text
"""
