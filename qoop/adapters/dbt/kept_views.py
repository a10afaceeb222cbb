"""Views as files in the folder ``views`` next to the tables: each command of dbt is a process of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from qoop.catalog.errors import QoopError
from qoop.catalog.lexed import quoted
from qoop.session import Session


class KeptViews:
    """The views of a folder of tables."""

    def __init__(self, tables: Path) -> None:
        self._folder = tables / "views"

    def keep(self, name: str, query: str) -> None:
        """Write a view, whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".{os.getpid()}.{name}"
        draft.write_text(query, encoding="utf-8")
        os.replace(draft, self._folder / f"{name}.sql")

    def forget(self, name: str) -> None:
        """Remove a view; it need not be there."""
        (self._folder / f"{name}.sql").unlink(missing_ok=True)

    def create(self, session: Session) -> Mapping[str, QoopError]:
        """Create all of them in a session, in an order that lets each name others; returns those that cannot be."""
        left = {path.stem: path.read_text(encoding="utf-8") for path in sorted(self._folder.glob("[!.]*.sql"))}
        while True:
            failed: dict[str, QoopError] = {}
            for name, query in left.items():
                try:
                    session.sql(create_view(name, query))
                except QoopError as error:
                    failed[name] = error
            if not failed or len(failed) == len(left):
                return failed
            left = {name: left[name] for name in failed}


def create_view(name: str, query: str) -> str:
    """The statement that creates a view."""
    return f"CREATE OR REPLACE VIEW {quoted(name)} AS {query}"
