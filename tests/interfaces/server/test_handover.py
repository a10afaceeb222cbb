"""Listening sockets that one server hands over to the next."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from server_world import World  # noqa: F401 — skips where the extra is missing
from waits import PATIENCE

from qoop.catalog.errors import ConfigError
from qoop.interfaces.server.restart import handover
from qoop.interfaces.server.restart.handover import Listeners
from qoop.interfaces.server.timeouts import Place, listening_socket


def reaches(port: int, listening: socket.socket) -> bool:
    """True if a client that connects to the port is accepted there."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE):
        listening.settimeout(PATIENCE)
        accepted, _ = listening.accept()
        accepted.close()
    return True


def same_place(taken: socket.socket) -> Place:
    return Place(port=taken.getsockname()[1])


@pytest.mark.parametrize("depth", [0, 12], ids=["short path", "long path"])
def test_the_next_server_has_the_socket_itself(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["a folder of answers"] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    with Listeners(folder, (Place(),), listening_socket) as first:
        one = first.listen(Place())
        first.offer()
        place = same_place(one)
        with Listeners(folder, (place,), listening_socket) as second:
            assert second.have_predecessor and first.have_successor
            other = second.listen(place)
            second.offer()
            one.close()  # the first one leaves it, and no connection is refused
            assert reaches(place.port, other)
            with Listeners(folder, (place,), listening_socket) as third:
                assert reaches(place.port, third.listen(place))
    assert not list(folder.glob("handover.sock*"))


def test_only_ports_that_the_next_server_is_to_have_are_handed_over(tmp_path: Path) -> None:
    with Listeners(tmp_path, (Place(),), listening_socket) as first:
        one = first.listen(Place())
        first.offer()
        with Listeners(tmp_path, (Place(),), listening_socket) as second:
            assert not second.have_predecessor and not first.have_successor
            two = second.listen(Place())
            assert two.getsockname() != one.getsockname()
            two.close()
        one.close()


def test_containers_with_a_network_of_their_own_hand_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Listeners(tmp_path, (Place(),), listening_socket) as first:
        one = first.listen(Place())
        first.offer()
        networks = iter(["net:[1]", "net:[2]"])
        monkeypatch.setattr(handover, "_network", lambda: next(networks))
        with Listeners(tmp_path, (same_place(one),), listening_socket) as second:
            assert not second.have_predecessor and not first.have_successor
        one.close()


def test_without_a_folder_and_of_a_killed_server_there_is_nothing_to_take(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(tmp_path / "handover.sock"))
    busy = listening_socket(Place())
    for folder in (None, tmp_path, tmp_path / "no folder"):
        with Listeners(folder, (same_place(busy),), listening_socket) as found:
            assert not found.have_predecessor
            with pytest.raises(ConfigError, match="cannot listen"):
                found.listen(same_place(busy))
    busy.close()
