"""Opens the page of a session or of a trace, and closes it."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from typing import TYPE_CHECKING

from qoop.adaptive.retrace.reading import Recording
from qoop.interfaces.page.app import Guarded, Source, application
from qoop.interfaces.page.live import Live
from qoop.interfaces.page.recorded import Recorded
from qoop.interfaces.page.views import Powers
from qoop.interfaces.server.listening import Listening
from qoop.interfaces.server.timeouts import ClientLimits, Place

if TYPE_CHECKING:
    from qoop.session.session import Session


class LivePage:
    """A page that is served until it is closed; use it as a context manager, or call `close`.

    url: its address, with the secret token. Raises ConfigError if the port is taken.
    """

    def __init__(self, source: Source, port: int = 0) -> None:
        self._closed = threading.Event()
        token = secrets.token_urlsafe(24)
        app = Guarded(application(source, token, self._closed.is_set))
        self._listening = Listening(app, Place(port=port), ClientLimits(), daemon=True)
        self.port = self._listening.port
        self.url = f"{self._listening.address}/page/{token}/"
        self._listening.__enter__()

    @property
    def closed(self) -> bool:
        """True once it was closed."""
        return self._closed.is_set()

    def close(self) -> None:
        """Stop serving the page. Streams of events end."""
        if not self._closed.is_set():
            self._closed.set()
            self._listening.__exit__()

    def show(self) -> None:
        """Open the page in the user's browser, if that has a window: a browser without one would take the terminal."""
        import webbrowser

        if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            webbrowser.open(self.url)

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LivePage {'closed' if self.closed else self.url}>"


def of_session(session: Session, port: int = 0) -> LivePage:
    """The page of a session. It cancels, suspends and resizes where the session supports that."""
    config = session.config
    powers = Powers(cancel=True, suspend=not config.locked and config.ray is None, resize=config.ray is None)
    return LivePage(Live(session, powers), port)


def of_trace(recording: Recording, name: str, port: int = 0) -> LivePage:
    """The page of a trace, with a slider for its time. Raises ConfigError if the trace cannot be replayed."""
    return LivePage(Recorded(recording, name), port)
