"""``qoop serve DIR``: answer the queries of many clients, until a signal ends it."""

from __future__ import annotations

import argparse
import atexit
import gc
import getpass
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.interfaces.commands.serve_check import check_config, check_options
from qoop.interfaces.server.identity.users_file import read_users
from qoop.interfaces.server.users import Users, new_user
from qoop.query.streams import wait_for_signal

if TYPE_CHECKING:
    from qoop.interfaces.server.flight import FlightServer
    from qoop.interfaces.server.http_server import HttpServer
    from qoop.interfaces.server.kept import KeptQueries
    from qoop.interfaces.server.restart.handover import Listeners
    from qoop.interfaces.server.service import Service
    from qoop.interfaces.server.timeouts import ClientLimits, Place
    from qoop.session.session import Session

WHAT = "Answer queries over HTTP, Flight SQL and PostgreSQL's protocol, for many clients, each with a token and limits"


def add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    open_session: Callable[[argparse.Namespace], Session],
) -> argparse.ArgumentParser:
    """Add the command, and return its parser, which still lacks the options of a session.

    open_session: how the command line opens a session.
    """
    parser = commands.add_parser("serve", help=WHAT, description=f"{WHAT}. See docs/serve.md.")
    parser.add_argument("paths", metavar="DIR", nargs="*", help="what --data takes, too")
    parser.add_argument("--config", metavar="FILE", help="the only qoop.toml to be read")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1: this machine alone)")
    parser.add_argument("--port", type=int, default=8080, metavar="N", help="of HTTP (8080); 0: any that is free")
    parser.add_argument("--flight-port", type=int, metavar="N", help="of Arrow Flight SQL; without it there is none")
    pg_port = "of PostgreSQL's protocol; without it there is none"
    parser.add_argument("--pg-port", type=int, metavar="N", help=pg_port)
    users = "the users, read again when the file changes and at SIGHUP; without it, any local program may connect"
    parser.add_argument("--users", metavar="FILE", type=Path, help=users)
    parser.add_argument("--new-user", metavar="NAME", help="print a new token, and its lines for the file of users")
    password = "with --new-user: ask for a password, or read a line, in place of a new token"
    parser.add_argument("--password", action="store_true", help=password)
    parser.add_argument("--tls-cert", metavar="FILE", type=Path, help="the certificate, in PEM")
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="its key")
    names = "a name clients may call this server by; repeatable"
    parser.add_argument("--allow-host", metavar="NAME", action="append", default=[], help=names)
    audit = "a line of JSON for each statement (stderr); -: to stdout"
    parser.add_argument("--audit", metavar="FILE|-", type=Path, help=audit)
    slow = "a line of JSON for each query of --slow-seconds or more; -: to stdout"
    parser.add_argument("--slow-log", metavar="FILE|-", type=Path, help=slow)
    seconds = "from when on a query is slow (1)"
    parser.add_argument("--slow-seconds", type=float, default=1.0, metavar="SECONDS", help=seconds)
    check = "name all faults of the options, the files and the data, and end with 2 if there are any, else with 0"
    parser.add_argument("--check-config", action="store_true", help=check)
    answers = "where queries that go on without their client (POST /queries) outlive the server"
    parser.add_argument("--answers", metavar="DIR", type=Path, help=answers)
    log = "a line of JSON for each message of the log (lines of text on stderr)"
    parser.add_argument("--log", metavar="FILE|-", type=Path, help=log)
    otel = "send a span of OpenTelemetry for each query, as OTEL_EXPORTER_OTLP_... say"
    parser.add_argument("--otel", action="store_true", help=otel)
    parser.add_argument("--queries", type=int, default=100, metavar="N", help="that may run at a time (100)")
    connections = "of HTTP that may be open at a time (1000)"
    parser.add_argument("--connections", type=int, default=1000, metavar="N", help=connections)
    idle = "seconds after which a connection of HTTP without a request is closed (60)"
    parser.add_argument("--idle", type=float, default=60.0, metavar="SECONDS", help=idle)
    ending = "seconds that queries may go on once the server is to end (3)"
    page = "show all queries in a browser on this machine, at an address with a secret, which is printed"
    parser.add_argument("--page", action="store_true", help=page)
    parser.add_argument("--grace", type=float, default=3.0, metavar="SECONDS", help=ending)
    parser.set_defaults(run=lambda options: _run(options, open_session))
    return parser


def _run(options: argparse.Namespace, open_session: Callable[[argparse.Namespace], Session]) -> int:
    if options.new_user is not None:
        return _print_user(options.new_user, options.password)
    http = _http()
    if options.check_config:
        return _print_faults(options, open_session)
    from qoop.interfaces.commands.serve_loading import FIRST_TEXTS, load_planner
    from qoop.interfaces.server.audit import AuditLog
    from qoop.interfaces.server.identity.reloading import Reloading
    from qoop.interfaces.server.logs import logged
    from qoop.interfaces.server.postgres.server import PostgresServer
    from qoop.interfaces.server.restart.handover import Listeners
    from qoop.interfaces.server.restart.kept_folder import KEY
    from qoop.interfaces.server.restart.readiness import report_ready
    from qoop.interfaces.server.service import Service
    from qoop.interfaces.server.slow_log import SlowLog
    from qoop.interfaces.server.spans import exported
    from qoop.interfaces.server.timeouts import ClientLimits, Place, listening_socket

    check_options(options)
    place = Place(options.host, options.port, options.tls_cert, options.tls_key)
    users = Users() if options.users is None else read_users(options.users)
    place.check(users.are_identified)
    if options.answers is not None:
        users.share_key(options.answers / KEY)
    client_limits = ClientLimits(
        hosts=(*ClientLimits().hosts, *options.allow_host), connections=options.connections, idle=options.idle
    )
    atexit.register(gc.freeze)  # a search for cycles at the end of the process takes seconds where memory is large
    with ExitStack() as around:
        around.enter_context(logged(options.log))
        spans = around.enter_context(exported()) if options.otel else None
        audit = around.enter_context(closing(AuditLog.at(options.audit)))
        slow = options.slow_log and around.enter_context(closing(SlowLog.at(options.slow_log, options.slow_seconds)))
        session = around.enter_context(_locked_session(options, open_session))
        not_served = [f"the view {name} is not served: {why}" for name, why in session.views_left().items()]
        service = Service(session, users, audit, options.queries, spans, slow)
        if session.isolation is not None:
            session.isolation.warm()
        for text in FIRST_TEXTS:
            session.submit(text)
        load_planner()
        if options.users is not None:
            around.enter_context(Reloading(options.users, service.reload)).at_hangup()
        with ExitStack() as servers:
            pg_place = replace(place, port=options.pg_port)
            listeners = servers.enter_context(Listeners(options.answers, (place, pg_place), listening_socket))
            server = servers.enter_context(http(service, place, client_limits, options.answers, listeners.listen))
            _say(f"qoop serves {len(session.tables())} tables at {server.address}")
            for message in not_served:
                _say(message)
            if resumed := server.kept.resume():
                _say(f"and goes on with {resumed} queries")
            ends: list[Callable[[], None]] = [server.end_listening]
            if options.flight_port is not None:
                ends.append(
                    _begin_flight(servers, listeners, service, replace(place, port=options.flight_port), client_limits)
                )
            if options.pg_port is not None:
                postgres = servers.enter_context(PostgresServer(service, pg_place, client_limits, listeners.listen))
                ends.append(postgres.end_listening)
                _say(f"and, for clients of PostgreSQL, at {postgres.address}")
                if place.certificate is None and (names := ", ".join(users.without_verifier)):
                    _say(f"which does not let in {names}: without TLS it takes a line scram in the file of users")
            if options.page:
                _say(f"and shows what runs at {session.page().url}")
            if server.kept.is_shared:
                _say(f"another server on {options.answers} runs: at its end its queries go on here")
            listeners.offer()
            report_ready()
            _wait_for_end(service, server.kept, options.grace, listeners, ends)
    return 0


def _print_faults(options: argparse.Namespace, open_session: Callable[[argparse.Namespace], Session]) -> int:
    faults, valid = check_config(options, lambda: _locked_session(options, open_session))
    for fault in faults:
        _say(f"qoop: {fault}")
    if not faults:
        _say(f"qoop: {valid}")
    return 2 if faults else 0


def _http() -> type[HttpServer]:
    try:
        from qoop.interfaces.server.http_server import HttpServer
    except ModuleNotFoundError as error:
        raise ConfigError(f"there is no {error.name}, which a server needs: pip install 'qoop[server]'") from error
    return HttpServer


def _begin_flight(
    servers: ExitStack, listeners: Listeners, service: Service, place: Place, client_limits: ClientLimits
) -> Callable[[], None]:
    """Serve Flight SQL, once another server that hands over its ports has left this one. Returns what ends it."""
    from qoop.interfaces.server.flight import FlightServer  # loads gRPC
    from qoop.interfaces.server.restart.handover import FlightWhenFree
    from qoop.interfaces.server.timeouts import listening_socket

    def make() -> FlightServer:
        listening_socket(place).close()  # gRPC writes to stderr where it fails
        return FlightServer(service, place, client_limits)

    def begun(flight: FlightServer) -> None:
        _say(f"and, by Flight SQL, at {flight.address}")

    try:
        flight: FlightServer = servers.enter_context(make())
    except ConfigError:
        if not listeners.have_predecessor:
            raise
        _say(f"Flight SQL waits until the other server leaves port {place.port}")
        return servers.enter_context(FlightWhenFree(make, begun)).end_listening
    begun(flight)
    return flight.end_listening


def _locked_session(options: argparse.Namespace, open_session: Callable[[argparse.Namespace], Session]) -> Session:
    if options.config is not None:
        os.environ["QOOP_CONFIG"] = options.config
    options.data, options.locked = [*options.data, *options.paths], True
    outlives = options.answers is not None and options.checkpoints is None
    if outlives and not options.check_config:  # which writes nothing
        from qoop.interfaces.server.restart.kept_folder import CHECKPOINTS
        from qoop.query.config import configure

        options.checkpoints = configure().checkpoints or options.answers / CHECKPOINTS
    return open_session(options)


def _wait_for_end(
    service: Service, kept: KeptQueries, grace: float, listeners: Listeners, ends: Sequence[Callable[[], None]]
) -> None:
    """Serve until Ctrl-C or another signal; a second signal cancels the running queries.

    ends: end the listening, and idle connections, where another server has the same sockets.
    """
    try:
        wait_for_signal()
    except KeyboardInterrupt:
        _say(f"ending: queries have {grace:g} s")
    try:
        if listeners.have_successor:
            for end_listening in ends:
                end_listening()
        else:
            service.admit_no_more()
        if suspended := kept.suspend():
            _say(f"{suspended} queries are suspended, and go on when a server begins with the same --answers")
        service.close(grace)
    except KeyboardInterrupt:
        service.close(0.0)


def _print_user(name: str, with_password: bool) -> int:
    token, lines = new_user(name, _password() if with_password else None)
    if not with_password:
        _say(f"the token of {name}, which cannot be shown again: {token}")
    print(lines, end="")
    return 0


def _password() -> str:
    """The password, typed without echo, or the first line of the input."""
    if sys.stdin.isatty():
        return getpass.getpass("the password: ")
    return sys.stdin.readline().rstrip("\n")


def _say(text: str) -> None:
    """Print a line on stderr. Where nothing reads that, it is given up after a second: the server is to end, too."""
    from qoop.interfaces.server.logs import LineLog

    with closing(LineLog(sys.stderr)) as lines:
        lines.write(text)
