"""Values: classes of fields that are frozen for the type checker, and cost little at run time.

A frozen dataclass costs twice. Its `__init__` sets each field through a check, so an object of four fields takes four
times as long to make; the core makes some thirty objects with every task. `dataclasses` also compiles six methods while
the module is loaded, 0.5 ms a class. A process that runs one short query loads some two hundred classes and uses
thirty.

So writes to a value are not checked at run time (mypy reports them). Its methods are compiled at their first call, and
the fields of `dataclasses` are made at their first use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass
from functools import cached_property
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_ON_FIRST_CALL: dict[str, dict[str, Any]] = {
    "__repr__": {"init": False, "repr": True, "eq": False},
    "__eq__": {"init": False, "repr": False, "eq": True},
    "__hash__": {"init": False, "repr": False, "eq": True, "unsafe_hash": True},
}
"""The methods of `dataclasses`, each with the parameters that make it alone."""
_COMPILED = ("__init__", *_ON_FIRST_CALL)
_DOC = "Never read."
"""The docstring of classes that only serve to make methods: `dataclasses` would compute a signature in 0.5 ms."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make a dataclass that compares and hashes by its fields, and is never written to.

    It has slots, unless it has cached properties, which need a ``__dict__``.

    >>> @value
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), len({Point(1), Point(1)})
    (Point(x=1, y=0), True, 1)
    """
    own, types = dict(vars(cls)), inspect.get_annotations(cls)
    defaults = {name: own.get(name, MISSING) for name in types}
    known = {**_inherited(cls), **defaults}
    slots = not any(isinstance(one, cached_property) for one in own.values())
    made: type[T] = _with_slots(cls, own, types) if slots else _without_defaults(cls, defaults)
    about = {
        "__value_defaults__": known,
        "__match_args__": tuple(name for name, default in known.items() if _is_parameter(default)),
        "__dataclass_params__": _PARAMS,
        "__dataclass_fields__": _FieldsLater(made, types, defaults),
    }
    methods = {name: _compiled_on_first_call(made, name) for name in _COMPILED if name not in own}
    for name, one in (about | methods).items():
        setattr(made, name, one)
    return made


def changed(one: T, **changes: Any) -> T:
    """A value with some fields changed: `dataclasses.replace` in a third of its time, for the path of each query.

    All fields must be parameters of `__init__`.
    """
    kind: Any = type(one)
    made: T = kind(**({name: getattr(one, name) for name in kind.__value_defaults__} | changes))
    return made


def _inherited(cls: type[Any]) -> dict[str, object]:
    """The fields of the classes that a value is made from, with their defaults."""
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__[1:]):
        own = vars(base)
        if "__value_defaults__" in own:
            found |= own["__value_defaults__"]
        elif "__dataclass_fields__" in own:
            found |= own["__dataclass_fields__"]
    return found


def _is_parameter(default: object) -> bool:
    """True for a field that is a parameter of `__init__`."""
    return not isinstance(default, Field) or default.init


def _with_slots(cls: type[Any], own: dict[str, Any], types: Mapping[str, str]) -> Any:
    """The class again, with a slot for each field that no class before it has one for."""
    taken = {name for base in cls.__mro__[1:-1] for name in getattr(base, "__slots__", ())}
    body = {name: one for name, one in own.items() if name not in types and name not in ("__dict__", "__weakref__")}
    kind: Any = type(cls)
    made = kind(cls.__name__, cls.__bases__, {**body, "__slots__": tuple(n for n in types if n not in taken)})
    made.__qualname__ = cls.__qualname__
    return made


def _without_defaults(cls: type[Any], defaults: Mapping[str, object]) -> Any:
    """The class itself, with the plain defaults of its fields as attributes."""
    for name, default in defaults.items():
        if isinstance(default, Field):
            if default.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, default.default)
    return cls


class _FieldsLater:
    """The fields of a value for `dataclasses`, made at their first use."""

    def __init__(self, owner: type[Any], types: Mapping[str, str], defaults: Mapping[str, object]) -> None:
        self._owner = owner
        self._types = types
        self._defaults = defaults

    def __get__(self, instance: object, cls: type[Any]) -> dict[str, Field[Any]]:
        found: dict[str, Field[Any]] = {}
        for base in reversed(self._owner.__mro__[1:]):
            if "__dataclass_fields__" in vars(base):
                found |= {one.name: one for one in fields(base)}
        own = {name: default for name, default in self._defaults.items() if default is not MISSING}
        body = {"__module__": self._owner.__module__, "__annotations__": dict(self._types), "__doc__": _DOC, **own}
        twin: Any = dataclass(init=False, repr=False, eq=False)(type(self._owner.__name__, (), body))
        found |= twin.__dataclass_fields__
        self._owner.__dataclass_fields__ = found
        return found


_NO_FIELDS: Any = dataclass(init=False, repr=False, eq=False)(type("_", (), {"__doc__": _DOC}))
_PARAMS = _NO_FIELDS.__dataclass_params__


def _compiled_on_first_call(cls: type[Any], name: str) -> Callable[..., Any]:
    """A placeholder for a method of a dataclass, until its first call."""

    def method(self: object, *arguments: object, **named: object) -> object:
        made = _init(cls) if name == "__init__" else _of_dataclass(cls, name)
        setattr(cls, name, made)  # the class has it from now on
        return made(self, *arguments, **named)

    method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return method


def _init(cls: type[Any]) -> Callable[..., Any]:
    """The method that makes an object, as `dataclasses` would write it, in a fifth of the time."""
    known: dict[str, Any] = {"MISSING": MISSING}
    parameters, body = ["self"], []
    for one, default in cls.__value_defaults__.items():
        plain: Any = default
        factory: Any = MISSING
        if isinstance(default, Field):
            plain, factory = default.default, default.default_factory
        known |= {f"default_{one}": plain, f"factory_{one}": factory}
        made = f"factory_{one}()" if factory is not MISSING else f"default_{one}"
        if not _is_parameter(default):
            body += [f"self.{one} = {made}"] if factory is not MISSING or plain is not MISSING else []
        elif factory is not MISSING:
            parameters.append(f"{one}=MISSING")
            body.append(f"self.{one} = {made} if {one} is MISSING else {one}")
        else:
            parameters.append(one if plain is MISSING else f"{one}=default_{one}")
            body.append(f"self.{one} = {one}")
    body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), known)
    compiled: Callable[..., Any] = known["__init__"]
    compiled.__qualname__, compiled.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return compiled


def _of_dataclass(cls: type[Any], name: str) -> Callable[..., Any]:
    """The method as `dataclasses` makes it."""
    same = [(one.name, one.type, one) for one in fields(cls)]
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": _DOC}
    twin = make_dataclass(cls.__name__, same, namespace=names, **_ON_FIRST_CALL[name])
    compiled: Callable[..., Any] = vars(twin)[name]
    return compiled
