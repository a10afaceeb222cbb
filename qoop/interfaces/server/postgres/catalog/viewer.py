"""The client whose question about the catalog is answered: what it may see, and do to its own connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from qoop.catalog.value import value
from qoop.interfaces.server.postgres.catalog.settings import ClientSettings


@value
class Activity:
    """A connection as pg_stat_activity shows it. query: the last text; empty for those of other users."""

    process: int
    user: str
    application: str
    address: str
    since: datetime
    started: datetime | None
    state: str
    query: str


class Connections(Protocol):
    """The connections of a server."""

    def activity(self, user: str) -> Sequence[Activity]:
        """All of them, with the texts of one user's."""
        ...

    def end(self, user: str, process: int, whole: bool) -> bool:
        """Cancel what one of a user's runs, or end it as a whole. False: the user has none of that number."""
        ...


@dataclass(frozen=True)
class Viewer:
    """A client. process: the number of its connection. database: the name that it has connected to."""

    user: str
    database: str = "qoop"
    process: int = 0
    client_settings: ClientSettings | None = None
    connections: Connections | None = None

    def settings(self) -> Mapping[str, str]:
        """Its settings by their names."""
        return self._settings.all()

    def activity(self) -> Sequence[Activity]:
        """The connections of the server."""
        return self.connections.activity(self.user) if self.connections is not None else ()

    def end(self, process: int, whole: bool) -> bool:
        """Cancel what a connection of the same user runs, or end it as a whole."""
        return self.connections is not None and self.connections.end(self.user, process, whole)

    def configure(self, name: str, to: str | None, local: bool) -> str:
        """Set a setting; returns its new value. Raises as `ClientSettings.set` does."""
        self._settings.set(name, to, local)
        return self._settings[name]

    @property
    def _settings(self) -> ClientSettings:
        return self.client_settings if self.client_settings is not None else ClientSettings({})
