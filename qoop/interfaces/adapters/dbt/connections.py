"""The profile of dbt, and the session that its threads share.

::

    shop:
      target: dev
      outputs:
        dev:
          type: qoop
          schema: main
          path: warehouse         # the folder of tables and views that models become
          data: [raw]             # folders and files that are read
          threads: 2
          checkpoints: kept       # a folder or store; the next command goes on inside the model that was killed
          options: {memory: 2GB}  # of qoop.connect
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState, Credentials
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sql import SQLConnectionManager
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

import qoop
from qoop.catalog.errors import QoopError
from qoop.interfaces import dbapi
from qoop.interfaces.adapters.dbt.kept_views import MAIN, KeptViews

_log = AdapterLogger("qoop")


@dataclass
class QoopCredentials(Credentials):  # type: ignore[misc]
    """The keys of a profile. path: the folder of tables. data: the sources. checkpoints: the folder or store of outputs
    that outlive the process. options: of :func:`qoop.connect`."""

    database: str = "qoop"
    schema: str = MAIN
    path: str = "warehouse"
    data: list[str] = field(default_factory=list)
    checkpoints: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The name of the adapter."""
        return "qoop"

    @property
    def unique_field(self) -> str:
        """The place of its data."""
        return str(Path(self.path).resolve())

    def _connection_keys(self) -> tuple[str, ...]:
        return ("database", "schema", "path", "data", "checkpoints", "options")


class QoopConnectionManager(SQLConnectionManager):  # type: ignore[misc]
    """Connections of dbt's threads. All share the session of the project; `cleanup_all` closes it."""

    TYPE = "qoop"
    _sessions: ClassVar[dict[str, qoop.Session]] = {}
    _one_at_a_time: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Open the connection of a thread."""
        if connection.state != ConnectionState.OPEN:
            connection.handle = dbapi.connect(session=cls.session_of(connection.credentials))
            connection.state = ConnectionState.OPEN
        return connection

    @classmethod
    def session_of(cls, credentials: Any) -> qoop.Session:
        """The session of a profile, opened at the first call. Raises DbtRuntimeError."""
        with cls._one_at_a_time:
            found = cls._sessions.get(credentials.unique_field)
            if found is None:
                try:
                    found = _opened(credentials)
                except (QoopError, TypeError) as error:
                    raise DbtRuntimeError(f"the profile of qoop: {error}") from error
                cls._sessions[credentials.unique_field] = found
            return found

    def session(self) -> qoop.Session:
        """The session of this project."""
        return self.session_of(self.profile.credentials)

    @property
    def views(self) -> KeptViews:
        """The views of this project."""
        return KeptViews(Path(self.profile.credentials.path))

    def cleanup_all(self) -> None:
        """Close the session; tables and views stay in their folder."""
        super().cleanup_all()
        with self._one_at_a_time:
            session = self._sessions.pop(self.profile.credentials.unique_field, None)
        if session is not None:
            session.close()

    def cancel(self, connection: Connection) -> None:
        """Cancel all jobs: dbt cancels all or none."""
        for job in self.session().jobs():
            job.cancel()

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Errors become those of dbt."""
        try:
            yield
        except dbapi.Error as error:
            _log.debug(f"failed: {sql}")
            raise DbtDatabaseError(str(error)) from error

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        """The response that dbt prints after a statement."""
        rows = max(0, cursor.rowcount)
        return AdapterResponse(_message="OK", rows_affected=rows)

    def add_begin_query(self) -> None:
        """Statements take effect at once."""

    def add_commit_query(self) -> None:
        """Statements have taken effect."""


def _opened(credentials: QoopCredentials) -> qoop.Session:
    tables = Path(credentials.path)
    tables.mkdir(parents=True, exist_ok=True)
    durable = {"checkpoints": credentials.checkpoints, "staged": True} if credentials.checkpoints else {}
    session = qoop.connect(**{**durable, **credentials.options, "tables": tables})
    try:
        for path in credentials.data:
            session.register_path(path)
        for name, error in KeptViews(tables).create(session).items():
            _log.warning(f"the view {name} is of no use until it is built again: {error}")
    except BaseException:
        session.close()
        raise
    return session
