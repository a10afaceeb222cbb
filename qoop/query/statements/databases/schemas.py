"""The schemas that statements have created: their tables and views are the session's, named ``schema.table``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog.errors import CatalogError, DiskFull, QueryError
from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.catalog.table import Columns
    from qoop.query.statements.words import Words

OWN = "memory"
"""The name that DuckDB gives to the database without a file."""

TEMPORARY = "temp"
"""The name that DuckDB gives to the database of temporary tables, which are tables like others here."""

MAIN = "main"
"""The name that DuckDB gives to the schema of names without one."""

NameParts = tuple[str, ...]
"""A name as it is written: database, schema and name, or less."""

_ENDING = ".schema"


@value
class CreateSchema:
    """unless: do nothing if there is one."""

    name: str
    unless: bool = False


@value
class DropSchema:
    """exists: do nothing if there is none. cascade: with its tables and views."""

    name: str
    exists: bool = False
    cascade: bool = False


@value
class ShowSchemas:
    """SHOW SCHEMAS."""


OfSchemas = CreateSchema | DropSchema | ShowSchemas


def schema_created(words: Words) -> CreateSchema | None:
    """The statement, if it is CREATE SCHEMA, else None. Raises QueryError."""
    if not words.take("CREATE", "SCHEMA"):
        return None
    unless = words.take("IF", "NOT", "EXISTS")
    return CreateSchema(_name(words), unless)


def schema_dropped(words: Words) -> DropSchema | None:
    """The statement, if it is DROP SCHEMA, else None. Raises QueryError."""
    if not words.take("DROP", "SCHEMA"):
        return None
    exists = words.take("IF", "EXISTS")
    name = _name(words, ends=False)
    cascade = words.take("CASCADE")
    _ = words.take("RESTRICT")
    if words.next is not None:
        raise QueryError("write DROP SCHEMA [IF EXISTS] name [CASCADE]")
    return DropSchema(name, exists, cascade)


def _name(words: Words, ends: bool = True) -> str:
    parts = words.parts()
    own = parts[1:] if len(parts) == 2 and parts[0].lower() == OWN else parts
    if len(own) != 1 or (ends and words.next is not None):
        raise QueryError(f"a schema has one name, in the database {OWN}: write CREATE SCHEMA name")
    return own[0]


class Schemas:
    """The schemas by name, without regard to case. Not thread-safe: the caller holds a lock.

    folder: has an empty file for each; None: in memory. check_name: raises QueryError for a name that no file there can
    have.
    """

    def __init__(self, folder: Path | None, check_name: Callable[[Path, str], None]) -> None:
        self._folder, self._check_name = folder, check_name
        found = sorted(folder.glob(f"[!._]*{_ENDING}")) if folder is not None else []
        self._names = {path.stem.lower(): path.stem for path in found}
        self.default: str | None = None
        """The schema, or attached database, that is searched first for names without one (USE)."""

    def names(self) -> list[str]:
        """The names of the schemas, in the case of their creation."""
        return sorted(self._names.values())

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._names

    def shown(self) -> tuple[pa.Table, Columns]:
        """The answer to SHOW SCHEMAS."""
        current = (self.default or MAIN).lower()
        rows = [(OWN, name, name.lower() == current) for name in sorted([MAIN, *self.names()])]
        names, types = ("database_name", "schema_name", "current"), (pa.string(), pa.string(), pa.bool_())
        columns = [pa.array(column, type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]
        typed = zip(names, ("VARCHAR", "VARCHAR", "BOOLEAN"), strict=True)
        return pa.table({f"c{place}": column for place, column in enumerate(columns)}), tuple(typed)

    def of(self, name: str) -> str:
        """The schema in the name of a table or view; empty: it is in none of these."""
        schema, dot, _ = name.partition(".")
        return self._names.get(schema.lower(), "") if dot else ""

    def full(self, parts: NameParts, has: Callable[[str], bool] | None = None) -> str:
        """The name in the session of a table or view that a text names.

        has: true for names that exist, so that a name without a schema may be one of these; None: for a new table or
        view. Raises CatalogError for a schema that does not exist.
        """
        parts = _without_database(parts)
        *before, name = parts
        if before and before[-1].lower() == MAIN and len(before) == 1:
            return self._checked(name)
        if len(before) == 1 and before[0] in self:
            return f"{self._names[before[0].lower()]}.{name}"
        if before:
            raise self.unknown(".".join(before))
        if self.default is not None and self.default in self:
            within = f"{self._names[self.default.lower()]}.{name}"
            if has is None or has(within) or not has(name):
                return within
        return self._checked(name)

    def _checked(self, name: str) -> str:
        """A name in no schema. Raises QueryError for one that begins with the name of a schema and a dot."""
        if self.of(name):
            raise QueryError(f"write {name} without quotes around all of it: {self.of(name)} is a schema")
        return name

    def create(self, statement: CreateSchema, taken: Iterable[str]) -> None:
        """taken: the first parts of names of tables. Raises CatalogError, QueryError, DiskFull."""
        name = statement.name
        if name in self or name.lower() == MAIN:
            if statement.unless:
                return
            raise CatalogError(f"there is a schema {name} already")
        if "." in name or name.lower() == OWN:
            raise QueryError(f"a schema cannot be called {name}")
        if name.lower() in map(str.lower, taken):
            raise CatalogError(f"names of tables begin with {name}. already: choose another name for the schema")
        if self._folder is not None:
            self._keep(self._folder, name)
        self._names[name.lower()] = name

    def _keep(self, folder: Path, name: str) -> None:
        self._check_name(folder, name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}{_ENDING}").touch(mode=0o600)
        except OSError as error:
            raise DiskFull(f"schema {name} cannot be kept in {folder}: {error.strerror or error}") from error

    def check_drop(self, statement: DropSchema, within: Sequence[str]) -> bool:
        """True if there is a schema to drop. within: the names of its tables and views. Raises CatalogError."""
        if statement.name not in self:
            if statement.exists and statement.name.lower() != MAIN:
                return False
            raise self.unknown(statement.name)
        if self.default is not None and self.default.lower() == statement.name.lower():
            raise CatalogError(f"{statement.name} is in use: USE {OWN} first")
        if within and not statement.cascade:
            listed = ", ".join(within[:5])
            raise CatalogError(
                f"schema {statement.name} is not empty: it has {listed}; DROP SCHEMA … CASCADE drops them too"
            )
        return True

    def forget(self, name: str) -> None:
        """Remove an empty schema."""
        known = self._names.pop(name.lower())
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / f"{known}{_ENDING}").unlink(missing_ok=True)

    def unknown(self, name: str) -> CatalogError:
        """The error for a schema that does not exist."""
        return CatalogError(
            f"there is no schema {name} in this session; there are {', '.join([MAIN, *self.names()])} "
            "(CREATE SCHEMA makes one; attached databases stay as they are)"
        )


def _without_database(parts: NameParts) -> NameParts:
    return parts[1:] if len(parts) > 1 and parts[0].lower() in (OWN, TEMPORARY) else parts
