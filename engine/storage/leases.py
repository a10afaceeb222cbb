"""The users of a store that several machines share and what they need of it, known to all through leases.

``users/<user>.json`` belongs to one process, which writes it again every third of the time for which it holds; that
time is in it. A process that has not done so for as long counts as dead. All times are the store's own, by which it
says when an object was written, so that the clocks of machines need not agree. A process that was held up for longer
than its lease may find that what it needed is gone: it learns so when it reads, and makes it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable

from qoop.catalog.priority import not_behind
from qoop.catalog.stores.objects import Objects
from qoop.catalog.value import value

USERS = "users"
SECONDS = 60.0
"""For how long a lease holds."""


@value
class Living:
    """The living users, at a time of the store, what they need, and whose leases ran out."""

    now: float
    users: frozenset[str]
    needed: frozenset[str]
    dead: tuple[str, ...]


class Leases:
    """The leases on a store, of which one is this process's. Thread-safe. Raises OSError as the store does."""

    def __init__(self, objects: Objects, seconds: float = SECONDS) -> None:
        self.own = os.urandom(8).hex()
        self.seconds = seconds
        self._objects = objects
        self._lock = threading.Lock()  # also keeps an older text from taking the place of a newer one
        self._needed: set[str] = set()
        self._reported: frozenset[str] | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Have a lease, if there is none yet."""
        with self._lock:
            if self._reported is None:
                self._write()

    def need(self, names: Iterable[str]) -> None:
        """From now on this process needs these; all others can know when this returns."""
        with self._lock:
            self._needed.update(names)
            if self._reported is None or not self._needed <= self._reported:
                self._write()

    def note(self, names: Iterable[str]) -> None:
        """This process needs these; others will know in a third of a lease. Enough for what was just written."""
        with self._lock:
            self._needed.update(names)

    def unpin(self, names: Iterable[str]) -> None:
        """This process does not need these any more; others will know by and by."""
        with self._lock:
            self._needed.difference_update(names)

    def living(self) -> Living:
        """The living users, and what they need."""
        with self._lock:
            self._write()
        found = {item.name: item for item in self._objects.list(USERS)}
        now = max((item.modified for item in found.values()), default=0.0)
        users, needed, dead = set[str](), set[str](), []
        for name, item in found.items():
            lease = self._read(name)
            if lease is not None and now - item.modified <= lease[0]:
                users.add(_user(name))
                needed |= lease[1]
            elif lease is not None:
                dead.append(name)
        with self._lock:
            return Living(now, frozenset(users | {self.own}), frozenset(needed | self._needed), tuple(dead))

    def close(self) -> None:
        """This process uses the store no more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock, contextlib.suppress(OSError):  # if it cannot be removed now, it runs out
            if self._reported is not None:
                self._objects.delete([self._name])

    @property
    def _name(self) -> str:
        return f"{USERS}/{self.own}.json"

    def _write(self) -> None:
        needed = frozenset(self._needed)
        text = json.dumps({"seconds": self.seconds, "needed": sorted(needed)})
        self._objects.replace(self._name, text.encode())
        self._reported = needed
        if self._thread is None:
            self._thread = threading.Thread(target=self._renew, name="qoop-lease", daemon=True)
            not_behind(self._thread.start)

    def _renew(self) -> None:
        while not self._closed.wait(self.seconds / 3):
            # While the store cannot be reached, no other process can see the lease run out either. The
            # next read or write reports it.
            with self._lock, contextlib.suppress(OSError):
                self._write()

    def _read(self, name: str) -> tuple[float, set[str]] | None:
        """For how long a lease holds and what it names; None if it was removed meanwhile."""
        try:
            found = json.loads(self._objects.read(name)[1])
            return float(found["seconds"]), set(map(str, found["needed"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError):  # not written by us: it counts as dead
            return 0.0, set()


def _user(name: str) -> str:
    return name.removeprefix(f"{USERS}/").removesuffix(".json")
