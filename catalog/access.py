"""The files that an instance of DuckDB must be able to open to read a table."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence

from qoop.catalog.value import value


@value
class Access:
    """Files and folders that may be opened. paths: of files. folders: with all below them, in buckets their URLs."""

    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()

    def __or__(self, other: Access) -> Access:
        return Access(self.paths | other.paths, self.folders | other.folders)

    def covers(self, other: Access) -> bool:
        """True if this allows all that the other allows."""
        return other.paths <= self.paths and other.folders <= self.folders


@value
class Places:
    """The places of a source's rows. local: paths of files. remote: URLs of objects in buckets."""

    local: Sequence[str] = ()
    remote: Sequence[str] = ()

    def files(self) -> Access:
        """The local files, and the folders of the others."""
        folders = (place.partition("?")[0].rpartition("/")[0] for place in self.remote)
        return Access(_written([*self.local, *self._linked()]), _written(folders))

    def folders(self) -> Access:
        """The folders of these files: a new file is often in a folder that an instance may open already."""
        local = [os.path.commonpath([os.path.dirname(path) for path in self.local])] if self.local else []
        linked = map(os.path.dirname, self._linked())
        return Access(folders=self.files().folders | _written([*local, *linked]))

    def _linked(self) -> list[str]:
        """The targets of links among these files: DuckDB resolves links of files, and of folders. The log of a database
        is next to the target."""
        named = frozenset(self.local)
        linked = {path: os.path.realpath(path) for path in self.local if os.path.islink(path)}
        return [*linked.values(), *(f"{linked[path]}.wal" for path in linked if f"{path}.wal" in named)]


def _written(places: Iterable[str]) -> frozenset[str]:
    """Places, and their escaped forms, which DuckDB needs where a name is not a pattern."""
    return frozenset(form for place in places for form in (place, glob.escape(place)))
