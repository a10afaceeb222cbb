"""Profiles by name or out of files, whatever their form."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from qoop.adaptive.profiles import counts, nodes
from qoop.adaptive.profiles.aws import ANY, Choice, from_spot_history
from qoop.adaptive.profiles.counts import from_counts
from qoop.adaptive.profiles.named import NAMED, named
from qoop.adaptive.profiles.nodes import from_node_log
from qoop.adaptive.profiles.preemptions import from_preemptions
from qoop.adaptive.profiles.profile import CapacityProfile
from qoop.adaptive.profiles.spot import PAPER, PAPER_BIDDING, Bidding, Size, bid
from qoop.adaptive.profiles.tables import from_csv
from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value


@value
class Reading:
    """Choices left open by a file. size: of a machine, where only machines are counted; choice: which of the prices,
    and rule: how to bid for machines at them."""

    size: Size = PAPER
    choice: Choice = ANY
    rule: Bidding = PAPER_BIDDING


AS_IN_THE_PAPER = Reading()


@value
class Form:
    """A form of file. seen: whether a text is of this form, by its beginning."""

    what: str
    exists: Callable[[str], bool]
    read: Callable[[str, Reading], CapacityProfile]


def _starts_json(text: str) -> bool:
    return text[:1] in ("{", "[")


def _is_preemptions(text: str) -> bool:
    return text[:1] == "{" and '"SpotPriceHistory"' not in text


def _first(text: str) -> str:
    return text.partition("\n")[0]


FORMS: tuple[Form, ...] = (
    Form(
        '{"metadata": {"gap_seconds": 34}, "data": [8, 8, 7]}: machines at each tick',
        _is_preemptions,
        lambda text, reading: from_preemptions(text, reading.size),
    ),
    Form(
        "prices as `aws ec2 describe-spot-price-history` gives them (JSON)",
        _starts_json,
        lambda text, reading: bid(from_spot_history(text, reading.choice), reading.rule, reading.size),
    ),
    Form(
        "60000,add,node19: milliseconds, add or remove, name of a machine",
        lambda text: nodes.LINE.fullmatch(_first(text)) is not None,
        lambda text, reading: from_node_log(text, reading.size),
    ),
    Form(
        "2021-12-10, 13:07:45, 80: date, time, machines",
        lambda text: counts.LINE.fullmatch(_first(text)) is not None,
        lambda text, reading: from_counts(text, reading.size),
    ),
    Form(
        "CSV with the columns seconds, slots, memory and, if there are several, machines",
        lambda text: "seconds" in _first(text),
        lambda text, reading: from_csv(text),
    ),
)


def load(name_or_path: str | os.PathLike[str], reading: Reading = AS_IN_THE_PAPER) -> CapacityProfile:
    """A profile by its name, such as ``spot-high`` or ``spot:7``, or out of a file of any known form.

    A file called like a profile is found as ``./spot``.

    >>> max(point.machines for point in load("spot:3").points)
    20

    Raises ConfigError, naming what is wrong and where, or which names and forms there are.
    """
    found = named(os.fspath(name_or_path))
    return found if found is not None else _read(Path(name_or_path), reading)


def _read(path: Path, reading: Reading) -> CapacityProfile:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        names = ", ".join(one.name for one in NAMED)
        raise ConfigError(f"there is no file {path} and no profile of that name; there are {names}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    form = next((form for form in FORMS if form.exists(text.lstrip())), None)
    if form is None:
        forms = "".join(f"\n  {form.what}" for form in FORMS)
        raise ConfigError(
            f"{path} is no capacity profile: it begins with {_first(text.lstrip())[:60]!r}. Known forms:{forms}"
        )
    try:
        return form.read(text, reading)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
