"""An edition of a view: what it was computed from, and when. It is written into the file of its rows, with the
definition of the view, so that rows and record change at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, get_args

from qoop.catalog.signed_json import NotAsWritten, NotSealed, opened, sealed
from qoop.catalog.table import has_files
from qoop.catalog.value import value
from qoop.programs.views.tree import Leaf, Tree, changes
from qoop.query.statements.materialized import RefreshMode, ViewOptions

if TYPE_CHECKING:
    from qoop.catalog.table import Compaction, Table

_FORMAT = "qoop-view-3"
_BEFORE = ("qoop-view-2", "qoop-view-1")
"""The first had one tree without the name of its table: a refresh computes the parts again. Neither had samples."""


@value
class Definition:
    """name: of the view. text: its query."""

    name: str
    text: str
    options: ViewOptions


@value
class Base:
    """A table that an edition was computed from. files: identities by path; none of other tables."""

    version: str
    files: Mapping[str, str]

    @classmethod
    def of(cls, table: Table) -> Base:
        """The base that a table is now."""
        source = table.source
        return cls(table.version, source.identities() if has_files(source) else {})

    def written_again(self, now: Base, compactions: Sequence[Compaction]) -> Base:
        """The same rows in the files that have them now; `now` itself, if it has these and no others.

        compactions: of the table, in their order.

        >>> from qoop.catalog.table import Compaction
        >>> before = Base("1", {"a": "x", "b": "y"})
        >>> before.written_again(Base("2", {"p": "z", "c": "w"}), [Compaction(("a", "b"), ("p",))]).files
        {'p': 'z'}
        """
        if not compactions:
            return self
        files = dict(self.files)
        for one in compactions:
            if files.keys() >= set(one.gone):
                files = {path: identity for path, identity in files.items() if path not in one.gone}
                files |= {path: now.files.get(path, "") for path in one.came}
        return now if files != self.files and files == now.files else Base(self.version, files)


@value
class Edition:
    """at: the time when its tables were read, in seconds since 1970. bases: by name of table.

    trees: of its partial groups, by table; none if it was computed from all rows. why_full: the reason of that, or
    empty. rows: of the view. rows_read: of the files, or tables, that were read for it. seconds: that it took.
    """

    at: float
    bases: Mapping[str, Base]
    trees: Mapping[str, Tree]
    why_full: str
    rows: int
    rows_read: int
    seconds: float
    one_in: int = 1
    error: float = 0.0
    changes: Mapping[str, float] = field(default_factory=dict)


def written(definition: Definition, edition: Edition, key: bytes) -> str:
    """The definition and the edition as a sealed text."""
    options = definition.options
    body = {
        "format": _FORMAT, "name": definition.name, "text": definition.text, "target_lag": options.target_lag,
        "refresh_mode": options.refresh_mode, "at": edition.at, "why_full": edition.why_full, "rows": edition.rows,
        "rows_read": edition.rows_read, "seconds": edition.seconds, "max_error": options.max_error,
        "one_in": edition.one_in, "error": edition.error, "changes": dict(edition.changes),
        "trees": {name: tree.leaves for name, tree in edition.trees.items()},
        "bases": {name: [base.version, dict(base.files)] for name, base in edition.bases.items()},
    }  # fmt: skip
    return sealed(body, key)


def read(text: bytes, name: str, key: bytes) -> tuple[Definition, Edition] | None:
    """The definition and the edition in a text of `written`; None for any other text, or another name."""
    try:
        return _read(opened(text, key), name)
    except (NotAsWritten, NotSealed, KeyError, TypeError, ValueError):
        return None  # the file is a table, or a view of another user


def _read(body: Mapping[str, Any], name: str) -> tuple[Definition, Edition] | None:
    mode: RefreshMode = body["refresh_mode"]
    if body["format"] not in (_FORMAT, *_BEFORE) or body["name"] != name or mode not in get_args(RefreshMode):
        return None
    bases = {one: Base(version, files) for one, (version, files) in body["bases"].items()}
    trees = {name: Tree(_leaves(leaves)) for name, leaves in body.get("trees", {}).items()}
    made = Edition(
        body["at"], bases, trees, body["why_full"], body["rows"], body["rows_read"], body["seconds"],
        body.get("one_in", 1), body.get("error", 0.0), body.get("changes", {}),
    )  # fmt: skip
    return Definition(name, body["text"], ViewOptions(body["target_lag"], mode, body.get("max_error", 0.0))), made


def _leaves(leaves: Sequence[Sequence[Sequence[str]]]) -> tuple[Leaf, ...]:
    return tuple(tuple((path, identity) for path, identity in leaf) for leaf in leaves)


def times_of_changes(states: Iterable[tuple[Base | None, Base | None]]) -> list[float]:
    """The times of the changes between two states of each table; none: they are equal."""
    return [at for now, before in states if now != before for at in _changes_of(now, before)]


def _changes_of(now: Base | None, before: Base | None) -> list[float]:
    if now is None or before is None:
        return [time.time()]
    return [_changed_at(path) for path in changes(before.files, now.files)[1]] or [time.time()]


def _changed_at(path: str) -> float:
    """The time of the last change of a file; the present for one that is not on this machine."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return time.time()
