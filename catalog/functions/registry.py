"""The functions of a session by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import duckdb

from qoop.catalog.duckdb_introspection import ask, has_name
from qoop.catalog.errors import FunctionError, UnknownFunction
from qoop.catalog.functions.function import UserFunction

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VERSION = re.compile(r"[A-Za-z0-9._-]+")
_NULLS = ("default", "special")


def described(
    name: str,
    function: Callable[..., Any],
    parameters: Sequence[str],
    return_type: str,
    *,
    vectorised: bool = False,
    deterministic: bool = True,
    null_handling: str = "default",
    version: str | None = None,
) -> UserFunction:
    """A function under a name, with its checked declaration. Raises FunctionError."""
    _check_name(name)
    if not callable(function):
        raise FunctionError(f"the function {name} must be something to call, not {function!r}")
    if isinstance(parameters, str) or not all(isinstance(one, str) for one in parameters):
        raise FunctionError(f"the parameters of {name} must be a list of DuckDB's types, not {parameters!r}")
    if null_handling not in _NULLS:
        raise FunctionError(f"null_handling of {name} must be one of {', '.join(_NULLS)}, not {null_handling!r}")
    if vectorised and not parameters:
        raise FunctionError(f"the function {name} is vectorised, so it needs a parameter for the number of rows")
    if vectorised and any(re.search(r"\bU?HUGEINT\b", one, re.I) for one in (*parameters, return_type)):
        raise FunctionError(f"Arrow has no HUGEINT for the vectorised {name}; declare BIGINT or DECIMAL(38,0)")
    if version is not None and not _VERSION.fullmatch(version):
        raise FunctionError(f"the version of {name} must be of characters and digits and . _ -, not {version!r}")
    types = tuple(_type(one, f"a parameter of {name}") for one in parameters)
    result = _type(return_type, f"the result of {name}")
    promises = f"{types} {result} {vectorised} {deterministic} {null_handling}"
    from qoop.catalog.functions.version import version_of  # few sessions have functions

    found = version if version is not None else version_of(function)
    return UserFunction(
        name, _joined(found, promises), types, result, vectorised, deterministic, null_handling == "special", function
    )


def _joined(version: str, promises: str) -> str:
    return blake2b(f"{version}\0{promises}".encode(), digest_size=8).hexdigest()


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise FunctionError(f"a function's name must be an ASCII word, such as to_number, not {name!r}")
    literal = name.lower()
    rows = ask(f"SELECT DISTINCT function_type FROM duckdb_functions() WHERE lower(function_name) = '{literal}'")
    if rows:
        raise FunctionError(f"DuckDB has a {rows[0][0]} function {name} already; choose another name")
    try:
        ask(f"SELECT {name}(1) WHERE false")
    except duckdb.ParserException as error:
        raise FunctionError(f"{name} is a word of SQL, which no function can have for a name") from error
    except duckdb.CatalogException:
        return  # the name is free
    except duckdb.Error:
        pass
    raise FunctionError(f"{name}() means something to DuckDB already; choose another name")


def _type(text: str, what: str) -> str:
    """A type as DuckDB writes it."""
    if not isinstance(text, str) or not text.strip() or not has_name(text):
        raise FunctionError(f"{what} must be one of DuckDB's types, such as 'BIGINT' or 'VARCHAR[]', not {text!r}")
    ((_, type_, *_),) = ask(f"DESCRIBE SELECT CAST(NULL AS {text})")
    return str(type_)


class Functions:
    """The functions of a session. Not thread-safe: the owner holds a lock."""

    def __init__(self) -> None:
        self._known: dict[str, UserFunction] = {}

    def __iter__(self) -> Iterator[UserFunction]:
        return iter(sorted(self._known.values(), key=lambda one: one.name.lower()))

    def add(self, function: UserFunction, replace: bool) -> UserFunction | None:
        """Make a function known; returns the one that had its name. Raises FunctionError if it may not be replaced."""
        before = self._known.get(function.name.lower())
        if before is not None and not replace:
            raise FunctionError(f"there is a function {before.signature} already; replace=True replaces it")
        self._known[function.name.lower()] = function
        return before

    def remove(self, name: str) -> UserFunction:
        """Forget a function. Raises UnknownFunction."""
        found = self._known.pop(name.lower(), None)
        if found is None:
            known = ", ".join(self.names) or "none"
            raise UnknownFunction(f"no function {name} is registered. Functions here: {known}")
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(one.name for one in self)

    def named(self, text: str | None) -> Mapping[str, UserFunction]:
        """Those that a text may call, by lower-case name: all whose names are words of it. None: all there are."""
        if text is None or not self._known:
            return dict(self._known)
        words = set(re.findall(r"\w+", text.lower()))
        return {name: function for name, function in sorted(self._known.items()) if name in words}
