"""Renames queries of a WITH that share a name with another one.

The planner keeps one definition per name, and writes all of them in front of a text that DuckDB runs. An inner WITH may
define a name again, and its query may read the outer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from sqlglot import exp

_RECURRING = "recurring"
"""The schema through which a WITH RECURSIVE … USING KEY reads all rows found so far."""


def unique_cte_names(ast: exp.Expression) -> exp.Expression:
    """The statement with a unique name for each query of a WITH; the same object if they are unique already.

    >>> from sqlglot import parse_one
    >>> text = "WITH v AS (SELECT 1 AS i) SELECT v.i FROM v, (WITH v AS (SELECT -i AS i FROM v) SELECT i FROM v)"
    >>> print(unique_cte_names(parse_one(text)).sql())
    WITH v AS (SELECT 1 AS i) SELECT v.i FROM v, (WITH "v_2" AS (SELECT -i AS i FROM v) SELECT i FROM "v_2" AS v)
    """
    names = [item.alias.lower() for item in ast.find_all(exp.CTE)]
    if len(set(names)) == len(names):
        return ast
    ast = ast.copy()
    _Renaming(ast).visit(ast, {})
    return ast


class _Renaming:
    """One walk over a statement that renames each query whose name was defined before."""

    def __init__(self, ast: exp.Expression) -> None:
        self._defined_names: set[str] = set()
        self._taken = {name.name.lower() for name in ast.find_all(exp.Identifier)}

    def visit(self, node: exp.Expression, names: Mapping[str, str]) -> None:
        """Rename in a part of the statement. names: the new names, by the lower-case ones in the text."""
        clause = node.args.get("with_")
        if isinstance(node, exp.Table) and node.name.lower() in names and node.db.lower() in ("", _RECURRING):
            self._point(node, names[node.name.lower()])
        if clause is not None:
            names = self._define(clause, names)
        for child in node.iter_expressions():
            if child is not clause:
                self.visit(child, names)

    def _define(self, clause: exp.Expression, names: Mapping[str, str]) -> Mapping[str, str]:
        """Rename in a WITH, and return the names that hold after it."""
        for item in clause.expressions:
            name = item.alias.lower()
            own = {**names, name: self._own_name(name)}
            self.visit(item.this, own if clause.args.get("recursive") else names)
            if own[name] != name:
                item.args["alias"].set("this", exp.to_identifier(own[name], quoted=True))
            names = own
        return names

    def _own_name(self, name: str) -> str:
        tried = (f"{name}_{number}" for number in count(2))
        found = name if name not in self._defined_names else next(one for one in tried if one not in self._taken)
        self._defined_names.add(name)
        self._taken.add(found)
        return found

    @staticmethod
    def _point(table: exp.Table, name: str) -> None:
        """Let a table in FROM refer to another name, with the old one as its alias."""
        if name == table.name.lower():
            return
        if not table.alias:
            alias = table.args.get("alias") or exp.TableAlias()
            alias.set("this", table.this.copy())
            table.set("alias", alias)
        table.set("this", exp.to_identifier(name, quoted=True))
