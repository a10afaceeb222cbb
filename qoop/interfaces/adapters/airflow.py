"""``QoopOperator``, a task of Airflow 3: a query that goes on where the last try of the task stopped.

Airflow kills a task 5 s after its SIGTERM, and a worker may vanish. The next try, on any worker that has the place of
the checkpoints, uses the finished outputs of all tries before. ``retries`` and ``execution_timeout`` are Airflow's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from qoop.session.opening import connect
from qoop.session.stops import Stops
from qoop.session.until_done import END_OF_TIME, LifeOptions, output_of, run_life

_GRACE = 4.0
"""Seconds before an end at which the query stops."""


class QoopOperator(BaseOperator):  # type: ignore[misc]
    """Run a query until it is done, and write its answer to a file or table, which is the value of the task.

    sql: the query, or the name of a file that ends in .sql. data, options: as for :func:`qoop.connect`. place: the
    folder or store of checkpoints, which all workers share. out, replace: as for `Session.run_until_done`.
    """

    template_fields: Sequence[str] = ("sql", "place", "out", "data")
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql": "sql"}

    def __init__(
        self, *, sql: str, place: str, out: str, data: Sequence[str] = (), replace: bool = False,
        options: Mapping[str, Any] | None = None, **airflow: Any,
    ) -> None:  # fmt: skip
        super().__init__(**airflow)
        self.sql, self.place, self.out = sql, place, out
        self.data, self.replace, self.options = list(data), replace, dict(options or {})
        self._stops: Stops | None = None

    def execute(self, context: Mapping[str, Any]) -> str:
        """Run the query. Raises AirflowException if it stopped in time, so that Airflow tries the task again."""
        self._stops = stops = Stops()
        if self.execution_timeout is not None:
            stops.announce(END_OF_TIME, self.execution_timeout.total_seconds())
        options: Any = {"staged": True, **self.options, "checkpoints": self.place}
        with connect(*self.data, **options) as session:
            limits = LifeOptions(stops, _GRACE, say=self.log.info)
            life = run_life(session, self.sql, limits, output_of(self.out, self.replace))
        self.log.info(life.message)
        if not life.done:
            raise AirflowException(life.message)
        return self.out

    def on_kill(self) -> None:
        """Stop the query in time: no new task starts, finished outputs are written."""
        if self._stops is not None:
            self._stops.announce("the end of the task", _GRACE)
