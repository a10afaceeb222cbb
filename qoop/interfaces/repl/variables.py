"""Substitutes variables of the shell, such as ``:name``, in a statement."""

from __future__ import annotations

from collections.abc import Mapping

from qoop.interfaces.repl.tokens import Token, tokens


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    r"""A text with its variables replaced: ``:name`` by the bare text, ``:'name'`` by a string, ``:"name"`` by an
    identifier. Unset names, strings, comments and casts stay. A colon directly after a value, as in slices and structs,
    belongs to DuckDB.

    >>> with_variables("SELECT :a, :'b', x::a, ':a', :c FROM :\"b\"", {"a": "1 + 1", "b": "o'clock"})
    'SELECT 1 + 1, \'o\'\'clock\', x::a, \':a\', :c FROM "o\'clock"'
    >>> with_variables("SELECT x[1:n], {'k':n, k:n}, x[:n]", {"n": "2"})
    "SELECT x[1:n], {'k':n, k:n}, x[2]"
    """
    if not variables or ":" not in text:
        return text
    found, parts, skip = tokens(text), [], False
    for place, token in enumerate(found):
        if skip:
            skip = False
            continue
        value = _value_of(token, found[place + 1 : place + 2], found[max(0, place - 1) : place], variables)
        skip = value is not None
        parts.append(token.text if value is None else value)
    return "".join(parts)


def _value_of(
    mark: Token, after: tuple[Token, ...], before: tuple[Token, ...], variables: Mapping[str, str]
) -> str | None:
    """The text of the variable that a colon begins; None: it begins none."""
    if mark.text != ":" or not after or any(_ends_a_value(one) for one in before):
        return None
    [name] = after
    match name.kind:
        case "word" if name.text in variables:
            return variables[name.text]
        case "string" if name.text[1:-1] in variables:
            return "'" + variables[name.text[1:-1]].replace("'", "''") + "'"
        case "quoted" if name.text[1:-1] in variables:
            return '"' + variables[name.text[1:-1]].replace('"', '""') + '"'
    return None


def _ends_a_value(token: Token) -> bool:
    """True if a colon directly after a token belongs to a cast, a slice or a struct."""
    return token.kind in ("word", "number", "string", "quoted", "parameter") or token.text in (":", ")", "]", "}")
