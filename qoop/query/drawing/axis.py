"""The marks of an axis: their places and their texts."""

from __future__ import annotations

_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_STEPS = 12


def round_step(end: float, most: int = 10) -> float:
    """A round number (1, 2 or 5 times a power of ten) of which up to `most` fit.

    >>> round_step(37), round_step(600, 6)
    (5, 100)
    """
    size = 1e-4
    while True:
        for factor in (1, 2, 5):
            if end / (size * factor) <= most:
                return size * factor if size < 1 else round(size) * factor
        size *= 10


def time_step(seconds: float) -> float:
    """A number of seconds, or whole minutes, hours or days, of which up to twelve fit.

    >>> time_step(18_000), time_step(3)
    (1800, 0.5)
    """
    if seconds < _STEPS:
        return round_step(seconds, _STEPS)
    fits = (step for step in _SECONDS if seconds / step <= _STEPS)
    return next(fits, 86_400 * round_step(seconds / 86_400, _STEPS))


def time_label(at: float) -> str:
    """A time on an axis.

    >>> [time_label(at) for at in (0, 0.5, 90, 5400, 90_000)]
    ['0', '0.5 s', '1:30 min', '1:30 h', '25:00 h']
    """
    if at == 0:
        return "0"
    if at < 60:
        return f"{at:.10g} s"
    small, unit = (1, "min") if at < 3600 else (60, "h")
    whole, rest = divmod(round(at / small), 60)
    return f"{whole}:{rest:02d} {unit}"
