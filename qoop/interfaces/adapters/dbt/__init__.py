"""An adapter of dbt: ``type: qoop`` in a profile. dbt finds it as ``dbt.adapters.qoop``, which is the folder plugin;
its macros lie in the folder include.

::

    adapter.py      relations, columns and types as dbt asks for them
    connections.py  the profile, and the session that all threads of dbt share
    kept_views.py   views as files next to the tables, so that the next command of dbt has them
    plugin/         what dbt imports
"""
