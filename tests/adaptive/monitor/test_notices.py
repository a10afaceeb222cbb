"""Notices of clouds, against a stand-in on this machine for their metadata services."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from metadata_service import AWS, AZURE, GCE, metadata_service
from waits import until

import qoop
from qoop.adaptive.monitor.notices import AwsNotices, AzureNotices, GceNotices, MachineNotice, detected, source_named
from qoop.session.stops import Stops, stopped_by_notices

NOW = 1_500_000_000.0  # 2017-07-14T02:40:00Z


def test_each_platform_announces_the_end_of_the_machine() -> None:
    replies: dict[str, str] = {GCE: "FALSE"}
    with metadata_service(replies) as url:
        sources = AwsNotices(url, lambda: NOW), GceNotices(url), AzureNotices(url, lambda: NOW)
        assert [source.check() for source in sources] == [None, None, None]
        replies[AWS] = json.dumps({"action": "terminate", "time": "2017-07-14T02:42:00Z"})
        replies[GCE] = "TRUE"
        events = [
            {"EventType": "Freeze", "NotBefore": "Fri, 14 Jul 2017 02:40:05 GMT"},
            {"EventType": "Preempt", "NotBefore": "Fri, 14 Jul 2017 02:40:30 GMT"},
        ]
        replies[AZURE] = json.dumps({"Events": events})
        assert [source.check() for source in sources] == [
            MachineNotice("the spot notice of AWS", 120.0),
            MachineNotice("the preemption of GCE", 30.0),
            MachineNotice("the scheduled event of Azure", 30.0),
        ]
        replies[AZURE] = json.dumps({"Events": [{"EventType": "Preempt", "NotBefore": ""}]})
        replies[AWS] = json.dumps({"action": "stop", "time": "soon"})
        assert [one.seconds for source in (sources[0], sources[2]) if (one := source.check())] == [0.0, 0.0]
        replies[AZURE] = replies[AWS] = "no JSON"
        assert sources[0].check() is None and sources[2].check() is None
    assert sources[0].check() is None, "a service that is gone gives no notice"


def test_a_notice_that_is_withdrawn_stops_nothing() -> None:
    replies = {GCE: "TRUE"}
    stops = Stops()
    with metadata_service(replies) as url, stopped_by_notices(stops, GceNotices(url), every=0.01):
        until(lambda: stops.first is not None)
        assert stops.first is not None and stops.first[0] == "the preemption of GCE" and stops.first[1] <= 30
        replies[GCE] = "FALSE"
        until(lambda: stops.first is None)


def test_the_firmware_names_the_platform(tmp_path: Path) -> None:
    assert detected(tmp_path) is None
    for vendor, platform in (("Amazon EC2", "aws"), ("Google", "gce"), ("Microsoft Corporation", None)):
        (tmp_path / "sys_vendor").write_text(f"{vendor}\n")
        assert detected(tmp_path) == platform
    (tmp_path / "chassis_asset_tag").write_text("7783-7084-3265-9085-8269-3286-77\n")
    assert detected(tmp_path) == "azure"
    assert source_named("none") is None and isinstance(source_named("gce"), GceNotices)
    with pytest.raises(qoop.ConfigError, match="one of auto, none, aws, gce, azure, not 'hetzner'"):
        source_named("hetzner")
