"""Names of two parts, and the catalog, as a query is planned: each a table by one name.

The tables of a DuckDB file that lie in a schema are registered as ``schema.table``, so ``FROM s2.t2`` is read as ``FROM
"s2.t2" AS t2``. DuckDB's catalog (``information_schema.tables``, ``duckdb_columns()``,
``pragma_table_info('t')``) is a table as well. The session makes it when a query reads it
(:mod:`qoop.query.statements.session_catalog`): the DuckDB that runs a task knows no tables of the session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from qoop.catalog.by_text import by_text
from qoop.catalog.errors import ParseError
from qoop.catalog.lexer import Lexeme, behind_closing, lexed, quoted, rare, without_end
from qoop.catalog.sources.files import sql_string
from qoop.catalog.sources.register import CSV, JSON
from qoop.catalog.stores.objects import without_options
from qoop.catalog.value import value
from qoop.planner.parse_tree import Names, Node, arguments_of, is_common_table, nodes, text_of, tree_of
from qoop.planner.sql.sources import base_tables, is_long, tables_read
from qoop.query.statements.databases.schemas import OWN, TEMPORARY

_SWEEP = "sweep"
_OF_CATALOG = ("duckdb_", "information_schema", "pg_", "sqlite_", "pragma_")
_may_ask_catalog = rare(rf"{'|'.join(_OF_CATALOG)}|\b{_SWEEP}\W*\(", *_OF_CATALOG, _SWEEP)
_CATALOG = re.compile(
    r"duckdb_(?:tables|columns|views|constraints|indexes|schemas|sequences)|pragma_(?:table_info|show)"
    r"|sqlite_(?:master|schema)|pg_(?:tables|views|class|attribute|namespace|index|indexes|constraint|sequence|sequences"
    r"|attrdef|description|type)",
    re.I,
)
"""The parts of DuckDB's catalog that are about tables and views, and so about the session's."""

_ALONE = ("DESCRIBE", "DESC", "SUMMARIZE", "SHOW", "TABLE")
"""Words before a table that has no alias there."""

_CATALOG_SCHEMAS = ("information_schema", "pg_catalog")

_may_name_temporary = rare(rf"\b{TEMPORARY}\W*\.", TEMPORARY)
_may_query_by_text = rare(r"\bquery(?:_table)?\W*\(", "query")

_GLOB = frozenset("*?[")

_ADDED_TO_FILES = frozenset(("filename", "file_row_number", "file_index"))
"""Columns that DuckDB has for each row of a file, unless the file has one of that name; no star means them."""


@value
class _Replacement:
    """A name in a text, from `start` to `end` in characters. written: what stands in its place."""

    start: int
    end: int
    written: str


def with_plain_names(
    text: str,
    qualified: Collection[str],
    catalog: Callable[[str], str] | None,
    default: str | None = None,
    write: Callable[[str], str] = quoted,
    is_own: Callable[[str], bool] = lambda name: False,
    temporary: bool = False,
) -> str:
    """The text with every table by one name.

    qualified: names of tables with dots in them, in lower case. catalog: makes a table of the rows of an
    expression over the catalog, and returns its name; None: the catalog is not read. default: the schema of names
    without a dot, if it has such a table. write: the name of a table in SQL. is_own: true for the name of a table or
    view, which hides what the catalog has by it. temporary: DuckDB's database of temporary tables may be named.

    >>> with_plain_names("SELECT s2.t2.x, t3.y FROM s2.t2 JOIN s2.T3 AS t3 USING (x)", ["s2.t2", "s2.t3"], None)
    'SELECT t2.x, t3.y FROM "s2.t2" AS t2 JOIN "s2.T3" AS t3 USING (x)'
    >>> with_plain_names("FROM pragma_table_info('a') WHERE pk", [], lambda expression: f"rows of {expression}")
    'FROM "rows of pragma_table_info(\\'a\\')" AS pragma_table_info WHERE pk'
    """
    may_ask = catalog is not None and _may_ask_catalog(text)
    temporary = temporary and _may_name_temporary(text)
    if is_long(text) or not (may_ask or default or temporary or any(_holds(text, name) for name in qualified)):
        return text
    try:
        return _rewritten(text, list(_places(text, qualified, catalog if may_ask else None, default, write, is_own)))
    except ParseError:  # binding reports it
        return text


def with_queries(text: str) -> str:
    """The text with the query itself in place of ``query('…')`` and ``query_table('…')``, where it is constant.

    >>> with_queries("SELECT q.a FROM query('SELECT 1 AS a; -- it') AS q, query_table(['s.t', 'u'])")
    'SELECT q.a FROM (SELECT 1 AS a) AS q, (FROM "s"."t" UNION ALL FROM "u")'
    """
    while not is_long(text) and _may_query_by_text(text):
        written = _rewritten(text, list(_queries_by_text(text)))
        if written == text:
            break
        text = written
    return text


def _queries_by_text(text: str) -> Iterator[_Replacement]:
    for node, _ in _nodes(text):
        query = _query_by_text(node["function"]) if node.get("type") == "TABLE_FUNCTION" else None
        if query is not None:
            _, words = _words_around(text, node)
            yield _Replacement(words[0].start, words[behind_closing(words, _dotted(words)) - 1].end, f"({query})")


def _query_by_text(function: Node) -> str | None:
    """The query that a call stands for; None: it is another function's, or not of one constant."""
    name, arguments = function["function_name"].lower(), arguments_of(function)
    if name not in ("query", "query_table") or len(arguments) != 1:
        return None
    [argument] = arguments
    if name == "query":
        written = text_of(argument)
        return None if written is None else without_end(written)
    tables = arguments_of(argument) if argument.get("function_name") == "list_value" else arguments
    names = [text_of(table) for table in tables]
    if None in names or not names:
        return None
    return " UNION ALL ".join("FROM " + ".".join(map(quoted, name.split("."))) for name in names if name)


def with_file_names(text: str, endings: tuple[str, ...], columns: Callable[[str], Collection[str]]) -> str:
    """The text with the names that DuckDB gives to files: the one of a file by which its columns are qualified, and a
    function in place of a file whose query reads a column that DuckDB adds to files.

    endings: of file names that count as tables. columns: those in the files of a path, in lower case.

    >>> with_file_names("SELECT day.x FROM 'logs/day.csv'", (".csv",), lambda path: ["x"])
    'SELECT day.x FROM "logs/day.csv" AS "day"'
    >>> with_file_names("SELECT filename, * FROM '*.csv' AS t", (".csv",), lambda path: ["x"])
    "SELECT filename, * FROM read_csv('*.csv') AS t"
    """
    if is_long(text) or not any(ending in text.lower() for ending in endings):
        return text
    added, qualifiers = _read_of_files(text)
    files = [] if not (added or qualifiers) else _file_nodes(text, endings)
    places = []
    for node in files:
        path, alias = node["table_name"], node.get("alias", "") or _stem(node["table_name"])
        function = added and "://" not in path and not added <= {name.lower() for name in columns(path)}
        if function or (not node.get("alias") and alias.lower() in qualifiers):
            written = f"{_reader(path)}({sql_string(path)})" if function else quoted(path)
            named = written if node.get("alias") else f"{written} AS {quoted(alias)}"
            places.append(_table(text, {**node, "alias": alias}, partial(_constant, named)))
    return _rewritten(text, places)


@by_text(most=128)
def _read_of_files(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The columns of a text that DuckDB adds to files, and the names that qualify columns, in lower case."""
    added: set[str] = set()
    qualifiers: set[str] = set()
    for node, _ in _nodes(text):
        match node.get("type"):
            case "COLUMN_REF":
                added |= _ADDED_TO_FILES & {node["column_names"][-1].lower()}
                qualifiers.add(node["column_names"][0].lower())
            case "STAR" if node.get("relation_name"):
                qualifiers.add(node["relation_name"].lower())
    return frozenset(added), frozenset(qualifiers)


def _file_nodes(text: str, endings: tuple[str, ...]) -> list[Node]:
    return [node for node in base_tables(text) if _is_file(node["table_name"], endings)]


def _is_file(name: str, endings: tuple[str, ...]) -> bool:
    return without_options(name).lower().endswith(endings)


def _stem(path: str) -> str:
    """DuckDB's alias of a file in FROM: its name up to the first dot; of several files their pattern."""
    return path if is_glob(path) else path.rsplit("/", 1)[-1].partition(".")[0]


def _reader(path: str) -> str:
    """DuckDB's function that reads files of such a name."""
    lower = path.lower()
    return "read_csv" if lower.endswith(CSV) else "read_json" if lower.endswith(JSON) else "read_parquet"


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with other names of some tables. names: the new by the old, which are in lower case.

    >>> renamed("WITH v AS (FROM v) SELECT main.v.x FROM v JOIN main.v AS w USING (x)", {"v": "the view v"})
    'WITH v AS (FROM "the view v" AS v) SELECT v.x FROM v JOIN "the view v" AS w USING (x)'
    """
    return _rewritten(text, list(_places_of(text, names)))


def hidden(text: str) -> frozenset[str]:
    """The names, in lower case, that the WITHs of a text hide somewhere in it, and those that it writes with a schema.

    >>> sorted(hidden("SELECT * FROM main.a, (WITH b AS (FROM c) FROM b)"))
    ['a', 'b']
    """
    found: set[str] = set()
    for node, named in _nodes(text):
        found |= named
        if node.get("type") == "BASE_TABLE" and node.get("schema_name"):
            found.add(node["table_name"].lower())
    return frozenset(found)


def reads(text: str, name: str) -> bool:
    """True if a text reads a table by that name alone, without regard to case.

    >>> reads("FROM A", "a"), reads("WITH a AS (FROM b) FROM a, s.a", "a")
    (True, False)
    """
    alone = (node["table_name"] for node in base_tables(text) if not node.get("schema_name"))
    return name.lower() in map(str.lower, alone)


def _places_of(text: str, names: Mapping[str, str]) -> Iterator[_Replacement]:
    for node, named in _nodes(text):
        match node.get("type"):
            case "BASE_TABLE" if not is_common_table(node, named) and node["table_name"].lower() in names:
                if node.get("schema_name", "").lower() not in _CATALOG_SCHEMAS:
                    yield _table(text, node, partial(_constant, quoted(names[node["table_name"].lower()])))
            case "COLUMN_REF":
                before = _before_main([name.lower() for name in node["column_names"]])
                if before and node["column_names"][before].lower() in names:
                    yield _column(text, node, before)


def _nodes(text: str) -> Iterable[tuple[Node, Names]]:
    """None of a text of which DuckDB has no tree, such as PIVOT."""
    try:
        return nodes(tree_of(text))
    except ParseError:
        return ()


def _before_main(names: Sequence[str]) -> int:
    """The number of names before that of the table, of a column that is written ``main.table.column`` or longer."""
    place = names.index("main") + 1 if "main" in names[:2] else 0
    return place if 0 < place < len(names) - 1 else 0


def _rewritten(text: str, places: Iterable[_Replacement]) -> str:
    """The text with some places replaced."""
    for place in sorted(places, key=lambda one: one.start, reverse=True):
        text = text[: place.start] + place.written + text[place.end :]
    return text


def _holds(text: str, name: str) -> bool:
    lower = text.lower()
    return all(part in lower for part in name.split("."))


def _places(
    text: str,
    qualified: Collection[str],
    catalog: Callable[[str], str] | None,
    default: str | None,
    write: Callable[[str], str],
    is_own: Callable[[str], bool],
) -> Iterator[_Replacement]:
    tree = list(nodes(tree_of(text)))
    apart = _with_own_alias(tree, qualified, default)
    brief = {node["table_name"].lower() for node, _ in tree if node.get("type") == "BASE_TABLE" and _is_temporary(node)}
    for node, named in tree:
        match node.get("type"):
            case "BASE_TABLE" if not is_common_table(node, named):
                schema, name = node.get("schema_name", ""), node["table_name"]
                if (known := _known(node, qualified, default)) is not None:
                    alias = quoted(known.lower()) if known.lower() in apart else ""
                    yield _table(text, node, partial(_constant, write(known)), alias)
                elif catalog is not None and _is_of_catalog(schema, name) and (schema or not is_own(name)):
                    yield _table(text, node, lambda expression: quoted(catalog(expression)))
            case "TABLE_FUNCTION" if catalog is not None and _is_of_session(node["function"]["function_name"]):
                yield _table(text, node, lambda expression: quoted(catalog(expression)))
            case "COLUMN_REF" if len(node["column_names"]) > 2:
                before, known = _before_table(node["column_names"], qualified)
                before = before or _before_temporary(node["column_names"], brief)
                if before:
                    yield _column(text, node, before, quoted(known) if known in apart else "")


def _with_own_alias(tree: Iterable[tuple[Node, Names]], qualified: Collection[str], default: str | None) -> set[str]:
    """The tables, in lower case, that need an alias of their own: other tables of the text have their last name, and
    columns are written with all names of theirs, or none with the last one alone."""
    tables: dict[str, set[str]] = {}  # without alias, by last name
    written: set[str] = set()
    by_last_name: set[str] = set()
    for node, named in tree:
        match node.get("type"):
            case "BASE_TABLE" if not node.get("alias") and not is_common_table(node, named):
                name = node["table_name"].lower()
                tables.setdefault(name, set()).add((_known(node, qualified, default) or name).lower())
            case "COLUMN_REF" if (
                len(node["column_names"]) > 2 and (found := _before_table(node["column_names"], qualified))[0]
            ):
                written.add(found[1])
            case "COLUMN_REF":
                by_last_name.add(node["column_names"][0].lower())
            case "STAR":
                by_last_name.add(node.get("relation_name", "").lower())
    crowded = {name: known for name, known in tables.items() if len(known) > 1}
    return {one for name, known in crowded.items() for one in known if one in written or name not in by_last_name}


def _constant(written: str, _: str) -> str:
    """The replacement of a table, regardless of the old text."""
    return written


def _known(node: Node, qualified: Collection[str], default: str | None) -> str | None:
    """The name of a table with dots that a part of FROM stands for, if it does."""
    parts = [part for part in (node.get("catalog_name", ""), node.get("schema_name", "")) if part]
    name = node["table_name"]
    tried = [[*parts, name]]
    if parts and parts[-1].lower() == "main":
        tried.append([*parts[:-1], name])
    if parts and parts[0].lower() == OWN:
        tried.append([*parts[1:], name])
    if default is not None:
        tried.insert(0, [default, *parts, name])
    plain = name if _is_temporary(node) else None
    return next((found for one in tried if (found := ".".join(one)).lower() in qualified), plain)


def _is_temporary(node: Node) -> bool:
    """True for a table that is written with DuckDB's database of temporary tables."""
    return str(node.get("catalog_name") or node.get("schema_name")).lower() == TEMPORARY


def _before_temporary(names: Sequence[str], tables: Collection[str]) -> int:
    """The number of names before that of the table, of a column of one of these temporary tables."""
    count = 2 if names[1].lower() == "main" else 1
    written = names[0].lower() == TEMPORARY and len(names) > count + 1 and names[count].lower() in tables
    return count if written else 0


def _before_table(names: Sequence[str], qualified: Collection[str]) -> tuple[int, str]:
    """The number of names before that of the table, of a column with more than two, and the table in lower case."""
    if names[0].lower() in _CATALOG_SCHEMAS:
        return 1, ""
    lower = [name.lower() for name in names]
    for count in range(1, len(names) - 1):
        before = lower[:count] if lower[0] != OWN else lower[1:count]
        if not before:
            continue
        if before[-1] == "main" and len(before) > 1:
            before = before[:-1]
        if (known := ".".join([*before, lower[count]])) in qualified:
            return count, known
    return 0, ""


def _is_of_catalog(schema: str, name: str) -> bool:
    if schema.lower() == "information_schema":
        return True
    return schema.lower() in ("", *_CATALOG_SCHEMAS) and _CATALOG.fullmatch(name) is not None


def _is_of_session(function: str) -> bool:
    return is_sweep(function) or _is_of_catalog("", function)


def is_sweep(expression: str) -> bool:
    """True for the table function of a session's sweeps, with or without its argument."""
    return re.split(r"\W", expression, maxsplit=1)[0].lower() == _SWEEP


def _table(text: str, node: Node, written: Callable[[str], str], alias: str = "") -> _Replacement:
    """A table, or a function with its arguments, in FROM. written: makes what stands in its place of the text there.
    alias: where the text has none; empty: the last of its names."""
    before, words = _words_around(text, node) if "query_location" in node else _words_described(text, node)
    count = _dotted(words)
    last = words[count - 1]
    if node["type"] == "TABLE_FUNCTION":
        count = behind_closing(words, count)
    start, end = words[0].start, words[count - 1].end
    alone = bool(before) and before[-1].says(*_ALONE)
    named = "" if node.get("alias") or alone else f" AS {alias or last.text}"
    return _Replacement(start, end, written(text[start:end]) + named)


def _column(text: str, node: Node, before: int, alias: str = "") -> _Replacement:
    """A column after database, schema and table: what is before the table goes. alias: of the table, if not its name"""
    _, words = _words_around(text, node)
    table = words[2 * before]
    return _Replacement(words[0].start, table.end if alias else table.start, alias)


def _words_around(text: str, node: Node) -> tuple[tuple[Lexeme, ...], tuple[Lexeme, ...]]:
    """The words before a node, and those from it on; DuckDB counts bytes."""
    start = len(text.encode()[: node.get("query_location", 0)].decode())
    words = lexed(text).words
    place = next((place for place, word in enumerate(words) if word.start >= start), len(words))
    return words[:place], words[place:]


def _words_described(text: str, node: Node) -> tuple[tuple[Lexeme, ...], tuple[Lexeme, ...]]:
    """The same of the table behind a DESCRIBE, a TABLE or the like, of which DuckDB 2 tells no place."""
    words = lexed(text).words
    for place in (place + 1 for place, word in enumerate(words[:-1]) if word.says(*_ALONE)):
        name = words[place + _dotted(words[place:]) - 1].name
        if name is not None and name.lower() == str(node.get("table_name", name)).lower():
            return words[:place], words[place:]
    raise ParseError("a table behind DESCRIBE, TABLE or the like was not found: write FROM")


def _dotted(words: tuple[Lexeme, ...]) -> int:
    """The number of words of a name with dots."""
    count = 1
    while count + 1 < len(words) and words[count].text == ".":
        count += 2
    return count


def files_read(text: str, endings: tuple[str, ...]) -> Iterator[str]:
    """The paths in a text at the places of tables.

    >>> list(files_read("FROM 'a.parquet' JOIN \\"b.csv\\" USING (x) WHERE y IN ('c', 'd.csv')", (".parquet", ".csv")))
    ['a.parquet', 'b.csv']
    """
    lower = text.lower()
    if any(ending in lower for ending in endings):
        yield from (name for name in tables_read(text) if _is_file(name, endings))


def is_glob(path: str) -> bool:
    """True if a path stands for several files."""
    return bool(_GLOB & set(path))
