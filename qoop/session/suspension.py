"""Suspension of a job to a bundle (:mod:`qoop.query.bundle`), and its resumption."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.catalog.errors import ConfigError, Suspended
from qoop.catalog.value import value
from qoop.engine.backends.base import LastingBackend
from qoop.engine.task import CheckpointKey
from qoop.query.bundle import Bundle, begun, best_plan, check_tables, key_of_user, read, refuse_rounds, write
from qoop.query.job import Job, Planned
from qoop.query.planning import QueryPlanning
from qoop.query.tables import SessionTables


def suspend(
    handle: JobHandle, planned: Planned, tables: SessionTables, backend: LastingBackend, path: Path, grace: float,
    copies: bool,
) -> None:  # fmt: skip
    """Write the bundle of a job, and stop it. If that fails, the job continues. Otherwise as `Job.suspend`."""
    from qoop.query.copies import remember

    refuse_rounds(planned.tables.values())
    references = tables.references(planned.tables)
    fraction, owner, bound = handle.progress().fraction, f"bundle-{handle.id}", planned.bound
    with begun(path) as draft, handle.pinned(owner, grace) as outputs:
        bundle = Bundle(bound.text, bound.settings, references, handle.plans(), fraction, bound.timestamp.at)
        write(path, draft, bundle, outputs, backend)
    why = Suspended(f"the job was suspended to {path}")
    handle.cancel(why)
    handle.wait()
    if handle.error is None:  # attempts under way have brought it to its end
        shutil.rmtree(path, ignore_errors=True)
        raise ConfigError(f"the job {handle.id} has {handle.state.lower()}: it cannot be suspended any more")
    if handle.error is not why:
        raise ConfigError(f"the job {handle.id} has ended otherwise; {path} is whole") from handle.error
    if copies:
        remember(path, planned.tables.values(), key_of_user())


def to_bundle(text: str, tables: SessionTables, backend: LastingBackend, path: Path) -> None:
    """Write a query that has not begun. Raises ConfigError, DiskFull, and as `SessionTables.bind`."""
    bound, read = tables.bind(text)
    references = tables.references(read)
    private = [table.name for table in references if table.place is None]
    if private:
        listed = f"{', '.join(private)} {'is' if len(private) == 1 else 'are'} in the memory of this process"
        raise ConfigError(f"{listed}: write the rows to a file, so that another process can read them")
    bundle = Bundle(bound.text, bound.settings, references, (), 0.0, bound.timestamp.at)
    with begun(path) as draft:
        write(path, draft, bundle, (), backend)


@value
class Resumption:
    """Continues jobs from bundles.

    set: an option of the session. start: starts a planned query; the job uses the outputs that are present.
    """

    tables: SessionTables
    planning: QueryPlanning
    backend: LastingBackend
    set: Callable[[str, object], None]
    start: Callable[[Planned], Job]

    def resume(self, folder: Path, data: Sequence[str | os.PathLike[str]], trust: bool) -> Job:
        """The job of a bundle, as `Session.resume` has it."""
        from qoop.query.copies import remembered

        bundle, saved = read(folder, trust)
        for place in data:
            self.tables.register_path(place)
        if self.tables.locked:
            self._check_session(bundle)
        self._find_tables(bundle, remembered(folder, None if trust else key_of_user()))
        for name, setting in bundle.settings if not self.tables.locked else ():
            self.set(name, setting)
        owner, keys = f"bundle-{folder}", [one.committed.key for one in saved]
        adopted = set(self.backend.adopt(saved, owner))
        try:
            job = self.start(self._planned(bundle, adopted))
        except BaseException:
            self.backend.release(owner, keys)
            raise
        job.when_ended(lambda: self.backend.release(owner, keys))
        return job

    def _check_session(self, bundle: Bundle) -> None:
        """Raise ConfigError for a bundle that would change a session which others use: its settings, or its tables."""
        if bundle.settings != self.tables.binder.settings:
            now, then = dict(self.tables.binder.settings), dict(bundle.settings)
            names = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
            raise ConfigError(f"the bundle was made under other settings of {', '.join(names)}")
        missing = [table.name for table in bundle.tables if self.tables.catalog.find(table.name) is None]
        if missing:
            raise ConfigError(f"the bundle reads {', '.join(missing)}, which this session does not have")

    def _find_tables(self, bundle: Bundle, contents: Mapping[str, str]) -> None:
        """Find or register the bundle's tables in the session. contents: digests of their files, by version."""
        for table in bundle.tables:
            if self.tables.catalog.find(table.name) is None:
                self.tables.register_again(table)
        self.tables.check_again(bundle.query)
        self.tables.take_copies(bundle.tables, contents)
        check_tables(bundle.tables, self.tables.catalog.tables())

    def _planned(self, bundle: Bundle, adopted: Collection[CheckpointKey]) -> Planned:
        """The plan that ends first, given the outputs that were adopted."""
        query, at = bundle.query, bundle.timestamp
        usual = self.planning.plan(query, at)
        if self.tables.isolates(query):  # it has no other plan
            return usual
        others = [one.plan for one in self.planning.alternatives(query, None, at).kept]
        plan = best_plan([usual.plan, *others, *bundle.plans], adopted, self.planning.usable)
        chosen = usual if plan is usual.plan else self.planning.with_plan(query, plan, at)
        return replace(chosen, adaptive=usual.adaptive)
