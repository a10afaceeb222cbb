"""Copies of the tables of a suspended query: recognised by their rows, since files' stamps differ.

::

    PATH/contents.json     of each version of a table that the query reads, the digest of all that its files held

A file's version follows its stamp (:mod:`qoop.catalog.sources.file_stamp`), which a copy does not share. So once a
job is suspended, its files are read, and their digests are written next to the bundle. The bundle is complete before:
if this is cut short, only copies are not recognised.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import CatalogError
from qoop.catalog.signed_json import opened, sealed
from qoop.catalog.sources.register import content
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.table import Table

FORMAT = "qoop-contents"

_FILE = "contents.json"


def remember(folder: Path, tables: Iterable[Table], key: bytes | None) -> None:
    """Add to a bundle the digests of its tables' files, except for tables that have changed since."""
    found = {table.version: digest for table in tables if (digest := _content(table)) is not None}
    try:
        write_whole(folder / _FILE, sealed({"format": FORMAT, "contents": found}, key, indent=1))
    except OSError as error:
        warnings.warn(
            f"copies of the tables of {folder} will not be known: {error.strerror or error}",
            RuntimeWarning,
            stacklevel=2,
        )


def _content(table: Table) -> str | None:
    try:
        digest = content(table)
        table.check()
    except CatalogError:
        return None
    return digest


def remembered(folder: Path, key: bytes | None) -> dict[str, str]:
    """The content of table versions; nothing if it was not written, is damaged or does not bear the seal of the key.

    key: None: trust the file without a seal.
    """
    try:
        data = opened((folder / _FILE).read_bytes(), key)
        contents = data["contents"] if data.get("format") == FORMAT else {}
        return {str(version): str(digest) for version, digest in contents.items()}
    except (OSError, ValueError, KeyError, AttributeError):
        return {}


def take_copies(catalog: Catalog, versions: Mapping[str, str], contents: Mapping[str, str]) -> list[Table]:
    """Give tables those versions whose rows they hold; return these tables. versions: by name of table."""
    found = []
    for name, table in catalog.tables().items():
        version = versions.get(name.lower(), table.version)
        if version != table.version and version in contents and contents[version] == content(table):
            found.append(catalog.take_for(name, version))
    return found
