"""Spot prices as ``aws ec2 describe-spot-price-history`` gives them: changes of price only, the newest first.

A price holds until the next one of the same zone, type and product. One of these series is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from qoop.adaptive.profiles.preemptions import json_of
from qoop.adaptive.profiles.prices import Prices
from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

_FIELDS = ("AvailabilityZone", "InstanceType", "ProductDescription", "SpotPrice", "Timestamp")


@value
class Choice:
    """The choice of a series in a history; None: the only one there is."""

    zone: str | None = None
    instance: str | None = None
    product: str | None = None


ANY = Choice()


@value
class _Row:
    series: tuple[str, str, str]
    price: float
    at: datetime


def from_spot_history(text: str, choice: Choice = ANY) -> Prices:
    """The prices of one zone, type of instance and product; 0 seconds is its first change, the end the last of all.

    Raises ConfigError, naming the row; and, listing what there is, if the choice fits none or several.
    """
    found = json_of(text)
    rows = found.get("SpotPriceHistory") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not rows:
        raise ConfigError("there must be a list of prices, with at least one")
    read = [_read(place, row) for place, row in enumerate(rows)]
    series = _chosen({row.series for row in read}, choice)
    mine = dict(sorted((row.at, row.price) for row in read if row.series == series))
    begin = next(iter(mine))
    steps = tuple(((at - begin).total_seconds(), price) for at, price in mine.items())
    return Prices(steps, (max(row.at for row in read) - begin).total_seconds())


def _read(place: int, row: object) -> _Row:
    fields = row if isinstance(row, Mapping) else {}
    missing = [name for name in _FIELDS if not isinstance(fields.get(name), str)]
    if missing:
        raise ConfigError(f"price {place + 1}: {', '.join(missing)} must be there, as text")
    zone, instance, product, price, at = (fields[name] for name in _FIELDS)
    try:
        moment, dollars = datetime.fromisoformat(at), float(price)
    except ValueError as error:
        raise ConfigError(f"price {place + 1}: {error}") from error
    if not dollars > 0:
        raise ConfigError(f"price {place + 1}: {price!r} is not a price")
    return _Row((zone, instance, product), dollars, moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _chosen(there: set[tuple[str, str, str]], choice: Choice) -> tuple[str, str, str]:
    chosen = (choice.zone, choice.instance, choice.product)
    fits = [one for one in sorted(there) if all(want in (None, has) for want, has in zip(chosen, one, strict=True))]
    if len(fits) == 1:
        return fits[0]
    listed = "; ".join(", ".join(one) for one in fits or sorted(there))
    raise ConfigError(
        f"choose zone, instance and product: these fit: {listed}" if fits else f"none is like that; there are: {listed}"
    )
