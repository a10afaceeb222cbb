"""A proxy between clients and a server, which cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading

_PIECE = 1 << 16


class Proxy:
    """Passes connections on to a port of this machine, in a thread of its own; use it as a context manager.

    target: the port of the server as it is now.
    """

    def __init__(self) -> None:
        self.target = 0
        self.port = 0
        self._open: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._listens.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut_one(self, chance: random.Random) -> int:
        """Cut one connection, in the middle of whatever it does. Returns how many were cut."""
        found = list(self._open)
        if not found:
            return 0
        self._loop.call_soon_threadsafe(_cut, chance.choice(found))
        return 1

    def cut_all(self) -> None:
        """Cut all connections, as the server has gone."""
        for pair in list(self._open):
            self._loop.call_soon_threadsafe(_cut, pair)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._pass_on, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        server.close()
        self._loop.run_until_complete(asyncio.sleep(0))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:  # the server is not there now
            writer.transport.abort()
            return
        pair = writer, back
        self._open.append(pair)
        try:
            await asyncio.gather(_copied(reader, back), _copied(there, writer))
        finally:
            self._open.remove(pair)
            _cut(pair)


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()


def _cut(pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
    for writer in pair:
        writer.transport.abort()
