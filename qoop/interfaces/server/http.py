"""HTTP: ``POST /sql`` answers a query, ``GET /queries`` lists those of the user, ``DELETE /queries/ID`` cancels one.

``POST /queries`` begins one that goes on without its client: ``GET /queries/ID`` tells of it, ``GET
/queries/ID/result`` has its rows.
``GET /healthz`` tells anybody whether the server takes queries; ``GET /metrics`` tells users what Prometheus reads.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from qoop.catalog import errors
from qoop.catalog.errors import (
    Busy,
    Cancelled,
    CatalogError,
    ExecutionError,
    Forbidden,
    NoCapacity,
    NotKnown,
    Overloaded,
    QoopError,
    QueryError,
    SessionClosed,
    Timeout,
    TooMuch,
    TooOften,
)
from qoop.interfaces.server.answers import BLOCK, FORMS, Block, chosen_form, in_blocks
from qoop.interfaces.server.kept import KeptQueries
from qoop.interfaces.server.queries import UserQuery
from qoop.interfaces.server.restart.kept_folder import DONE, RUNNING, Kept
from qoop.interfaces.server.service import Service, as_ours
from qoop.interfaces.server.timeouts import ClientLimits
from qoop.interfaces.server.users import User

if TYPE_CHECKING:
    from qoop.query.result import Result

_STATUS: tuple[tuple[type[QoopError], int], ...] = (
    (NotKnown, 401), (Forbidden, 403), (QueryError, 400), (CatalogError, 400), (TooMuch, 413),
    (TooOften, 429), (Busy, 503), (Overloaded, 503), (Timeout, 504), (NoCapacity, 503), (SessionClosed, 503),
    (Cancelled, 409), (ExecutionError, 422),
)  # fmt: skip
"""The status of an error, by its class; the first that fits."""

_QUEUED = "queued"
"""The state of a query that runs here and has no task yet."""


def application(service: Service, threads: Executor, client_limits: ClientLimits, kept: KeptQueries) -> Starlette:
    """The application. threads: run the queries, one each. kept: those that go on without their client."""
    api = _Api(service, threads, client_limits, kept)
    routes = [
        Route("/sql", api.sql, methods=["POST"]),
        Route("/queries", api.queries, methods=["GET"]),
        Route("/queries", api.begin, methods=["POST"]),
        Route("/queries/{id}", api.query, methods=["GET"]),
        Route("/queries/{id}", api.cancel, methods=["DELETE"]),
        Route("/queries/{id}/result", api.result, methods=["GET"]),
        Route("/healthz", api.health, methods=["GET"]),
        Route("/metrics", api.metrics, methods=["GET"]),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=list(client_limits.hosts), www_redirect=False)
    handlers: dict[object, Callable[..., Response]] = {QoopError: _refusal, HTTPException: _no_such_page}
    return Starlette(routes=routes, middleware=[hosts], exception_handlers=handlers)


class _Api:
    def __init__(self, service: Service, threads: Executor, client_limits: ClientLimits, kept: KeptQueries) -> None:
        self._service, self._threads, self._client_limits, self._kept = service, threads, client_limits, kept

    async def sql(self, request: Request) -> Response:
        user = await self._user(request)
        form = chosen_form(request.headers.get("accept", "*/*"))
        if form is None:
            return _not_acceptable()
        text, parameters = _statement_of(request.headers.get("content-type", ""), await self._body(request))
        query = self._service.admit(user, text, "http", parameters)
        return _Answer(query, form, self._threads, self._client_limits.patience)

    async def queries(self, request: Request) -> Response:
        user = await self._user(request)
        found = [_running(one) for one in self._service.of(user)]
        here = {one["id"] for one in found}
        kept = [_kept(one, None) for one in await run_in_threadpool(self._kept.of, user) if one.id not in here]
        return JSONResponse([*found, *kept])

    async def begin(self, request: Request) -> Response:
        user = await self._user(request)
        text, parameters = _statement_of(request.headers.get("content-type", ""), await self._body(request))
        kept = await run_in_threadpool(self._kept.ask, user, text, parameters)
        return JSONResponse(_kept(kept, None), 202, {"location": f"/queries/{kept.id}"})

    async def query(self, request: Request) -> Response:
        kept = await self._found(request)
        return JSONResponse(await run_in_threadpool(_kept, kept, self._kept.running(kept.id)))

    async def result(self, request: Request) -> Response:
        form = chosen_form(request.headers.get("accept", "*/*"))
        if form is None:
            return _not_acceptable()
        kept = await self._found(request)
        if kept.state == RUNNING:
            return _error("Busy", "the query still runs", 409, {"retry-after": "1"})
        if kept.state != DONE:
            return _error(kept.error, kept.message, _status_of(getattr(errors, kept.error, QoopError)))
        return _Answer(
            _Ended(kept.id, partial(self._kept.parts, kept)), form, self._threads, self._client_limits.patience
        )

    async def _found(self, request: Request) -> Kept:
        """The query of the user that the path names. Raises HTTPException, and as `_user`."""
        kept = self._kept.find(await self._user(request), request.path_params["id"])
        if kept is None:
            raise HTTPException(404, "you have begun no query of that id")
        return kept

    async def cancel(self, request: Request) -> Response:
        user, id = await self._user(request), request.path_params["id"]
        kept = self._kept.find(user, id)
        if kept is not None:
            await run_in_threadpool(self._kept.drop, kept)
        elif not self._service.cancel(user, id):
            return _error("NotFound", "you have no query of that id that runs", 404)
        return Response(status_code=204)

    async def health(self, _: Request) -> Response:
        if self._service.closing:
            return PlainTextResponse("ending\n", 503)
        return PlainTextResponse("ok\n")

    async def metrics(self, request: Request) -> Response:
        await self._user(request)
        text = await run_in_threadpool(self._service.metrics)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def _user(self, request: Request) -> User:
        """The user that asks. Raises NotKnown, Forbidden."""
        if "origin" in request.headers:  # a page of the web, which uses its reader's network
            raise Forbidden("no page of the web may ask: the request has an Origin")
        header, address = request.headers.get("authorization"), request.client.host if request.client else ""
        if header is not None and self._service.users.may_wait(header):
            user = await run_in_threadpool(self._service.users.of_header, header, address)
        else:
            user = self._service.users.of_header(header)
        request.scope.get("known", lambda: None)()
        return user

    async def _body(self, request: Request) -> bytes:
        """Raises TooMuch, Timeout."""
        held, most = bytearray(), self._client_limits.body
        try:
            async with asyncio.timeout(self._client_limits.patience):
                async for piece in request.stream():
                    held += piece
                    if len(held) > most:
                        raise TooMuch(f"a request has at most {most:,} bytes")
        except TimeoutError as error:
            raise Timeout(f"the request has not arrived within {self._client_limits.patience:g} s") from error
        return bytes(held)


class _Query(Protocol):
    """The source of an answer: a query that runs, or one that has ended."""

    id: str

    def parts(self) -> Iterator[Result]: ...

    def cancel(self, why: str) -> None: ...

    def end(self, error: Exception | None = None) -> None: ...


class _Ended:
    """A query that has ended, with its answer."""

    def __init__(self, id: str, parts: Callable[[], Iterator[Result]]) -> None:
        self.id, self.parts = id, parts

    def cancel(self, why: str) -> None:
        """Its client has gone; the answer may be asked for again."""

    def end(self, error: Exception | None = None) -> None:
        """Its rows were sent, or not."""


class _Answer(Response):
    """A response that runs the query while it is sent, and cancels it when the client goes away or takes too long."""

    def __init__(self, query: _Query, form: str, threads: Executor, patience: float) -> None:
        self._query, self._form, self._patience = query, form, patience
        self._run = partial(asyncio.get_running_loop().run_in_executor, threads)
        self._over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(self._watch(receive))
        error: Exception | None = None
        try:
            await self._answer(scope, receive, send)
        except TimeoutError:
            error = Cancelled(f"the client took nothing for {self._patience:g} s")
            scope.get("abort", lambda: None)()
        except OSError as failed:  # half of the answer is sent: the connection ends without its end
            error = failed
        except Exception as failed:
            as_ours(failed, f"the answer of {self._query.id}")  # the log has it
            error = failed
        finally:
            gone.cancel()
            if not self._over:
                await asyncio.shield(self._run(self._end, error))

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._query.cancel("the client has gone")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        blocks = in_blocks(FORMS[self._form](self._query.parts()))
        try:
            first = await self._run(self._first, blocks)
        except Exception as error:
            await _refusal(None, as_ours(error, f"the answer of {self._query.id}"))(scope, receive, send)
            return
        headers = [(b"content-type", self._form.encode()), (b"qoop-query", self._query.id.encode())]
        if self._over:
            headers.append((b"content-length", str(len(first[0])).encode()))
        await self._sent(send, {"type": "http.response.start", "status": 200, "headers": headers})
        for block in first:
            await self._sent(send, {"type": "http.response.body", "body": block, "more_body": not self._over})
        if not self._over:
            await self._rest(blocks, send)

    async def _rest(self, blocks: Iterator[Block], send: Send) -> None:
        """Send each block while the next is made."""
        following = self._run(_next, blocks)
        try:
            while (block := await following) is not None:
                following = self._run(_next, blocks)
                await self._sent(send, {"type": "http.response.body", "body": block, "more_body": True})
        except BaseException:
            self._query.cancel("the client takes no more")
            await asyncio.gather(following, return_exceptions=True)  # no thread ends a query while another reads it
            raise
        await self._run(self._end)  # first: a client with the whole answer may send its next query
        await self._sent(send, {"type": "http.response.body", "body": b""})

    def _first(self, blocks: Iterator[Block]) -> list[Block]:
        """The first blocks of an answer, which are all of it unless it is large. What ends it at once, its last row or
        an error, is told in the same step: each step to another thread costs as much as planning a short query."""
        try:
            first = list(islice(blocks, 1))
            if len(first[0]) < BLOCK:  # it is the last, or the next is there
                first += islice(blocks, 1)
        except Exception as error:
            self._end(error)
            raise
        if len(first) == 1 and len(first[0]) < BLOCK:
            self._end()
        return first

    def _end(self, error: Exception | None = None) -> None:
        self._over = True
        self._query.end(error)

    async def _sent(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(self._patience):
            await send(message)


def _running(query: UserQuery) -> dict[str, object]:
    return {"id": query.id, "state": _now(query), "sql": query.text, "seconds": round(query.seconds, 3)}


def _now(query: UserQuery) -> str:
    """The state of a query that has not ended: queued until its first task begins."""
    queued = not query.turn.is_set() or (query.job is not None and query.job.state == "QUEUED")
    return _QUEUED if queued else RUNNING


def _kept(kept: Kept, query: UserQuery | None) -> dict[str, object]:
    """The facts of a query for its user. query: as it runs."""
    seconds = kept.seconds if query is None else query.seconds
    if query is None and kept.state == RUNNING:  # in another server
        seconds = time.time() - kept.submitted
    facts: dict[str, object] = {"id": kept.id, "state": kept.state, "sql": kept.sql, "seconds": round(seconds, 3)}
    facts["rows"] = kept.rows if query is None else query.rows
    if query is not None and query.job is not None:
        status = query.job.status()
        facts["state"] = _now(query) if kept.state == RUNNING else kept.state
        facts["fraction"] = round(status.progress.fraction, 4)
        left = None if status.left is None else status.left.likely
        facts["left"] = None if left is None or not math.isfinite(left) else round(left, 3)
    return facts | ({"error": kept.error, "message": kept.message} if kept.error else {})


def _not_acceptable() -> Response:
    return _error("NotAcceptable", f"an answer may be one of {', '.join(FORMS)}", 406)


def _next(blocks: Iterator[Block]) -> Block | None:
    return next(blocks, None)


def _statement_of(kind: str, body: bytes) -> tuple[str, Sequence[object] | dict[str, object]]:
    """The text of a request and the values of its parameters. Raises QueryError."""
    try:
        if kind.partition(";")[0].strip().lower() != "application/json":
            return body.decode(), ()
        content = json.loads(body)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise QueryError(f"the request is neither SQL in UTF-8 nor JSON: {error}") from error
    if (
        not isinstance(content, dict)
        or not isinstance(content.get("sql"), str)
        or content.keys() - {"sql", "parameters"}
    ):
        raise QueryError('a request in JSON is {"sql": "...", "parameters": [...] or {...}}')
    parameters = content.get("parameters", ())
    if not isinstance(parameters, list | dict | tuple):
        raise QueryError(f"parameters are an array or an object, not {parameters!r}")
    return content["sql"], parameters


def _status_of(kind: type[QoopError]) -> int:
    """The status of an error of that class."""
    return next((status for one, status in _STATUS if issubclass(kind, one)), 500)


def _refusal(_: object, error: QoopError) -> Response:
    status = _status_of(type(error))
    headers = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}.get(status)
    if isinstance(error, TooOften):
        headers = {"retry-after": str(math.ceil(error.wait))}
    return _error(type(error).__name__, str(error), status, headers)


def _no_such_page(_: Request, error: HTTPException) -> Response:
    return _error("HTTPException", error.detail, error.status_code, dict(error.headers or {}))


def _error(kind: str, message: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": kind, "message": message}, status, headers)
