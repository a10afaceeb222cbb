"""Reading from other processes, when these have gone silent."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from qoop.catalog.errors import CheckpointError
from qoop.engine.backends.ray import peers
from qoop.engine.events import Committed
from qoop.engine.storage.checkpoint import Store
from qoop.engine.task import CheckpointKey

pytestmark = pytest.mark.ray


class Silent(Store):
    """A store that does not answer until it may."""

    def __init__(self, folder: Path) -> None:
        super().__init__(1 << 20, folder)
        self.may_answer = threading.Event()

    def present(self, keys: Sequence[CheckpointKey], job: str | None = None) -> list[Committed]:
        assert self.may_answer.wait(60)
        return super().present(keys, job)


def test_a_peer_that_does_not_answer_is_taken_for_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_READ", 0.2)
    store = Silent(tmp_path)
    server, client = peers.PeerServer("127.0.0.1", store, "word"), peers.Peers()
    try:
        with pytest.raises(CheckpointError, match="does not give what it should hold"):
            client.read(server.place, [(CheckpointKey("signature", "layout", 0), 0)])
    finally:
        store.may_answer.set()
        client.close()
        server.shutdown()
        store.close()
