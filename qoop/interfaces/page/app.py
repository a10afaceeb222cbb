"""The addresses of the page, all under a secret token.

``/page/TOKEN/`` the page · ``overview`` and ``jobs/ID`` JSON · ``events`` changes, as server-sent events ·
``jobs/ID/cancel``, ``jobs/ID/suspend``, ``resize`` requests, by POST · ``assets/NAME`` files that the page loads.

A foreign web page could reach this address through a host name that resolves to this machine. A request must therefore
name the host as the page does, and a change must come from the page itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from time import thread_time
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qoop.catalog.errors import QoopError
from qoop.interfaces.page.rows import PLAIN, with_rows
from qoop.interfaces.page.views import Json, Powers, changed

_log = logging.getLogger(__name__)

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_KINDS = {
    "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html", "png": "image/png",
    "txt": "text/plain", "woff2": "font/woff2", "json": "application/json",
}  # fmt: skip
_OVERVIEW, _ASIDE, _JOB = 0.5, 1.0, 0.25
"""The least seconds between two reads: of all jobs, of all while one is open, of the open one."""
_PART = 0.003
"""The largest share of a processor for the reads of one stream: where a read costs more, reads are rarer."""
_ALIVE = 10.0
"""Seconds without an event after which a comment is sent, which fails if the browser is gone."""
_BODY = 10_000


class Source(Protocol):
    """The jobs that the page shows. The server's thread calls all methods but `suspend` and `resize`, which take time
    and run in others. All raise ConfigError for an unknown job.
    """

    powers: Powers

    def overview(self, at: float | None = None) -> Json: ...

    def job(self, id: str, at: float | None = None, since: int | None = None) -> Json: ...

    def cancel(self, id: str) -> Json: ...

    def suspend(self, id: str) -> Json: ...

    def resize(self, slots: int | None, memory: int | None) -> Json: ...


def application(source: Source, token: str, closing: Callable[[], bool]) -> Starlette:
    """The application. closing: true when streams should end."""
    api = _Api(source, token, closing)
    routes = [
        Route("/", api.page),
        Route("/overview", api.overview),
        Route("/events", api.events),
        Route("/jobs/{id}", api.job),
        Route("/jobs/{id}/cancel", api.cancel, methods=["POST"]),
        Route("/jobs/{id}/suspend", api.suspend, methods=["POST"]),
        Route("/resize", api.resize, methods=["POST"]),
        Route("/assets/{name}", api.asset),
    ]
    at = [Route(f"/page/{{token}}{route.path}", api.let_in(route.endpoint), methods=route.methods) for route in routes]
    handlers: dict[object, Callable[..., Response]] = {HTTPException: _refused, QoopError: _failed, Exception: _broken}
    app = Starlette(routes=at, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app


class Guarded:
    """Passes on the requests whose host is this machine's name and port; adds our headers to all responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = _refusal(Headers(scope=scope), scope["method"], scope["server"][1])
        await (refusal or self._app)(scope, receive, with_headers)


def _refusal(headers: Headers, method: str, port: int) -> Response | None:
    """The response to a request with another host name, or from another page."""
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if headers.getlist("host") not in [[host] for host in hosts]:
        return PlainTextResponse("the page is not known by that name\n", 400)
    origin = headers.get("origin")
    if origin is not None and origin.removeprefix("http://") not in hosts:
        return PlainTextResponse("another page may not ask\n", 403)
    if method not in ("GET", "HEAD") and headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return PlainTextResponse("another page may not ask\n", 403)
    return None


class _Api:
    def __init__(self, source: Source, token: str, closing: Callable[[], bool]) -> None:
        self._source, self._token, self._closing = source, token.encode(), closing

    def let_in(self, endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """The endpoint behind the token; without it, the response is that of an unknown address."""

        async def answer(request: Request) -> Response:
            if not secrets.compare_digest(request.path_params["token"].encode(), self._token):
                raise HTTPException(404)
            found: Response = await endpoint(request)
            return found

        return answer

    async def page(self, _: Request) -> Response:
        return HTMLResponse(with_rows(_index(), self._source.overview()))

    async def overview(self, request: Request) -> Response:
        return _json(self._source.overview(_at(request)))

    async def job(self, request: Request) -> Response:
        try:
            return _json(self._source.job(request.path_params["id"], _at(request)))
        except QoopError as error:
            return _error(str(error), 404)

    async def events(self, request: Request) -> Response:
        stream = _stream(self._source, request.query_params.get("job"), self._closing)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def cancel(self, request: Request) -> Response:
        self._check(self._source.powers.cancel)
        return _json(self._source.cancel(request.path_params["id"]))

    async def suspend(self, request: Request) -> Response:
        self._check(self._source.powers.suspend)
        return _json(await run_in_threadpool(self._source.suspend, request.path_params["id"]))

    async def resize(self, request: Request) -> Response:
        self._check(self._source.powers.resize)
        slots, memory = _size(await _body(request))
        return _json(await run_in_threadpool(self._source.resize, slots, memory))

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        kind = _KINDS.get(name.rpartition(".")[2])
        data = _asset(name) if kind is not None else None
        if data is None:
            raise HTTPException(404)
        return Response(data, media_type=kind)

    def _check(self, may: bool) -> None:
        if not may:
            raise HTTPException(403, "this page may not change anything")


async def _stream(source: Source, id: str | None, closing: Callable[[], bool]) -> AsyncIterator[str]:
    """The changes, until the browser goes away or the page is closed."""
    watches = [_AllJobs(source, _OVERVIEW)] if id is None else [_AllJobs(source, _ASIDE), _OneJob(source, id)]
    clock, quiet = asyncio.get_running_loop().time, 0.0
    while not closing():
        now = clock()
        for watch in watches:
            event = watch.news(now)
            if event is not None:
                quiet = now
                yield event
        if now - quiet > _ALIVE:
            quiet = now
            yield ": nothing new\n\n"
        await asyncio.sleep(max(0.02, min(_JOB, min(watch.next for watch in watches) - clock())))
    yield "event: end\ndata: {}\n\n"


class _Watch:
    """Reads one view from time to time, and reports its changes. next: the time of the next read."""

    event = ""

    def __init__(self, every: float) -> None:
        self.next = 0.0
        self._every = every
        self._before: Json | None = None

    def news(self, now: float) -> str | None:
        """An event, if a read is due and the view has changed."""
        if now < self.next:
            return None
        begun = thread_time()
        view = self._view()
        event = _event(self.event, view) if changed(view, self._before) else None
        self._before = view
        self.next = now + max(self._every, (thread_time() - begun) / _PART)
        return event

    def _view(self) -> Json:
        raise NotImplementedError


class _AllJobs(_Watch):
    event = "overview"

    def __init__(self, source: Source, every: float) -> None:
        super().__init__(every)
        self._source = source

    def _view(self) -> Json:
        return self._source.overview()


class _OneJob(_Watch):
    """One job: in full first, then its changes."""

    event = "job"

    def __init__(self, source: Source, id: str) -> None:
        super().__init__(_JOB)
        self._source, self._id = source, id
        self._version: int | None = None

    def _view(self) -> Json:
        try:
            view = self._source.job(self._id, since=self._version)
        except QoopError as error:
            return {"id": self._id, "gone": str(error)}
        self._version = view["version"]
        return view


def _event(name: str, view: Json) -> str:
    return f"event: {name}\ndata: {_dumped(view)}\n\n"


def _index() -> str:
    found = _asset("index.html")
    return PLAIN if found is None else found.decode()


def _asset(name: str) -> bytes | None:
    """A file of the package for browsers. Names are compared, so no path leads outside."""
    folder = files("qoop.interfaces.page").joinpath("assets")
    there = {one.name: one for one in folder.iterdir() if one.is_file()} if folder.is_dir() else {}
    return there[name].read_bytes() if name in there else None


def _at(request: Request) -> float | None:
    text = request.query_params.get("at")
    if text is None:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise HTTPException(400, "at is a number of seconds") from error


async def _body(request: Request) -> Any:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _BODY:
            raise HTTPException(413, f"a request has at most {_BODY:,} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "the request is not JSON") from error


def _size(body: Any) -> tuple[int | None, int | None]:
    """The requested slots and memory, as in ``{"slots": 2, "memory": 4e9}``; a missing one does not change."""
    if not isinstance(body, dict) or not body or body.keys() - {"slots", "memory"}:
        raise HTTPException(400, 'write {"slots": 2, "memory": 4e9}, or one of them')
    for name, number in body.items():
        if not isinstance(number, int | float) or isinstance(number, bool) or number != number or number < 0:
            raise HTTPException(400, f"{name} is a number, at least 0")
        if number > 1e18 or (name == "slots" and number != int(number)):
            raise HTTPException(400, f"{name} cannot be {number}")
    slots, memory = body.get("slots"), body.get("memory")
    return None if slots is None else int(slots), None if memory is None else int(memory)


def _json(view: Json) -> Response:
    return Response(_dumped(view), media_type="application/json")


def _dumped(view: Json) -> str:
    return json.dumps(view, allow_nan=False, separators=(",", ":"))


def _refused(_: Request, error: HTTPException) -> Response:
    return _error(error.detail, error.status_code)


def _failed(_: Request, error: QoopError) -> Response:
    return _error(str(error), 400)


def _broken(_: Request, error: Exception) -> Response:
    _log.error("the page has failed", exc_info=error)
    return _error("the page has failed; the log of the program says how", 500)


def _error(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status)
