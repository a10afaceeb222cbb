"""Notices by which a cloud announces that it takes the machine away.

::

    AwsNotices      spot interruptions, by the instance metadata service, version 2
    GceNotices      preemptions, by the metadata server
    AzureNotices    scheduled events: Preempt and Terminate

No request leaves the machine unless the machine's firmware names the platform (:func:`detected`), or the caller does.
A source that does not reply gives no notice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

_METADATA = "http://169.254.169.254"
_TIMEOUT = 2.0
_GCE_SECONDS = 30.0
"""Seconds that Compute Engine leaves after a notice, whose reply has no time."""

_FIRMWARE = Path("/sys/class/dmi/id")
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
"""The chassis tag of all machines of Azure. Other machines of the same vendor have no metadata service."""


@value
class MachineNotice:
    """The machine will be taken away in `seconds`. why: the source, as a noun."""

    why: str
    seconds: float


class NoticeSource(Protocol):
    """A place that announces the end of the machine."""

    def check(self) -> MachineNotice | None:
        """The notice that stands now; None: there is none, or it was withdrawn."""
        ...


class AwsNotices:
    """Spot interruptions of EC2. now: seconds since 1970."""

    def __init__(self, url: str = _METADATA, now: Callable[[], float] = time.time) -> None:
        self._url, self._now = url, now

    def check(self) -> MachineNotice | None:
        """As `NoticeSource.check`. Each check gets a new token, which version 2 requires."""
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = _reply(f"{self._url}/latest/api/token", lifetime, "PUT")
        if token is None:
            return None
        text = _reply(f"{self._url}/latest/meta-data/spot/instance-action", {"X-aws-ec2-metadata-token": token})
        at = _field(_object(text), "time")
        if at is None:
            return None
        return MachineNotice("the spot notice of AWS", _seconds_to(at, datetime.fromisoformat, self._now))


class GceNotices:
    """Preemptions of Compute Engine."""

    def __init__(self, url: str = "http://metadata.google.internal") -> None:
        self._url = url

    def check(self) -> MachineNotice | None:
        """As `NoticeSource.check`."""
        text = _reply(f"{self._url}/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"})
        return MachineNotice("the preemption of GCE", _GCE_SECONDS) if (text or "").strip() == "TRUE" else None


class AzureNotices:
    """Scheduled events of Azure that end the machine. now: seconds since 1970."""

    def __init__(self, url: str = _METADATA, now: Callable[[], float] = time.time) -> None:
        self._url, self._now = url, now

    def check(self) -> MachineNotice | None:
        """As `NoticeSource.check`; of several events the first."""
        text = _reply(f"{self._url}/metadata/scheduledevents?api-version=2020-07-01", {"Metadata": "true"})
        found = _object(text).get("Events")
        events = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        ends = [self._seconds(one) for one in events if one.get("EventType") in ("Preempt", "Terminate")]
        return MachineNotice("the scheduled event of Azure", min(ends)) if ends else None

    def _seconds(self, event: Mapping[str, object]) -> float:
        """Seconds until an event; it has no time once it has begun."""
        from email.utils import parsedate_to_datetime  # loads sockets

        at = _field(event, "NotBefore")
        return 0.0 if not at else _seconds_to(at, parsedate_to_datetime, self._now)


SOURCES: Mapping[str, Callable[[], NoticeSource]] = {"aws": AwsNotices, "gce": GceNotices, "azure": AzureNotices}
"""The sources by the names of their platforms."""


def source_named(name: str) -> NoticeSource | None:
    """The source of a platform; "auto": that of this machine; "none": none. Raises ConfigError for other names."""
    if name == "none":
        return None
    platform = detected() if name == "auto" else name
    if platform is None:
        return None
    if platform not in SOURCES:
        raise ConfigError(f"notices come from one of auto, none, {', '.join(SOURCES)}, not {name!r}")
    return SOURCES[platform]()


def detected(firmware: Path = _FIRMWARE) -> str | None:
    """The platform that the firmware names; None: none of those with notices. No request is made."""
    vendor = _line(firmware / "sys_vendor")
    if vendor.startswith("Amazon EC2"):
        return "aws"
    if vendor == "Google":
        return "gce"
    return "azure" if _line(firmware / "chassis_asset_tag") == _AZURE_TAG else None


def _line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # no such firmware
        return ""


def _reply(url: str, headers: Mapping[str, str], method: str = "GET") -> str | None:
    """The text of a reply; None: there is none, as where no notice stands."""
    import urllib.request  # 40 ms: a life of a query whose platform has no notices is spared them

    request = urllib.request.Request(url, headers=dict(headers), method=method)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the service is on this machine
    try:
        with direct.open(request, timeout=_TIMEOUT) as reply:
            return str(reply.read(1 << 20).decode(errors="replace"))
    except OSError:
        return None


def _object(text: str | None) -> Mapping[str, object]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _field(found: Mapping[str, object], name: str) -> str | None:
    text = found.get(name)
    return text if isinstance(text, str) else None


def _seconds_to(text: str, read: Callable[[str], datetime], now: Callable[[], float]) -> float:
    """Seconds until a time; 0 if it cannot be read: the notice itself stands."""
    try:
        at = read(text)
    except ValueError:
        return 0.0
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, at.timestamp() - now())
