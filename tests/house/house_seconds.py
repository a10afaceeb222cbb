"""Seconds by which tests bound what must happen: fewer than a busy machine may take make a test fail by chance."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from waits import PATIENCE

TESTS = Path(__file__).parents[1]
_WAITING = frozenset(("acquire", "communicate", "get", "join", "result", "run", "settimeout", "wait"))
_CONNECTING = frozenset(("create_connection", "FlightCallOptions", "HTTPConnection", "HTTPSConnection"))
_CLOCKS = frozenset(("monotonic", "perf_counter"))
_POLL = 1.0
"""Waits of less are looks at what has not happened, or turns of a loop."""


def short_bounds(folder: Path = TESTS) -> Iterator[str]:
    """Where a test gives up sooner than `PATIENCE` seconds, or asserts that something took less."""
    for path in sorted(folder.rglob("*.py")):
        for line in sorted(set(_lines(ast.parse(path.read_text())))):
            yield f"{path.relative_to(folder)}:{line}"


def _lines(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(text)) if "\n" in text and (program := _program(text)):
                yield from (node.lineno + line - 1 for line in _lines(program))
                continue
            case ast.Call():
                bounds = _bounds(node)
            case ast.BinOp(left, ast.Add(), right) if _reads_a_clock(left):
                bounds = [right]
            case ast.Compare(left, [ast.Lt() | ast.LtE()], [right]) if _is_elapsed(left):
                bounds = [right]
            case _:
                continue
        yield from (node.lineno for bound in bounds if _is_short(bound))


def _program(text: str) -> ast.AST | None:
    """The program that a text is, such as one for another process; None: it is none."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _bounds(call: ast.Call) -> list[ast.expr]:
    """The seconds after which a call gives up."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    first = call.args[:1] if name in ("join", "result", "settimeout", "wait") else []
    return first + [word.value for word in call.keywords if word.arg == "timeout" and name in _WAITING | _CONNECTING]


def _is_short(bound: ast.expr) -> bool:
    return isinstance(bound, ast.Constant) and isinstance(bound.value, int | float) and _POLL <= bound.value < PATIENCE


def _reads_a_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _CLOCKS


def _is_elapsed(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and any(map(_reads_a_clock, ast.walk(node)))
