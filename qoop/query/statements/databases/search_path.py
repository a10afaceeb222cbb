"""The value of ``current_schema()`` and its kin: that of the session, not of a task.

A task runs in a DuckDB that has none of the session's schemas. So once USE has named one, a call becomes its value:
that of the same call in a DuckDB with a schema of that name in use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import duckdb

from qoop.catalog.errors import BindError, ParseError
from qoop.catalog.lexer import behind_closing, lexed, quoted
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources.files import sql_string
from qoop.planner.parse_tree import Names, Node, arguments_of, is_common_table, nodes, text_of, tree_of

_MAY_ASK = re.compile(r"current_(?:schema|database|catalog|setting)|in_search_path", re.I)
_DESCRIBES = re.compile(r"\s*FROM\s*\(\s*DESCRIBE\b", re.I)  # names and types, which values would change
_CALLED = ("current_schema", "current_schemas", "current_database", "current_catalog", "in_search_path")
_WITHOUT_PARENTHESES = ("current_schema", "current_catalog")
_OPTIONS = ("schema", "search_path")


def with_path_values(text: str, in_use: str, attached: bool, columns: Callable[[str], Iterable[str]]) -> str:
    """The text with values in place of calls that depend on the schema in use.

    in_use: what USE has named. attached: that is an attached database, or a schema in it.
    columns: the names of those of a table, which is written in SQL: they hide calls without parentheses.
    Raises BindError for a call whose arguments are not constant.

    >>> with_path_values("SELECT current_schema(), current_catalog, x.current_schema FROM x", "s", False, lambda _: [])
    "SELECT CAST('s' AS VARCHAR), CAST('memory' AS VARCHAR), x.current_schema FROM x"
    """
    if not _MAY_ASK.search(text) or _DESCRIBES.match(text):
        return text
    try:
        calls = sorted(set(_calls(text, columns)), reverse=True)
    except ParseError:  # binding reports it
        return text
    for start, end in calls:
        text = text[:start] + _value(text[start:end], in_use, attached) + text[end:]
    return text


def _calls(text: str, columns: Callable[[str], Iterable[str]]) -> Iterator[tuple[int, int]]:
    """The places of calls, in characters."""
    tree, words = list(nodes(tree_of(text))), lexed(text).words
    for node, _ in tree:
        named = _without_parentheses(node)
        if (named and _is_column(named, node, tree, columns)) or not (named or _asks(node)):
            continue
        if not named and not all(map(_is_constant, arguments_of(node))):  # a value is found outside of all limits
            raise BindError(f"{node['function_name']} takes constants alone once USE has named a schema")
        start = len(text.encode()[: node["query_location"]].decode())
        place = after = next(place for place, word in enumerate(words) if word.start >= start)
        while not named and words[after].text != "(":
            after += 1
        yield words[place].start, words[after if named else behind_closing(words, after) - 1].end


def _is_column(
    name: str, node: Node, tree: Iterable[tuple[Node, Names]], columns: Callable[[str], Iterable[str]]
) -> bool:
    """True where a column of a text has the name."""
    for other, named in tree:
        declared = [other.get("alias") or "", *other.get("column_name_alias", ()), *other.get("aliases", ())]
        if other is not node and name in map(str.lower, map(str, declared)):
            return True
        if other.get("type") == "BASE_TABLE" and not is_common_table(other, named):
            parts = (other.get("catalog_name"), other.get("schema_name"), other["table_name"])
            if name in map(str.lower, columns(".".join(map(quoted, filter(None, parts))))):
                return True
    return False


def _asks(node: Node) -> bool:
    if node.get("type") != "FUNCTION":
        return False
    name, arguments = node["function_name"].lower(), arguments_of(node)
    option = text_of(arguments[0]) if name == "current_setting" and len(arguments) == 1 else None
    return name in _CALLED or (option is not None and option.lower() in _OPTIONS)


def _is_constant(node: Node) -> bool:
    """True of a constant as written; TRUE is a text that is cast."""
    return bool(node.get("class") == "CONSTANT" or (node.get("class") == "CAST" and _is_constant(node["child"])))


def _without_parentheses(node: Node) -> str:
    """The function that a name alone may be; empty: none."""
    if node.get("type") != "COLUMN_REF" or len(node["column_names"]) > 1:
        return ""
    name = str(node["column_names"][0]).lower()
    return name if name in _WITHOUT_PARENTHESES else ""


@lru_cache(maxsize=256)
def _value(call: str, in_use: str, attached: bool) -> str:
    """The value of a call as SQL."""
    database, _, schema = in_use.partition(".") if attached else ("", "", in_use)
    path = ".".join(map(quoted, filter(None, (database, schema))))
    with open_duckdb(files=False, threads=1) as connection:
        if database:
            connection.execute(f"ATTACH ':memory:' AS {quoted(database)}")
        if schema:
            connection.execute(f"CREATE SCHEMA {path}")
        connection.execute(f"USE {path}")
        try:
            [(value, type_)] = connection.execute(f"SELECT CAST({call} AS VARCHAR), typeof({call})").fetchall()
        except duckdb.Error as error:
            raise BindError(f"{call} has no value: {error}") from error
    return f"CAST({sql_string(value)} AS {type_})"
