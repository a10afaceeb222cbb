"""The module that dbt imports for ``type: qoop``; installed as ``dbt.adapters.qoop``.

::

    __version__.py  the version that dbt prints
"""

from pathlib import Path

from dbt.adapters.base import AdapterPlugin

import qoop.interfaces.adapters.dbt
from qoop.interfaces.adapters.dbt.adapter import QoopAdapter
from qoop.interfaces.adapters.dbt.connections import QoopCredentials

Plugin = AdapterPlugin(
    adapter=QoopAdapter,
    credentials=QoopCredentials,
    include_path=str(Path(qoop.interfaces.adapters.dbt.__file__).parent / "include"),
    project_name="dbt_qoop",
)
