"""Values by the text that their `repr` gives: calls of classes by name, whose arguments are such calls or literals."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

Kinds = Callable[[str], Callable[..., Any]]
"""The class of a name. Raises ValueError for one that may not be made."""


def described(text: str, kinds: Kinds, constants: Mapping[str, Any] | None = None) -> Any:
    """The value that a text describes. constants: names that stand for values, such as ``inf``.

    Raises SyntaxError, ValueError, TypeError for a text that describes none.

    >>> described("complex(real=1.0, imag=2.0)", {"complex": complex}.__getitem__)
    (1+2j)
    >>> described("(-inf, complex(real=1.0))", {"complex": complex}.__getitem__, {"inf": float("inf")})
    (-inf, (1+0j))
    """
    return _made(ast.parse(text, mode="eval").body, kinds, constants or {})


def _made(node: ast.expr, kinds: Kinds, constants: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.Tuple):
        return tuple(_made(one, kinds, constants) for one in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Name):
        return -_made(node.operand, kinds, constants)
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    kind = kinds(node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func))
    arguments = [_made(one, kinds, constants) for one in node.args]
    return kind(*arguments, **{str(one.arg): _made(one.value, kinds, constants) for one in node.keywords})
