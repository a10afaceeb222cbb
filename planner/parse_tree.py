"""DuckDB's parse tree of a query: its nodes, each with the names that are no tables there.

Only this walk of the tree determines what a query reads: a locked session (:mod:`qoop.planner.lock`) and the sources of
a query (:mod:`qoop.planner.sql.sources`) must agree on that. It does not recurse, since texts may nest deeply.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from qoop.catalog.errors import QueryError
from qoop.planner.algebra.types import parse_tree

Node = Mapping[str, Any]
Names = frozenset[str]


def tree_of(text: str) -> Any:
    """The tree of a query. Raises ParseError for a text that is none, QueryError for one that nests too deeply."""
    try:
        return json.loads(parse_tree(text))
    except RecursionError as error:
        raise QueryError("the query is nested too deeply: its tables and functions cannot be determined") from error


def nodes(tree: Any) -> Iterator[tuple[Node, Names]]:
    """Every node, in the order of the text, with the names in lower case that the WITHs around it give."""
    waiting: list[tuple[Any, Names]] = [(tree, frozenset())]
    while waiting:
        item, named = waiting.pop()
        if isinstance(item, list):
            waiting += [(one, named) for one in reversed(item)]
        elif isinstance(item, dict):
            yield item, named
            waiting += reversed(list(_below(item, named)))


def _below(node: Node, named: Names) -> Iterator[tuple[Any, Names]]:
    """The parts of a node. A name of WITH holds from there on, not in its own text but for the part that recurs."""
    for entry in (node.get("cte_map") or {}).get("map", ()):
        yield entry["value"], named
        named |= {entry["key"].lower()}
    for key, part in node.items():
        if key == "right" and node.get("type") == "RECURSIVE_CTE_NODE":
            yield part, named | {node["cte_name"].lower()}
        elif key != "cte_map":
            yield part, named


def is_common_table(node: Node, named: Names) -> bool:
    """True for a BASE_TABLE that stands for a query of a WITH. ``recurring.a`` is what WITH RECURSIVE has of a."""
    if node.get("catalog_name") or node.get("schema_name", "") not in ("", "recurring"):
        return False
    return node["table_name"].lower() in named


def arguments_of(function: Node) -> list[Any]:
    """The arguments of a function. DuckDB 2.0 has each with a name, DuckDB 1 their expressions alone."""
    if "arguments" in function:
        return [argument["expression"] for argument in function["arguments"]]
    return list(function.get("children", ()))


def text_of(constant: Node) -> str | None:
    """The text that a constant is; None: it is something else. DuckDB 2.0 has it as written, DuckDB 1 as a value."""
    literal, value = constant.get("literal", {}), constant.get("value", {})
    if literal.get("kind") == "STRING":
        return str(literal["text"])
    return str(value["value"]) if value.get("type", {}).get("id") == "VARCHAR" else None
