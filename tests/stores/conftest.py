"""A real server of S3 on the loopback, for the time of the tests, and a bucket of its own for each of them."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for the schedules of faults

_numbers = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of moto's server, in a thread of this process.

    S3 looks for an object and writes it in one step where a write is conditional; moto takes two, between which another
    of its threads may write the same object. So it takes one write at a time here.
    """
    server_module = pytest.importorskip("moto.server")
    from moto.s3.responses import S3Response

    one_at_a_time, put = threading.Lock(), S3Response._key_response_put

    def put_in_one_step(*arguments: Any, **named: Any) -> Any:
        with one_at_a_time:
            return put(*arguments, **named)

    S3Response._key_response_put = put_in_one_step
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()
    S3Response._key_response_put = put


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new bucket, ``s3://…``, that the environment says how to reach."""
    pytest.importorskip("obstore")
    import boto3

    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{next(_numbers)}"
    boto3.client("s3", endpoint_url=server).create_bucket(Bucket=name)
    return f"s3://{name}"


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several machines share, of either kind."""
    if request.param == "folder":
        return (tmp_path / "shared").as_uri()
    return f"{request.getfixturevalue('bucket')}/some/prefix"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path / "cache"))


def environment(server: str) -> dict[str, str]:
    """The environment in which a process reaches the server."""
    return {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "something",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
