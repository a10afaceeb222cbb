"""Dataclasses as JSON values and back, by the declared types of their fields.

A dataclass is written field by field under the names of its fields. Fields with their default are left out, and so are
those that do not count in comparisons. The form of a field follows from its type, so that a new field needs no code
here. Plans (:mod:`qoop.planner.plan_json`), traces (:mod:`qoop.adaptive.cluster.recording.trace`) and messages to nodes
of Ray (:mod:`qoop.engine.backends.ray.messages`) are written with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from qoop.catalog.errors import PlanError

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]
Pair = tuple[Write, Read]


class Codec:
    """Writes and reads values of frozen dataclasses, tuples, mappings by text, and plain values.

    own: functions that write and read types in another form than by their fields.
    also: names of fields that are written although they do not count in comparisons.
    """

    def __init__(self, own: Mapping[Any, Pair], also: frozenset[str] = frozenset()) -> None:
        self._also = also
        self._pairs: dict[Any, Pair] = {
            float: (_write_float, float),
            **{kind: (_same, _expect(kind)) for kind in (int, str, bool)},
            **own,
        }

    def write(self, value: Any) -> Any:
        """A dataclass as dicts, lists, texts and numbers."""
        return self.pair(type(value))[0](value)

    def read(self, kind: type, data: Any) -> Any:
        """The value that :meth:`write` took apart. Raises PlanError where `data` is damaged."""
        try:
            return self.pair(kind)[1](data)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            raise PlanError(f"a damaged {kind.__name__}: {error}") from error

    def pair(self, kind: Any) -> Pair:
        """The writer and the reader of a type's values. Raises PlanError for a type that has none."""
        if kind not in self._pairs:
            self._pairs[kind] = self._made(kind)
        return self._pairs[kind]

    def _made(self, kind: Any) -> Pair:
        if is_dataclass(kind):
            return self.by_fields(kind)
        origin, args = get_origin(kind), get_args(kind)
        if origin is tuple:
            return self._of_tuple(args)
        if origin is Mapping:
            return self._of_mapping(args)
        if origin is Literal:
            return _same, _one_of(args)
        if origin in (Union, UnionType):
            return self._of_union(args)
        raise PlanError(f"{kind} is no type that is written as JSON")

    def by_fields(self, kind: Any) -> Pair:
        """The default functions that write and read a dataclass."""
        hints = get_type_hints(kind)
        written = [item for item in fields(kind) if item.init and (item.compare or item.name in self._also)]
        own = [(item.name, _default(item), self.pair(hints[item.name])) for item in written]
        readers = {name: reader for name, _, (_, reader) in own}

        def write(value: Any) -> dict[str, Any]:
            parts = ((name, getattr(value, name), default, writer) for name, default, (writer, _) in own)
            return {name: writer(part) for name, part, default, writer in parts if part != default}

        return write, lambda data: kind(**{name: readers[name](value) for name, value in data.items()})

    def _of_tuple(self, args: tuple[Any, ...]) -> Pair:
        if len(args) == 2 and args[1] is Ellipsis:
            writer, reader = self.pair(args[0])
            return lambda value: list(map(writer, value)), lambda data: tuple(map(reader, _listed(data)))
        pairs = tuple(map(self.pair, args))
        return (
            lambda value: [writer(part) for (writer, _), part in zip(pairs, value, strict=True)],
            lambda data: tuple(reader(part) for (_, reader), part in zip(pairs, _listed(data), strict=True)),
        )

    def _of_mapping(self, args: tuple[Any, ...]) -> Pair:
        writer, reader = self.pair(args[1])
        return (
            lambda value: {str(name): writer(part) for name, part in value.items()},
            lambda data: {name: reader(part) for name, part in data.items()},
        )

    def _of_union(self, args: tuple[Any, ...]) -> Pair:
        """One type or None, or one of several dataclasses, each identified by a field that only it has."""
        kinds = [kind for kind in args if kind is not type(None)]
        if len(kinds) == 1:
            writer, reader = self.pair(kinds[0])
            return (
                lambda value: None if value is None else writer(value),
                lambda data: None if data is None else reader(data),
            )
        needed = {kind: {item.name for item in fields(kind) if _default(item) is MISSING} for kind in kinds}

        def read(data: Any) -> Any:
            for kind in kinds:
                if needed[kind] <= data.keys():
                    return self.pair(kind)[1](data)
            raise ValueError(f"neither of {', '.join(kind.__name__ for kind in kinds)}: {sorted(data)}")

        return lambda value: self.pair(type(value))[0](value), read


def _default(item: Any) -> Any:
    if item.default_factory is not MISSING:
        return item.default_factory()
    return item.default  # MISSING equals nothing else


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
