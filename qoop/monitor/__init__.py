"""Watching the machine: what control groups allow and what other programs take becomes what a session may use.

machine.py (what is to be read) -> reading.py (values) -> judging.py (when it matters) -> watch.py (the session)
"""
