"""The sources that a query reads besides the tables of its session, found in DuckDB's own parse tree.

Three kinds of sources are refused.  `query('…')` and `query_table('…')` name tables by a text no planner sees.  The
catalog of DuckDB (`duckdb_databases()`, `pg_proc`) would describe the instance that runs a task, which has none of the
session's tables; the session itself lists tables and views (`plain_names`).  Functions such as `current_query()`
describe the connection that runs a task, or, as `stats(x)`, its statistics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from qoop.catalog.by_text import by_text
from qoop.catalog.errors import BindError, ParseError
from qoop.catalog.lexer import rare
from qoop.planner.parse_tree import Names, Node, is_common_table, nodes, text_of, tree_of

_WORDS = ("query", "duckdb_", "information_schema", "pg_", "sqlite_", "pragma_", "show", "describe", "current_",
          "txid_", "stats")  # fmt: skip
_begins_suspect = rare(rf"(?<![^\W\d])(?:{'|'.join(_WORDS)})", *_WORDS)
_DESCRIBES = re.compile(r"\(\s*desc\s*\)|(?:limit|offset)\s+'")
_NUMBER = re.compile(r"\s*[+-]?[\d_.]+(?:e[+-]?\d+)?\s*", re.I)
_WORD = re.compile(r"\w+")
_BY_TEXT = frozenset(("query", "query_table"))
_CONNECTION = frozenset(
    ("current_query", "current_query_id", "current_connection_id", "current_transaction_id", "txid_current", "stats")
)
_CATALOG = re.compile(
    r"duckdb_(?:tables|columns|views|constraints|indexes|schemas|databases|sequences|dependencies|temporary_files"
    r"|connection_count)"
    r"|pragma_(?:table_info|show|storage_info|database_size|metadata_info)|sqlite_(?:temp_)?(?:master|schema)"
    r"|pg_(?:tables|views|class|attribute|namespace|index|indexes|constraint|sequence|sequences|database|attrdef|depend"
    r"|description|enum|prepared_statements|am|proc|settings|tablespace|type)|show_(?:databases|tables|tables_expanded)",
    re.I,
)
_SCHEMAS = frozenset(("information_schema", "pg_catalog"))

OF_CATALOG = " of this session"
"""The suffix of tables with the rows that a query reads from the session's catalog."""
OF_PROGRAM = " of the program"
"""The suffix of tables that are variables of the program."""

MOST_LISTED = 1000
"""Commas in a text that is taken apart: beyond, sqlglot needs longer for it than DuckDB for the whole answer."""


def is_long(text: str) -> bool:
    """True for a text that holds so long a list, of values to find or of rows, that DuckDB had better run it whole."""
    return text.count(",") > MOST_LISTED


def is_of_query(name: str) -> bool:
    """True for a table that is there for the sake of a query, of the catalog or a variable: no statement named it."""
    return name.endswith((OF_CATALOG, OF_PROGRAM))


def tables_mentioned(text: str, known: Iterable[str]) -> frozenset[str]:
    """Those of the lower-case names that occur in a text, in any place."""
    lower = text.lower()
    words = frozenset(_WORD.findall(lower))
    return frozenset(name for name in known if name in words or (not _WORD.fullmatch(name) and _quoted(name) in lower))


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def refuse_foreign(text: str, is_own: Callable[[str], bool]) -> None:
    """Raises BindError for a query that reads a source outside the session. is_own: true for the session's tables and
    views.

    >>> refuse_foreign("SELECT 'query_table', duckdb_tables FROM query", lambda name: False)
    >>> refuse_foreign("FROM duckdb_databases", lambda name: name == "duckdb_databases")
    >>> refuse_foreign("FROM query_table('t')", lambda name: False)
    Traceback (most recent call last):
    ...
    qoop.catalog.errors.BindError: query_table() names tables by a text: write the names after FROM
    """
    if not (_begins_suspect(text) or _DESCRIBES.search(text.lower())):
        return
    for node, named in _nodes(text):
        if not (node.get("type") == "BASE_TABLE" and _hides_catalog(node, named, is_own)):
            _check(node)


def _hides_catalog(node: Node, named: Names, is_own: Callable[[str], bool]) -> bool:
    """True for a table of a WITH or of the session: it goes before one of DuckDB's catalog by the same name."""
    return is_common_table(node, named) or (not node.get("schema_name") and is_own(node["table_name"]))


def _check(node: Node) -> None:
    match node.get("type"):
        case "TABLE_FUNCTION":
            name = str(node.get("function", {}).get("function_name", "")).lower()
            if name in _BY_TEXT:
                raise BindError(f"{name}() names tables by a text: write the names after FROM")
            if _CATALOG.fullmatch(name):
                raise _unknown(f"{name}()")
        case "BASE_TABLE":
            name, schema = str(node.get("table_name", "")), str(node.get("schema_name", ""))
            if schema.lower() in _SCHEMAS or (schema == "" and _is_of_duckdb(name)):
                raise _unknown(f"{schema}.{name}" if schema else name)
        case "SHOW_REF" if "query" not in node:
            raise _unknown("SHOW within a query")
        case "LIMIT_MODIFIER":
            for name in ("limit", "offset"):
                _check_number(name.upper(), node.get(name))
        case "FUNCTION" if str(node.get("function_name")).lower() in _CONNECTION:
            raise BindError(f"{node['function_name']}() would describe the task that runs it, not this session")


def _check_number(name: str, bound: object) -> None:
    """Refuse a text that is no number, as DuckDB 1.5 does: 2.0 does so when the query runs."""
    text = text_of(bound) if isinstance(bound, dict) and bound.get("class") == "CONSTANT" else None
    if text is not None and not _NUMBER.fullmatch(text):
        raise BindError(f"{name} takes a number, not '{text}'")


def _is_of_duckdb(name: str) -> bool:
    return name.lower().startswith(("duckdb_", "sqlite_", "pragma_")) and _CATALOG.fullmatch(name) is not None


def _unknown(what: str) -> BindError:
    return BindError(
        f"{what} would describe the DuckDB that runs a task, not this session: SHOW TABLES lists its tables, "
        "DESCRIBE the columns of one; unless it is locked, information_schema lists them, too"
    )


@by_text(most=128)
def tables_read(text: str) -> tuple[str, ...]:
    """The names that stand for tables, views or files in a query, as they are written, each once; names that its own
    WITHs give are none where they hold. Empty where DuckDB has no tree of the text.

    >>> tables_read("WITH a AS (FROM b JOIN 'c.csv' USING (x)) SELECT (SELECT max(d) FROM e) FROM a, main.a")
    ('b', 'c.csv', 'e', 'a')
    >>> tables_read("WITH RECURSIVE a AS (FROM a UNION ALL SELECT i + 1 FROM a) FROM a")  # begins with a table
    ('a',)
    """
    return tuple(dict.fromkeys(node["table_name"] for node in base_tables(text)))


def base_tables(text: str) -> Iterator[Node]:
    """The parts of FROM that are tables, views or files, but for those that a WITH of the text names."""
    for node, named in _nodes(text):
        if node.get("type") == "BASE_TABLE" and not is_common_table(node, named):
            yield node


def _nodes(text: str) -> Iterator[tuple[Node, Names]]:
    """None where DuckDB has no tree of the text: what is no SELECT is refused where it is bound."""
    try:
        return nodes(tree_of(text))
    except ParseError:
        return iter(())
