"""The message to systemd that a service of ``Type=notify`` has begun."""

from __future__ import annotations

import logging
import os
import socket

_log = logging.getLogger(__name__)


def report_ready() -> None:
    """Report that the server serves, so that the start of the unit ends and the stop of an older one may follow."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd:
            to_systemd.sendto(b"READY=1", "\0" + address[1:] if address.startswith("@") else address)
    except OSError as error:
        _log.warning("cannot report to systemd at NOTIFY_SOCKET: %s", error)
