"""``qoop serve --check-config``: all faults of the options, the files and the data of a server, before it begins."""

from __future__ import annotations

import argparse
import os
import ssl
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError, QoopError
from qoop.catalog.faults import Faults
from qoop.interfaces.server.identity.users_file import read_users
from qoop.interfaces.server.timeouts import Place
from qoop.interfaces.server.users import Users

if TYPE_CHECKING:
    from qoop.session.session import Session

_HIGHEST_PORT = 65535


def check_options(options: argparse.Namespace) -> None:
    """Raise ConfigError that names each number out of its range, one a line."""
    faults = Faults()
    for name in ("queries", "connections"):
        if getattr(options, name) < 1:
            faults.add(f"--{name} must be 1 or more, not {getattr(options, name)}")
    if not options.idle > 0:
        faults.add(f"--idle must be above 0 seconds, not {options.idle:g}")
    for name in ("grace", "slow_seconds"):
        if not getattr(options, name) >= 0:
            faults.add(f"--{name.replace('_', '-')} must be at least 0 seconds, not {getattr(options, name):g}")
    for name in ("port", "flight_port", "pg_port"):
        port = getattr(options, name)
        if port is not None and not 0 <= port <= _HIGHEST_PORT:
            faults.add(f"--{name.replace('_', '-')} must be from 0 to {_HIGHEST_PORT}, not {port}")
    faults.check()


def check_config(options: argparse.Namespace, open_session: Callable[[], Session]) -> tuple[list[str], str]:
    """The faults, and a sentence about what would be served. Neither listens nor writes."""
    faults, no_users = Faults(), Users()
    faults.read(partial(check_options, options), None)
    users = no_users if options.users is None else faults.read(partial(read_users, options.users), no_users)
    place = Place(options.host, options.port, options.tls_cert, options.tls_key)
    identified = options.users is not None  # a file with faults is named above
    faults.read(partial(place.check, identified), None)
    faults.read(partial(_check_certificate, place), None)
    for path in (options.audit, options.log, options.slow_log, options.answers):
        faults.read(partial(_check_writable, path), None)
    if options.otel and find_spec("opentelemetry") is None:
        faults.add("there is no opentelemetry, which spans need: pip install 'qoop[otel]'")
    for name in ("data", "paths"):
        setattr(options, name, [path for path in getattr(options, name) if _is_there(path, faults)])
    tables = 0
    try:
        with open_session() as session:
            tables = len(session.tables())
    except QoopError as error:
        faults.add(error)
    return faults.found, f"the configuration is valid: {tables} tables, {len(users)} users"


def _is_there(path: str, faults: Faults) -> bool:
    there = "://" in path or os.path.exists(os.path.expanduser(path))
    if not there:
        faults.add(f"there is no {path}")
    return there


def _check_certificate(place: Place) -> None:
    if place.certificate is None or place.key is None or not (place.certificate.is_file() and place.key.is_file()):
        return  # `Place.check` names these
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(place.certificate, place.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{place.certificate} and {place.key} are no certificate with its key: {error}") from error


def _check_writable(path: Path | None) -> None:
    if path is None or str(path) == "-":
        return
    nearest = path if path.exists() else path.absolute().parent
    if not os.access(nearest, os.W_OK):
        raise ConfigError(f"cannot write {path}: {'permission denied' if nearest.exists() else f'no {nearest}'}")
