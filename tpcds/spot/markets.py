"""The markets: recorded traces by name, each a file of a named commit with its digest, or any file of a known form.

None is shipped. A file is taken from a folder of traces, which may be a copy of the repository that it comes from;
else it is fetched once.
"""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qoop.adaptive.profiles import load
from qoop.catalog.errors import ConfigError
from qoop.catalog.paths import cache_directory
from qoop.catalog.stores.whole_file import write_whole
from qoop.tpcds.spot.timeline import Exponential, Recorded, Trace

EXPONENTIAL = "exponential"
_FETCH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Source:
    """A file of a public repository. digest: SHA-256; empty: the first fetch fixes it, and results carry it."""

    repository: str
    commit: str
    path: str
    digest: str = ""

    @property
    def address(self) -> str:
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{self.path}"


def _bamboo(path: str, digest: str) -> Source:
    return Source("uclasystem/bamboo", "8080929", f"traces/{path}", digest)


def _skypilot(zone: str) -> Source:
    path = f"preemption/1-node/aws-04-19-2023/{zone}_intel_64.json"
    return Source("skypilot-org/spot-traces", "b26631383e2b5f5b48a3d700b92ed133edaf452e", path)


SOURCES: Mapping[str, Source] = {
    "bamboo-p3": _bamboo("p3-trace.csv", "0b7828fcd4637799590578287415d4d4bbb5e3cfef5fbaf23ca8e5b3ef6bdd68"),
    "bamboo-g4dn": _bamboo("g4dn-trace.csv", "6a21d2003cfa16acfb65fb87b5521dd995c72f49a37900979eea177e853592eb"),
    "bamboo-a100": _bamboo(
        "gcloud/a100x1-east1b.txt", "cbd874201d07901a0bd3df1c4b5981b3193b51d45620b34802b28dca4f0e01b5"
    ),
    "bamboo-v100": _bamboo(
        "gcloud/v100x1-east1c.txt", "3d8f0c0c8c088b38883913579e47c9d2823c0c739ba27dc81c7ab4c7ae783d35"
    ),
    "skypilot-1b": _skypilot("us-east-1b"),
    "skypilot-1c": _skypilot("us-east-1c"),
    "skypilot-1d": _skypilot("us-east-1d"),
}
"""Bamboo (NSDI 2023): MIT. SkyPilot (NSDI 2024): without a licence, so that it is only fetched and cited."""


@dataclass(frozen=True)
class Market:
    """A market that is at hand. digest: of its file; of one by a seed, its name."""

    name: str
    digest: str
    trace: Trace


def market(name: str, folder: Path | None = None) -> Market:
    """A market by its name, or out of a file. folder: where files of traces lie.

    Raises ConfigError if there is no such market, its file cannot be had, or the file is another one than named.
    """
    if name == EXPONENTIAL:
        return Market(name, EXPONENTIAL, Exponential())
    if name in SOURCES:
        return _read(name, _file(name, SOURCES[name], folder), SOURCES[name].digest)
    if Path(name).is_file():
        return _read(Path(name).name, Path(name), "")
    known = ", ".join([*SOURCES, EXPONENTIAL])
    raise ConfigError(f"there is no market and no file {name!r}; there are {known}")


def at_hand(name: str, folder: Path | None = None) -> Market | None:
    """A known market, None if its file would have to be fetched. Raises ConfigError for another file than named."""
    if name != EXPONENTIAL and folder is None and not _cached(SOURCES[name]).is_file():
        return None
    return market(name, folder)


def _read(name: str, path: Path, expected: str) -> Market:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if expected not in ("", found):
        raise ConfigError(f"{path} is not the trace of {name}: its SHA-256 is {found}, not {expected}")
    return Market(name, found, Recorded.of(load(path)))


def _file(name: str, source: Source, folder: Path | None) -> Path:
    if folder is None:
        return _fetched(name, source)
    places = [place for place in (folder / source.path, *folder.rglob(Path(source.path).name)) if place.is_file()]
    if not places:
        raise ConfigError(f"{folder} has no {source.path}, the trace of {name}; it is at {source.address}")
    return places[0]


def _cached(source: Source) -> Path:
    return cache_directory() / "traces" / source.repository / source.commit / source.path


def _fetched(name: str, source: Source) -> Path:
    """The file in the cache, which is fetched if it is not there."""
    target = _cached(source)
    if not target.is_file():
        try:
            with urllib.request.urlopen(source.address, timeout=_FETCH_SECONDS) as reply:
                content = reply.read()
            write_whole(target, content.decode())
        except (OSError, urllib.error.URLError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"the trace of {name} cannot be fetched from {source.address}: {error}; "
                f"name a folder that has it (--traces), or choose --markets {EXPONENTIAL}"
            ) from error
    return target
