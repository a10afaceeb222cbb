"""Profiles out of files of every form, and what is said of files that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.adaptive.profiles import CapacityProfile, Reading, Stay, load
from qoop.adaptive.profiles.aws import Choice, from_spot_history
from qoop.adaptive.profiles.counts import from_counts
from qoop.adaptive.profiles.nodes import from_node_log
from qoop.adaptive.profiles.preemptions import from_preemptions
from qoop.adaptive.profiles.prices import Prices
from qoop.adaptive.profiles.spot import Size
from qoop.adaptive.profiles.tables import from_csv, to_csv
from qoop.catalog.errors import ConfigError

NODES = "0,add,node1\n0,add,node2\n60000,add,node3\n120000,remove,node1\n120000,add,node4\n300500,remove,node3\n"
COUNTS = "2021-12-10, 13:09:45, 80\n2021-12-10, 13:08:45, 70\n2021-12-10, 13:09:45, 60\n\n2021-12-11, 13:08:45, 8\n"
PREEMPTIONS = '{"metadata": {"gap_seconds": 34, "zone": "a"}, "data": [0, 1, 1, 3.0]}'


def price(dollars: object, at: str, zone: str = "us-west-2c", product: str = "Linux/UNIX") -> dict[str, object]:
    return {
        "AvailabilityZone": zone, "InstanceType": "i3.2xlarge", "ProductDescription": product, "SpotPrice": dollars,
        "Timestamp": at,
    }  # fmt: skip


HISTORY = [
    price("0.300000", "2017-09-21T18:00:30.000Z"),
    price("0.900000", "2017-09-21T17:30:00+00:00", zone="us-west-2a"),
    price("0.500000", "2017-09-21T17:02:00Z"),
    price("0.250000", "2017-09-21T17:00:00Z"),
]


def steps(profile: CapacityProfile) -> list[tuple[float, int]]:
    return [(point.at, point.machines) for point in profile.points]


def test_a_log_of_nodes_says_which_machine_goes() -> None:
    profile = from_node_log(NODES)
    assert steps(profile) == [(0, 2), (60, 3), (300.5, 2)]
    assert Stay("node1", 0, 120) in profile.stays() and Stay("node4", 120) in profile.stays()
    shuffled = "\n".join(sorted(NODES.splitlines(), key=lambda line: line[-1]))
    assert steps(from_node_log(shuffled)) == steps(profile)


def test_a_node_may_come_back_and_one_that_was_there_for_no_time_was_not() -> None:
    profile = from_node_log("1000,add,a\n5000,remove,a\n9000,add,a\n9000,add,b\n9000,remove,b\n")
    assert steps(profile) == [(0, 0), (1, 1), (5, 0), (9, 1)]
    assert profile.stays() == (Stay("a", 1, 5), Stay("a", 9))


def test_counts_are_sorted_and_the_last_of_a_moment_counts() -> None:
    profile = from_counts(COUNTS)
    assert steps(profile) == [(0, 70), (60, 60), (86400, 8)]
    assert from_counts(COUNTS, Size(slots=4, memory=1e9)).at(60).all_slots == 240


def test_a_series_of_ticks() -> None:
    assert steps(from_preemptions(PREEMPTIONS)) == [(0, 0), (34, 1), (102, 3), (136, 3)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=40), st.floats(0.5, 100))
def test_a_series_of_ticks_is_what_it_says_at_each_tick(data: list[int], gap: float) -> None:
    profile = from_preemptions(json.dumps({"metadata": {"gap_seconds": gap}, "data": data}))
    assert [profile.at((tick + 0.5) * gap).machines for tick in range(len(data))] == data
    assert profile.seconds == len(data) * gap


def test_one_of_the_series_of_a_price_history_is_chosen() -> None:
    expected = Prices(((0.0, 0.25), (120.0, 0.5), (3630.0, 0.3)), 3630.0)
    assert from_spot_history(json.dumps(HISTORY), Choice(zone="us-west-2c")) == expected
    assert from_spot_history(json.dumps({"SpotPriceHistory": HISTORY}), Choice(zone="us-west-2c")) == expected
    assert from_spot_history(json.dumps(HISTORY), Choice(zone="us-west-2a")).seconds == 1830
    with pytest.raises(ConfigError, match=r"these fit: us-west-2a, i3.2xlarge, Linux/UNIX; us-west-2c"):
        from_spot_history(json.dumps(HISTORY))
    with pytest.raises(ConfigError, match=r"there are: us-west-2a, i3"):
        from_spot_history(json.dumps(HISTORY), Choice(zone="eu-west-1a"))
    with pytest.raises(ConfigError, match=r"these fit: .*Linux/UNIX; .*Windows"):
        from_spot_history(json.dumps([*HISTORY, price("1", "2017-09-21", product="Windows")]), Choice("us-west-2c"))


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (from_node_log, "0,add,a\n\n5,drop,a\n", "line 3: '5,drop,a' is not milliseconds"),
        (from_node_log, "0,add,a\n5,remove,b\n", "line 2: b is not there"),
        (from_node_log, "0,add,a\n5,add,a\n", "line 2: a is there already"),
        (from_node_log, "\n", "no line"),
        (from_counts, "2021-12-10, 13:07:45, 80\n2021-13-10, 13:07:45, 80\n", "line 2: month must be in"),
        (from_counts, "2021-12-10, 13:07:45, eighty\n", "line 1: .* is not a date, a time and a count"),
        (from_counts, "", "no line"),
        (from_preemptions, '{"data": [1]}', "gap_seconds must be"),
        (from_preemptions, '{"metadata": {"gap_seconds": 0}, "data": [1]}', "gap_seconds .* not 0"),
        (from_preemptions, '{"metadata": {"gap_seconds": 3}, "data": []}', "with at least one"),
        (from_preemptions, '{"metadata": {"gap_seconds": 3}, "data": [1, -1]}', r"data\[1\] is -1"),
        (from_preemptions, '{"metadata": {"gap_seconds": 3}, "data": [1, true, 0.5]}', r"data\[1\] is True"),
        (from_preemptions, '{"metadata": {"gap_seconds": 3}, "data": [1e400]}', r"data\[0\] is inf"),
        (from_preemptions, '{"metadata":\n nonsense', "line 2, column 2"),
        (from_spot_history, "[]", "list of prices"),
        (from_spot_history, "[7]", "price 1: AvailabilityZone, .* must be there"),
        (from_spot_history, json.dumps([price(0.25, "2017-09-21")]), "price 1: SpotPrice must be there, as text"),
        (from_spot_history, json.dumps([price("cheap", "2017-09-21")]), "price 1: could not convert"),
        (from_spot_history, json.dumps([price("0.2", "today")]), "price 1: Invalid isoformat"),
        (from_spot_history, json.dumps([price("0.2", "2017-09-21"), price("-1", "2017-09-21")]), "price 2: '-1'"),
        (from_csv, "seconds,slots\n0,1\n", "columns seconds, slots and memory are needed"),
        (from_csv, "seconds,slots,memory\n0,1,1GB\n1,1\n", "line 3"),
        (from_csv, "seconds,slots,memory\n0,1,1GB\n0,2,1GB\n", "in order of time"),
        (from_csv, "seconds,slots,memory\n", "begins with a point at 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(read: Callable[[str], object], text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(text)


def test_every_form_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "profile"
    texts = {
        NODES: from_node_log(NODES),
        "\ufeff\n" + COUNTS: from_counts(COUNTS),
        PREEMPTIONS: from_preemptions(PREEMPTIONS),
        to_csv(from_counts(COUNTS)): from_counts(COUNTS),
    }
    for text, expected in texts.items():
        path.write_text(text)
        assert load(path) == expected
    path.write_text(json.dumps(HISTORY))
    assert load(str(path), Reading(choice=Choice("us-west-2c"))).points[:3] == load(path, _in_zone_c()).points[:3]
    assert steps(load(path, _in_zone_c()))[:4] == [(0, 2), (60, 4), (120, 2), (180, 4)]


def _in_zone_c() -> Reading:
    return Reading(choice=Choice(zone="us-west-2c"))


def test_a_file_of_no_form_is_refused_with_the_forms_there_are(tmp_path: Path) -> None:
    path = tmp_path / "profile"
    path.write_text("hello\nworld")
    with pytest.raises(ConfigError, match=r"begins with 'hello'. Known forms:\n  (.*\n){4}  CSV with"):
        load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)
    path.write_text("0,add,a\n1,add,a\n")
    with pytest.raises(ConfigError, match=r"profile: line 2: a is there already"):
        load(path)
    with pytest.raises(ConfigError, match="no file spt and no profile of that name; there are spot, spot-low"):
        load("spt")
