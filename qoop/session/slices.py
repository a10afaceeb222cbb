"""A query in slices of time, for functions and jobs with a limit: each process runs one slice, and hands on a token."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.query.options import ConnectOptions
from qoop.query.result import Result
from qoop.session.opening import connect
from qoop.session.stops import Stops
from qoop.session.until_done import LifeOptions, output_of, run_life

if TYPE_CHECKING:
    Path = str | os.PathLike[str]

_GRACE_PART, _MOST_GRACE = 0.25, 5.0
"""A slice stops that part of its time before its end, but not more seconds."""
_FIELDS = ("query", "place", "data", "out", "replace", "token")
_MARGIN = 2.0
"""Seconds of a function's time that are left for its reply."""


@value
class Slice:
    """One slice. token: what the next one is called with; empty: the query is done. result: the answer, once done.

    message: what is kept and what is left, in one line.
    """

    token: str
    message: str
    result: Result | None = None

    @property
    def done(self) -> bool:
        """True if no slice has to follow."""
        return not self.token


def slices(
    query: str,
    seconds: float,
    place: Path,
    *,
    data: Sequence[Path] = (),
    out: Path | None = None,
    replace: bool = False,
    token: str = "",
    **options: Unpack[ConnectOptions],
) -> Iterator[Slice]:
    """Run a query in slices of this length; the iterator ends after the slice that has the answer.

    Each slice opens a session, goes on from the outputs at `place`, and stops itself in time. A process that can run
    only one takes ``next(qoop.slices(...))``, and passes its token to the next process.

    place: the folder or store of checkpoints, which all slices share. data: as for `connect`. out, replace: as for
    `Session.run_until_done`. token: of the slice before, in whichever process. options: as for `connect`.

    Raises ConfigError for a token of another query or place, and what `Session.run_until_done` raises.
    """
    if not seconds > 0:
        raise ConfigError(f"a slice takes seconds above 0, not {seconds!r}")
    own = blake2b(f"{query}\0{os.fspath(place)}".encode(), digest_size=8).hexdigest()
    before, _, number = token.partition("-")
    if token and (before != own or not number.isdigit()):
        raise ConfigError(f"the token {token!r} is of another query or place: begin without a token")
    return _slices(query, seconds, os.fspath(place), data, (out, replace), (own, int(number or 0)), options)


def _slices(
    query: str, seconds: float, place: str, data: Sequence[Path], out: tuple[Path | None, bool],
    token: tuple[str, int], options: ConnectOptions,
) -> Iterator[Slice]:  # fmt: skip
    own, number = token
    options = {"staged": True, **options, "checkpoints": place}
    done = False
    while not done:
        stops = Stops()
        stops.announce("the end of the slice", seconds)
        number += 1
        with connect(*data, **options) as session:
            limits = LifeOptions(stops, min(_MOST_GRACE, _GRACE_PART * seconds))
            life = run_life(session, query, limits, output_of(*out))
        done = life.done
        yield Slice("" if done else f"{own}-{number}", life.message, life.result)


class LambdaContext(Protocol):
    """The second argument of a handler of AWS Lambda, as far as it is needed."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function is killed."""
        ...


def lambda_handler(
    event: Mapping[str, Any], context: LambdaContext, again: Callable[[dict[str, Any]], object] | None = None
) -> dict[str, Any]:
    """Run one slice of a query in a function of AWS Lambda, and call for the next one.

    event: query, place, and optionally data (a list), out, replace and token; more fields are options of `connect`.
    again: is called with the event of the next slice while the query is not done, for instance to invoke the function.

    The reply has `done`, `message`, `event` (of the next slice, or None), and `rows` where there is no `out`.
    """
    missing = [name for name in ("query", "place") if not isinstance(event.get(name), str)]
    if missing:
        raise ConfigError(f"the event lacks {' and '.join(missing)}; it has {', '.join(event) or 'nothing'}")
    seconds = context.get_remaining_time_in_millis() / 1000 - _MARGIN
    if seconds <= 0:
        raise ConfigError(f"the function has {seconds + _MARGIN:.1f} s left: a slice needs more than {_MARGIN:g} s")
    options: Any = {name: one for name, one in event.items() if name not in _FIELDS}
    named: Any = {name: event[name] for name in ("data", "out", "replace", "token") if name in event}
    one = next(slices(event["query"], seconds, event["place"], **named, **options))
    following = None if one.done else {**event, "token": one.token}
    if following is not None and again is not None:
        again(following)
    rows = list(one.result.json_rows()) if one.result is not None and "out" not in event else None
    return {"done": one.done, "message": one.message, "event": following, "rows": rows}
