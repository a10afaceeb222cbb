"""Values that are made by the million: frozen for the type checker, at no cost where the program runs.

A frozen dataclass sets each field through a check that it is not being set, which makes an object of four fields take
four times as long to make as one that is not frozen. For a resource vector or an event, of which the core makes some
thirty with every task, that is a fifth of its time. mypy reports code that writes to a field of such a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a dataclass with slots that is equal, and hashes, by its fields, and is never written to."""
    return dataclass(slots=True, unsafe_hash="__hash__" not in cls.__dict__)(cls)
