"""The columns of its tables that a query may read, by DuckDB's parse tree: nothing is bound, so columns are named
rather too often than too seldom.

A column is read where its name stands anywhere in the text. All columns of a table are read where a star may stand for
them, or where the table is named as a row. A text with anything else that reads columns without their names, such as
NATURAL, has no answer here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from qoop.catalog.errors import QueryError
from qoop.planner.parse_tree import Node, is_common_table, nodes, tree_of

_WORD = re.compile(r"\w+")

_UNNAMED = frozenset(("PIVOT", "SHOW_REF", "TABLE_FUNCTION", "POSITIONAL_REFERENCE"))
"""Types of nodes that may read columns which are not named."""


def columns_read(text: str, tables: Mapping[str, tuple[str, ...]]) -> Mapping[str, frozenset[str]] | None:
    """The columns that a query may read of each table; None: of all tables all. tables: the columns of those that the
    text may name, by their names in lower case.

    >>> tables = {"t": ("a", "b c", "d"), "u": ("a", "e")}
    >>> found = columns_read('SELECT x.a, * FROM (SELECT a, "b c" FROM t) AS x, u', tables)
    >>> sorted(found["t"]), sorted(found["u"])
    (['a', 'b c'], ['a', 'e'])
    >>> columns_read("SELECT count(*) FROM t NATURAL JOIN u", tables) or columns_read("SELECT * FROM s.t", tables)
    """
    try:
        whole = _read_whole(tree_of(text))
    except QueryError:
        return None
    if whole is None or not whole <= tables.keys():  # a view
        return None
    words = frozenset(_WORD.findall(text.lower()))
    return {
        name: frozenset(
            column for column in columns if name in whole or words.issuperset(_WORD.findall(column.lower()))
        )
        for name, columns in tables.items()
    }


def _read_whole(tree: Any) -> frozenset[str] | None:
    """The names of tables of which all columns may be read; None: of all tables."""
    below_stars: set[int] = set()
    of_alias: dict[str, set[str]] = {}
    rows: set[str] = set()
    whole: set[str] = set()
    for node, named in nodes(tree):
        match node.get("type"):
            case "SELECT_NODE":
                below_stars.update(_below_star(node))
            case "STAR" if node.get("relation_name"):  # of this query, or of one around it
                return None
            case "JOIN" if node.get("ref_type") == "NATURAL":
                return None
            case "COLUMN_REF":
                rows.add(node["column_names"][-1].lower())
            case "BASE_TABLE" if node.get("schema_name") or node.get("catalog_name"):
                return None
            case "BASE_TABLE" if not is_common_table(node, named):
                name = node["table_name"].lower()
                for alias in (name, node.get("alias", "").lower()):
                    of_alias.setdefault(alias, set()).add(name)
                if id(node) in below_stars:
                    whole.add(name)
            case str(type_) if type_ in _UNNAMED:
                return None
    return frozenset(whole.union(*(of_alias[name] for name in rows & of_alias.keys())))


def _below_star(select: Node) -> Iterator[int]:
    """The identities of the tables in FROM of a SELECT that has a star."""
    own = list(_own_nodes(select))
    if any(node.get("type") == "STAR" for node in own):
        yield from (id(node) for node in own if node.get("type") == "BASE_TABLE")


def _own_nodes(select: Node) -> Iterator[Node]:
    """The nodes of a SELECT without those of other SELECTs in it."""
    waiting: list[Any] = list(select.values())
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict) and item.get("type") != "SELECT_NODE":
            yield item
            waiting += item.values()
