"""The live page of a session. Pages are on a higher floor than sessions, so the module is loaded by its name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from qoop.catalog.errors import ConfigError

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

_PAGE = "qoop.interfaces.page.opening"


class OpenPage(Protocol):
    """A page until it is closed. url: its address, with the secret that admits a browser. port: where it listens."""

    url: str
    port: int

    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...

    def show(self) -> None: ...

    def __enter__(self) -> OpenPage: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def page_module() -> ModuleType:
    """The module that opens pages. Raises ConfigError if the extra ``qoop[server]`` is missing."""
    try:
        return import_module(_PAGE)
    except ModuleNotFoundError as error:
        raise ConfigError(f"there is no {error.name}, which a page needs: pip install 'qoop[server]'") from error
