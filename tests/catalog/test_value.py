"""Values are dataclasses to all that asks."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import field
from functools import cached_property

import pytest

from qoop.catalog.value import changed, value


@value
class Base:
    """Has slots."""

    first: int
    second: list[int] = field(default_factory=list)
    third: int = field(default=3, compare=False, repr=False)


@value
class Derived(Base):
    """Has a __dict__."""

    fourth: str = "x"
    made: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.made = self.first + 1  # type: ignore[misc]

    @cached_property
    def twice(self) -> int:
        return 2 * self.first


def test_a_value_is_made_shown_compared_and_taken_apart_as_a_dataclass() -> None:
    one = Derived(1, fourth="y")
    assert repr(one) == "Derived(first=1, second=[], fourth='y', made=2)"
    assert [one_field.name for one_field in dataclasses.fields(Derived)] == [
        "first",
        "second",
        "third",
        "fourth",
        "made",
    ]
    assert dataclasses.fields(Base)[0].type == "int" and dataclasses.is_dataclass(one)
    assert dataclasses.asdict(Base(1)) == {"first": 1, "second": [], "third": 3}
    assert Base(1) == Base(1, third=4) != Base(2) and Base(1) != Derived(1)
    assert Base(1).second is not Base(1).second, "each has a list of its own"
    assert Base.__slots__ == Base.__match_args__ == ("first", "second", "third")
    assert copy.copy(one) == one == copy.deepcopy(one) and one.twice == 2
    match one:
        case Derived(first, _, third, fourth):
            assert (first, third, fourth) == (1, 3, "y")


def test_a_changed_value_is_what_replace_makes() -> None:
    assert changed(Base(1, [2]), first=5) == dataclasses.replace(Base(1, [2]), first=5) == Base(5, [2])


def test_what_is_missing_or_unknown_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Base\.__init__\(\) missing 1 required positional argument: 'first'"):
        Base()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'no'"):
        changed(Base(1), no=1)
