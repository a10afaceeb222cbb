"""Plans as JSON, for what outlives a process or is read by another: plan caches, bundles, traces.

The text says what the dataclasses of :mod:`qoop.planner.plan` say, field by field under the field's own name; a field
with its default is left out, and so is one that two plans are not compared by.  How each is written and read follows
from its declared type, so that a new field of a stage needs no word here.

    dump(plan) -> values that json can write -> load -> an equal plan
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from qoop.catalog.errors import PlanError
from qoop.planner.facts import Told
from qoop.planner.facts import from_json as from_json_facts
from qoop.planner.plan import Plan

FORMAT = 1
"""Raised when a field means something else than before; texts of another format are refused."""

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]
Codec = tuple[Write, Read]


def to_json(plan: Plan) -> str:
    """The plan as one line of JSON text.

    >>> from qoop.planner.plan import Stage
    >>> plan = Plan((Stage("s1", "SELECT 1 AS a", (), (("a", "INTEGER"),), 1, "f00"),), (("a", "INTEGER"),))
    >>> from_json(to_json(plan)) == plan
    True
    """
    return json.dumps(dump(plan), separators=(",", ":"), allow_nan=False)


def from_json(text: str) -> Plan:
    """The plan that :func:`to_json` wrote. Raises PlanError where the text is damaged or of another format."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise PlanError(f"this is not a plan written as JSON: {error}") from error
    return load(data)


def dump(plan: Plan) -> dict[str, Any]:
    """The plan as dicts, lists, texts and numbers, with the number of the format."""
    return {"format": FORMAT, **_codec(Plan)[0](plan)}


def load(data: Any) -> Plan:
    """The plan that :func:`dump` took apart. Raises PlanError where `data` is damaged or of another format."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise PlanError(f"a plan of format {found!r} cannot be read here, only one of format {FORMAT}")
    plan: Plan = read(Plan, {name: value for name, value in data.items() if name != "format"})
    return plan


def write(value: Any) -> Any:
    """One dataclass of plans (a Stage, a Resources …) as :func:`dump` writes it, without a format."""
    kind: Any = type(value)
    return _codec(kind)[0](value)


def read(kind: type, data: Any) -> Any:
    """What :func:`write` took apart. Raises PlanError where `data` is damaged."""
    try:
        return _codec(kind)[1](data)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise PlanError(f"a damaged {kind.__name__}: {error}") from error


@cache
def _codec(kind: Any) -> Codec:
    """How values of a type are written and read."""
    if kind is float:
        return _write_float, float
    if kind in (int, str, bool):
        return _same, _expect(kind)
    if kind is Told:
        return Told.to_json, from_json_facts
    if is_dataclass(kind):
        return _dataclass_codec(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _tuple_codec(args)
    if origin is Literal:
        return _same, _one_of(args)
    if origin in (Union, UnionType):
        return _union_codec(args)
    raise PlanError(f"{kind} is no type that plans are written with")


def _dataclass_codec(kind: Any) -> Codec:
    hints = get_type_hints(kind)
    own = [(item.name, _default(item), _codec(hints[item.name])) for item in fields(kind) if item.init and item.compare]
    readers = {name: reader for name, _, (_, reader) in own}

    def write(value: Any) -> dict[str, Any]:
        parts = ((name, getattr(value, name), default, writer) for name, default, (writer, _) in own)
        return {name: writer(part) for name, part, default, writer in parts if part != default}

    return write, lambda data: kind(**{name: readers[name](value) for name, value in data.items()})


def _default(item: Any) -> Any:
    if item.default_factory is not MISSING:
        return item.default_factory()
    return item.default  # MISSING equals nothing else


def _tuple_codec(args: tuple[Any, ...]) -> Codec:
    if len(args) == 2 and args[1] is Ellipsis:
        writer, reader = _codec(args[0])
        return lambda value: list(map(writer, value)), lambda data: tuple(map(reader, _listed(data)))
    codecs = tuple(map(_codec, args))
    return (
        lambda value: [writer(part) for (writer, _), part in zip(codecs, value, strict=True)],
        lambda data: tuple(reader(part) for (_, reader), part in zip(codecs, _listed(data), strict=True)),
    )


def _union_codec(args: tuple[Any, ...]) -> Codec:
    """One type or None, or one of several dataclasses, told apart by a field that only one of them has."""
    kinds = [kind for kind in args if kind is not type(None)]
    if len(kinds) == 1:
        writer, reader = _codec(kinds[0])
        return (
            lambda value: None if value is None else writer(value),
            lambda data: None if data is None else reader(data),
        )
    needed = {kind: {item.name for item in fields(kind) if _default(item) is MISSING} for kind in kinds}

    def read(data: Any) -> Any:
        for kind in kinds:
            if needed[kind] <= data.keys():
                return _codec(kind)[1](data)
        raise ValueError(f"neither of {', '.join(kind.__name__ for kind in kinds)}: {sorted(data)}")

    def write(value: Any) -> Any:
        kind: Any = type(value)
        return _codec(kind)[0](value)

    return write, read


def _same(value: Any) -> Any:
    return value


def _write_float(value: float) -> float | str:
    return value if isfinite(value) else str(value)  # JSON has no infinity


def _expect(kind: type) -> Read:
    def read(data: Any) -> Any:
        if type(data) is not kind:
            raise TypeError(f"{data!r} should be a {kind.__name__}")
        return data

    return read


def _one_of(values: tuple[Any, ...]) -> Read:
    def read(data: Any) -> Any:
        if data not in values:
            raise ValueError(f"{data!r} should be one of {', '.join(map(repr, values))}")
        return data

    return read


def _listed(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f"{data!r} should be a list")
    return data
