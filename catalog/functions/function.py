"""A function of Python that queries may call: its name, its types and its guarantees.

A function has two names. Texts call it by `name`. Stages that the planner prints call it by `key`, which contains its
version. So outputs of different versions have different signatures (law 1), and a running query keeps the version that
it was planned with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from qoop.catalog.errors import FunctionError
from qoop.catalog.value import value


def _elsewhere(*_: object) -> object:
    raise FunctionError("this process has the name of a function, but not its code")


@value
class UserFunction:
    """A function that was registered with a session.

    version: identifies its computation. parameters, return_type: DuckDB's types. vectorised: takes and returns Arrow
    arrays, else values of Python for one row. deterministic: equal arguments give equal results. takes_null: it is
    called for rows with a NULL among the arguments, too, and may return None; else the result is NULL there.
    call: the function itself.
    """

    name: str
    version: str
    parameters: tuple[str, ...]
    return_type: str
    vectorised: bool = False
    deterministic: bool = True
    takes_null: bool = False
    call: Callable[..., Any] = field(default=_elsewhere, compare=False, repr=False)

    @property
    def key(self) -> str:
        """Its name with its version, by which stages call it."""
        return f"{self.name}@{self.version}"

    @property
    def signature(self) -> str:
        """The form of a call, for people.

        >>> UserFunction("f", "1", ("BIGINT", "VARCHAR"), "BOOLEAN").signature
        'f(BIGINT, VARCHAR) -> BOOLEAN'
        """
        return f"{self.name}({', '.join(self.parameters)}) -> {self.return_type}"
