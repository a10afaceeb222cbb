"""Views that read views. Pure. Names are in lower case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from qoop.query.statements.materialized import TargetLag

Bases = Mapping[str, Collection[str]]
"""By view the tables that it reads."""


def upstream(name: str, bases: Bases) -> list[str]:
    """The views that a view reads, also through others; each after those that it reads itself.

    >>> upstream("c", {"a": ["t"], "b": ["a"], "c": ["b", "a"]})
    ['a', 'b']
    """
    found: dict[str, None] = {}
    for one in sorted(bases.get(name, ())):
        if one in bases and one != name and one not in found:
            found |= dict.fromkeys([*upstream(one, {key: bases[key] for key in bases if key != name}), one])
    return list(found)


def to_refresh(name: str, bases: Bases, goals: Mapping[str, TargetLag]) -> list[str]:
    """The views that a refresh of a view refreshes before: those that it reads with the goal ``downstream``.

    >>> to_refresh("c", {"a": ["t"], "b": ["a"], "c": ["b"]}, {"a": 3.0, "b": "downstream", "c": 9.0})
    ['b']
    """
    follow = {key: read for key, read in bases.items() if key == name or goals[key] == "downstream"}
    return upstream(name, follow)


def effective_goal(name: str, bases: Bases, goals: Mapping[str, TargetLag]) -> float | None:
    """The lag goal of a view: that of its own, or the least of the views that read it.

    >>> effective_goal("a", {"a": ["t"], "b": ["a"], "c": ["b"]}, {"a": "downstream", "b": "downstream", "c": 9.0})
    9.0
    """
    goal = goals[name]
    if goal != "downstream":
        return goal
    return least(goals[one] for one in bases if name in to_refresh(one, bases, goals))


def least(goals: Iterable[TargetLag]) -> float | None:
    """The least of the lengths of time; None: there is none."""
    return min((goal for goal in goals if isinstance(goal, float)), default=None)
