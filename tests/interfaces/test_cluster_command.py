"""`qoop cluster`: a cluster on one screen, from what was recorded of one; Ray's lines do not come to the terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.adaptive.cluster.arbiter import Arbiter
from qoop.catalog.errors import ConfigError
from qoop.interfaces.commands.cluster import ClusterStatus, NodeStatus, SessionStatus, drawn


def forty() -> ClusterStatus:
    nodes = tuple(
        NodeStatus(f"node-{number:08x}", f"10.0.0.{number}", 4, number == 39, number < 38) for number in range(40)
    )
    names = [node.name for node in nodes]
    long = SessionStatus("0123456789abcdef", "reports", 160.0, dict.fromkeys(names, 2), dict.fromkeys(names, 3))
    short = SessionStatus(
        "fedcba9876543210", "", 8.0, {names[0]: 1}, {names[0]: 1}, 2.6, {names[2]: 12}, {names[2]: 4}, {names[2]: 9}
    )
    return ClusterStatus("10.0.0.1:6379", nodes, (long, short))


def test_two_sessions_and_forty_nodes_fit_a_screen() -> None:
    lines = drawn(forty(), 80).splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert lines[:4] == [
        "10.0.0.1:6379: 40 nodes (38 with agents), 81 of 160 slots busy",
        "  A  01234567 reports: 80 slots busy, 120 granted, 40 waited for",
        "  B  fedcba98: 1 slots busy, 1 granted, 7 waited for, 12 queued, 4 of 13 pulls",
        "     under way, silent for 3 s",
    ]
    text = "\n".join(lines)
    assert "node-00000000 AABa" in text and "node-00000001 AAa·" in text and "node-00000027 AAa· leaves" in text
    assert "node-00000002 AAa· +12 ↓4" in text
    assert sum(line.count("node-") for line in lines) == 40


def test_what_was_recorded_is_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded, again = tmp_path / "cluster.json", tmp_path / "again.json"
    recorded.write_text(json.dumps(forty().to_json()))
    assert main(["cluster", str(recorded), "--json", str(again)]) == 0
    assert "40 nodes" in capsys.readouterr().out
    assert ClusterStatus.of_json(json.loads(again.read_text())) == forty()


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no cluster that"):
        ClusterStatus.of_json({"nodes": [{"wheels": 4}]})
    assert main(["cluster", str(tmp_path / "none.json")]) != 0


def test_the_arbiter_tells_what_sessions_hold() -> None:
    arbiter = Arbiter(lambda: 1.0)
    arbiter.tick("a", {"reports": (1.0, 5.0)}, {"m1": 4}, {"m1": 2})
    (facts,) = arbiter.sessions()
    assert SessionStatus.of_json(facts) == SessionStatus("a", "reports", 5.0, {"m1": 2}, {"m1": 4}, 0.0)
    assert SessionStatus.of_json(facts).waits == 1


def test_warnings_of_rays_logger_do_not_reach_the_terminal() -> None:
    pytest.importorskip("ray")
    text = (
        "import logging, ray; from qoop.engine.backends.ray.nodes import _hush\n"
        "{}; logging.getLogger('ray.util').warning('a node has died')"
    )
    spilled = [
        subprocess.run([sys.executable, "-c", text.format(call)], capture_output=True, text=True, check=True).stderr
        for call in ("None", "_hush(ray._private.worker)")
    ]
    assert "a node has died" in spilled[0] and not spilled[1]
