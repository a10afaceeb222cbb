"""The tenants whose queries were as short as estimated, and those whose were not.

A text may take any time, whatever its estimate says: a sum of a list that is made of constants reads no table. A slot
for short queries shows which it is, and meanwhile others wait. So tenants whose last short query was short go first
there, and those whose last one was not go last. Of the other tenants, texts without an estimate go after those with
one.
"""

from __future__ import annotations

from enum import IntEnum

_REMEMBERED = 10_000


class Rank(IntEnum):
    """The rank of a tenant; the lowest goes first."""

    SHORT = 0
    UNKNOWN = 1
    NOT_ESTIMATED = 2
    """Unknown, and the text has no estimate."""
    NOT_SHORT = 3


class ShortTenants:
    """The rank of the texts of tenants, by their last query that was believed to be short.

    >>> tenants = ShortTenants()
    >>> tenants.note("ana", True), tenants.note("bob", False)
    (None, None)
    >>> sorted(["bob", "cat", "ana"], key=tenants.rank)
    ['ana', 'cat', 'bob']
    """

    def __init__(self) -> None:
        self._short: dict[str, bool] = {}

    def note(self, tenant: str, short: bool) -> None:
        """A query of the tenant was short, or took longer than that."""
        self._short.pop(tenant, None)
        self._short[tenant] = short
        if len(self._short) > _REMEMBERED:
            self._short.pop(next(iter(self._short)))

    def rank(self, tenant: str, estimated: bool = True) -> Rank:
        """The rank of a text of a tenant. estimated: it has an estimate."""
        short = self._short.get(tenant)
        if short is None:
            return Rank.UNKNOWN if estimated else Rank.NOT_ESTIMATED
        return Rank.SHORT if short else Rank.NOT_SHORT
