"""Views as files in the folder ``views`` next to the tables, since each command of dbt runs in a new process.

::

    views/NAME.sql          the query of a view
    views/SCHEMA/NAME.sql   the same, in a schema other than ``main``
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from qoop.catalog.errors import QoopError
from qoop.catalog.lexer import quoted
from qoop.catalog.value import value
from qoop.session.session import Session

MAIN = "main"
"""The schema whose tables and views need no schema before their name."""


@value
class KeptView:
    """A view as read from its file."""

    schema: str
    name: str
    query: str

    @property
    def statement(self) -> str:
        """The statement that creates it."""
        place = "" if self.schema == MAIN else f"{quoted(self.schema)}."
        return f"CREATE OR REPLACE VIEW {place}{quoted(self.name)} AS {self.query}"

    @property
    def path(self) -> Path:
        """Its file, relative to the folder of views."""
        return Path(*([] if self.schema == MAIN else [self.schema]), f"{self.name}.sql")


class KeptViews:
    """The views of a folder of tables."""

    def __init__(self, tables: Path) -> None:
        self._folder = tables / "views"

    def keep(self, view: KeptView) -> None:
        """Write a view, whole or not at all."""
        path = self._folder / view.path
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{os.getpid()}.{view.name}")
        draft.write_text(view.query, encoding="utf-8")
        os.replace(draft, path)

    def forget(self, view: KeptView) -> None:
        """Remove a view; it need not be there."""
        (self._folder / view.path).unlink(missing_ok=True)

    def create(self, session: Session) -> Mapping[str, QoopError]:
        """Create all views in a session, in an order that lets each refer to others; return the errors of the rest."""
        left = [*self._read()]
        while True:
            failed: list[tuple[KeptView, QoopError]] = []
            for view in left:
                try:
                    session.sql(view.statement)
                except QoopError as error:
                    failed.append((view, error))
            if not failed or len(failed) == len(left):
                return {str(view.path.with_suffix("")): error for view, error in failed}
            left = [view for view, _ in failed]

    def _read(self) -> Iterator[KeptView]:
        for pattern in ("[!.]*.sql", "*/[!.]*.sql"):
            for path in sorted(self._folder.glob(pattern)):
                schema = MAIN if path.parent == self._folder else path.parent.name
                yield KeptView(schema, path.stem, path.read_text(encoding="utf-8"))
