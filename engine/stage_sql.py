"""The check that the SQL of a stage is one SELECT over its named inputs and nothing else.

The SQL of a stage that was read from a file, or came from another process, is text that may have been changed. It
is parsed by DuckDB, as the kernel would run it, and its tree is looked through before it runs. A table that is
neither an input nor a common table expression would be a file (``FROM 'x.csv'``) or a catalog entry; a table
function could read files (``read_text``) or run text (``query``). All else that DuckDB can do is no SELECT.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import duckdb

from qoop.catalog.by_text import by_text
from qoop.catalog.duckdb_introspection import ask
from qoop.catalog.errors import PlanError
from qoop.engine.storage.partition import with_partition_number
from qoop.planner.plan import Plan, Stage

_HARMLESS = frozenset({"unnest", "generate_series", "range", "repeat", "repeat_row", "generate_subscripts"})
"""Table functions that make rows of their arguments alone."""

_OPTIONS = "skip_null := true, skip_empty := true, skip_default := true"
_REMEMBERED = 4096

Names = frozenset[str]


def check_plan(plan: Plan) -> None:
    """Raise PlanError unless every stage is one SELECT over its named inputs."""
    for stage in plan.stages:
        check_stage(stage)


def check_stage(stage: Stage) -> None:
    """Raise PlanError unless the stage is one SELECT over its named inputs.

    A stage that the planner did not take apart (`Stage.opaque`) is the user's own text, which may read files; it is
    refused here, since only the user can say so.
    """
    if stage.opaque is not None:
        raise PlanError(f"stage {stage.id} is a user's text, which was not checked")
    names = frozenset(item.name.lower() for item in stage.inputs)
    found = _fault(with_partition_number(stage) if stage.layout.parts > 1 else stage.sql, names)
    if found:
        raise PlanError(f"stage {stage.id} is not a SELECT over its inputs alone: {found}")


@by_text(_REMEMBERED)
def _fault(sql: str, names: Names) -> str:
    """The fault of the text; empty if there is none."""
    try:
        ((tree,),) = ask(f"SELECT json_serialize_sql('{sql.replace(chr(39), chr(39) * 2)}', {_OPTIONS})")
        return next(_faults(json.loads(str(tree)), names), "")
    except (duckdb.Error, ValueError, RecursionError) as error:
        return f"it cannot be parsed: {error}"


def _faults(tree: dict[str, Any], names: Names) -> Iterator[str]:
    statements = tree.get("statements", ())
    if tree.get("error") or len(statements) != 1:
        yield str(tree.get("error_message") or f"it holds {len(statements)} statements")
    else:
        yield from _within(statements[0], names)


def _within(item: Any, names: Names) -> Iterator[str]:
    """Look through any part of the tree. names: what a table may be called there."""
    if isinstance(item, list):
        for part in item:
            yield from _within(part, names)
    elif isinstance(item, dict):
        if "cte_map" in item:
            names = yield from _definitions(item["cte_map"].get("map", ()), names)
        if item.get("type") == "RECURSIVE_CTE_NODE":
            names |= {str(item.get("cte_name")).lower()}
        for key, part in item.items():
            if key == "from_table":
                yield from _table(part, names)
            elif key != "cte_map":
                yield from _within(part, names)


def _definitions(definitions: Sequence[dict[str, Any]], names: Names) -> Generator[str, None, Names]:
    """Look through common table expressions, each of which sees those before it; returns the names with theirs."""
    for one in definitions:
        yield from _within(one["value"], names)
        names |= {str(one["key"]).lower()}
    return names


def _table(item: dict[str, Any], names: Names) -> Iterator[str]:
    """Look through what stands in a FROM."""
    match item.get("type"):
        case "BASE_TABLE":
            name = ".".join(str(item[key]) for key in ("catalog_name", "schema_name", "table_name") if key in item)
            if name.lower() not in names or "schema_name" in item:
                yield f"it reads {name}, which is not among {', '.join(sorted(names)) or 'its inputs: it has none'}"
        case "TABLE_FUNCTION":
            function = str(item["function"].get("function_name"))
            if function.lower() not in _HARMLESS:
                yield f"it calls {function}()"
        case "JOIN":
            yield from _table(item["left"], names)
            yield from _table(item["right"], names)
        case "PIVOT":
            yield from _table(item["source"], names)
        case "SUBQUERY" | "EXPRESSION_LIST" | "EMPTY" | "EMPTY_FROM":
            pass
        case other:
            yield f"it reads from {other}"
    yield from _within({key: part for key, part in item.items() if key not in ("left", "right", "source")}, names)
