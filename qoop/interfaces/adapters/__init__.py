"""Adapters to what other tools speak; each is an extra, and loaded by the tool that asks for it.

::

    airflow.py       ``QoopOperator``, a task of Airflow that goes on in its next try
    alchemy.py       a dialect of SQLAlchemy 2: ``create_engine("qoop:///DIR")``
    dbt/             an adapter of dbt: ``type: qoop`` in a profile
    ibis_backend.py  a backend of ibis: ``ibis.qoop.connect("DIR")``
    types.py         types of DuckDB as SQLAlchemy's
"""
