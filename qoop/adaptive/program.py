"""Messages and steps that all programs have."""

from __future__ import annotations

from qoop.catalog.value import value


@value
class Begin:
    """Begin."""


@value
class Stop:
    """End early: the present answer is enough."""


@value
class Show:
    """Show the outcome of a round or a step."""

    number: int


@value
class End:
    """Nothing more will come. Whatever still runs is not needed."""
