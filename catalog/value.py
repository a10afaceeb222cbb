"""Values: classes of fields that are frozen for the type checker, and cost little where the program runs.

A frozen dataclass costs twice. It sets each field through a check that it is not being set, which makes an object of
four fields take four times as long to make as one that is not frozen; the core makes some thirty objects with every
task. And `dataclasses` compiles six methods for it while its module is loaded, 0.5 ms a class, which a process that
runs one short query spends on some two hundred classes of which it uses thirty. So a value is not checked when it is
written to (mypy reports code that does that), and its methods are compiled when they are first called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cached_property
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_ON_FIRST_CALL: dict[str, dict[str, Any]] = {
    "__init__": {"init": True, "repr": False, "eq": False},
    "__repr__": {"init": False, "repr": True, "eq": False},
    "__eq__": {"init": False, "repr": False, "eq": True},
    "__hash__": {"init": False, "repr": False, "eq": True, "unsafe_hash": True},
}
"""The methods that `dataclasses` makes, each alone."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make a dataclass that is equal, and hashes, by its fields, and is never written to.

    It has slots, unless it has cached properties, which need a ``__dict__``.

    >>> @value
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), len({Point(1), Point(1)})
    (Point(x=1, y=0), True, 1)
    """
    own = set(cls.__dict__)
    if cls.__doc__ is None:
        cls.__doc__ = f"{cls.__name__}."  # else `dataclass` compiles __init__ to tell its signature
    slots = not any(isinstance(one, cached_property) for one in cls.__dict__.values())
    made = dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    for name in _ON_FIRST_CALL:
        if name not in own:
            setattr(made, name, _compiled_on_first_call(made, name))
    return made


def _compiled_on_first_call(cls: type[Any], name: str) -> Callable[..., Any]:
    """A method that takes the place of one of a dataclass until it is called."""

    def method(self: object, *arguments: object, **named: object) -> object:
        return _compiled(cls, name)(self, *arguments, **named)

    method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return method


def _compiled(cls: type[Any], name: str) -> Callable[..., Any]:
    """The method as `dataclasses` makes it, which the class has from now on."""
    same = [(one.name, one.type, one) for one in fields(cls)]
    after = {"__post_init__": cls.__post_init__} if hasattr(cls, "__post_init__") else {}
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__, **after}
    twin = make_dataclass(cls.__name__, same, namespace=names, **_ON_FIRST_CALL[name])
    compiled: Callable[..., Any] = vars(twin)[name]
    setattr(cls, name, compiled)
    return compiled
