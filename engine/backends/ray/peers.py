"""Outputs, and tables in memory, read from the process that holds them: Arrow Flight, straight from node to node.

Ray's object store is not used for them: a piece would be copied into it, counted against its size and spilled by it,
while the store of a node has its own budget already. A request bears the secret of the session in a header, and is
refused without a word before anything of it is read if that is not right; its ticket, in JSON, names the pieces. The
answer is one stream of record batches, whose schema says how many rows make each piece. Nothing is pickled. With TLS
(`tls`) both sides show certificates.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import NoReturn

import pyarrow as pa
from pyarrow import flight

from qoop.catalog.access import Places
from qoop.catalog.errors import CheckpointError, SourceError
from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.table import Columns, Footer, Range, Split
from qoop.catalog.value import value
from qoop.engine.backends.attempt_runner import Read
from qoop.engine.backends.ray.pulls import Pulls
from qoop.engine.backends.ray.tls import Certificates, certificates
from qoop.engine.events import Committed
from qoop.engine.storage.checkpoint import Store
from qoop.engine.task import AttemptId, CheckpointKey, TaskSpec

AT_ONCE, IN_TURN = "at-once", "in-turn"
"""The ways to read from other nodes: from several at a time (`pulls`), or from one after the other."""

_PIECES = b"qoop.pieces"
_SECRET = "qoop-secret"
_PLAIN, _TLS = "grpc://", "grpc+tls://"
_READ = 300.0  # seconds after which a peer that has not given all counts as gone: a host that vanished closes nothing


@value
class Place:
    """The address of a session's process, "grpc://host:port", and the secret that its callers must know."""

    address: str
    secret: str = field(repr=False)


def new_secret() -> str:
    """A random word."""
    return secrets.token_hex(16)


class _Guard(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets only those in that know the secret, whatever they ask."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[str | bytes]]) -> None:
        for header in headers.get(_SECRET, ()):
            if secrets.compare_digest(header.encode() if isinstance(header, str) else header, self._secret):
                return
        raise flight.FlightUnauthenticatedError("this is another session's")


class PeerServer(flight.FlightServerBase):  # type: ignore[misc]
    """Gives away what a store holds, and tables, to clients with the secret, from `place` on until it is shut down.

    tls: to none but those whose certificate the authority has signed. Raises ConfigError if certificates are missing.
    """

    def __init__(self, host: str, store: Store, secret: str, tls: bool = False) -> None:
        scheme, shown = (_TLS, _as_server(certificates())) if tls else (_PLAIN, {})
        super().__init__(f"{scheme}{host}:0", middleware={"guard": _Guard(secret)}, **shown)
        self.place = Place(f"{scheme}{host}:{self.port}", secret)
        self._store = store
        self._tables: dict[str, pa.Table] = {}

    def offer(self, source: ArrowSource) -> None:
        """Let a table in the memory of this process be read."""
        if source.data is not None:
            self._tables[source.id] = source.data

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Answer a request; called by its own threads."""
        request = json.loads(ticket.ticket)
        if "table" in request:
            return _stream([self._rows_of(request)])
        tables: list[pa.Table] = []
        for signature, layout, part, partition in request["reads"]:
            tables += self._pieces(CheckpointKey(signature, layout, part), partition)
        return _stream(tables)

    def _pieces(self, key: CheckpointKey, partition: int | None) -> Sequence[pa.Table]:
        found = self._store.present([key])
        if not found:
            raise flight.FlightServerError(f"checkpoint {key} is not present")
        numbers = range(len(found[0].rows)) if partition is None else [partition]
        try:
            return [self._store.read(key, number) for number in numbers]
        except CheckpointError as error:
            raise flight.FlightServerError(str(error)) from error

    def _rows_of(self, request: Mapping[str, object]) -> pa.Table:
        data = self._tables.get(str(request["table"]))
        if data is None:
            raise flight.FlightServerError("the table is not here")
        names, ranges = request["columns"], request["ranges"]
        assert isinstance(names, list)
        slices = [data.slice(*one) for one in ranges] if isinstance(ranges, list) else [data]
        return (pa.concat_tables(slices) if slices else data.slice(0, 0)).select(names)


def _stream(tables: Sequence[pa.Table]) -> flight.RecordBatchStream:
    rows = json.dumps([table.num_rows for table in tables])
    whole = pa.concat_tables(tables)
    return flight.RecordBatchStream(whole.replace_schema_metadata({**(whole.schema.metadata or {}), _PIECES: rows}))


class Peers:
    """Reads from other processes; keeps the connections. Thread-safe.

    tls: from none that does without.
    """

    def __init__(self, tls: bool = False) -> None:
        self._tls = tls
        self._clients: dict[str, flight.FlightClient] = {}
        self._lock = threading.Lock()

    def read(self, place: Place, reads: Sequence[Read]) -> list[tuple[pa.Table, ...]]:
        """The partitions of each of the outputs. Raises CheckpointError if one of them cannot be had."""
        requested = [[key.signature, key.layout, key.part, partition] for key, partition in reads]
        pieces = iter(self._ask(place, {"reads": requested}))
        try:
            if all(partition is not None for _, partition in reads):
                return [(piece,) for piece in pieces]
            return [tuple(pieces)] if len(reads) == 1 else [found for one in reads for found in self.read(place, [one])]
        except flight.FlightError as error:  # pragma: no cover - `_ask` has raised it
            raise CheckpointError(str(error)) from error

    def table(self, place: Place, id_: str, names: Sequence[str], ranges: Sequence[Range] | None) -> pa.Table:
        """Columns of a table in the memory of another process; of these rows, None: all. Raises CheckpointError."""
        rows = None if ranges is None else [[one.first, one.rows] for one in ranges]
        return self._ask(place, {"table": id_, "columns": list(names), "ranges": rows})[0]

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def forget(self, place: Place) -> None:
        """A process is gone."""
        with self._lock:
            client = self._clients.pop(place.address, None)
        if client is not None:
            client.close()

    def _ask(self, place: Place, request: Mapping[str, object]) -> list[pa.Table]:
        ticket = flight.Ticket(json.dumps(request).encode())
        try:
            whole = self._client(place).do_get(ticket, _options(place)).read_all()
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            raise CheckpointError(f"{place.address} does not give what it should hold: {error}") from error
        return _cut(whole)

    def _client(self, place: Place) -> flight.FlightClient:
        if self._tls and not place.address.startswith(_TLS):
            raise CheckpointError(f"{place.address} does without TLS, which this session asks for")
        with self._lock:
            client = self._clients.get(place.address)
            if client is None:
                shown = _as_client(certificates()) if place.address.startswith(_TLS) else {}
                client = self._clients[place.address] = flight.connect(place.address, **shown)
            return client


def _as_server(own: Certificates) -> Mapping[str, object]:
    return {"tls_certificates": [(own.own, own.key)], "verify_client": True, "root_certificates": own.authority}


def _as_client(own: Certificates) -> Mapping[str, object]:
    return {"tls_root_certs": own.authority, "cert_chain": own.own, "private_key": own.key}


def _options(place: Place) -> flight.FlightCallOptions:
    """Flight packs buffers tighter than what computes on them likes, and waits for ever."""
    reading = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
    headers = [(_SECRET.encode(), place.secret.encode())]
    return flight.FlightCallOptions(timeout=_READ, read_options=reading, headers=headers)


def _cut(whole: pa.Table) -> list[pa.Table]:
    metadata = dict(whole.schema.metadata or {})
    rows = json.loads(metadata.pop(_PIECES))
    whole = whole.replace_schema_metadata(metadata or None)
    pieces, first = [], 0
    for count in rows:
        pieces.append(whole.slice(first, count))
        first += count
    return pieces


class PeerInputs:
    """The inputs of a node's tasks that other processes hold (see :class:`~qoop.engine.backends.local.Elsewhere`).

    An output that is read whole is read by every task of a stage, so the node's own store keeps it until the job
    releases it. It does not keep one that depends on a non-deterministic stage: a second run may give other rows.
    exchange: `AT_ONCE`, or for comparison `IN_TURN`.
    """

    def __init__(self, tls: bool = False, exchange: str = AT_ONCE) -> None:
        self._exchange = exchange
        self.store: Store | None = None
        self.peers = Peers(tls)
        self._places: dict[CheckpointKey, Place] = {}
        self._pulls = Pulls()
        self._lock = threading.Lock()
        self._alone: dict[CheckpointKey, threading.Lock] = {}  # of the thread that fetches it; others then find it here

    def learn(self, place: Place, keys: Iterable[CheckpointKey]) -> None:
        """These outputs are there."""
        self._places.update(dict.fromkeys(keys, place))

    def forget(self, keys: Iterable[CheckpointKey]) -> None:
        """These outputs are needed no more, or no longer where they were."""
        for key in keys:
            self._places.pop(key, None)
            self._alone.pop(key, None)

    def hasten(self, attempt: AttemptId) -> None:
        """An attempt begins to wait for what is fetched ahead for it."""
        self._pulls.hasten(attempt)

    def fetch(self, spec: TaskSpec, requested: Sequence[Read], ahead: bool = False) -> Mapping[Read, pa.Table]:
        """Rows of outputs that others hold; what is not to be had is left out. ahead: the task waits for its slot."""
        by_place: dict[Place, list[Read]] = {}
        for key, partition in dict.fromkeys(requested):
            place = self._places.get(key)
            if place is not None:
                by_place.setdefault(place, []).append((key, partition))
        asks = [partial(self._from, spec, place, reads) for place, reads in by_place.items()]
        in_turn = self._exchange == IN_TURN
        answers = (ask() for ask in asks) if in_turn else self._pulls.all(asks, spec.attempt.task.part, spec, ahead)
        return {one: rows for answer in answers for one, rows in answer.items()}

    def pulling(self) -> tuple[int, int]:
        """The answers that come in now, and the questions that wait for their turn."""
        return self._pulls.counts()

    def close(self) -> None:
        """End the threads that pull, and the connections."""
        self._pulls.close()
        self.peers.close()

    def _from(self, spec: TaskSpec, place: Place, reads: Sequence[Read]) -> Mapping[Read, pa.Table]:
        """Rows of outputs that one process holds."""
        found = dict(self._shares(spec, place, [one for one in reads if one[1] is not None]))
        for key in (key for key, partition in reads if partition is None):
            found.update(self._whole(spec, place, key))
        return found

    def _shares(self, spec: TaskSpec, place: Place, reads: Sequence[Read]) -> Mapping[Read, pa.Table]:
        if not reads:
            return {}
        try:
            pieces = self.peers.read(place, reads)
        except CheckpointError:  # one is gone: those that are not are worth asking for
            return (
                {} if len(reads) == 1 else {k: v for one in reads for k, v in self._shares(spec, place, [one]).items()}
            )
        return {one: piece[0] for one, piece in zip(reads, pieces, strict=True)}

    def _whole(self, spec: TaskSpec, place: Place, key: CheckpointKey) -> Mapping[Read, pa.Table]:
        assert self.store is not None
        with self._lock:
            alone = self._alone.setdefault(key, threading.Lock())
        with alone:
            if spec.shared and self.store.has(key):
                return {}
            try:
                [partitions] = self.peers.read(place, [(key, None)])
            except CheckpointError:
                return {}
            if spec.shared:
                rows, sizes = (tuple(getattr(one, what) for one in partitions) for what in ("num_rows", "nbytes"))
                self.store.put(Committed(key, rows, sizes, 0.0), spec.attempt.task.job, partitions)
        return {(key, None): pa.concat_tables(partitions)}


@value
class PeerTable:
    """A table in the memory of another process, as a :class:`~qoop.catalog.table.Source` of this one's."""

    id: str
    place: Place
    rows: int
    ranges: tuple[Range, ...] = field(repr=False)

    shared = False

    @classmethod
    def of(cls, source: ArrowSource, place: Place) -> PeerTable:
        """The description that other processes get in place of the source."""
        return cls(source.id, place, source.rows, source.pieces())

    def digest(self) -> str:
        """The id of the registration."""
        return self.id

    def pieces(self) -> tuple[Range, ...]:
        """Those of the table."""
        return self.ranges

    def check(self, split: Split | None) -> None:
        """Nothing to check: it cannot change."""

    def scan(self, columns: Columns, split: Split | None) -> pa.Table:
        """The rows, read from where they are. Raises SourceError."""
        names = [name for name, _ in columns]
        peers = Peers(self.place.address.startswith(_TLS))
        try:
            return peers.table(self.place, self.id, names, None if split is None else split.ranges)
        except CheckpointError as error:
            raise SourceError(f"a table in the memory of the session cannot be read from here: {error}") from error
        finally:
            peers.close()

    def sample(self, columns: Columns, one_in: int) -> NoReturn:
        """Samples are taken where the table is. Raises SourceError."""
        raise SourceError(f"table {self.id} lives in the memory of another process")

    def extremes(self, names: Sequence[str]) -> Mapping[str, tuple[object, object]]:
        """None are known."""
        return {}

    def footers(self) -> Sequence[Footer]:
        """None are known."""
        return ()

    def places(self) -> Places:
        """The places that a reader must open: none."""
        return Places()

    def attach(self) -> None:
        """Nothing to attach."""
        return
