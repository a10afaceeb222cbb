"""The digest of a function: its code, and the values that the code reads from its module and closure.

Two processes that run the same program get the same digest. An object without a known content, such as one in a
closure, makes the digest differ in every process. Then no output of an earlier process is reused, which is slow but
right; a `version` set by the user avoids that.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def version_of(function: Callable[..., Any]) -> str:
    """The digest of a function.

    >>> def maker(step):
    ...     return lambda number: number + step
    >>> version_of(maker(1)) == version_of(maker(1)), version_of(maker(1)) == version_of(maker(2))
    (True, False)
    """
    digest = blake2b(digest_size=8)
    for part in _facts(function, set()):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _facts(thing: Any, visited: set[int]) -> Iterator[str]:
    """All facts that identify an object, as texts."""
    if isinstance(thing, _PLAIN):
        yield repr(thing)
        return
    if id(thing) in visited:
        yield "again"
        return
    visited.add(id(thing))
    yield type(thing).__name__
    match thing:
        case FunctionType():
            yield from _function(thing, visited)
        case CodeType():
            yield from _code(thing, visited)
        case ModuleType():
            yield from _module(thing)
        case BuiltinFunctionType() if isinstance(thing.__self__, ModuleType | None):
            yield f"{thing.__module__}.{thing.__qualname__} of {sys.version}"
        case MethodType():
            yield from _facts_of_all((thing.__func__, thing.__self__), visited)
        case functools.partial():
            yield from _facts_of_all((thing.func, thing.args, thing.keywords), visited)
        case tuple() | list():
            yield from _facts_of_all(thing, visited)
        case dict():
            yield from _facts_of_all((part for item in thing.items() for part in item), visited)
        case frozenset() | set() if all(isinstance(item, _PLAIN) for item in thing):
            yield from sorted(map(repr, thing))
        case type() if thing.__module__ == "builtins":
            yield thing.__qualname__
        case _:
            yield token_hex(8)  # content unknown


def _facts_of_all(things: Any, visited: set[int]) -> Iterator[str]:
    for one in things:
        yield from _facts(one, visited)


def _function(function: FunctionType, visited: set[int]) -> Iterator[str]:
    yield from _code(function.__code__, visited)
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    yield from _facts_of_all((function.__defaults__, function.__kwdefaults__, *cells), visited)
    around = function.__globals__
    for name in sorted(_names(function.__code__)):
        if name in around:
            yield name
            yield from _global(around[name], around, visited)


def _global(thing: Any, around: Mapping[str, Any], visited: set[int]) -> Iterator[str]:
    """The value of a global name; functions of other packages are identified by the version of the package."""
    home = getattr(thing, "__module__", None)
    if isinstance(thing, FunctionType | type) and isinstance(home, str) and home != around.get("__name__"):
        version = _version(home)
        if version:
            yield f"{home}.{thing.__qualname__} of {version}"
            return
    yield from _facts(thing, visited)


def _names(code: CodeType) -> set[str]:
    """The names that the code, or code nested in it, reads."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _code(code: CodeType, visited: set[int]) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_argcount} {code.co_flags}"
    yield code.co_exceptiontable.hex()
    yield from _facts_of_all(code.co_consts, visited)


def _module(module: ModuleType) -> Iterator[str]:
    version = _version(module.__name__)
    yield f"{module.__name__} {version}"
    file = getattr(module, "__file__", None)
    if version is None and file is not None and Path(file).is_file():
        yield blake2b(Path(file).read_bytes()).hexdigest()


def _version(module: str) -> str | None:
    """The version of the package of a module; that of Python for a module of the standard library."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return sys.version
    version = getattr(sys.modules.get(top), "__version__", None)
    return str(version) if version is not None else None


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
