"""The texts of the benchmark queries: 99 of TPC-DS, 22 of TPC-H, unchanged.

They are not kept here: they are read at run time out of DuckDB's own extensions, which the packages
`duckdb-extension-tpcds` and `duckdb-extension-tpch` carry as a file for one version of DuckDB.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb

from qoop.catalog.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Suite:
    """A benchmark: its name (also of DuckDB's extension) and its number of queries."""

    name: str
    title: str
    size: int

    @property
    def package(self) -> str:
        """The import name of the package that carries the texts."""
        return f"duckdb_extension_{self.name}"


TPCDS = Suite("tpcds", "TPC-DS", 99)
TPCH = Suite("tpch", "TPC-H", 22)
SUITES: Mapping[str, Suite] = {suite.name: suite for suite in (TPCDS, TPCH)}


def text(number: int, suite: str = "tpcds") -> str:
    """The text of one query, as DuckDB ships it.

    Raises ConfigError for an unknown number or suite, or if the package with the texts is not installed.
    """
    found = texts(suite)
    if number not in found:
        raise ConfigError(f"{_suite(suite).title} has no query {number}; it has 1 to {len(found)}")
    return found[number]


def texts(suite: str = "tpcds") -> Mapping[int, str]:
    """All texts of a suite by number, in order. Raises ConfigError as `text` does."""
    return _read(_suite(suite))


def parse_selection(selection: str | None, suite: str = "tpcds") -> tuple[int, ...]:
    """Query numbers from a list of numbers and ranges; None or "all" means every one.

    >>> parse_selection("1,3,7-9")
    (1, 3, 7, 8, 9)

    Raises ConfigError for anything else, or a number that the suite has not.
    """
    size = _suite(suite).size
    if selection is None or selection.strip() == "all":
        return tuple(range(1, size + 1))
    chosen = {number for item in selection.split(",") for number in _range(item)}
    outside = sorted(number for number in chosen if not 1 <= number <= size)
    if outside:
        raise ConfigError(f"{_suite(suite).title} has queries 1 to {size}, not {', '.join(map(str, outside))}")
    return tuple(sorted(chosen))


def _range(item: str) -> range:
    first, dash, last = (part.strip() for part in item.partition("-"))
    ends = (first, last) if dash else (first, first)
    if not all(end.isascii() and end.isdigit() for end in ends):
        raise ConfigError(f"{item.strip()!r} is not a query number or a range such as 7-9")
    low, high = (int(end) for end in ends)
    if low > high:
        raise ConfigError(f"the range {item.strip()} runs backwards")
    return range(low, min(high, 10_000) + 1)


def _suite(name: str) -> Suite:
    if name not in SUITES:
        raise ConfigError(f"there is no suite {name!r}; there are {', '.join(SUITES)}")
    return SUITES[name]


@cache
def _read(suite: Suite) -> Mapping[int, str]:
    """Ask the extension, in a database of its own."""
    extension = _extension_file(suite)
    with duckdb.connect() as connection:
        try:
            connection.execute(f"LOAD '{str(extension).replace(chr(39), chr(39) * 2)}'")
        except duckdb.Error as error:
            raise ConfigError(f"DuckDB cannot load {extension}: {error}") from error
        rows = connection.execute(f"SELECT query_nr, query FROM {suite.name}_queries() ORDER BY query_nr")
        return dict(rows.fetchall())


def _extension_file(suite: Suite) -> Path:
    """The extension that fits the DuckDB in use; an extension works with exactly one version."""
    spec = importlib.util.find_spec(suite.package)
    if spec is None or not spec.submodule_search_locations:
        distribution = suite.package.replace("_", "-")
        raise ConfigError(
            f"the texts of {suite.title} come with {distribution}: pip install {distribution}=={duckdb.__version__}"
        )
    folder = Path(spec.submodule_search_locations[0]) / "extensions"
    found = {
        path.parent.name.removeprefix("v"): path for path in sorted(folder.glob(f"*/{suite.name}.duckdb_extension"))
    }
    if duckdb.__version__ not in found:
        has = ", ".join(found) or "no version"
        raise ConfigError(
            f"the texts of {suite.title} ({suite.package}) are for duckdb {has}, "
            f"but duckdb {duckdb.__version__} is installed: pip install 'qoop[tpcds]' brings the pair that fits"
        )
    return found[duckdb.__version__]
