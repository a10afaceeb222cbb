"""The materialized views of a session: their definitions, refreshes and states."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from qoop.catalog.errors import CatalogError, QoopError, QueryError, UnknownTable
from qoop.catalog.table import has_files
from qoop.catalog.user_key import user_key
from qoop.catalog.value import value
from qoop.programs.folder_lock import folder_lock
from qoop.programs.parts import Parts
from qoop.programs.views import edition as editions
from qoop.programs.views.chains import effective_goal, to_refresh, upstream
from qoop.programs.views.edition import Base, Definition, Edition
from qoop.programs.views.history import LagHistory, Refreshes
from qoop.programs.views.incremental import NO_SUMS, Below, Incremental
from qoop.programs.views.owner import Owner, Refreshment, Target
from qoop.programs.views.planning import ViewSession
from qoop.programs.views.refreshing import Refreshing
from qoop.programs.views.tree import Losses
from qoop.programs.views.watching import Watching
from qoop.query.result import Result
from qoop.query.statements.materialized import (
    AlterMaterialized,
    CreateMaterialized,
    DropMaterialized,
    RefreshMaterialized,
    RefreshMode,
    TargetLag,
    options_with,
)
from qoop.query.statements.plain_names import reads

_FOLDER = ".views"
"""The folder of partial results, within the folder of tables."""


@value
class ViewStatus:
    """A materialized view now.

    as_of: the time when its tables were read for its edition, in seconds since 1970. lag: seconds since the
    oldest change that is in no edition, also of tables that it reads through other views; 0: there is none.
    target_lag: its goal, or that of the views that read it; None: statements refresh it.
    incremental: its last edition was made of the parts of new files. why_full: else the reason.
    rows: of the view. rows_read, seconds: of the last refresh. files: that the edition is of, and pieces of tables.
    error: of the last refresh; empty: it succeeded. overdue: the part of the last 200 refreshes, in this session,
    that came after the goal.
    max_error: its option. sampled: some new files were read in part, see `sampling.py`. sampling_error: the largest
    half-width of an interval then, relative to its estimate; 0: the rows are exact.
    """

    name: str
    as_of: float
    lag: float
    target_lag: float | None
    refresh_mode: RefreshMode
    incremental: bool
    why_full: str
    rows: int
    rows_read: int
    seconds: float
    files: int
    error: str
    overdue: float
    max_error: float
    sampled: bool
    sampling_error: float


class _View:
    """One view. refreshing: is used under `lock`. error: of the last refresh. changes: the times of those that the last
    comparison of its tables found. note: the text of its definition and edition, where these are durable."""

    def __init__(self, definition: Definition, edition: Edition, refreshing: Refreshing) -> None:
        self.definition = definition
        self.edition = edition
        self.refreshing = refreshing
        self.lock = threading.RLock()
        self.error = ""
        self.refreshes = Refreshes()
        self.changes: Sequence[float] = ()
        self.note = ""

    @property
    def since(self) -> float | None:
        """The time of the oldest change; None: there was none."""
        return min(self.changes, default=None)


class MaterializedViews:
    """The views of one session. Thread-safe."""

    def __init__(self, session: ViewSession) -> None:
        self._session = session
        self._definitions = session.tables.definitions
        self._names = session.tables.names
        self._views: dict[str, _View] = {}
        self._lock = threading.Lock()
        self._watching = Watching()
        self._losses = Losses()
        self._owner = Owner(self, session.log, session.slots, session.busy, session.sharing)
        self._open_folder()
        self._owner.wake()

    def stop(self) -> None:
        """Begin no further refresh."""
        self._owner.stop()

    def close(self) -> None:
        """Wait for the end of a refresh, and release all that the views use; their editions stay."""
        self._owner.close()
        self._watching.close()
        for view in self._all():
            with view.lock:
                view.refreshing.close()
        self._session.leaves.close()
        self._session.merging.close()

    # Statements

    def create(self, statement: CreateMaterialized) -> None:
        """Create a view with its first edition. Raises CatalogError, QueryError, Forbidden, and the errors of jobs."""
        name = self._names.for_materialized(statement.name, statement.replace, statement.unless)
        if name is None:
            return
        if reads(statement.text, name):
            raise CatalogError(f"the materialized view {name} would read itself")
        text = self._definitions.with_plain_names(statement.text)
        self._check_chain(name, text)
        definition = Definition(name, text, statement.options)
        if statement.replace and any(definition == view.definition for view in self._all()):
            self.refresh_view(name)
            return
        refreshing = self._refreshing(definition)
        self._check_mode(definition, refreshing)
        with self._exclusively(name):
            found = refreshing.refreshed(None, whole=True)
            assert found is not None
            rows, made = found
            before = self._views.pop(name.lower(), None)
            if before is not None:
                before.refreshing.close()
            view = _View(definition, made, refreshing)
            self._publish(view, rows, made, definition)
            with self._lock:
                self._views[name.lower()] = view
        self._owner.wake()

    def refresh(self, statement: RefreshMaterialized) -> int:
        """Make a new edition, if the tables have changed; returns the rows of the view. Raises UnknownTable, and what
        the query and its jobs raise; then the old edition stays."""
        view = self._view(statement.name)
        with self._session.tables.comparing_once(self._watching.found_now):
            self.refresh_view(view.definition.name, statement.full)
        return view.edition.rows

    def refresh_view(self, name: str, full: bool = False, one_in: int = 1) -> bool:
        """The same for a name, after the views that it reads with the goal ``downstream``; True if there is a new
        edition."""
        for one in self._before(name):
            self._refresh_one(one, full)
        return self._refresh_one(name, full, one_in)

    def _refresh_one(self, name: str, full: bool, one_in: int = 1) -> bool:
        view = self._views[name.lower()]
        with view.lock, self._exclusively(name):
            self._read_again(view)
            try:
                found = view.refreshing.refreshed(view.edition, full, one_in=one_in)
                if found is not None:
                    self._publish(view, *found, view.definition)
            except QoopError as error:
                view.error = str(error)
                raise
            view.error = ""
            return found is not None

    def alter(self, statement: AlterMaterialized) -> None:
        """Change the options of a view. Raises UnknownTable, ConfigError, QueryError."""
        view = self._view(statement.name)
        name = view.definition.name
        with view.lock, self._exclusively(name):
            self._read_again(view)
            before = view.definition.options
            changed = replace(view.definition, options=options_with(before, statement.changes))
            other_mode = changed.options.refresh_mode != before.refresh_mode
            if other_mode or changed.options.max_error != before.max_error:
                refreshing = self._refreshing(changed)
                self._check_mode(changed, refreshing)
                view.refreshing.close()
                view.refreshing = refreshing
            found = view.refreshing.refreshed(view.edition, whole=other_mode, again=True)
            assert found is not None
            self._publish(view, *found, changed)
        self._owner.wake()

    def drop(self, statement: DropMaterialized) -> None:
        """Drop a view with its edition. Raises UnknownTable."""
        try:
            view = self._view(statement.name)
        except UnknownTable:
            if statement.exists:
                return
            raise
        name = view.definition.name
        with view.lock, self._exclusively(name):
            self._definitions.drop_materialized(name)
            with self._lock:
                self._views.pop(name.lower(), None)
            view.refreshing.close()
            self._parts(name).keep_only(())

    def explained(self, statement: CreateMaterialized) -> str:
        """The way in which the view of a CREATE would be refreshed, in words. Raises QueryError, CatalogError."""
        refreshing = self._refreshing(Definition(statement.name[-1], statement.text, statement.options))
        try:
            way = refreshing.way()
        finally:
            refreshing.close()
        return f"Each refresh computes the view from all rows: {way}." if isinstance(way, str) else _in_words(way)

    def statuses(self) -> list[ViewStatus]:
        """All views, in order of name."""
        return [self._status(view) for view in sorted(self._all(), key=lambda view: view.definition.name)]

    def histories(self) -> list[LagHistory]:
        """The lags of all views over time, in order of name; no table is compared for them."""
        bases, goals = self._bases(), self._goals()
        return [
            LagHistory(
                name, effective_goal(name.lower(), bases, goals), not view.edition.why_full, view.error,
                view.refreshes.all(), view.since, view.edition.error,
            )
            for name, view in sorted((view.definition.name, view) for view in self._all())
        ]  # fmt: skip

    def targets(self) -> Mapping[str, Target]:
        """The goals of the views that have a lag goal, by name."""
        options = {view.definition.name: view.definition.options for view in self._all()}
        return {
            name: Target(one.target_lag, one.max_error)
            for name, one in options.items()
            if isinstance(one.target_lag, float)
        }

    def last(self, name: str) -> Refreshment:
        """The last edition of a view."""
        made = self._views[name.lower()].edition
        return Refreshment(made.rows_read, made.one_in, made.error)

    def note_error(self, name: str, error: Exception) -> None:
        """Show an error in the status of a view, until a refresh succeeds."""
        view = self._views.get(name.lower())
        if view is not None:
            view.error = str(error)

    def comparing_once(self) -> AbstractContextManager[set[str]]:
        """See `SessionTables.comparing_once`."""
        return self._session.tables.comparing_once(self._watching.found)

    def behind(self, name: str) -> float | None:
        """The time of the oldest change that a refresh of a view would take over; None: there is none. Raises
        SourceError, TableChanged."""
        return self._behind([*self._before(name), name])

    def _before(self, name: str) -> list[str]:
        """The views that a refresh of a view refreshes before."""
        bases = self._views[name.lower()].edition.bases
        if not any(map(self._names.is_materialized, bases)):
            return []
        return to_refresh(name.lower(), self._bases(), self._goals())

    def _behind(self, names: Iterable[str]) -> float | None:
        return min((since for name in names if (since := self._behind_one(name)) is not None), default=None)

    def _behind_one(self, name: str) -> float | None:
        view, tables = self._views[name.lower()], self._session.tables
        self._read_again(view)
        tables.check_tables(view.edition.bases)
        found = {one: tables.catalog.find(one) for one in view.edition.bases}
        _ = tables.pinned({one: table for one, table in found.items() if table is not None})
        view.changes = editions.times_of_changes(self._compared(view))
        return view.since

    def changes_of(self, name: str) -> Sequence[float]:
        """The times of the changes that the last `behind` has found."""
        return self._views[name.lower()].changes

    def losing(self, tables: Iterable[str]) -> set[str]:
        """The views that read one of these tables of which files were replaced or removed since the last call."""
        found = {name.lower(): self._session.tables.catalog.find(name) for name in tables}
        lost = [
            name for name, table in found.items()
            if table is not None and self._losses.since_last(name, Base.of(table).files)
        ]  # fmt: skip
        return {view.definition.name for view in self._all() if not view.edition.bases.keys().isdisjoint(lost)}

    # Inside

    def _bases(self) -> Mapping[str, Collection[str]]:
        """The tables that each view reads, in lower case."""
        return {view.definition.name.lower(): [one.lower() for one in view.edition.bases] for view in self._all()}

    def _goals(self) -> Mapping[str, TargetLag]:
        return {view.definition.name.lower(): view.definition.options.target_lag for view in self._all()}

    def _goal(self, definition: Definition) -> float | None:
        """The lag goal of a view, see `effective_goal`."""
        goal = definition.options.target_lag
        if goal != "downstream":
            return goal
        return effective_goal(definition.name.lower(), self._bases(), self._goals())

    def _check_chain(self, name: str, text: str) -> None:
        """Raise CatalogError for a view that would read itself through other views."""
        bound, _ = self._session.bind(text)
        read = [one.lower() for one in bound.tables]
        through = [one for one in read if name.lower() in [one, *upstream(one, self._bases())]]
        if through:
            raise CatalogError(f"the materialized view {name} would read itself through {', '.join(sorted(through))}")
        errors = {view.definition.name.lower(): view.definition.options.max_error for view in self._all()}
        if inexact := sorted(one for one in read if errors.get(one)):
            raise QueryError(
                f"the materialized view {name} would be exact over {', '.join(inexact)}, which permits errors: "
                "ALTER it to max_error = 0, or read the tables"
            )

    def _all(self) -> list[_View]:
        with self._lock:
            known = list(self._views.values())
            for view in known:
                if not self._names.is_materialized(view.definition.name):  # the program has replaced it
                    del self._views[view.definition.name.lower()]
            return list(self._views.values())

    def _view(self, parts: tuple[str, ...]) -> _View:
        name = self._names.schemas.full(parts, self._names.has)
        views = {view.definition.name.lower(): view for view in self._all()}
        if name.lower() not in views:
            there = ", ".join(sorted(view.definition.name for view in views.values())) or "none"
            raise UnknownTable(f"there is no materialized view {name}; there are: {there}")
        return views[name.lower()]

    def _refreshing(self, definition: Definition) -> Refreshing:
        return Refreshing(definition.text, definition.options, self._session, self._parts(definition.name))

    def _check_mode(self, definition: Definition, refreshing: Refreshing) -> None:
        """Raise QueryError for a view that must be incremental and cannot be, or may be sampled and cannot be."""
        way, options, name = refreshing.way(), definition.options, definition.name
        refused = ""
        if isinstance(way, str) and options.refresh_mode == "incremental":
            refused = f"the view {name} cannot be incremental: {way}"
        elif options.max_error:
            never = f"it is computed from all rows: {way}" if isinstance(way, str) else way.why_never_sampled()
            readers = ", ".join(one for one, read in sorted(self._bases().items()) if name.lower() in read)
            never = never or (f"{readers} reads it, and would be exact over estimates" if readers else "")
            refused = f"the view {name} cannot have max_error: {never}" if never else ""
        if refused:
            refreshing.close()
            raise QueryError(refused)

    def _parts(self, name: str) -> Parts:
        return Parts(self._folder_of(name))

    def _folder_of(self, name: str) -> Path | None:
        folder = self._session.folder
        return None if folder is None else folder / _FOLDER / name.lower()

    @contextmanager
    def _exclusively(self, name: str) -> Iterator[None]:
        """Within the block no other process makes editions of the view. Raises CatalogError if one does so."""
        folder = self._folder_of(name)
        if folder is None:
            yield
            return
        with folder_lock(folder) as is_mine:
            if not is_mine:
                raise CatalogError(f"another process refreshes the materialized view {name} at present")
            yield

    def _publish(self, view: _View, rows: Result, made: Edition, definition: Definition) -> None:
        note = "" if self._session.folder is None else editions.written(definition, made, user_key())
        self._definitions.publish(definition.name, rows, note)
        before, view.edition, view.definition, view.changes = view.edition, made, definition, ()
        view.note = note
        known = before.bases
        changes = editions.times_of_changes(
            [(base, self._written_again(one, known[one], base) if one in known else None)
             for one, base in made.bases.items()]
        )  # fmt: skip
        if changes:
            view.refreshes.add(time.time(), min(changes), self._goal(definition))

    def _read_again(self, view: _View) -> None:
        """Take over the edition that another process has made."""
        note = self._note(view.definition.name)
        found = None if note == view.note else editions.read(note.encode(), view.definition.name, user_key())
        if found is not None:
            view.definition, view.edition = found
            view.note = note

    def _open_folder(self) -> None:
        """Know the views in the folder of tables."""
        if self._session.folder is None:
            return
        for name in self._names.listed():
            note = self._note(name)
            found = editions.read(note.encode(), name, user_key()) if note else None
            if found is not None:
                self._names.know_materialized(name)
                self._views[name.lower()] = _View(*found, self._refreshing(found[0]))

    def _note(self, name: str) -> str:
        """The definition and the edition of a view as a text; empty: they are not durable."""
        folder = self._session.folder
        if folder is None:
            return ""
        from qoop.query.statements.created.folder import noted  # few sessions have a folder

        return noted(folder, name) or ""

    def _compared(self, view: _View) -> list[tuple[Base | None, Base | None]]:
        """The present and the recorded state of each table of the view."""
        catalog = self._session.tables.catalog
        found: list[tuple[Base | None, Base | None]] = []
        for name, before in view.edition.bases.items():
            table = catalog.find(name)
            if table is None or table.version == before.version:
                found.append((None if table is None else before, before))
            else:
                now = Base.of(table)
                found.append((now, self._written_again(name, before, now)))
        return found

    def _written_again(self, name: str, before: Base, now: Base) -> Base:
        """A recorded state of a table in the files that have its rows now, as far as its log says so."""
        table = self._session.tables.catalog.find(name)
        source = None if table is None else table.source
        return before.written_again(now, source.compactions) if source is not None and has_files(source) else before

    def _status(self, view: _View) -> ViewStatus:
        self._read_again(view)
        made, options, error = view.edition, view.definition.options, view.error
        try:
            names = upstream(view.definition.name.lower(), self._bases())
            since = self._behind([*names, view.definition.name])
        except QoopError as unreadable:
            since, error = made.at, error or str(unreadable)
        files = sum(len(base.files) for base in made.bases.values())
        goal = self._goal(view.definition)
        lag = 0.0 if since is None else max(0.0, time.time() - since)
        return ViewStatus(
            view.definition.name, made.at, lag, goal, options.refresh_mode, not made.why_full,
            made.why_full, made.rows, made.rows_read, made.seconds, files, error, view.refreshes.overdue(),
            options.max_error, made.one_in > 1, made.error,
        )  # fmt: skip


def _in_words(way: Incremental) -> str:
    """The tables that a refresh reads, and the parts that it keeps and computes again, in words."""
    facts = sorted({one.delta.growth.fact.name for one in way.all()})
    lines = [f"A refresh is incremental: it reads the new and changed files of {', '.join(facts)}."]
    lines += [f"Each group of files keeps partial groups: {one.delta.leaf_sql}" for one in way.all()]
    lines += [line for each in way.all() for line in _of_others(each)]
    for one in (exact for each in way.all() for exact in each.exact if isinstance(exact.inner, str)):
        reason = "" if one.inner == NO_SUMS else f", since {one.inner}"
        lines.append(f"Read whole after a change: {', '.join(one.tables)}{reason}.")
    return "\n".join(dict.fromkeys(lines))


def _of_others(way: Incremental) -> list[str]:
    """The effect of a change of the other tables that partial groups are computed from, in words."""
    below, lines = way.below, list[str]()
    if isinstance(below, Below):
        by = ", ".join(column.name for column in below.chosen.cut.columns) or "no column"
        lines += [
            f"A change of {', '.join(below.chosen.above)} joins at most {below.chosen.groups:,} groups by {by} again.",
            f"These are kept below the joins: {below.groups.sql}",
        ]
    if way.read_by_leaves:
        reason = f", since {below}" if isinstance(below, str) else ""
        lines.append(f"A change of {', '.join(way.read_by_leaves)} computes all partial groups again{reason}.")
    if not isinstance(way.cuts, str) and len(way.cuts) > 1:
        lines.append("Tables that have changed most often are then joined above the groups.")
    return lines
