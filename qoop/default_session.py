"""`qoop.sql`: texts in a session of the process, which opens when it is first used and closes when the process ends.

>>> sql("SELECT 6 * 7 AS answer").fetchall()
[(42,)]
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from qoop.session import Session, connect

if TYPE_CHECKING:
    from qoop.result import Result
    from qoop.statements.parameters import Parameters


class _Default:
    """The session, once there is one, and what guards that."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: Session | None = None

    def opened(self) -> Session:
        """The session, which opens if there is none yet."""
        with self.lock:
            if self.session is None:
                self.session = connect()
            return self.session


    def forget(self) -> None:
        """A child process opens a session when it needs one; the parent's stays as it is."""
        self.lock, self.session = threading.Lock(), None


_default = _Default()
os.register_at_fork(after_in_child=_default.forget)


def sql(text: str, parameters: Parameters = ()) -> Result:
    """Run a text in the session of the process and wait for the answer, as `Session.sql` does.

    The options of that session come from the environment and qoop.toml; SET changes those that can change. A program
    that needs other options calls `connect`.
    """
    return _default.opened().sql(text, parameters)
