"""Processes of a session that read from each other, on this machine and without Ray: who is let in, and how."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from qoop.catalog.errors import CheckpointError, ConfigError
from qoop.engine.backends.ray.peers import Peers, PeerServer, Place
from qoop.engine.backends.ray.tls import uses_tls
from qoop.engine.events import Committed
from qoop.engine.storage.checkpoint import Store
from qoop.engine.task import CheckpointKey
from qoop.query.config import configure

ROWS = pa.table({"a": range(1000)})
KEY = CheckpointKey("signature", "layout", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(1 << 20, tmp_path)
    store.put(Committed(KEY, (1000,), (ROWS.nbytes,), 0.1), "job", [ROWS])
    yield store
    store.close()


@pytest.fixture
def served(store: Store) -> Iterator[Callable[[bool], PeerServer]]:
    servers: list[PeerServer] = []

    def serve(tls: bool) -> PeerServer:
        servers.append(PeerServer("127.0.0.1", store, "secret", tls))
        return servers[-1]

    yield serve
    for server in servers:
        server.shutdown()


@pytest.mark.parametrize("tls", [False, True])
def test_rows_pass(served: Callable[[bool], PeerServer], shows: Callable[[str], None], tls: bool) -> None:
    shows("ours")
    peers = Peers(tls)
    [[rows]] = peers.read(served(tls).place, [(KEY, 0)])
    assert rows.equals(ROWS)
    peers.close()


def test_without_tls_nobody_talks_to_who_has_it(
    served: Callable[[bool], PeerServer], shows: Callable[[str], None]
) -> None:
    shows("ours")
    safe, plain = served(True).place, served(False).place
    with pytest.raises(CheckpointError, match="does without TLS"):
        Peers(tls=True).read(plain, [(KEY, 0)])
    with pytest.raises(CheckpointError, match="does not give"):
        Peers().read(Place(safe.address.replace("+tls", ""), "secret"), [(KEY, 0)])


def test_certificates_of_another_authority_are_refused_on_both_sides(
    served: Callable[[bool], PeerServer], shows: Callable[[str], None], authorities: Path
) -> None:
    shows("ours")
    ours = served(True).place
    shows("theirs")
    with pytest.raises(CheckpointError):
        Peers(tls=True).read(ours, [(KEY, 0)])
    for shown in ({}, {"cert_chain": "theirs/cert.pem", "private_key": "theirs/key.pem"}):
        files = {name: (authorities / file).read_bytes() for name, file in shown.items()}
        client = flight.connect(ours.address, tls_root_certs=(authorities / "ours/ca.pem").read_bytes(), **files)
        with pytest.raises(flight.FlightError):
            client.do_get(flight.Ticket(b"{}"), flight.FlightCallOptions(timeout=60)).read_all()


CALLS = {
    "get": lambda client, options: client.do_get(flight.Ticket(b"\xff not JSON"), options).read_all(),
    "get JSON": lambda client, options: client.do_get(flight.Ticket(json.dumps({"reads": []}).encode()), options),
    "list": lambda client, options: list(client.list_flights(b"", options)),
    "act": lambda client, options: list(client.do_action(flight.Action("x", b""), options)),
    "actions": lambda client, options: client.list_actions(options),
    "info": lambda client, options: client.get_flight_info(flight.FlightDescriptor.for_path("x"), options),
    "schema": lambda client, options: client.get_schema(flight.FlightDescriptor.for_path("x"), options),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("told", [None, b"", b"Secret", "sécret".encode()])
def test_who_does_not_know_the_secret_learns_nothing(
    served: Callable[[bool], PeerServer], call: str, told: bytes | None
) -> None:
    client = flight.connect(served(False).place.address)
    headers = [] if told is None else [(b"qoop-secret", told)]
    with pytest.raises((pa.ArrowException, OSError)) as refused:
        CALLS[call](client, flight.FlightCallOptions(timeout=60, headers=headers))
    text = str(refused.value)
    assert "Traceback" not in text and ".py" not in text and "qoop/" not in text, text
    client.close()


def test_when_tls_is_on(shows: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERVER_CERT", "SERVER_KEY", "CA_CERT"):
        monkeypatch.delenv(f"RAY_TLS_{name}", raising=False)
    assert not uses_tls(None, "10.0.0.1") and not uses_tls(False, "10.0.0.1")
    with pytest.raises(ConfigError, match="RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY, RAY_TLS_CA_CERT"):
        uses_tls(True, "127.0.0.1")
    shows("ours")
    assert uses_tls(None, "10.0.0.1") and uses_tls(None, "node-7") and uses_tls(True, "127.0.0.1")
    assert not uses_tls(None, "127.0.0.1") and not uses_tls(None, "::1") and not uses_tls(None, "localhost")
    assert not uses_tls(False, "10.0.0.1")
    monkeypatch.setenv("RAY_TLS_CA_CERT", "/not/there")
    with pytest.raises(ConfigError, match=r"/not/there, named by RAY_TLS_CA_CERT, cannot be read"):
        uses_tls(True, "10.0.0.1")


def test_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configure(environment={}).ray_tls is None
    assert configure(environment={"QOOP_RAY_TLS": "on"}).ray_tls is True
    assert configure(ray_tls=False, environment={"QOOP_RAY_TLS": "on"}).ray_tls is False
    with pytest.raises(ConfigError, match="ray_tls"):
        configure(environment={"QOOP_RAY_TLS": "perhaps"})
