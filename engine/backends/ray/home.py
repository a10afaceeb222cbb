"""The store of a session's own process, which the nodes of a Ray cluster read from."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from qoop.catalog.errors import CheckpointError
from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.table import Table
from qoop.engine.backends.ray.nodes import host
from qoop.engine.backends.ray.peers import PeerServer, PeerTable, Place
from qoop.engine.events import CheckpointSaved
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.retention import Retention
from qoop.engine.storage.scratch import Scratch
from qoop.engine.task import CheckpointKey

_MEMORY = 64 << 20  # bytes of outputs that the session's own process may hold in memory
_CLOSE = 15.0  # seconds that readers are given to end
_logger = logging.getLogger(__name__)


class Home:
    """Parts of answers, outputs found in files, and tables of this process, which nodes read.

    on_saved: see :class:`~qoop.engine.storage.checkpoint.Store`. secret: readers must know it.
    """

    def __init__(
        self,
        spill_dir: Path | None,
        retention: Retention,
        on_saved: Callable[[CheckpointSaved], object],
        secret: str,
        tls: bool,
    ) -> None:
        self._scratch = Scratch(spill_dir)
        self.store = Store(_MEMORY, self._scratch.path, retention, on_saved)
        self._server = PeerServer(host(), self.store, secret, tls)

    @property
    def place(self) -> Place:
        return self._server.place

    def offered(self, table: Table) -> Table:
        """The table as other processes can read it."""
        if isinstance(table.source, ArrowSource):
            self._server.offer(table.source)
            return replace(table, source=PeerTable.of(table.source, self._server.place), _splits={})
        return replace(table, _splits={})

    def in_files(self, keys: Sequence[CheckpointKey]) -> set[CheckpointKey]:
        """Those of the keys that are in the directory of checkpoints."""
        try:
            return {committed.key for committed in self.store.present(keys)}
        except CheckpointError as error:
            _logger.warning("what a Ray node held is made again, for the checkpoints cannot be looked up: %s", error)
            return set()

    def close(self) -> None:
        """The server waits for those that read, of which one may be on a machine that has vanished."""
        ending = threading.Thread(target=self._server.shutdown, name="qoop-ray-server", daemon=True)
        ending.start()
        ending.join(_CLOSE)
        self.store.close()
        self._scratch.close()
