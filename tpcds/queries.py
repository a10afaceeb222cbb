"""The texts of the benchmark queries: 99 of TPC-DS, 22 of TPC-H, unchanged.

They are not kept here: they are read at run time out of DuckDB's own extensions, which the packages
`duckdb-extension-tpcds` and `duckdb-extension-tpch` carry as a file for one version of DuckDB. `keep` writes
them into a folder of generated data, ``DIR/queries/<number>.sql``; there any other version finds them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb

from qoop.catalog.errors import ConfigError
from qoop.catalog.stores.whole_file import write_whole


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
FOLDER = "queries"
SUITES: Mapping[str, Suite] = {suite.name: suite for suite in (TPCDS, TPCH)}


def text(number: int, suite: str = "tpcds", directory: str | Path | None = None) -> str:
    """The text of one query, as DuckDB ships it.

    directory: generated data, which may hold the texts. Raises ConfigError for an unknown number or suite, or if the
    texts are neither there nor in an extension that fits.
    """
    found = texts(suite, directory)
    if number not in found:
        raise ConfigError(f"{_suite(suite).title} has no query {number}; it has 1 to {len(found)}")
    return found[number]


def texts(suite: str = "tpcds", directory: str | Path | None = None) -> Mapping[int, str]:
    """All texts of a suite by number, in order: the extension's, else those in the folder. Raises as `text` does."""
    chosen = _suite(suite)
    try:
        return shipped(chosen)
    except ConfigError as error:
        if directory is None:
            raise
        if not are_kept(chosen, directory):
            again = "`qoop tpcds generate` writes them where 'qoop[tpcds]' is installed"
            raise ConfigError(f"{error}; nor are the texts in {Path(directory) / FOLDER}: {again}") from None
        return kept(chosen, directory)


def kept(suite: Suite, directory: str | Path) -> Mapping[int, str]:
    """The texts that a folder of generated data holds. Raises ConfigError if one of them is not to be read."""
    try:
        return {number: path.read_bytes().decode() for number, path in _files(suite, directory).items()}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the texts of {suite.title} in {directory} cannot be read: {error}") from error


def keep(suite: Suite, directory: str | Path) -> None:
    """Write the texts into a folder of generated data. Raises ConfigError if no extension fits; OSError."""
    found = shipped(suite)
    (Path(directory) / FOLDER).mkdir(exist_ok=True)
    for number, path in _files(suite, directory).items():
        write_whole(path, found[number])


def are_kept(suite: Suite, directory: str | Path) -> bool:
    """True if a folder of generated data holds all texts of a suite."""
    return all(path.is_file() for path in _files(suite, directory).values())


def _files(suite: Suite, directory: str | Path) -> Mapping[int, Path]:
    folder = Path(directory) / FOLDER
    return {number: folder / f"{number}.sql" for number in range(1, suite.size + 1)}


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


def parse_names(text: str | None, known: Iterable[str], what: str) -> tuple[str, ...]:
    """The names in a list, all that are known if there is none. Raises ConfigError for one that is not known.

    >>> parse_names("B, A", ("A", "B", "C"), "length")
    ('B', 'A')
    """
    names = tuple(known)
    found = names if text is None else tuple(part.strip() for part in text.split(","))
    unknown = [name for name in found if name not in names]
    if unknown:
        raise ConfigError(f"there is no {what} {unknown[0]!r}; there are {', '.join(names)}")
    return found


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
def shipped(suite: Suite) -> Mapping[int, str]:
    """The texts in the extension, read in a separate database. Raises ConfigError if no extension fits."""
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
