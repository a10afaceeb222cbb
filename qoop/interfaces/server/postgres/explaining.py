"""EXPLAIN with PostgreSQL's options: the plan as JSON, or as text with estimates as PostgreSQL writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import Forbidden, QueryError
from qoop.catalog.lexer import Lexeme, behind_closing, lexed, list_items
from qoop.catalog.value import value
from qoop.interfaces.server.postgres.rows import Columns

if TYPE_CHECKING:
    from qoop.interfaces.server.service import Service
    from qoop.interfaces.server.users import User
    from qoop.planner.plan import Plan, Stage

_OFF = ("FALSE", "OFF", "0")


@value
class Explained:
    """The query whose plan is shown. form: TEXT or JSON."""

    query: str
    form: str

    @property
    def columns(self) -> Columns:
        """The only column of the answer."""
        return (("QUERY PLAN", "JSON" if self.form == "JSON" else "VARCHAR"),)

    def of_catalog(self) -> list[tuple[str]]:
        """The plan of a question about the catalog, which is always the same."""
        return self.rows({"Node Type": "Result", "Parallel Aware": False, **_costs(0.0, 1, 8)})

    def rows(self, root: dict[str, Any]) -> list[tuple[str]]:
        """The rows of the answer. root: the last node of the plan, as PostgreSQL's JSON has it."""
        if self.form == "JSON":
            return [(json.dumps([{"Plan": root}], indent=2),)]
        return [(line,) for line in _lines(root, 0)]


def explaining(text: str) -> Explained | None:
    """The query of an EXPLAIN with options of PostgreSQL's; None if the text is no such. Raises Forbidden, QueryError.

    >>> explaining("EXPLAIN (FORMAT JSON, COSTS off) FROM t"), explaining("EXPLAIN FROM t")
    (Explained(query='FROM t', form='JSON'), None)
    """
    words = [word for word in lexed(text).words if word.text != ";"]
    if len(words) < 3 or not words[0].says("EXPLAIN"):
        return None
    if words[1].says("VERBOSE"):
        return Explained(text[words[2].start :], "TEXT")
    if words[1].text != "(" or words[2].says("SELECT", "FROM", "WITH", "VALUES", "("):
        return None
    end = behind_closing(words, 1)
    options = dict(_option(words[2:end][first:after]) for first, after in list_items(words[2 : end - 1]))
    if options.get("ANALYZE", "OFF") not in _OFF:
        raise Forbidden("a server does not EXPLAIN ANALYZE: it would run the query beyond its limits")
    form = options.get("FORMAT", "TEXT")
    if form not in ("TEXT", "JSON"):
        raise QueryError(f"EXPLAIN has no format {form} here: it has TEXT and JSON")
    if end >= len(words):
        raise QueryError("EXPLAIN names no query")
    return Explained(text[words[end].start :].rstrip().rstrip(";"), form)


def explained_plan(service: Service, user: User, explained: Explained, query: str) -> list[tuple[str]]:
    """The rows of the answer, by the plan that the query would have. Raises as `Service.described` does."""
    plan = service.planned(user, query, "postgres")
    if plan is None:
        raise QueryError("EXPLAIN takes a query whose columns its text says")
    return explained.rows(_node(plan.root, plan))


def _node(stage: Stage, plan: Plan) -> dict[str, Any]:
    seconds = stage.estimate.task_seconds * stage.width
    width = max(1, round(stage.estimate.bytes / max(1.0, stage.estimate.rows)))
    node: dict[str, Any] = {
        "Node Type": stage.label or ("DuckDB plan" if stage.whole else "Stage"), "Parallel Aware": stage.width > 1,
        **_costs(seconds, round(stage.estimate.rows), width),
    }  # fmt: skip
    below = [_node(plan.by_id[one.stage], plan) for one in stage.stage_inputs]
    below += [
        {"Node Type": "Seq Scan", "Parallel Aware": stage.width > 1, "Relation Name": one.table, "Alias": one.table,
         **_costs(0.0, round(stage.estimate.rows), width)} for one in stage.table_inputs
    ]  # fmt: skip
    return node | ({"Plans": below} if below else {})


def _costs(seconds: float, rows: int, width: int) -> dict[str, Any]:
    """Costs are estimated milliseconds of processor time."""
    return {"Startup Cost": 0.0, "Total Cost": round(seconds * 1000, 2), "Plan Rows": rows, "Plan Width": width}


def _lines(node: dict[str, Any], depth: int) -> Iterator[str]:
    of = f" on {node['Relation Name']}" if "Relation Name" in node else ""
    arrow = "" if depth == 0 else "  " * (3 * depth - 2) + "->  "
    yield (
        f"{arrow}{node['Node Type']}{of}  (cost={node['Startup Cost']:.2f}..{node['Total Cost']:.2f} "
        f"rows={node['Plan Rows']} width={node['Plan Width']})"
    )
    for below in node.get("Plans", ()):
        yield from _lines(below, depth + 1)


def _option(words: Sequence[Lexeme]) -> tuple[str, str]:
    texts = [word.text.strip("'").upper() for word in words]
    return (texts[0] if texts else ""), (texts[1] if len(texts) > 1 else "ON")
