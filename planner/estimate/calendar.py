"""The number of values of a part of a date: twelve months, or the years that a column's range has."""

from __future__ import annotations

import re

from qoop.planner.algebra.expr import Call
from qoop.planner.estimate.selectivity import Spread

_CYCLES = {
    "quarter": 4, "month": 12, "week": 53, "day": 31, "dayofmonth": 31, "dayofweek": 7, "weekday": 7, "dow": 7,
    "isodow": 7, "dayofyear": 366, "doy": 366, "hour": 24, "minute": 60, "second": 60,
}  # fmt: skip
"""The values of parts that come again."""

_DAYS = {
    "century": 36_525.0, "decade": 3_652.5, "year": 365.25, "quarter": 91.3125, "month": 30.4375, "week": 7.0,
    "day": 1.0, "hour": 1 / 24, "minute": 1 / 1440, "second": 1 / 86_400,
}  # fmt: skip
"""The length of a unit, in days."""

_NAMED = re.compile(r"^(?:EXTRACT\((\w+) FROM|DATE_PART\('(\w+)'|DATE_TRUNC\('(\w+)')", re.IGNORECASE)


def calendar_values(call: Call, spread: Spread) -> float | None:
    """The most values that a call can have which takes a part of a date or timestamp, or rounds it to a unit.

    spread: of its argument. None: it is no such call, or the range of the argument is not known.

    >>> from qoop.planner.algebra.expr import Column
    >>> year = Call("year", (Column("d", "DATE"),), "YEAR({0})", "BIGINT")
    >>> calendar_values(year, Spread(2000.0, 1e6, 2000.0, minimum=0.0, maximum=730.0))
    3.0
    """
    named = _NAMED.match(call.template)
    unit = next(filter(None, named.groups())).lower() if named else call.op
    if call.op != "date_trunc" and unit in _CYCLES:
        return float(_CYCLES[unit])
    length = _DAYS.get("year" if unit == "isoyear" else unit)
    low, high = spread.minimum, spread.maximum
    if length is None or not isinstance(low, float) or not isinstance(high, float):
        return None
    per_day = 86_400.0 if call.args[0].type.startswith("TIMESTAMP") else 1.0
    return float(int((high - low) / per_day / length) + 2)
