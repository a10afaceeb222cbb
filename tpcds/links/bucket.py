"""A bucket behind S3's interface on this machine: moto's server, behind a proxy that counts and delays requests."""

from __future__ import annotations

import http.client
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

from qoop.catalog.errors import ConfigError

_NAME = "outputs"
_OWN = {"connection", "content-length", "transfer-encoding"}
"""Headers of an answer that the proxy writes itself."""


class CountingProxy:
    """Hands requests on to a server, each after the latency. `counts` says how many there were by kind. A context
    manager; `address` is where it listens, on the loopback.

    server: "host:port". latency: seconds.
    """

    def __init__(self, server: str, latency: float) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._listening = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(server, latency))
        self._listening.daemon_threads = True
        self.address = "http://{}:{}".format(*self._listening.server_address[:2])

    def __enter__(self) -> CountingProxy:
        threading.Thread(target=self._listening.serve_forever, name="bench-proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown()
        self._listening.server_close()

    def _count(self, kind: str) -> None:
        with self._lock:
            self.counts[kind] += 1

    def _handler(self, server: str, latency: float) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                proxy._count(kind(self.command, self.path))
                time.sleep(latency)
                connection = http.client.HTTPConnection(server, timeout=60)
                try:
                    connection.request(self.command, self.path, body or None, dict(self.headers.items()))
                    answer = connection.getresponse()
                    self._answer(answer, answer.read())
                finally:
                    connection.close()

            def _answer(self, answer: http.client.HTTPResponse, data: bytes) -> None:
                self.send_response_only(answer.status, answer.reason)
                for name, value in answer.getheaders():
                    if name.lower() not in _OWN:
                        self.send_header(name, value)
                length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(data))
                self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def kind(command: str, path: str) -> str:
    """The kind of a request of S3.

    >>> kind("GET", "/bucket?list-type=2&prefix=a"), kind("POST", "/bucket?delete"), kind("GET", "/bucket/a")
    ('list', 'delete', 'get')
    """
    asked = parse_qs(urlsplit(path).query, keep_blank_values=True)
    if command == "GET" and ("list-type" in asked or "uploads" in asked):
        return "list"
    return "delete" if command == "POST" and "delete" in asked else command.lower()


@contextmanager
def counted_bucket(latency: float) -> Iterator[tuple[str, Counter[str]]]:
    """An empty bucket, ``s3://…``, that this process and those that it begins can reach; and its requests by kind, as
    they are counted. Raises ConfigError if moto is not installed."""
    try:
        import boto3
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        raise ConfigError("a bucket on this machine needs moto: pip install 'moto[s3,server]'") from error
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with CountingProxy(f"{host}:{port}", latency) as proxy:
            keys = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "something", "AWS_REGION": "us-east-1"}
            reached = {**keys, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": proxy.address}
            with patch.dict(os.environ, reached):
                boto3.client("s3").create_bucket(Bucket=_NAME)
                proxy.counts.clear()
                yield f"s3://{_NAME}", proxy.counts
    finally:
        server.stop()
