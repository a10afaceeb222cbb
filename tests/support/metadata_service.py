"""A stand-in on this machine for the metadata services of clouds."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

AWS, GCE = "/latest/meta-data/spot/instance-action", "/computeMetadata/v1/instance/preempted"
AZURE = "/metadata/scheduledevents?api-version=2020-07-01"


@contextmanager
def metadata_service(replies: Mapping[str, str]) -> Iterator[str]:
    """The address of a service with these texts by path; it refuses requests without the headers of its platform."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.reply("token" if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else None)

        def do_GET(self) -> None:
            headers = {AWS: ("X-aws-ec2-metadata-token", "token"), GCE: ("Metadata-Flavor", "Google")}
            name, value = headers.get(self.path, ("Metadata", "true"))
            self.reply(replies.get(self.path) if self.headers[name] == value else None)

        def reply(self, text: str | None) -> None:
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
